//! `applyOps`: applies entries of an oplog, as `mongorestore --oplogReplay` and synchronising tools
//! send them. The entries are applied one after another; the first that fails ends the command.

use super::{Command, Context};
use crate::access::Required;
use crate::namespace;
use ::query::update::delta;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "applyOps",
    help: "Applies entries of an oplog.",
    fields: Some(&[
        "applyOps",
        "alwaysUpsert",
        "allowAtomic",
        "preCondition",
        "oplogApplicationMode",
        "bypassDocumentValidation",
    ]),
    // As in MongoDB, whatever the entries are.
    privilege: Required::Everything,
    audited: true,
    run,
    ..Command::BASE
};

/// The fields that an entry may have. Those about sessions and times have no effect.
static FIELDS: &[&str] = &[
    "op",
    "ns",
    "o",
    "o2",
    "ui",
    "b",
    "ts",
    "t",
    "h",
    "v",
    "wall",
    "lsid",
    "txnNumber",
    "stmtId",
    "prevOpTime",
    "preImageOpTime",
    "postImageOpTime",
    "preImage",
    "postImage",
    "needsRetryImage",
    "fromMigrate",
    "destinedRecipient",
    "tid",
    "versionContext",
    "m",
    "isTimeseries",
];

/// How often an update is repeated because its document changed meanwhile.
const TRIES: usize = 100;

/// How the entries of a command are applied.
struct Mode {
    upsert: bool,
    bypass_validation: bool,
}

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let Some(Val::Array(list)) = args.get("applyOps") else {
        let found = args.get("applyOps").unwrap_or(Val::Missing);
        return Err(args.wrong_type("applyOps", found, "array"));
    };
    match args.optional_string("oplogApplicationMode")? {
        None | Some("InitialSync" | "Recovering" | "Secondary" | "ApplyOps") => {}
        Some(other) => {
            return Err(Error::failed_to_parse(format!("unknown oplog application mode: {other}")));
        }
    }
    let mode = Mode {
        upsert: args.bool_or_true("alwaysUpsert")?,
        bypass_validation: args.bool("bypassDocumentValidation")?,
    };
    let mut entries = Vec::new();
    for (at, entry) in list {
        let Some(entry) = entry.as_doc() else {
            return Err(args.wrong_type(&format!("applyOps.{at}"), entry.get(), "object"));
        };
        check(entry)?;
        entries.push(entry);
    }
    let concern = context.write_concern()?;
    let mut applied = 0;
    for entry in entries {
        context.op.check_now()?;
        if entry.get("op") == Some(Val::String("n")) {
            continue;
        }
        if let Err(error) = apply(context, &mode, entry) {
            let info = DocBuf::build(|out| {
                out.i32("applied", applied + 1);
                write_results(out, applied, false);
            });
            return Err(error.with_info(info));
        }
        applied += 1;
    }
    out.i32("applied", applied);
    write_results(out, applied, true);
    concern.write_error(out);
    Ok(())
}

fn write_results(out: &mut Writer<'_>, applied: i32, complete: bool) {
    out.array("results", |list| {
        (0..applied).for_each(|_| list.push(Val::Bool(true)));
        if !complete {
            list.push(Val::Bool(false));
        }
    });
}

fn missing(name: &str) -> Error {
    Error::new(Code::NO_SUCH_KEY, format!("op does not contain required \"{name}\" field"))
}

/// Refuses a malformed entry before anything is applied.
fn check(entry: RawDoc<'_>) -> Result<()> {
    if let Some((name, _)) = entry.iter().find(|(name, _)| !FIELDS.contains(name)) {
        return Err(Error::new(
            Code(40415),
            format!("BSON field 'OplogEntry.{name}' is an unknown field."),
        ));
    }
    let op = match entry.get("op") {
        None => return Err(missing("op")),
        Some(Val::String(op)) => op,
        Some(_) => {
            return Err(Error::failed_to_parse("\"op\" field is not a string"));
        }
    };
    if !matches!(op, "i" | "u" | "d" | "c" | "n") {
        return Err(Error::bad_value(format!("bad opType '{op}'")));
    }
    if op == "n" {
        return Ok(());
    }
    if entry.get("ns").and_then(Val::as_str).is_none_or(str::is_empty) {
        return Err(Error::new(Code::ILLEGAL_OPERATION, "\"ns\" field cannot be empty"));
    }
    match entry.get("o") {
        Some(Val::Document(_)) => Ok(()),
        None => Err(Error::new(
            Code(40414),
            "BSON field 'OplogEntry.o' is missing but a required field",
        )),
        Some(other) => Err(Error::type_mismatch(format!(
            "BSON field 'OplogEntry.o' is the wrong type '{}', expected type 'object'",
            other.kind().name()
        ))),
    }
}

