//! Document validation: the filter that a collection's documents must match.
//!
//! The filter is compiled once for each version of the collection. Why a document fails is worked
//! out afterwards, from the filter as it was written, because failures are rare.

use crate::catalog::Collection;
use query::ParseContext;
use query::filter::Filter;
use std::sync::Arc;
use value::path::Path;
use value::writer::ArrayWriter;
use value::{Code, DocBuf, Error, RawDoc, RawVal, Result, Val, Writer};

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

/// A collection's rules for its documents.
pub struct Validator {
    source: DocBuf,
    /// An error when a filter of a newer version cannot be read: then writes fail, not the start.
    filter: Result<Filter>,
    level: Level,
    /// Failing documents are let through with a line in the log.
    warn: bool,
}

impl Validator {
    /// The rules in (checked) collection options.
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

    fn accepts(&self, doc: RawDoc<'_>) -> Result<bool> {
        match &self.filter {
            Ok(filter) => filter.matches(doc),
            Err(error) => Err(error.clone().context("the collection's validator: ")),
        }
    }
}

/// Compiles a validator of a collection with these options, under its collation.
fn compile_in(options: RawDoc<'_>, source: RawDoc<'_>) -> Result<Filter> {
    let collation = crate::catalog::persist::collation_of(options)?;
    let context = ParseContext::new(crate::clock::now_ms()).with_collation(collation.as_ref());
    Filter::parse(source, &context)
}

/// Compiles a validator.
///
/// # Errors
/// What is not understood in it.
pub fn compile(source: RawDoc<'_>) -> Result<Filter> {
    Filter::parse(source, &ParseContext::new(crate::clock::now_ms()))
}

/// Checks a document that is about to be inserted.
///
/// # Errors
/// DocumentValidationFailure.
#[inline]
pub fn check(collection: &Collection, doc: RawDoc<'_>, bypass: bool) -> Result<()> {
    match &collection.validator {
        Some(validator) if !bypass => check_with(validator, collection, None, doc),
        _ => Ok(()),
    }
}

/// Checks a document that is about to take another's place.
///
/// # Errors
/// DocumentValidationFailure.
#[inline]
pub fn check_update(
    collection: &Collection,
    old: RawDoc<'_>,
    new: RawDoc<'_>,
    bypass: bool,
) -> Result<()> {
    match &collection.validator {
        Some(validator) if !bypass => check_with(validator, collection, Some(old), new),
        _ => Ok(()),
    }
}

fn check_with(
    validator: &Validator,
    collection: &Collection,
    old: Option<RawDoc<'_>>,
    doc: RawDoc<'_>,
) -> Result<()> {
    if validator.level == Level::Off || validator.accepts(doc)? {
        return Ok(());
    }
    if validator.level == Level::Moderate
        && let Some(old) = old
        && !validator.accepts(old)?
    {
        return Ok(());
    }
    let id = doc.get("_id").unwrap_or(Val::Missing);
    if validator.warn {
        tracing::warn!(
            namespace = collection.namespace(),
            id = value::ejson::print_value(id, value::ejson::Format::Relaxed),
            "document would fail validation"
        );
        return Ok(());
    }
    let info = DocBuf::build(|out| {
        out.doc("errInfo", |out| {
            out.append("failingDocumentId", id);
            out.doc("details", |out| explain(validator.source.as_doc(), doc, out));
        });
    });
    Err(Error::new(Code::DOCUMENT_VALIDATION_FAILURE, "Document failed validation").with_info(info))
}

/// Writes which parts of a filter a document does not match.
fn explain(filter: RawDoc<'_>, doc: RawDoc<'_>, out: &mut Writer<'_>) {
    match (filter.first(), filter.count()) {
        (Some((name, value)), 1) => explain_clause(name, value, doc, out),
        _ => {
            out.str("operatorName", "$and");
            out.array("clausesNotSatisfied", |clauses| {
                for (at, (name, value)) in filter.iter().enumerate() {
                    let single = single(name, value);
                    explain_failing(at, single.as_doc(), doc, clauses);
                }
            });
        }
    }
}

fn explain_failing(at: usize, filter: RawDoc<'_>, doc: RawDoc<'_>, out: &mut ArrayWriter<'_>) {
    if matches(filter, doc) {
        return;
    }
    out.push_doc(|out| {
        out.count("index", at as u64);
        out.doc("details", |out| explain(filter, doc, out));
    });
}

