//! The fields that every command may carry: `maxTimeMS`, `$clusterTime`, `apiVersion`, `readConcern`,
//! `$schemaVersion`.

use super::Command;
use super::read_concern::ReadConcern;
use crate::args::Args;
use crate::operation::Operation;
use crate::shared::Inner;
use patterns::shape::Pin;
use std::time::Duration;
use value::{Code, Error, RawDoc, Result, Val};

/// The error for a field of the stable API that has the wrong type.
fn wrong_api_type(name: &str, value: Val<'_>, expected: &str) -> Error {
    Args::new("APIParametersFromClient", RawDoc::empty()).wrong_type(name, value, expected)
}

/// The fields that `check` reads.
static CHECKED: &[&str] = &[
    "maxTimeMS",
    "$clusterTime",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
    "$schemaVersion",
    "writeConcern",
    "readConcern",
];

/// Checks the fields that every command may have.
///
/// Sets the time limit and the clock; returns the read concern.
///
/// # Errors
/// When a field is malformed; MaxTimeMSExpired when a fail point forces it.
pub(super) fn check<'a>(
    engine: &Inner,
    op: &Operation,
    command: &Command,
    args: &Args<'a>,
) -> Result<Option<ReadConcern<'a>>> {
    let mut concern = None;
    if !CHECKED.iter().any(|name| args.may_have(name)) {
        return Ok(None);
    }
    for (name, value) in args.doc {
        match name {
            "maxTimeMS" => {
                let limit = max_time(value.get())?;
                if let Some(limit) = limit.filter(|_| !command.limits_itself) {
                    set_time_limit(engine, op, limit)?;
                }
            }
            "$clusterTime" => {
                let seen = value.as_doc().and_then(|doc| doc.get("clusterTime"));
                if let Some(Val::Timestamp(seen)) = seen {
                    engine.data.clock.advance_to(seen);
                }
            }
            "apiVersion" => match value.get() {
                Val::String("1") => {}
                Val::String(_) => {
                    return Err(Error::new(Code::API_VERSION_ERROR, "API version must be \"1\""));
                }
                other => return Err(wrong_api_type(name, other, "string")),
            },
            "apiStrict" | "apiDeprecationErrors" if !matches!(value.get(), Val::Bool(_)) => {
                return Err(wrong_api_type(name, value.get(), "bool"));
            }
            "$schemaVersion" => op.pin_form(form(value.get())?),
            "writeConcern" if command.refuses_write_concern => {
                return Err(Error::new(
                    Code::INVALID_OPTIONS,
                    "Command does not support writeConcern",
                ));
            }
            "readConcern" => concern = Some(ReadConcern::parse(value.get())?),
            _ => {}
        }
    }
    Ok(concern)
}

/// Reads the form of documents that a command asks for: the number of a version, or `"asStored"`.
///
/// # Errors
/// TypeMismatch for a value of another type, BadValue for any other text.
pub(super) fn form(value: Val<'_>) -> Result<Pin> {
    match value {
        Val::String("asStored") => Ok(Pin::AsStored),
        Val::String(_) => Err(Error::bad_value("$schemaVersion must be a version or 'asStored'")),
        _ => value.as_i64_exact().map(Pin::Version).ok_or_else(|| {
            Error::type_mismatch(format!(
                "BSON field '$schemaVersion' is the wrong type '{}', expected a whole number or \
                 'asStored'",
                value.kind().name()
            ))
        }),
    }
}

/// Sets the deadline of a command, subject to fail points.
///
/// # Errors
/// MaxTimeMSExpired when a fail point forces it.
pub(crate) fn set_time_limit(engine: &Inner, op: &Operation, limit: Duration) -> Result<()> {
    if !engine.observed.fail_points.any() {
        op.set_deadline(limit);
        return Ok(());
    }
    match engine.observed.fail_points.time_limit(limit) {
        Some(limit) => {
            op.set_deadline(limit);
            op.check_now()
        }
        None => Ok(()),
    }
}

/// Reads the time limit `maxTimeMS`; 0 means none.
///
/// # Errors
/// BadValue when it is negative or too large.
pub fn max_time(value: Val<'_>) -> Result<Option<Duration>> {
    if !value.is_number() {
        return Err(Error::bad_value("maxTimeMS must be a number"));
    }
    let ms =
        value.as_i64_exact().ok_or_else(|| Error::bad_value("maxTimeMS has non-integral value"))?;
    if !(0..=i64::from(i32::MAX)).contains(&ms) {
        return Err(Error::bad_value(format!("{ms} value for maxTimeMS is out of range")));
    }
    Ok((ms > 0).then(|| Duration::from_millis(ms as u64)))
}