fn apply(context: &Context<'_>, mode: &Mode, entry: RawDoc<'_>) -> Result<()> {
    let text = |name| entry.get(name).and_then(Val::as_str).unwrap_or("");
    let (db, name) = text("ns").split_once('.').unwrap_or((text("ns"), ""));
    namespace::check_database(db)?;
    let o = entry.get("o").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    if text("op") == "c" {
        return apply_command(context, mode, entry, db, o);
    }
    let name = collection(context, entry, db, name)?;
    match text("op") {
        "i" => insert(context, mode, db, &name, o),
        "u" => {
            let key = entry.get("o2").and_then(Val::as_doc).ok_or_else(|| missing("o2"))?;
            let upsert = mode.upsert || entry.get("b").is_some_and(Val::truthy);
            update(context, mode, db, &name, (o, key), upsert)
        }
        _ => {
            let id = o.get("_id").ok_or_else(|| missing("_id"))?;
            let delete = DocBuf::build(|out| {
                out.str("delete", &name).array("deletes", |list| {
                    list.push_doc(|out| {
                        out.doc("q", |q| write_id(q, id)).i32("limit", 1);
                    });
                });
            });
            write(context, db, &delete).map(drop)
        }
    }
}

/// The collection of an entry: by its UUID if it has one. It must exist, except for deletes.
fn collection(context: &Context<'_>, entry: RawDoc<'_>, db: &str, name: &str) -> Result<String> {
    namespace::check_collection(db, name)?;
    let catalog = context.engine.data.catalog.load();
    let found = match entry.get("ui") {
        Some(Val::Binary(4, uuid)) => {
            let mut all =
                catalog.databases.get(db).into_iter().flat_map(|db| db.collections.values());
            all.find(|collection| collection.uuid.as_slice() == uuid)
        }
        _ => catalog.get(db, name),
    };
    match found {
        Some(found) if found.view().is_none() => Ok(found.name.to_string()),
        Some(_) => Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {db}.{name} is a view, not a collection"),
        )),
        None if entry.get("op") == Some(Val::String("d")) && entry.get("ui").is_none() => {
            Ok(name.to_owned())
        }
        None => Err(Error::new(
            Code::NAMESPACE_NOT_FOUND,
            format!("cannot apply an operation on a non-existent namespace {db}.{name}"),
        )),
    }
}

fn write_id(out: &mut Writer<'_>, id: Val<'_>) {
    out.doc("_id", |out| {
        out.append("$eq", id);
    });
}

/// Runs a write command; its first write error is the error.
fn write(context: &Context<'_>, db: &str, command: &DocBuf) -> Result<DocBuf> {
    let reply = context.engine.data.run_command(db, command.as_doc())?;
    let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
    let Some(error) = errors.and_then(RawDoc::first).and_then(|(_, error)| error.as_doc()) else {
        return Ok(reply);
    };
    let code = error.get("code").and_then(Val::as_i64_exact).and_then(|n| i32::try_from(n).ok());
    let message = error.get("errmsg").and_then(Val::as_str).unwrap_or("the write failed");
    Err(Error::new(Code(code.unwrap_or(Code::COMMAND_FAILED.0)), message))
}