fn matches(filter: RawDoc<'_>, doc: RawDoc<'_>) -> bool {
    compile(filter).and_then(|filter| filter.matches(doc)).unwrap_or(false)
}

fn single(name: &str, value: RawVal<'_>) -> DocBuf {
    DocBuf::build(|out| {
        out.raw(name, value);
    })
}

fn explain_clause(name: &str, value: RawVal<'_>, doc: RawDoc<'_>, out: &mut Writer<'_>) {
    match name {
        "$and" | "$or" => {
            out.str("operatorName", name);
            out.array("clausesNotSatisfied", |clauses| {
                for (at, (_, clause)) in
                    value.as_array().unwrap_or(RawDoc::empty()).iter().enumerate()
                {
                    if let Some(clause) = clause.as_doc() {
                        explain_failing(at, clause, doc, clauses);
                    }
                }
            });
        }
        "$nor" => {
            out.str("operatorName", name);
            out.array("clausesSatisfied", |clauses| {
                for (at, (_, clause)) in
                    value.as_array().unwrap_or(RawDoc::empty()).iter().enumerate()
                {
                    if clause.as_doc().is_some_and(|clause| matches(clause, doc)) {
                        clauses.push_doc(|out| {
                            out.count("index", at as u64);
                        });
                    }
                }
            });
        }
        "$jsonSchema" => {
            out.str("operatorName", name);
            explain_schema(value.as_doc().unwrap_or(RawDoc::empty()), doc, out);
        }
        _ if name.starts_with('$') => {
            out.str("operatorName", name);
            out.doc("specifiedAs", |out| {
                out.raw(name, value);
            });
            if name == "$expr" {
                out.str("reason", "expression did not match");
            }
        }
        _ => explain_field(name, value, doc, out),
    }
}

/// Writes the rules of the schema's first level that the document breaks.
fn explain_schema(schema: RawDoc<'_>, doc: RawDoc<'_>, out: &mut Writer<'_>) {
    let rules = schema.iter().filter(|(name, _)| !matches!(*name, "title" | "description"));
    out.array("schemaRulesNotSatisfied", |broken| {
        for (name, value) in rules {
            let rule = single(name, value);
            let filter = DocBuf::build(|out| {
                out.doc("$jsonSchema", |out| {
                    out.raw(name, value);
                });
            });
            // A rule that only means something beside another one fails to compile alone.
            let fails = compile(filter.as_doc())
                .and_then(|filter| filter.matches(doc))
                .is_ok_and(|matches| !matches);
            if !fails {
                continue;
            }
            broken.push_doc(|out| {
                out.str("operatorName", name);
                match name {
                    "required" => {
                        out.append("specifiedAs", Val::Document(rule.as_doc()));
                        out.array("missingProperties", |missing| {
                            for (_, field) in value.as_array().unwrap_or(RawDoc::empty()) {
                                if field.get().as_str().is_some_and(|f| doc.find(f).is_none()) {
                                    missing.push_raw(field);
                                }
                            }
                        });
                    }
                    "properties" => explain_properties(value, doc, out),
                    _ => {
                        out.append("specifiedAs", Val::Document(rule.as_doc()));
                    }
                }
            });
        }
    });
}

fn explain_properties(properties: RawVal<'_>, doc: RawDoc<'_>, out: &mut Writer<'_>) {
    out.array("propertiesNotSatisfied", |failing| {
        for (name, rules) in properties.as_doc().unwrap_or(RawDoc::empty()) {
            let filter = DocBuf::build(|out| {
                out.doc("$jsonSchema", |out| {
                    out.doc("properties", |out| {
                        out.raw(name, rules);
                    });
                });
            });
            if matches(filter.as_doc(), doc) {
                continue;
            }
            let considered = doc.get(name).unwrap_or(Val::Missing);
            failing.push_doc(|out| {
                out.str("propertyName", name);
                out.array("details", |details| {
                    for (rule, argument) in rules.as_doc().unwrap_or(RawDoc::empty()) {
                        explain_rule(name, rule, argument, doc, considered, details);
                    }
                });
            });
        }
    });
}

