//! The stable API: the commands and options that a client with `apiStrict` may use. The row of a
//! command says whether it is part of it.

use super::Command;
use crate::args::Args;
use crate::request::ApiParameters;
use crate::stages;
use value::{Code, Error, RawDoc, Result, Val};

/// Whether a command is part of version 1; part of its row.
#[derive(Clone, Copy)]
pub(crate) enum StableApi {
    /// It is not.
    Excluded,
    /// It is, with all its fields.
    Included,
    /// It is, except for the fields that this function refuses.
    Checked(fn(RawDoc<'_>) -> Result<()>),
}

/// Checks the stable API fields of a command.
///
/// # Errors
/// APIStrictError; errors of malformed fields.
pub(super) fn check(command: &Command, body: RawDoc<'_>, api: ApiParameters) -> Result<()> {
    if !api.version && (api.strict.is_some() || api.deprecation_errors.is_some()) {
        return Err(Error::new(
            Code(4_886_600),
            "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion",
        ));
    }
    if api.strict != Some(true) {
        return Ok(());
    }
    match command.stable_api {
        StableApi::Included => Ok(()),
        StableApi::Checked(check) => check(body),
        StableApi::Excluded => refuse(format!(
            "Provided apiStrict:true, but the command {} is not in API Version 1",
            command.name
        )),
    }
}

/// Refuses another API version or strictness than that of the command that began.
///
/// # Errors
/// APIMismatchError.
pub(super) fn check_same(begun: RawDoc<'_>, now: ApiParameters) -> Result<()> {
    if ApiParameters::of(&Args::new("", begun)) == now {
        return Ok(());
    }
    Err(Error::new(
        Code::API_MISMATCH_ERROR,
        "the API parameters differ from those of the command that opened the cursor",
    ))
}

/// Refuses options that are not in version 1: `names` are the fields of `command` that are not.
///
/// # Errors
/// APIStrictError.
pub(super) fn refuse_fields(body: RawDoc<'_>, command: &str, names: &[&str]) -> Result<()> {
    match names.iter().find(|name| body.find(name).is_some()) {
        Some(name) => {
            refuse(format!("BSON field '{command}.{name}' is not allowed with apiStrict:true."))
        }
        None => Ok(()),
    }
}

/// Returns the error for a feature outside version 1.
///
/// # Errors
/// APIStrictError, always.
pub(super) fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code::API_STRICT_ERROR, message))
}

/// Refuses stages of the field `pipeline` that are not in version 1.
///
/// # Errors
/// APIStrictError.
pub(super) fn check_pipeline(body: RawDoc<'_>) -> Result<()> {
    let pipeline = body.get("pipeline").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    for (_, stage) in pipeline {
        let Some((name, options)) = stage.as_doc().and_then(RawDoc::first) else { continue };
        let Some(row) = stages::find(name) else { continue };
        match row.stable_api {
            stages::row::StableApi::Included => {}
            stages::row::StableApi::Excluded => {
                return refuse(format!(
                    "{name} is not allowed with 'apiStrict: true' in API Version 1"
                ));
            }
            stages::row::StableApi::Option(only) => {
                let is_only = |options: RawDoc<'_>| options.iter().all(|(name, _)| name == only);
                if !options.as_doc().is_some_and(is_only) {
                    return refuse(format!(
                        "only the '{only}' option to {name} is supported in API Version 1"
                    ));
                }
            }
        }
    }
    Ok(())
}