/// Inserts a document; one with the same `_id` is replaced.
fn insert(context: &Context<'_>, mode: &Mode, db: &str, name: &str, doc: RawDoc<'_>) -> Result<()> {
    let id = doc.get("_id").ok_or_else(|| missing("_id"))?;
    let insert = DocBuf::build(|out| {
        out.str("insert", name).array("documents", |list| list.push(Val::Document(doc)));
        out.bool("bypassDocumentValidation", mode.bypass_validation);
    });
    match write(context, db, &insert) {
        Err(error) if error.code() == Code::DUPLICATE_KEY => {
            let replaced = replace(context, mode, db, name, (id, None), doc, false)?;
            // Another unique index has the value.
            if replaced { Ok(()) } else { Err(error) }
        }
        other => other.map(drop),
    }
}

/// Replaces the document with this `_id`, if it equals `old`. Returns whether there was one, or one
/// was inserted.
fn replace(
    context: &Context<'_>,
    mode: &Mode,
    db: &str,
    name: &str,
    (id, old): (Val<'_>, Option<RawDoc<'_>>),
    new: RawDoc<'_>,
    upsert: bool,
) -> Result<bool> {
    let replace = DocBuf::build(|out| {
        out.str("update", name).array("updates", |list| {
            list.push_doc(|out| {
                out.doc("q", |q| {
                    write_id(q, id);
                    if let Some(old) = old {
                        q.doc("$expr", |q| {
                            q.array("$eq", |list| {
                                list.push(Val::String("$$ROOT"));
                                list.push_doc(|out| {
                                    out.append("$literal", Val::Document(old));
                                });
                            });
                        });
                    }
                });
                out.array("u", |stages| {
                    stages.push_doc(|out| {
                        out.doc("$replaceWith", |out| {
                            out.append("$literal", Val::Document(new));
                        });
                    });
                });
                out.bool("upsert", upsert);
            });
        });
        out.bool("bypassDocumentValidation", mode.bypass_validation);
    });
    let reply = write(context, db, &replace)?;
    Ok(reply.as_doc().get("n").and_then(Val::as_i64_exact) != Some(0))
}

/// Updates a document: by modifiers, by a delta (`$v: 2`), or by a whole document.
fn update(
    context: &Context<'_>,
    mode: &Mode,
    db: &str,
    name: &str,
    (o, key): (RawDoc<'_>, RawDoc<'_>),
    upsert: bool,
) -> Result<()> {
    let id = key.get("_id").ok_or_else(|| missing("_id"))?;
    let not_found = || {
        let shown = value::ejson::print(key, value::ejson::Format::Relaxed);
        Error::new(Code(218), format!("Failed to apply update to {db}.{name}: {shown} not found"))
    };
    let version = o.get("$v").map(|version| version.as_i64_exact());
    let plain = o.first().is_some_and(|(name, _)| !name.starts_with('$'));
    match version {
        Some(Some(2)) => {
            let delta = o.get("diff").and_then(Val::as_doc).ok_or_else(|| {
                Error::new(Code(4_772_600), "an update with $v: 2 needs the object 'diff'")
            })?;
            apply_delta(context, mode, db, name, (id, delta), upsert)?.then_some(())
        }
        None | Some(Some(1)) if !plain => {
            let update = DocBuf::build(|out| {
                out.str("update", name).array("updates", |list| {
                    list.push_doc(|out| {
                        out.doc("q", |q| write_id(q, id)).doc("u", |out| {
                            for (name, value) in o.iter().filter(|(name, _)| *name != "$v") {
                                out.raw(name, value);
                            }
                        });
                        out.bool("upsert", upsert);
                    });
                });
                out.bool("bypassDocumentValidation", mode.bypass_validation);
            });
            let reply = write(context, db, &update)?;
            (reply.as_doc().get("n").and_then(Val::as_i64_exact) != Some(0)).then_some(())
        }
        None => replace(context, mode, db, name, (id, None), o, upsert)?.then_some(()),
        Some(_) => {
            return Err(Error::new(
                Code(4_772_600),
                "Expected $v to be 1 or 2 in an update of the oplog",
            ));
        }
    }
    .ok_or_else(not_found)
}

