//! Compares results with expectations. Types are significant: `12` is not `12.0`.

use crate::file::{Expectation, Kind};
use crate::outcome::Outcome;
use crate::text::{self, ABSENT, ANY, Names};
use value::{RawDoc, RawVal, Val};

/// Judges one expectation.
///
/// # Errors
/// A description of the difference.
pub fn judge(expectation: &Expectation, outcome: &Outcome, names: &Names) -> Result<(), String> {
    let body = text::mark_wildcards(&names.fill(&expectation.body));
    let line = expectation.first_line;
    let found = match expectation.kind {
        Kind::Error => error(&names.fill(&expectation.body), outcome),
        Kind::WriteError => write_error(&names.fill(&expectation.body), outcome),
        kind => succeeded(outcome).and_then(|()| match kind {
            Kind::Docs => docs(&body, outcome, true),
            Kind::DocsUnordered => docs(&body, outcome, false),
            Kind::Ids => ids(&body, outcome),
            Kind::Reply => reply(&body, outcome),
            Kind::Value => value(&body, outcome),
            _ => plan(&expectation.body, outcome),
        }),
    };
    found.map_err(|message| format!("line {line}: {message}"))
}

/// Judges a step without expectations: it must have succeeded completely.
///
/// # Errors
/// The reply that shows the failure.
pub fn expect_success(outcome: &Outcome) -> Result<(), String> {
    expect_reply_success(outcome.reply.as_doc())
}

/// Judges a reply of which nothing more is expected.
///
/// # Errors
/// The reply, when the command or a write of it failed.
pub fn expect_reply_success(reply: RawDoc<'_>) -> Result<(), String> {
    if !reply.get("ok").is_some_and(Val::truthy) {
        return Err(format!("the command failed: {}", text::print_reply(reply)));
    }
    if reply.find("writeErrors").is_some() || reply.find("writeConcernError").is_some() {
        return Err(format!("a write failed: {}", text::print_reply(reply)));
    }
    Ok(())
}

fn succeeded(outcome: &Outcome) -> Result<(), String> {
    let reply = outcome.reply.as_doc();
    if reply.get("ok").is_some_and(Val::truthy) {
        return Ok(());
    }
    Err(format!("the command failed: {}", text::print_reply(reply)))
}

/// `CODE [Name] [~regex]` of the whole command; of an `update` step also of its one write.
fn error(body: &str, outcome: &Outcome) -> Result<(), String> {
    let reply = outcome.reply.as_doc();
    let failed = !reply.get("ok").is_some_and(Val::truthy);
    let document = match first_write_error(reply) {
        Some(write) if !failed && outcome.writes_alone => write,
        _ if failed => reply,
        _ => return Err(format!("no error, but {}", text::print_reply(reply))),
    };
    let (code, name, pattern) = split_error(body)?;
    judge_error(document, code, pattern)?;
    if let (Some(name), Some(found)) = (name, document.get("codeName").and_then(Val::as_str))
        && found != name
    {
        return Err(format!("codeName {found}, expected {name}"));
    }
    Ok(())
}

/// `INDEX CODE [~regex]`: the command succeeds, the write with this index does not.
fn write_error(body: &str, outcome: &Outcome) -> Result<(), String> {
    succeeded(outcome)?;
    let reply = outcome.reply.as_doc();
    let (index, rest) = body.trim().split_once(' ').ok_or("write error INDEX CODE")?;
    let index: i64 = index.parse().map_err(|_| "the index is not a number")?;
    let errors = reply.get("writeErrors").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let mut documents = errors.iter().filter_map(|(_, error)| error.as_doc());
    let write = documents
        .find(|error| error.get("index").and_then(Val::as_i64_exact) == Some(index))
        .ok_or_else(|| format!("no write error {index} in {}", text::print_reply(reply)))?;
    let (code, _, pattern) = split_error(rest)?;
    judge_error(write, code, pattern)
}

