//! Errors that a pattern causes: they name the pattern, its collection, and the document on which
//! it fails. The field is named where it is derived.

use value::ejson::{Format, print_value};
use value::{Code, Error, RawDoc, Val};

/// The most characters of a value in a message.
const SHOWN_MAX: usize = 200;

/// A value as messages show it: extended JSON.
#[must_use]
pub fn value_text(value: Val<'_>) -> String {
    let text = print_value(value, Format::Relaxed);
    match text.char_indices().nth(SHOWN_MAX) {
        None => text,
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or("")),
    }
}

/// Whether an error says something about data: others, such as conflicts, interruption and damage,
/// are not caused by a pattern.
fn is_about_data(error: &Error) -> bool {
    let code = error.code();
    let others = [
        Code::INTERNAL_ERROR,
        Code::LOCK_TIMEOUT,
        Code::MAX_TIME_MS_EXPIRED,
        Code::SHUTDOWN_IN_PROGRESS,
        Code::WRITE_CONFLICT,
        Code::EXCEEDED_MEMORY_LIMIT,
        Code::SNAPSHOT_TOO_OLD,
        Code::SNAPSHOT_UNAVAILABLE,
        Code::TRANSACTION_TOO_LARGE,
        Code::DATA_CORRUPTION_DETECTED,
        Code::INTERRUPTED_AT_SHUTDOWN,
        Code::INTERRUPTED,
        Code::OUT_OF_DISK_SPACE,
    ];
    error.labels().is_empty() && !others.contains(&code)
}

/// Adds a place to an error. Clients read the beginning of messages about duplicate keys, so it
/// follows there.
fn placed(error: Error, place: &str) -> Error {
    match error.code() {
        Code::DUPLICATE_KEY => error.followed_by(format!(" ({place})")),
        _ => error.context(format!("{place}: ")),
    }
}

fn id_of(doc: RawDoc<'_>) -> String {
    format!("document with _id {}", value_text(doc.get("_id").unwrap_or(Val::Null)))
}

/// Adds the document to an error that a pattern met on it.
#[must_use]
pub fn on_document(doc: RawDoc<'_>, error: Error) -> Error {
    if !is_about_data(&error) || error.message().contains("document with _id ") {
        return error;
    }
    placed(error, &id_of(doc))
}

/// Adds the pattern, given by name and collection, and the document that was written, to an error
/// that the pattern caused. One that begins with the name of the pattern gets what is missing; one
/// that names it elsewhere stays.
#[must_use]
pub fn on_pattern(
    (name, collection): (&str, &str),
    doc: Option<RawDoc<'_>>,
    error: Error,
) -> Error {
    let name = format!("pattern '{name}'");
    if !is_about_data(&error) {
        return error;
    }
    let document = match doc {
        Some(doc) if !error.message().contains("document with _id ") => format!(", {}", id_of(doc)),
        _ => String::new(),
    };
    let place = format!("{name} of '{collection}'{document}");
    if let Some(rest) = error.message().strip_prefix(&format!("{name}: ")) {
        let whole = Error::new(error.code(), format!("{place}: {rest}"));
        return match error.info() {
            Some(info) => whole.with_info(info.clone()),
            None => whole,
        };
    }
    match error.message().contains(&name) {
        true => error,
        false => placed(error, &place),
    }
}
