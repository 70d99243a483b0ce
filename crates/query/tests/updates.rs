//! Updates against recorded answers: each line of `cases/update.txt` is a document, a filter, an
//! update and what becomes of them, types and field order included.

use bumpalo::Bump;
use proptest::prelude::*;
use query::ParseContext;
use query::filter::Filter;
use query::update::Update;
use value::{DocBuf, RawDoc, Result, Val, ejson};

/// The document after the update; `None` if it stays as it is.
fn run(case: RawDoc<'_>) -> Result<Option<DocBuf>> {
    let context = ParseContext::new(1_700_000_000_000);
    let filters: Vec<RawDoc<'_>> = case
        .get("arrayFilters")
        .and_then(Val::as_array)
        .into_iter()
        .flatten()
        .filter_map(|(_, filter)| filter.as_doc())
        .collect();
    let arena = Bump::new();
    let query = case.get("q").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    let update = Update::parse(case.get("u").unwrap_or(Val::Missing), &context, &filters)?;
    match case.get("doc") {
        Some(Val::Document(doc)) => {
            let mut position = None;
            let filter = Filter::parse(query, &context)?;
            assert!(filter.matches_at(doc, &mut position)?, "{query:?} must match {doc:?}");
            update.apply(doc, position, false, &arena)
        }
        _ => {
            let start = update.upsert_document(query)?;
            update.apply(start.as_doc(), None, true, &arena)
        }
    }
}

#[test]
fn recorded_updates() {
    let mut failures = Vec::new();
    let mut count = 0;
    let cases = include_str!("cases/update.txt").lines();
    for line in cases.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        count += 1;
        let (case, expected) = line.split_once('\t').expect("a case has two columns");
        let result = run(ejson::parse_doc(case).expect("the case is readable").as_doc());
        let right = match (&result, expected) {
            (Ok(None), text) => text == "same",
            (Ok(Some(doc)), text) if text.starts_with('{') => {
                *doc == ejson::parse_doc(text).expect("the expectation is readable")
            }
            (Err(error), text) => text == format!("error {}", error.code().0),
            _ => false,
        };
        if !right {
            failures.push(format!("{case}\n    expected {expected}\n    found    {result:?}"));
        }
    }
    assert!(count > 150, "only {count} cases were read");
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}

fn apply(update: &str, doc: &DocBuf) -> Option<DocBuf> {
    let update = ejson::parse_doc(update).expect("the update is readable");
    let context = ParseContext::new(0);
    let update = Update::parse(Val::Document(update.as_doc()), &context, &[]).expect("it compiles");
    update.apply(doc.as_doc(), None, false, &Bump::new()).expect("it applies")
}

proptest! {
    #[test]
    fn setting_twice_changes_nothing_the_second_time(
        fields in prop::collection::btree_map("[a-d](\\.[a-d]){0,2}", any::<i32>(), 1..4),
    ) {
        // Paths that lie on one another are refused; keep those that do not.
        let mut paths: Vec<(&String, &i32)> = Vec::new();
        for (path, value) in &fields {
            let clear = |known: &str| {
                !path.starts_with(&format!("{known}.")) && !known.starts_with(&format!("{path}."))
            };
            if paths.iter().all(|(known, _)| clear(known)) {
                paths.push((path, value));
            }
        }
        let parts: Vec<String> = paths.iter().map(|(p, v)| format!("\"{p}\": {v}")).collect();
        let update = format!("{{$set: {{{}}}}}", parts.join(", "));
        let once = apply(&update, &DocBuf::new()).expect("something is set");
        prop_assert_eq!(apply(&update, &once), None);
        let unset = format!("{{$unset: {{{}}}}}", parts.join(", "));
        let emptied = apply(&unset, &once).expect("something is removed");
        for (path, _) in paths {
            prop_assert!(value::path::Path::new(path).get(emptied.as_doc()).is_missing());
        }
    }

    #[test]
    fn pull_takes_back_what_push_gave(values in prop::collection::vec(0..5i32, 0..6), new in 5..9i32) {
        let doc = DocBuf::build(|out| {
            out.array("a", |array| values.iter().for_each(|n| array.push(Val::Int32(*n))));
        });
        let pushed = apply(&format!("{{$push: {{a: {new}}}}}"), &doc).expect("it grows");
        let pulled = apply(&format!("{{$pull: {{a: {new}}}}}"), &pushed).expect("it shrinks");
        prop_assert_eq!(pulled, doc);
    }

    #[test]
    fn increments_add_up(start in any::<i32>(), by in prop::collection::vec(any::<i32>(), 1..5)) {
        let mut doc = DocBuf::build(|out| { out.i32("n", start); });
        let mut total = i64::from(start);
        for n in by {
            total += i64::from(n);
            doc = apply(&format!("{{$inc: {{n: {n}}}}}"), &doc).unwrap_or(doc);
        }
        prop_assert_eq!(doc.as_doc().get("n").and_then(Val::as_i64_exact), Some(total));
    }
}