fn judge_error(document: RawDoc<'_>, code: i64, pattern: Option<&str>) -> Result<(), String> {
    let found = document.get("code").and_then(Val::as_i64_exact);
    if found != Some(code) {
        return Err(format!("expected code {code}, found {}", text::print_reply(document)));
    }
    if let Some(pattern) = pattern {
        let message = document.get("errmsg").and_then(Val::as_str).unwrap_or("");
        let regex = regex::Regex::new(pattern).map_err(|error| error.to_string())?;
        if !regex.is_match(message) {
            return Err(format!("the message `{message}` does not match ~{pattern}"));
        }
    }
    Ok(())
}

fn split_error(body: &str) -> Result<(i64, Option<&str>, Option<&str>), String> {
    let (head, pattern) = match body.split_once('~') {
        Some((head, pattern)) => (head, Some(pattern.trim())),
        None => (body, None),
    };
    let mut words = head.split_whitespace();
    let code = words.next().and_then(|word| word.parse().ok()).ok_or("error CODE [Name]")?;
    Ok((code, words.next(), pattern))
}

fn first_write_error(reply: RawDoc<'_>) -> Option<RawDoc<'_>> {
    reply.get("writeErrors")?.as_array()?.first()?.1.as_doc()
}

fn docs(body: &str, outcome: &Outcome, ordered: bool) -> Result<(), String> {
    let expected = text::docs(body).map_err(|error| error.to_string())?;
    let found = outcome.docs.as_ref().ok_or_else(|| no_docs(outcome))?;
    let mut left: Vec<RawDoc<'_>> = found.iter().map(value::DocBuf::as_doc).collect();
    let mut right = expected.len() == found.len();
    for (at, pattern) in expected.iter().enumerate() {
        let fits = |doc: &RawDoc<'_>| doc_matches(pattern.as_doc(), *doc);
        if ordered {
            right &= found.get(at).is_some_and(|doc| fits(&doc.as_doc()));
        } else if let Some(place) = left.iter().position(fits) {
            left.swap_remove(place);
        } else {
            right = false;
        }
    }
    if right {
        return Ok(());
    }
    let list = |docs: &[value::DocBuf]| {
        docs.iter()
            .map(|doc| format!("\n      {}", text::print_doc(doc.as_doc())))
            .collect::<String>()
    };
    Err(format!("documents differ\n    expected{}\n    found{}", list(&expected), list(found)))
}

fn no_docs(outcome: &Outcome) -> String {
    format!("the reply has no cursor: {}", text::print_reply(outcome.reply.as_doc()))
}

fn ids(body: &str, outcome: &Outcome) -> Result<(), String> {
    let (expected, _) = text::value_and_rest(body).map_err(|error| error.to_string())?;
    let found = outcome.docs.as_ref().ok_or_else(|| no_docs(outcome))?;
    let found = value::DocBuf::build(|out| {
        out.array("value", |list| {
            for doc in found {
                list.push(doc.as_doc().get("_id").unwrap_or(Val::Null));
            }
        });
    });
    compare("ids differ", expected.as_doc(), found.as_doc())
}

fn value(body: &str, outcome: &Outcome) -> Result<(), String> {
    let found =
        outcome.docs.as_ref().and_then(|docs| docs.first()).ok_or_else(|| no_docs(outcome))?;
    let expected = match body.trim() {
        "missing" => value::DocBuf::new(),
        body => text::value_and_rest(body).map_err(|error| error.to_string())?.0,
    };
    compare("values differ", expected.as_doc(), found.as_doc())
}

fn compare(what: &str, expected: RawDoc<'_>, found: RawDoc<'_>) -> Result<(), String> {
    if doc_matches(expected, found) {
        return Ok(());
    }
    let print = |doc: RawDoc<'_>| match doc.find("value") {
        Some(value) => text::print_value(value),
        None => "missing".to_owned(),
    };
    Err(format!("{what}\n    expected {}\n    found    {}", print(expected), print(found)))
}