/// Applies a delta; false if there is no such document.
fn apply_delta(
    context: &Context<'_>,
    mode: &Mode,
    db: &str,
    name: &str,
    (id, change): (Val<'_>, RawDoc<'_>),
    upsert: bool,
) -> Result<bool> {
    for _ in 0..TRIES {
        context.op.check_now()?;
        let find = DocBuf::build(|out| {
            out.str("find", name).doc("filter", |q| write_id(q, id)).i32("limit", 1);
            out.bool("singleBatch", true);
        });
        let reply = context.engine.data.run_command(db, find.as_doc())?;
        let batch = reply.as_doc().get("cursor").and_then(Val::as_doc);
        let batch = batch.and_then(|cursor| cursor.get("firstBatch")).and_then(Val::as_array);
        let old = batch.and_then(RawDoc::first).and_then(|(_, doc)| doc.as_doc());
        if old.is_none() && !upsert {
            return Ok(false);
        }
        let key = DocBuf::build(|out| {
            out.append("_id", id);
        });
        let new = delta::apply(old.unwrap_or(key.as_doc()), change)?;
        let new = RawDoc::new(&new);
        if replace(context, mode, db, name, (id, old), new, old.is_none())? {
            return Ok(true);
        }
    }
    Err(Error::new(Code::WRITE_CONFLICT, "the document was changed again and again by others"))
}

/// Runs a command of an oplog. What it finds done already is no error.
fn apply_command(
    context: &Context<'_>,
    mode: &Mode,
    entry: RawDoc<'_>,
    db: &str,
    o: RawDoc<'_>,
) -> Result<()> {
    let verb = o.first().map_or("", |(verb, _)| verb);
    let run = |db: &str, command: RawDoc<'_>| context.engine.data.run_command(db, command);
    let without = |names: &[&str]| {
        DocBuf::build(|out| {
            for (name, value) in o.iter().filter(|(name, _)| !names.contains(name)) {
                out.raw(name, value);
            }
        })
    };
    let (done, ignored): (Result<DocBuf>, &[Code]) = match verb {
        "create" if entry.get("ui").is_some() => {
            return Err(Error::new(Code(207), "a collection cannot be created with a given UUID"));
        }
        "create" => (run(db, without(&["idIndex"]).as_doc()), &[Code::NAMESPACE_EXISTS]),
        "drop" => (run(db, o), &[Code::NAMESPACE_NOT_FOUND]),
        "dropDatabase" => (run(db, o), &[Code::NAMESPACE_NOT_FOUND]),
        "collMod" => (run(db, o), &[Code::NAMESPACE_NOT_FOUND, Code::INDEX_NOT_FOUND]),
        "dropIndexes" | "deleteIndexes" | "dropIndex" | "deleteIndex" => {
            (run(db, o), &[Code::NAMESPACE_NOT_FOUND, Code::INDEX_NOT_FOUND])
        }
        "renameCollection" => {
            let rename = DocBuf::build(|out| {
                for (name, value) in o.iter().filter(|(name, _)| *name != "stayTemp") {
                    match (name, value.get()) {
                        ("dropTarget", flag) => {
                            out.bool("dropTarget", flag.truthy());
                        }
                        _ => {
                            out.raw(name, value);
                        }
                    }
                }
            });
            let ignored = &[Code::NAMESPACE_NOT_FOUND, Code::NAMESPACE_EXISTS];
            (run("admin", rename.as_doc()), ignored)
        }
        "emptycapped" => {
            let name = o.first().and_then(|(_, name)| name.get().as_str()).unwrap_or("");
            let delete = DocBuf::build(|out| {
                out.str("delete", name).array("deletes", |list| {
                    list.push_doc(|out| {
                        out.doc("q", |_| {}).i32("limit", 0);
                    });
                });
            });
            (write(context, db, &delete), &[Code::NAMESPACE_NOT_FOUND])
        }
        "applyOps" => {
            let nested = DocBuf::build(|out| {
                out.extend(o).bool("alwaysUpsert", mode.upsert);
            });
            (run("admin", nested.as_doc()), &[])
        }
        "createIndexes" | "startIndexBuild" | "commitIndexBuild" | "abortIndexBuild" => {
            return Err(Error::new(
                Code(115),
                format!("The {verb} operation is not supported in applyOps mode"),
            ));
        }
        _ => {
            return Err(Error::bad_value(format!("Invalid applyOps command: {verb}")));
        }
    };
    match done {
        Err(error) if !ignored.contains(&error.code()) => Err(error),
        _ => Ok(()),
    }
}
