//! Explains why a document does not match a validator: the `details` of a validation error.
//!
//! It works on the filter as written. Inside `$nor` and `$not` it explains the opposite: why
//! something does match. `schema` has the rules of a `$jsonSchema`.

mod schema;

use crate::ParseContext;
use crate::expr::{Env, Expr};
use crate::filter::Filter;
use bumpalo::Bump;
use std::ops::ControlFlow;
use value::path::{Path, walk};
use value::writer::ArrayWriter;
use value::{DocBuf, Error, RawDoc, RawVal, Result, Val, Writer};

/// The context of validators: constants that cannot be computed fail for each document.
#[must_use]
pub fn context(now_ms: i64) -> ParseContext<'static> {
    ParseContext { lenient: true, ..ParseContext::new(now_ms) }
}

/// Compiles a validator.
///
/// # Errors
/// When the filter is invalid.
pub fn compile(source: RawDoc<'_>, now_ms: i64) -> Result<Filter> {
    Filter::parse_for_documents(source, &context(now_ms))
}

/// Writes which parts of a validator a document does not match.
pub fn why_not(filter: RawDoc<'_>, doc: RawDoc<'_>, now_ms: i64, out: &mut Writer<'_>) {
    explain(filter, doc, now_ms, Explanation::WhyNot, out);
}

/// The kind of explanation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Explanation {
    /// Why something does not match.
    WhyNot,
    /// Why something does match.
    Why,
}

impl Explanation {
    fn other(self) -> Explanation {
        match self {
            Explanation::WhyNot => Explanation::Why,
            Explanation::Why => Explanation::WhyNot,
        }
    }

    fn clauses(self) -> &'static str {
        match self {
            Explanation::WhyNot => "clausesNotSatisfied",
            Explanation::Why => "clausesSatisfied",
        }
    }
}

/// Writes which parts of a filter a document does not match, or does match.
fn explain(
    filter: RawDoc<'_>,
    doc: RawDoc<'_>,
    now_ms: i64,
    explanation: Explanation,
    out: &mut Writer<'_>,
) {
    // Comments do not affect matching.
    let parts: Vec<_> = filter.iter().filter(|(name, _)| *name != "$comment").collect();
    match parts.as_slice() {
        [(name, value)] => explain_clause(name, *value, doc, now_ms, explanation, out),
        _ => {
            out.str("operatorName", "$and");
            out.array(explanation.clauses(), |clauses| {
                for (at, (name, value)) in parts.into_iter().enumerate() {
                    let single = single(name, value);
                    explain_if(at, single.as_doc(), doc, now_ms, explanation, clauses);
                }
            });
        }
    }
}

/// Explains a clause, if it has the outcome to be explained.
fn explain_if(
    at: usize,
    filter: RawDoc<'_>,
    doc: RawDoc<'_>,
    now_ms: i64,
    explanation: Explanation,
    out: &mut ArrayWriter<'_>,
) {
    if matches(filter, doc, now_ms) == (explanation == Explanation::WhyNot) {
        return;
    }
    out.push_doc(|out| {
        out.count("index", at as u64);
        out.doc("details", |out| explain(filter, doc, now_ms, explanation, out));
    });
}

fn matches(filter: RawDoc<'_>, doc: RawDoc<'_>, now_ms: i64) -> bool {
    compile(filter, now_ms).and_then(|filter| filter.matches(doc)).unwrap_or(false)
}

fn single(name: &str, value: RawVal<'_>) -> DocBuf {
    DocBuf::build(|out| {
        out.raw(name, value);
    })
}

