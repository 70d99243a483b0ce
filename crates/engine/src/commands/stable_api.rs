//! The stable API: which commands and stages a client may use that asks for version 1 strictly.

use super::Command;
use value::{Code, Error, RawDoc, Result, Val};

/// Commands of version 1 of the stable API.
static API_VERSION_1: &[&str] = &[
    "abortTransaction",
    "aggregate",
    "authenticate",
    "bulkWrite",
    "collMod",
    "commitTransaction",
    "count",
    "create",
    "createIndexes",
    "delete",
    "drop",
    "dropDatabase",
    "dropIndexes",
    "endSessions",
    "explain",
    "find",
    "findAndModify",
    "getMore",
    "hello",
    "insert",
    "killCursors",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "ping",
    "refreshSessions",
    "saslContinue",
    "saslStart",
    "update",
];

/// Stages that are not in it, beside the parts of `$collStats` other than the count.
static STAGES_OUTSIDE: &[&str] = &[
    "$currentOp",
    "$indexStats",
    "$listCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
];

/// Options of `find` that are not in it.
static FIND_OPTIONS_OUTSIDE: &[&str] = &[
    "awaitData",
    "max",
    "min",
    "noCursorTimeout",
    "oplogReplay",
    "returnKey",
    "showRecordId",
    "tailable",
];

/// Checks what the stable API asks of the command itself.
///
/// # Errors
/// APIStrictError, and what is wrong about the fields themselves.
pub(super) fn check(command: &Command, body: RawDoc<'_>) -> Result<()> {
    let version = body.find("apiVersion").is_some();
    let strict = body.get("apiStrict");
    if !version && (strict.is_some() || body.find("apiDeprecationErrors").is_some()) {
        return Err(Error::new(
            Code(4_886_600),
            "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion",
        ));
    }
    if strict.is_some_and(Val::truthy) && !API_VERSION_1.contains(&command.name) {
        return Err(Error::new(
            Code::API_STRICT_ERROR,
            format!(
                "Provided apiStrict:true, but the command {} is not in API Version 1",
                command.name
            ),
        ));
    }
    if strict.is_some_and(Val::truthy) {
        check_options(command, body)?;
    }
    Ok(())
}

fn check_options(command: &Command, body: RawDoc<'_>) -> Result<()> {
    let refused = |message: String| Err(Error::new(Code::API_STRICT_ERROR, message));
    if command.name == "find" {
        let outside = FIND_OPTIONS_OUTSIDE.iter().find(|name| body.find(name).is_some());
        if let Some(name) = outside {
            return refused(format!(
                "BSON field 'FindCommandRequest.{name}' is not allowed with apiStrict:true."
            ));
        }
    }
    let pipeline = body.get("pipeline").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    for (_, stage) in pipeline {
        let Some((name, options)) = stage.as_doc().and_then(RawDoc::first) else { continue };
        if STAGES_OUTSIDE.contains(&name) {
            return refused(format!(
                "{name} is not allowed with 'apiStrict: true' in API Version 1"
            ));
        }
        let counts_only = |options: RawDoc<'_>| options.iter().all(|(option, _)| option == "count");
        if name == "$collStats" && !options.as_doc().is_some_and(counts_only) {
            return refused(
                "only the 'count' option to $collStats is supported in API Version 1".to_owned(),
            );
        }
    }
    for (_, index) in body.get("indexes").and_then(Val::as_array).unwrap_or(RawDoc::empty()) {
        let key = index.as_doc().and_then(|index| index.get("key")).and_then(Val::as_doc);
        let text =
            key.is_some_and(|key| key.iter().any(|(_, kind)| kind.get().as_str() == Some("text")));
        if command.name == "createIndexes" && text {
            return refused("text indexes cannot be created with apiStrict: true".to_owned());
        }
    }
    Ok(())
}
