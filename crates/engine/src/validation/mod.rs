//! Document validation: the filter that a collection's documents must match.
//!
//! The filter is compiled once for each version of the collection. The explanation of a failure is
//! computed afterwards, from the filter as written, because failures are rare.
//!
//! Layer: catalog.

use query::filter::Filter;
use query::{Javascript, mismatch};
use std::sync::Arc;
use value::collation::CollationSource;
use value::{Code, Collation, DocBuf, Error, RawDoc, Result, Val};

/// Which documents are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    /// None.
    Off,
    /// Inserted ones, and updated ones that were valid before.
    Moderate,
    /// All.
    Strict,
}

/// The validation rules of a collection.
pub struct Validator {
    source: DocBuf,
    /// An error when the filter of a newer version cannot be parsed: then writes fail, but the
    /// server starts.
    filter: Result<Filter>,
    level: Level,
    /// Whether invalid documents are accepted with a log line.
    warn: bool,
}

impl Validator {
    /// The rules in collection options that have been checked.
    #[must_use]
    pub fn of(options: RawDoc<'_>) -> Option<Arc<Validator>> {
        let source =
            options.get("validator").and_then(Val::as_doc).filter(|doc| !doc.is_empty())?;
        let level = match options.get("validationLevel").and_then(Val::as_str) {
            Some("off") => Level::Off,
            Some("moderate") => Level::Moderate,
            _ => Level::Strict,
        };
        Some(Arc::new(Validator {
            source: source.into(),
            filter: compile_in(options, source),
            level,
            warn: options.get("validationAction").and_then(Val::as_str) == Some("warn"),
        }))
    }

    /// Whether a document matches. One on which the filter fails does not.
    fn accepts(&self, doc: RawDoc<'_>) -> Result<bool> {
        match &self.filter {
            Ok(filter) => match filter.matches(doc) {
                Ok(matches) => Ok(matches),
                Err(error) if query::interrupt::ends_operation(&error) => Err(error),
                Err(_) => Ok(false),
            },
            Err(error) => Err(error.clone().context("the collection's validator: ")),
        }
    }
}

/// Compiles the validator in these collection options, with their collation.
fn compile_in(options: RawDoc<'_>, source: RawDoc<'_>) -> Result<Filter> {
    let collation = match options.get("collation").and_then(Val::as_doc) {
        None => None,
        Some(collation) => Collation::parse(collation, CollationSource::Command)?,
    };
    let context = mismatch::context(crate::clock::now_ms());
    Filter::parse_for_documents(source, &context.with_collation(collation.as_ref()))
}

/// Compiles a validator.
///
/// # Errors
/// When the filter is invalid.
pub fn compile(source: RawDoc<'_>) -> Result<Filter> {
    mismatch::compile(source, crate::clock::now_ms())
}

/// Refuses a validator that does not compile. None has functions in JavaScript; where other filters
/// may, the error is another one.
///
/// # Errors
/// When the filter is invalid.
pub fn check(source: RawDoc<'_>, javascript: Javascript) -> Result<()> {
    compile(source).map(|_| ()).map_err(|error| match (javascript, error.code()) {
        (Javascript::Off, _) => error,
        (_, Code(6_108_304)) => Error::bad_value("$where is not allowed in this context"),
        (_, Code(31264)) => {
            Error::new(Code(4_660_800), "$function cannot be used inside a validator.")
        }
        _ => error,
    })
}

/// The number of the log line for a document that would fail, as in MongoDB.
const WOULD_FAIL: i32 = 20294;

impl Validator {
    /// Checks a document before it is written; `old` is the version that it replaces.
    ///
    /// # Errors
    /// DocumentValidationFailure.
    pub fn check(
        &self,
        db: &str,
        name: &str,
        old: Option<RawDoc<'_>>,
        doc: RawDoc<'_>,
    ) -> Result<()> {
        if self.level == Level::Off || self.accepts(doc)? {
            return Ok(());
        }
        if self.level == Level::Moderate
            && let Some(old) = old
            && !self.accepts(old)?
        {
            return Ok(());
        }
        let id = doc.get("_id").unwrap_or(Val::Missing);
        if self.warn {
            tracing::warn!(
                id = WOULD_FAIL,
                namespace = format!("{db}.{name}"),
                "Document would fail validation"
            );
            return Ok(());
        }
        let info = DocBuf::build(|out| {
            out.doc("errInfo", |out| {
                out.append("failingDocumentId", id);
                out.doc("details", |out| {
                    mismatch::why_not(self.source.as_doc(), doc, crate::clock::now_ms(), out);
                });
            });
        });
        Err(Error::new(Code::DOCUMENT_VALIDATION_FAILURE, "Document failed validation")
            .with_info(info))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Options};
    use value::ejson;

    fn doc(text: &str) -> DocBuf {
        ejson::parse_doc(text).expect("test text")
    }

    fn why(filter: &str, document: &str) -> String {
        let details = DocBuf::build(|out| {
            mismatch::why_not(doc(filter).as_doc(), doc(document).as_doc(), 0, out);
        });
        ejson::print(details.as_doc(), ejson::Format::Shell)
    }

    #[test]
    fn a_failing_leaf_names_the_value() {
        assert_eq!(
            why("{a: {$gt: 1}}", "{_id: 1, a: 0}"),
            r#"{ operatorName: "$gt", specifiedAs: { a: { $gt: 1 } }, reason: "comparison failed", consideredValue: 0 }"#
        );
        assert_eq!(
            why("{a: 1}", "{_id: 1}"),
            r#"{ operatorName: "$eq", specifiedAs: { a: 1 }, reason: "field was missing" }"#
        );
    }

    #[test]
    fn only_failing_clauses_are_named() {
        let text = why("{a: 1, b: 2}", "{a: 1, b: 3}");
        assert!(text.contains("index: 1") && !text.contains("index: 0"), "{text}");
    }

    #[test]
    fn levels_decide_which_documents_are_checked() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| engine.run_command("t", doc(text).as_doc());
        run("{create: 'c', validator: {a: {$gte: 1}}, validationLevel: 'moderate'}").expect("made");
        let collection = engine.inner().data.collection("t", "c").expect("is there");
        let (good, bad) = (doc("{a: 1}"), doc("{a: 0}"));
        assert!(collection.validate(good.as_doc(), false).is_ok());
        let error = collection.validate(bad.as_doc(), false).expect_err("is refused");
        assert_eq!(error.code(), Code::DOCUMENT_VALIDATION_FAILURE);
        assert!(collection.validate(bad.as_doc(), true).is_ok());
        assert!(collection.validate_update(bad.as_doc(), bad.as_doc(), false).is_ok());
        assert!(collection.validate_update(good.as_doc(), bad.as_doc(), false).is_err());
        run("{collMod: 'c', validationAction: 'warn'}").expect("changed");
        let collection = engine.inner().data.collection("t", "c").expect("is there");
        assert!(collection.validate(bad.as_doc(), false).is_ok());
    }
}