fn explain_clause(
    name: &str,
    value: RawVal<'_>,
    doc: RawDoc<'_>,
    now_ms: i64,
    explanation: Explanation,
    out: &mut Writer<'_>,
) {
    match name {
        "$and" | "$or" | "$nor" => {
            let inner = if name == "$nor" { explanation.other() } else { explanation };
            out.str("operatorName", name);
            out.array(inner.clauses(), |clauses| {
                let all = value.as_array().unwrap_or(RawDoc::empty());
                for (at, (_, clause)) in all.iter().enumerate() {
                    if let Some(clause) = clause.as_doc() {
                        explain_if(at, clause, doc, now_ms, inner, clauses);
                    }
                }
            });
        }
        "$jsonSchema" => {
            out.str("operatorName", name);
            match explanation {
                Explanation::WhyNot => {
                    schema::explain(value.as_doc().unwrap_or(RawDoc::empty()), doc, out)
                }
                Explanation::Why => {
                    out.append("specifiedAs", Val::Document(single(name, value).as_doc()));
                    out.str("reason", "schema matched");
                }
            }
        }
        _ if name.starts_with('$') => {
            out.str("operatorName", name);
            out.append("specifiedAs", Val::Document(single(name, value).as_doc()));
            if name == "$expr" {
                write_expression(value.get(), doc, now_ms, explanation, out);
            }
        }
        _ => explain_field(name, value, doc, now_ms, explanation, out),
    }
}

/// Writes the result of a `$expr`, or the error that it fails with.
fn write_expression(
    source: Val<'_>,
    doc: RawDoc<'_>,
    now_ms: i64,
    explanation: Explanation,
    out: &mut Writer<'_>,
) {
    let arena = Bump::new();
    let expr = Expr::parse(source, &ParseContext::new(now_ms));
    let result = expr.as_ref().map(|expr| expr.eval(&Env::new(doc, &arena)));
    match result {
        Ok(Ok(result)) => {
            let matched = explanation == Explanation::Why;
            let reason = if matched { "expression did match" } else { "expression did not match" };
            out.str("reason", reason).append("expressionResult", result);
        }
        Err(error) => write_failure(error, out),
        Ok(Err(error)) => write_failure(&error, out),
    }
}

fn write_failure(error: &Error, out: &mut Writer<'_>) {
    out.str("reason", "failed to evaluate aggregation expression");
    out.doc("details", |out| {
        out.i32("code", error.code().0)
            .str("codeName", &error.code().name())
            .str("errmsg", error.message());
    });
}

fn explain_field(
    name: &str,
    value: RawVal<'_>,
    doc: RawDoc<'_>,
    now_ms: i64,
    explanation: Explanation,
    out: &mut Writer<'_>,
) {
    let operators = value
        .as_doc()
        .filter(|inner| inner.first().is_some_and(|(operator, _)| operator.starts_with('$')));
    let Some(operators) = operators else {
        return explain_leaf("$eq", &single(name, value), name, doc, explanation, out);
    };
    if let (Some(("$not", inner)), 1) = (operators.first(), operators.count()) {
        out.str("operatorName", "$not");
        out.doc("details", |out| match inner.as_doc() {
            Some(_) => explain_field(name, inner, doc, now_ms, explanation.other(), out),
            None => {
                explain_leaf("$regex", &single(name, inner), name, doc, explanation.other(), out)
            }
        });
        return;
    }
    if let (Some((operator, _)), 1) = (operators.first(), operators.count()) {
        return explain_leaf(operator, &single(name, value), name, doc, explanation, out);
    }
    if operators.find("$regex").is_some() {
        return explain_leaf("$regex", &single(name, value), name, doc, explanation, out);
    }
    out.str("operatorName", "$and");
    out.array(explanation.clauses(), |clauses| {
        for (at, (operator, argument)) in operators.iter().enumerate() {
            let clause = DocBuf::build(|out| {
                out.doc(name, |out| {
                    out.raw(operator, argument);
                });
            });
            explain_if(at, clause.as_doc(), doc, now_ms, explanation, clauses);
        }
    });
}