fn reply(body: &str, outcome: &Outcome) -> Result<(), String> {
    let expected = text::doc(body).map_err(|error| error.to_string())?;
    let reply = outcome.reply.as_doc();
    if expected.as_doc().is_empty() {
        return Err(format!("name fields of the reply: {}", text::print_reply(reply)));
    }
    if subset(expected.as_doc(), reply) {
        return Ok(());
    }
    Err(format!(
        "the reply differs\n    expected {}\n    found    {}",
        text::print_doc(expected.as_doc()),
        text::print_reply(reply)
    ))
}

fn plan(body: &str, outcome: &Outcome) -> Result<(), String> {
    let expected: Vec<&str> =
        body.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let found = outcome.plan.as_ref().ok_or("no plan")?;
    if expected.len() == found.len() && expected.iter().zip(found).all(|(a, b)| a == b) {
        return Ok(());
    }
    Err(format!(
        "plans differ\n    expected\n{}\n    found\n{}",
        expected.join("\n"),
        found.join("\n")
    ))
}

/// Whether every listed field is there; fields that are not listed do not matter.
#[must_use]
pub fn subset(expected: RawDoc<'_>, found: RawDoc<'_>) -> bool {
    expected.iter().all(|(name, pattern)| match found.find(name) {
        _ if name == "_" => true,
        Some(value) => matches(pattern, value),
        None => pattern.get() == Val::String(ABSENT),
    })
}

/// Whether a value matches the pattern.
#[must_use]
pub fn matches(pattern: RawVal<'_>, found: RawVal<'_>) -> bool {
    if pattern.get() == Val::String(ANY) {
        return true;
    }
    match (pattern.as_doc(), found.as_doc()) {
        (Some(pattern), Some(found)) => return doc_matches(pattern, found),
        (None, None) => {}
        _ => return false,
    }
    match (pattern.as_array(), found.as_array()) {
        (Some(pattern), Some(found)) => doc_matches(pattern, found),
        _ => pattern == found || (is_nan(pattern) && is_nan(found)),
    }
}

/// The bits of NaN depend on the processor, so all are equal.
fn is_nan(value: RawVal<'_>) -> bool {
    matches!(value.get(), Val::Double(n) if n.is_nan())
}

/// Whether a document has exactly the pattern's fields in its order; a field `_: _` in the
/// pattern allows others and any order.
#[must_use]
pub fn doc_matches(pattern: RawDoc<'_>, found: RawDoc<'_>) -> bool {
    if pattern.find("_").is_some_and(|value| value.get() == Val::String(ANY)) {
        return subset(pattern, found);
    }
    let mut fields = found.iter();
    for (name, value) in pattern {
        match fields.next() {
            Some((other, other_value)) if name == other && matches(value, other_value) => {}
            _ => return false,
        }
    }
    fields.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, found: &str) -> bool {
        let pattern = text::doc(&text::mark_wildcards(pattern)).unwrap();
        doc_matches(pattern.as_doc(), text::doc(found).unwrap().as_doc())
    }

    #[test]
    fn types_order_and_wildcards_count() {
        assert!(fits("{a: 1, b: _}", "{a: 1, b: [2]}"));
        assert!(!fits("{a: 1}", "{a: 1.0}"));
        assert!(!fits("{a: 1, b: 2}", "{b: 2, a: 1}"));
        assert!(!fits("{a: 1}", "{a: 1, b: 2}"));
        assert!(fits("{b: [1, _], _: _}", "{a: 1, b: [1, 5]}"));
        assert!(!fits("{c: 1, _: _}", "{a: 1}"));
        assert!(fits("{c: absent, _: _}", "{a: 1}"));
        assert!(!fits("{a: absent, _: _}", "{a: 1}"));
    }
}
