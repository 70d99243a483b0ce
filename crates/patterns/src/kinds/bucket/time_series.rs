//! The declaration that a time-series collection has by its options.

use value::{DocBuf, Val};

/// The declaration of the pattern that stores the documents of a time-series collection: `time` is
/// the field with the date, `meta` the field that names the series.
#[must_use]
pub fn declaration(name: &str, time: &str, meta: Option<&str>, span_seconds: i64) -> DocBuf {
    DocBuf::build(|out| {
        out.str("name", name).str("kind", "bucket");
        out.array("key", |list| {
            if let Some(meta) = meta {
                list.push(Val::String(meta));
            }
        });
        out.str("time", time).str("span", &span(span_seconds));
    })
}

/// The option `span` for a number of seconds.
#[must_use]
pub fn span(seconds: i64) -> String {
    format!("{seconds}s")
}
