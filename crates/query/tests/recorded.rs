//! Filters, schemas and projections against what MongoDB answered: the cases are lines in `data/`.

use bumpalo::Bump;
use query::ParseContext;
use query::filter::Filter;
use query::project::{Mode, Projection};
use value::ejson::{Format, parse_doc, parse_value, print};
use value::{DocBuf, RawDoc, Result};

#[test]
fn filters() {
    run(include_str!("data/filters.txt"), filter);
}

#[test]
fn schemas() {
    run(include_str!("data/schemas.txt"), filter);
}

#[test]
fn projections() {
    run(include_str!("data/projections.txt"), projection);
}

/// Runs every `case => expected` line on the `doc` lines before it.
fn run(text: &str, answer: fn(&[DocBuf], &str) -> Result<String>) {
    let mut docs: Vec<DocBuf> = Vec::new();
    let mut failures = Vec::new();
    let mut cases = 0;
    let mut in_docs = false;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(doc) = line.strip_prefix("doc ") {
            if !in_docs {
                docs.clear();
            }
            in_docs = true;
            docs.push(parse_doc(doc).expect(doc));
            continue;
        }
        in_docs = false;
        cases += 1;
        let (case, expected) = line.rsplit_once(" => ").expect(line);
        let found = answer(&docs, case).unwrap_or_else(|error| format!("error {}", error.code().0));
        if found != expected {
            failures.push(format!("{case}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(cases > 100, "the data file has {cases} cases");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn filter(docs: &[DocBuf], spec: &str) -> Result<String> {
    let filter = Filter::parse(parse_doc(spec)?.as_doc(), &ParseContext::new(0))?;
    let mut places = Vec::new();
    for (at, doc) in docs.iter().enumerate() {
        if filter.matches(doc.as_doc())? {
            places.push(at);
        }
    }
    Ok(ranges(&places))
}

/// `0 4..7`
fn ranges(places: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &place in places {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == place => *last = place,
            _ => runs.push((place, place)),
        }
    }
    let text = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}..{last}") }
    };
    if runs.is_empty() { "-".into() } else { runs.iter().map(text).collect::<Vec<_>>().join(" ") }
}

fn projection(docs: &[DocBuf], case: &str) -> Result<String> {
    let context = ParseContext::new(0);
    let (operation, rest) = case.split_once(' ').expect(case);
    let (spec, condition) = rest.split_once(" where ").unwrap_or((rest, "{}"));
    let filter = Filter::parse(parse_doc(condition)?.as_doc(), &context)?;
    let spec = parse_value(spec)?;
    let doc = || spec.get().as_doc().unwrap_or(RawDoc::empty());
    let projection = match operation {
        "find" => Projection::parse(doc(), &context, Mode::Find)?,
        "project" => Projection::parse(doc(), &context, Mode::Aggregate)?,
        "add" => Projection::parse(doc(), &context, Mode::AddFields)?,
        "unset" => Projection::parse_unset(spec.get(), &context)?,
        other => panic!("unknown operation {other}"),
    };
    let mut results = Vec::new();
    for doc in docs {
        let mut position = None;
        if filter.matches_at(doc.as_doc(), &mut position)? {
            let mut out = Vec::new();
            projection.apply(doc.as_doc(), position, &Bump::new(), &mut out)?;
            value::validate::validate(&out, 200)?;
            results.push(print(RawDoc::new(&out), Format::Shell));
        }
    }
    Ok(if results.is_empty() { "-".into() } else { results.join(" ") })
}
