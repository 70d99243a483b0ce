//! Parts common to all replies: the fields of errors, and the fields at the end.
//!
//! Layer: service.

use crate::txn::Data;
use value::{Code, DocBuf, Error, RawDoc, RawVal, Val, Writer};

/// Writes the fields of a failed command.
pub fn write_error(out: &mut Writer<'_>, error: &Error) {
    out.f64("ok", 0.0);
    out.str("errmsg", error.message());
    out.i32("code", error.code().0);
    out.str("codeName", &error.code().name());
    write_details(out, error);
}

/// Writes the fields of an error other than code and message.
pub fn write_details(out: &mut Writer<'_>, error: &Error) {
    if let Some(info) = error.info() {
        out.extend(info.as_doc());
    }
    if !error.labels().is_empty() {
        out.array("errorLabels", |labels| {
            for label in error.labels() {
                labels.push(Val::String(label));
            }
        });
    }
}

/// Writes an error of one statement inside a batch.
pub fn write_statement_error(out: &mut Writer<'_>, index: usize, error: &Error) {
    out.count("index", index as u64);
    out.i32("code", error.code().0);
    out.str("errmsg", error.message());
    if let Some(info) = error.info() {
        out.extend(info.as_doc());
    }
}

/// Writes the logical time at the end of a reply, as members of a replica set do.
pub fn write_times(out: &mut Writer<'_>, data: &Data) {
    let now = Val::Timestamp(data.clock.now());
    out.doc("$clusterTime", |out| {
        out.append("clusterTime", now);
        out.doc("signature", |out| {
            out.append("hash", Val::Binary(0, &[0; 20]));
            out.i64("keyId", 0);
        });
    });
    out.append("operationTime", now);
}

/// The labels of errors that callers inside the process act on.
static LABELS: &[&str] = &[
    "TransientTransactionError",
    "UnknownTransactionCommitResult",
    "ResumableChangeStreamError",
    "NonResumableChangeStreamError",
    "RetryableWriteError",
];

/// The error in a reply, if it is one.
#[must_use]
pub fn error_of(reply: RawDoc<'_>) -> Option<Error> {
    if is_ok(reply) {
        return None;
    }
    let message = reply.get("errmsg").and_then(Val::as_str).unwrap_or("");
    let code = reply.get("code").and_then(Val::as_i64_exact).unwrap_or(1);
    let known = ["ok", "errmsg", "code", "codeName"];
    let names = reply.get("errorLabels").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let known_label =
        |name: RawVal<'_>| LABELS.iter().copied().find(|label| name.get().as_str() == Some(*label));
    let labels: Option<Vec<&'static str>> =
        names.iter().map(|(_, name)| known_label(name)).collect();
    let info = DocBuf::build(|out| {
        for (name, value) in reply {
            let is_label = name == "errorLabels" && labels.is_some();
            let is_time = name.starts_with('$') || name == "operationTime";
            if !known.contains(&name) && !is_label && !is_time {
                out.raw(name, value);
            }
        }
    });
    let error = Error::new(Code(i32::try_from(code).unwrap_or(1)), message);
    let error = labels.unwrap_or_default().into_iter().fold(error, Error::with_label);
    Some(if info.as_doc().is_empty() { error } else { error.with_info(info) })
}

/// Whether a reply reports success.
#[must_use]
pub fn is_ok(reply: RawDoc<'_>) -> bool {
    reply.get("ok").and_then(Val::as_f64) == Some(1.0)
}
