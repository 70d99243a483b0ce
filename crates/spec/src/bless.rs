//! `BLESS=1`: runs the tests of a file and replaces the expectations by the results. Wildcards and
//! message patterns that still match are kept. Review the difference like code.

use crate::connection::Connection;
use crate::file::{Action, Expectation, Kind, SpecFile, TestStep};
use crate::judge;
use crate::outcome::Outcome;
use crate::run::{RunMode, run_test};
use crate::text::{self, ANY, Names, VOLATILE};
use value::{DocBuf, RawDoc, RawVal, Val, Writer};

/// Lines to put in place of `first..=last`; an empty range inserts before `first`.
struct Edit {
    first: usize,
    last: usize,
    lines: Vec<String>,
}

/// Replaces the expectations of a file that do not hold, and adds missing ones. Returns the number
/// of changes.
///
/// # Errors
/// If a test cannot be run, or the file cannot be written.
pub fn bless(
    connection: &mut dyn Connection,
    file: &SpecFile,
    skip_ours: bool,
) -> Result<usize, String> {
    let mut edits = Vec::new();
    let mode = RunMode { fetch_always: true, ..RunMode::default() };
    for test in &file.tests {
        if test.differs.is_some() || (skip_ours && test.only_motif.is_some()) {
            continue;
        }
        let count = test.steps.len();
        let mut at = 0;
        let ran = run_test(connection, file, test, mode, |step, outcome, names| {
            at += 1;
            if step.expectations.is_empty() {
                let last = at == count;
                if last || judge::expect_success(outcome).is_err() {
                    let (kind, body) = fresh(step, outcome);
                    let lines = layout(kind, &names.hide(&body));
                    edits.push(Edit { first: step.last_line + 1, last: step.last_line, lines });
                }
                return Ok(());
            }
            for expectation in &step.expectations {
                if judge::judge(expectation, outcome, names).is_ok() {
                    continue;
                }
                let (kind, body) = replaced(expectation, step, outcome, names);
                let (first, last) = (expectation.first_line, expectation.last_line);
                let body = names.hide(&body);
                let lines = match &step.row {
                    Some(given) => vec![layout_row(given, kind, &body)],
                    None => layout(kind, &body),
                };
                edits.push(Edit { first, last, lines });
            }
            Ok(())
        });
        ran.map_err(|message| format!("{}: {}: {message}", file.name, test.title))?;
    }
    let count = edits.len();
    if count > 0 {
        apply(file, edits)?;
    }
    Ok(count)
}

fn apply(file: &SpecFile, mut edits: Vec<Edit>) -> Result<(), String> {
    let text = std::fs::read_to_string(&file.path).map_err(|error| error.to_string())?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.first));
    for edit in edits {
        lines.splice(edit.first - 1..edit.last, edit.lines);
    }
    lines.push(String::new());
    std::fs::write(&file.path, lines.join("\n")).map_err(|error| error.to_string())
}

/// The row of a table.
fn layout_row(given: &str, kind: Kind, body: &str) -> String {
    let word = if kind == Kind::Error { "error " } else { "" };
    format!("  {given} => {word}{body}")
}

/// The lines of a directive: a single one if it is short.
fn layout(kind: Kind, body: &str) -> Vec<String> {
    let word = kind.word();
    if matches!(kind, Kind::Docs | Kind::DocsUnordered | Kind::Plan | Kind::Details) {
        let mut lines = vec![word.to_owned()];
        lines.extend(body.lines().map(|line| format!("  {line}")));
        return lines;
    }
    if body.lines().count() <= 1 {
        return vec![format!("{word} {body}").trim_end().to_owned()];
    }
    let mut lines = vec![word.to_owned()];
    lines.extend(body.lines().map(|line| format!("  {line}")));
    lines
}

/// An expectation for a step that has none.
fn fresh(step: &TestStep, outcome: &Outcome) -> (Kind, String) {
    let reply = outcome.reply.as_doc();
    if !reply.get("ok").is_some_and(Val::truthy)
        || (outcome.writes_alone && reply.find("writeErrors").is_some())
    {
        return (Kind::Error, error_text(outcome));
    }
    match step.action {
        Action::Eval(_) => (Kind::Value, value_text(outcome)),
        Action::Match(_) => (Kind::Ids, ids_text(outcome)),
        _ if outcome.docs.is_some() => (Kind::Docs, docs_text(outcome)),
        _ => (Kind::Reply, reply_text(RawDoc::empty(), reply)),
    }
}