/// Writes a rule about one property that the property breaks by itself.
fn explain_rule(
    property: &str,
    rule: &str,
    argument: RawVal<'_>,
    doc: RawDoc<'_>,
    considered: Val<'_>,
    out: &mut ArrayWriter<'_>,
) {
    let filter = DocBuf::build(|out| {
        out.doc("$jsonSchema", |out| {
            out.doc("properties", |out| {
                out.doc(property, |out| {
                    out.raw(rule, argument);
                });
            });
        });
    });
    // A rule that only means something beside another one fails to compile alone.
    let holds = compile(filter.as_doc()).and_then(|filter| filter.matches(doc));
    if holds.unwrap_or(true) {
        return;
    }
    out.push_doc(|out| {
        out.str("operatorName", rule);
        out.doc("specifiedAs", |out| {
            out.raw(rule, argument);
        });
        let is_type = matches!(rule, "bsonType" | "type");
        let reason = match rule {
            "bsonType" | "type" => "type did not match",
            "enum" => "value was not found in enum",
            "pattern" => "regular expression did not match",
            _ => "comparison failed",
        };
        out.str("reason", reason).append("consideredValue", considered);
        if is_type {
            out.str("consideredType", considered.kind().name());
        }
    });
}

fn explain_field(name: &str, value: RawVal<'_>, doc: RawDoc<'_>, out: &mut Writer<'_>) {
    let operators = value
        .as_doc()
        .filter(|inner| inner.first().is_some_and(|(operator, _)| operator.starts_with('$')));
    let Some(operators) = operators else {
        return explain_leaf("$eq", &single(name, value), name, doc, out);
    };
    if let (Some(("$not", inner)), 1) = (operators.first(), operators.count()) {
        // What stands inside was matched, and must not be.
        out.str("operatorName", "$not");
        let operator = inner.as_doc().and_then(RawDoc::first).map_or("$regex", |(name, _)| name);
        let considered = Path::new(name).get(doc);
        out.doc("details", |out| {
            out.str("operatorName", operator);
            out.append("specifiedAs", Val::Document(single(name, inner).as_doc()));
            out.str("reason", "comparison succeeded");
            out.append("consideredValue", considered);
        });
        return;
    }
    if let (Some((operator, _)), 1) = (operators.first(), operators.count()) {
        return explain_leaf(operator, &single(name, value), name, doc, out);
    }
    out.str("operatorName", "$and");
    out.array("clausesNotSatisfied", |clauses| {
        for (at, (operator, argument)) in operators.iter().enumerate() {
            let clause = DocBuf::build(|out| {
                out.doc(name, |out| {
                    out.raw(operator, argument);
                });
            });
            explain_failing(at, clause.as_doc(), doc, clauses);
        }
    });
}

fn explain_leaf(
    operator: &str,
    specified: &DocBuf,
    path: &str,
    doc: RawDoc<'_>,
    out: &mut Writer<'_>,
) {
    out.str("operatorName", operator);
    out.append("specifiedAs", Val::Document(specified.as_doc()));
    let considered = Path::new(path).get(doc);
    let reason = match operator {
        "$exists" if considered.is_missing() => "path does not exist",
        "$exists" => "path does exist",
        _ if considered.is_missing() => "field was missing",
        "$type" => "type did not match",
        "$in" => "no matching value found in array",
        "$nin" => "matching value found in array",
        "$regex" => "regular expression did not match",
        "$mod" => "$mod did not evaluate to expected remainder",
        "$size" => "array length was not equal to given size",
        _ => "comparison failed",
    };
    out.str("reason", reason);
    if operator != "$exists" {
        out.append("consideredValue", considered);
    }
    if operator == "$type" && !considered.is_missing() {
        out.str("consideredType", considered.kind().name());
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
        let details =
            DocBuf::build(|out| explain(doc(filter).as_doc(), doc(document).as_doc(), out));
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
        let collection = engine.inner().collection("t", "c").expect("is there");
        let (good, bad) = (doc("{a: 1}"), doc("{a: 0}"));
        assert!(check(&collection, good.as_doc(), false).is_ok());
        let error = check(&collection, bad.as_doc(), false).expect_err("is refused");
        assert_eq!(error.code(), Code::DOCUMENT_VALIDATION_FAILURE);
        assert!(check(&collection, bad.as_doc(), true).is_ok());
        assert!(check_update(&collection, bad.as_doc(), bad.as_doc(), false).is_ok());
        assert!(check_update(&collection, good.as_doc(), bad.as_doc(), false).is_err());
        run("{collMod: 'c', validationAction: 'warn'}").expect("changed");
        let collection = engine.inner().collection("t", "c").expect("is there");
        assert!(check(&collection, bad.as_doc(), false).is_ok());
    }
}
