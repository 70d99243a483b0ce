//! Windows have the same results with any memory limit, and with and without sliding.

use super::*;
use crate::exec::ready::Ready;
use proptest::prelude::*;
use query::ParseContext;
use value::ejson;

/// Runs a stage over documents.
fn run(stage: &str, docs: &[DocBuf], op: &Operation) -> Result<Vec<String>> {
    let source = ejson::parse_value(stage).expect("a stage");
    let context = StageContext::of_view(ParseContext::new(0), "test");
    let stage = parse(source.get(), &context)?;
    let owned: Vec<DocBuf> = docs.to_vec();
    let mut stream = stage.open(Box::new(Ready(owned.into_iter())));
    let mut found = Vec::new();
    while let Some(doc) = stream.next(op)? {
        found.push(ejson::print(doc.raw(), ejson::Format::Canonical));
    }
    assert!(stream.is_done());
    Ok(found)
}

fn documents(count: i32) -> Vec<DocBuf> {
    let doc = |n: i32| {
        DocBuf::build(|out| {
            out.i32("_id", n).i32("p", n % 2).i32("t", n / 3);
            match n % 7 {
                0 => out.f64("v", f64::from(n % 11) / 4.0),
                1 => out.append("v", Val::Null),
                2 => out.str("v", "text"),
                3 => out.i64("v", i64::from(n % 5)),
                _ => out.i32("v", (n * 7919) % 13),
            };
        })
    };
    (0..count).map(doc).collect()
}

const OUTPUTS: &[&str] = &[
    "{$sum: '$v', window: {documents: [-40, 3]}}",
    "{$avg: '$v'}",
    "{$push: '$v', window: {documents: [-1, 1]}}",
    "{$addToSet: '$v', window: {documents: [-9, 9]}}",
    "{$topN: {n: 3, sortBy: {v: 1}, output: '$_id'}, window: {documents: [-50, 0]}}",
    "{$bottom: {sortBy: {v: -1}, output: '$_id'}, window: {range: [-5, 5]}}",
    "{$median: {input: '$v', method: 'approximate'}, window: {documents: [-20, 20]}}",
    "{$first: '$v', window: {documents: [-3, -2]}}",
    "{$shift: {output: '$v', by: -2, default: 'none'}}",
    "{$rank: {}}",
    "{$denseRank: {}}",
    "{$derivative: {input: '$t'}, window: {documents: [-2, 2]}}",
    "{$locf: '$v'}",
    "{$expMovingAvg: {input: '$v', N: 3}}",
    "{$minMaxScaler: {input: '$t'}, window: {documents: [-60, 60]}}",
];

#[test]
fn little_memory_changes_nothing() {
    let docs = documents(900);
    for output in OUTPUTS {
        let stage = format!("{{partitionBy: '$p', sortBy: {{t: 1}}, output: {{w: {output}}}}}");
        let expected = run(&stage, &docs, &Operation::for_tests(1 << 26)).expect("runs");
        assert_eq!(expected.len(), 900);
        let op = Operation::for_tests(60_000);
        assert_eq!(run(&stage, &docs, &op).expect("runs"), expected, "{output}");
        op.set_disk_use(Some(false));
        let refused = run(&stage, &docs, &op).expect_err("is refused");
        assert!([5643011, 292].contains(&refused.code().0), "{refused}");
    }
}

#[test]
fn what_a_function_reads_must_fit() {
    let stage = "{sortBy: {_id: 1}, output: {w: {$sum: '$v'}}}";
    let refused = run(stage, &documents(2000), &Operation::for_tests(8000)).expect_err("refused");
    assert_eq!(refused.code().0, 5414201);
}

/// The printed elements of an array.
fn list(doc: &str, name: &str) -> Vec<String> {
    let doc = ejson::parse_value(doc).expect("a document");
    let list = doc.get().as_doc().and_then(|doc| doc.get(name)?.as_array());
    let list = list.unwrap_or(RawDoc::empty());
    list.iter()
        .map(|(_, value)| ejson::print_value(value.get(), ejson::Format::Canonical))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn percentiles_of_windows_are_those_of_their_numbers(
        numbers in prop::collection::vec(-20_i32..20, 1..120),
        before in 0_usize..50,
        behind in 0_usize..50,
    ) {
        let docs: Vec<DocBuf> = (0..).zip(&numbers).map(|(n, v)| DocBuf::build(|out| {
            out.i32("_id", n).i32("v", *v);
        })).collect();
        let stage = format!(
            "{{sortBy: {{_id: 1}}, output: {{w: {{$percentile: {{input: '$v', p: [0, 0.3, 0.5, 1], \
             method: 'approximate'}}, window: {{documents: [-{before}, {behind}]}}}}}}}}"
        );
        let found = run(&stage, &docs, &Operation::for_tests(1 << 26)).expect("runs");
        for (at, doc) in found.iter().enumerate() {
            let to = (at + behind + 1).min(numbers.len());
            let mut window = numbers[at.saturating_sub(before)..to].to_vec();
            window.sort_unstable();
            let place = |p: f64| ((p * window.len() as f64).ceil() - 1.0).max(0.0) as usize;
            let expected: Vec<String> = [0.0, 0.3, 0.5, 1.0]
                .iter()
                .map(|p| ejson::print_value(Val::Double(f64::from(window[place(*p)])), ejson::Format::Canonical))
                .collect();
            prop_assert_eq!(list(doc, "w"), expected);
        }
    }
}