/// The replacement of an expectation that does not hold.
fn replaced(
    old: &Expectation,
    step: &TestStep,
    outcome: &Outcome,
    names: &Names,
) -> (Kind, String) {
    let reply = outcome.reply.as_doc();
    let failed = !reply.get("ok").is_some_and(Val::truthy);
    if failed {
        return (Kind::Error, error_text(outcome));
    }
    match old.kind {
        Kind::Docs | Kind::DocsUnordered if outcome.docs.is_some() => {
            (old.kind, docs_text(outcome))
        }
        Kind::Ids if outcome.docs.is_some() => (old.kind, ids_text(outcome)),
        Kind::Value => (old.kind, value_text(outcome)),
        Kind::Plan | Kind::Details => {
            (old.kind, outcome.plan.clone().unwrap_or_default().join("\n"))
        }
        Kind::Reply => {
            let pattern = text::doc(&text::mark_wildcards(&names.fill(&old.body)));
            let pattern = pattern.unwrap_or_default();
            (old.kind, reply_text(pattern.as_doc(), reply))
        }
        _ => fresh(step, outcome),
    }
}

fn error_text(outcome: &Outcome) -> String {
    let reply = outcome.reply.as_doc();
    let write = reply.get("writeErrors").and_then(Val::as_array).and_then(RawDoc::first);
    let error = write.and_then(|(_, write)| write.as_doc()).unwrap_or(reply);
    let code = error.get("code").and_then(Val::as_i64_exact).unwrap_or(0);
    let name = value::Code(i32::try_from(code).unwrap_or(0)).name();
    match error.get("codeName").and_then(Val::as_str) {
        // A code may have a name only in some versions of MongoDB, so the number is compared.
        Some(other) if other != name => code.to_string(),
        _ if name.starts_with("Location") => code.to_string(),
        _ => format!("{code} {name}"),
    }
}

fn docs_text(outcome: &Outcome) -> String {
    let docs = outcome.docs.as_deref().unwrap_or(&[]);
    docs.iter().map(|doc| text::print_doc(doc.as_doc())).collect::<Vec<_>>().join("\n")
}

fn ids_text(outcome: &Outcome) -> String {
    let ids =
        outcome.docs.as_deref().unwrap_or(&[]).iter().map(|doc| {
            doc.as_doc().find("_id").map_or_else(|| "null".to_owned(), text::print_value)
        });
    format!("[{}]", ids.collect::<Vec<_>>().join(", "))
}

fn value_text(outcome: &Outcome) -> String {
    let first = outcome.docs.as_deref().unwrap_or(&[]).first();
    let value = first.and_then(|doc| doc.as_doc().find("value"));
    value.map_or_else(|| "missing".to_owned(), text::print_value)
}

/// The fields that the old expectation lists, or all that are not volatile.
fn reply_text(pattern: RawDoc<'_>, reply: RawDoc<'_>) -> String {
    let merged = DocBuf::build(|out| {
        for (name, value) in reply {
            match pattern.find(name) {
                Some(pattern) => merge(out, name, pattern, value),
                None if pattern.is_empty() && !VOLATILE.contains(&name) => {
                    if name == "writeErrors" {
                        out.array(name, |list| {
                            for (_, error) in value.as_array().unwrap_or(RawDoc::empty()) {
                                list.push_doc(|out| write_error(out, error));
                            }
                        });
                    } else {
                        out.raw(name, value);
                    }
                }
                None => {}
            }
        }
    });
    let line = text::print_doc(merged.as_doc());
    if line.chars().count() <= 110 {
        return line;
    }
    let fields = merged.as_doc().iter().map(|(name, value)| {
        let field = DocBuf::build(|out| {
            out.raw(name, value);
        });
        let text = text::print_doc(field.as_doc());
        let text = text.trim();
        text.get(1..text.len().saturating_sub(1)).unwrap_or("").trim().to_owned()
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(",\n"))
}

/// Messages of write errors may differ from MongoDB's, except E11000, which clients parse.
fn write_error(out: &mut Writer<'_>, error: RawVal<'_>) {
    let error = error.as_doc().unwrap_or(RawDoc::empty());
    let duplicate = error.get("code").and_then(Val::as_i64_exact) == Some(11000);
    for (name, value) in error {
        if name == "errmsg" && !duplicate {
            out.str(name, ANY);
        } else {
            out.raw(name, value);
        }
    }
}

fn merge(out: &mut Writer<'_>, name: &str, pattern: RawVal<'_>, found: RawVal<'_>) {
    if judge::matches(pattern, found) {
        out.raw(name, pattern);
        return;
    }
    match (pattern.as_doc(), found.as_doc()) {
        (Some(pattern), Some(found)) => {
            out.doc(name, |out| {
                for (name, value) in found {
                    match pattern.find(name) {
                        Some(pattern) => merge(out, name, pattern, value),
                        None => {
                            out.raw(name, value);
                        }
                    }
                }
            });
        }
        _ => {
            out.raw(name, found);
        }
    }
}