fn explain_leaf(
    operator: &str,
    specified: &DocBuf,
    path: &str,
    doc: RawDoc<'_>,
    explanation: Explanation,
    out: &mut Writer<'_>,
) {
    out.str("operatorName", operator);
    out.append("specifiedAs", Val::Document(specified.as_doc()));
    let whole = matches!(operator, "$size" | "$elemMatch" | "$all");
    let values = considered(path, doc, !whole);
    let missing = values.is_empty();
    // These operators match when the named values do not.
    let negative = matches!(operator, "$ne" | "$nin");
    let matched = (explanation == Explanation::Why) != negative;
    // An operator that applies to certain types reports that, if no value has one of them.
    let expected = expected_types(operator);
    let of_other_type = |value: &Val<'_>| !expected.contains(&value.kind().name());
    let mismatch = !matched && !missing && !expected.is_empty() && values.iter().all(of_other_type);
    let reason = match (operator, matched) {
        ("$exists", _) if missing => "path does not exist",
        ("$exists", _) => "path does exist",
        _ if missing => "field was missing",
        _ if mismatch => "type did not match",
        ("$type", false) => "type did not match",
        ("$type", true) => "type did match",
        ("$in" | "$nin", false) => "no matching value found in array",
        ("$in" | "$nin", true) => "matching value found in array",
        ("$regex", false) => "regular expression did not match",
        ("$regex", true) => "regular expression did match",
        ("$mod", false) => "$mod did not evaluate to expected remainder",
        ("$mod", true) => "$mod did evaluate to expected remainder",
        ("$size", false) => "array length was not equal to given size",
        ("$size", true) => "array length was equal to given size",
        ("$all", false) => "array did not contain all specified values",
        ("$all", true) => "array did contain all specified values",
        ("$elemMatch", false) => "array did not satisfy the child predicate",
        ("$elemMatch", true) => "array did satisfy the child predicate",
        ("$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear", false) => {
            "bitwise operator failed to match"
        }
        ("$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear", true) => {
            "bitwise operator matched successfully"
        }
        (_, false) => "comparison failed",
        (_, true) => "comparison succeeded",
    };
    out.str("reason", reason);
    if operator == "$exists" {
        return;
    }
    if mismatch {
        write_types(&values, out);
        match expected {
            [only] => out.str("expectedType", only),
            several => out.array("expectedTypes", |list| {
                several.iter().for_each(|name| list.push(Val::String(name)));
            }),
        };
    }
    match values.as_slice() {
        [] => {}
        [only] => {
            out.append("consideredValue", *only);
        }
        several => {
            out.array("consideredValues", |list| {
                several.iter().for_each(|value| list.push(*value))
            });
        }
    }
    if operator == "$type" && !missing {
        write_types(&values, out);
    }
}

/// The types that an operator applies to, sorted by name; empty if it applies to all.
fn expected_types(operator: &str) -> &'static [&'static str] {
    match operator {
        "$mod" => &["decimal", "double", "int", "long"],
        "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => {
            &["binData", "decimal", "double", "int", "long"]
        }
        "$regex" => &["regex", "string", "symbol"],
        "$size" | "$elemMatch" => &["array"],
        _ => &[],
    }
}

/// Writes the types of values, without duplicates.
fn write_types(values: &[Val<'_>], out: &mut Writer<'_>) {
    let mut types: Vec<&str> = values.iter().map(|value| value.kind().name()).collect();
    types.sort_unstable();
    types.dedup();
    match types.as_slice() {
        [only] => out.str("consideredType", only),
        several => out.array("consideredTypes", |list| {
            several.iter().for_each(|name| list.push(Val::String(name)));
        }),
    };
}

/// The values that a predicate considers: those at the path, and with `elements` the elements of an
/// array at its end.
fn considered<'d>(path: &str, doc: RawDoc<'d>, elements: bool) -> Vec<Val<'d>> {
    let mut values = Vec::new();
    let path = Path::new(path);
    let _: ControlFlow<()> = walk(doc, path.parts(), elements, &mut |found| {
        // The elements are considered instead of the array.
        let replaced = elements
            && !found.element
            && matches!(found.value, Val::Array(array) if !array.is_empty());
        if !found.value.is_missing() && !replaced {
            values.push(found.value);
        }
        ControlFlow::Continue(())
    });
    values
}
