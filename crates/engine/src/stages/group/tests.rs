//! Groups by program and by plain evaluation agree, whatever the memory.

use super::*;
use crate::exec::ready::Ready;
use crate::stages;
use crate::stages::pipeline::open_stages;
use proptest::prelude::*;
use query::ParseContext;
use value::ejson;

/// The documents that a pipeline makes of others, sorted; stage by stage, or put together.
fn run(pipeline: &str, docs: &[DocBuf], bytes_max: usize, together: bool) -> Result<Vec<String>> {
    let op = Operation::for_tests(bytes_max);
    let source = ejson::parse_value(pipeline).expect("a pipeline");
    let Val::Array(list) = source.get() else { panic!("an array") };
    let context = StageContext::of_view(ParseContext::new(0), "test");
    let parsed = stages::parse(list, &context)?;
    let own = docs.to_vec();
    let input: Box<dyn Stream> = Box::new(Ready(own.into_iter()));
    let mut stream = if together {
        open_stages(&parsed, input)
    } else {
        parsed.iter().fold(input, |stream, stage| match stage.role() {
            Role::Group(group) => {
                Box::new(Grouping::new(stream, Program::plain(&group.spec))) as Box<dyn Stream>
            }
            _ => stage.open(stream),
        })
    };
    let mut found = Vec::new();
    while let Some(doc) = stream.next(&op)? {
        found.push(ejson::print(doc.raw(), ejson::Format::Canonical));
    }
    assert!(stream.is_done() || !together || found.is_empty() || stream.next(&op)?.is_none());
    found.sort_unstable();
    Ok(found)
}

const PIPELINES: &[&str] = &[
    "[{$group: {_id: '$a', n: {$sum: 1}, s: {$sum: '$b'}, m: {$avg: '$b'}}}]",
    "[{$group: {_id: '$c.d', lo: {$min: '$b'}, hi: {$max: '$c.e'}, all: {$push: '$a'}}}]",
    "[{$group: {_id: {x: '$a', y: '$c.d'}, f: {$first: '$b'}, l: {$last: '$c'}}}]",
    "[{$group: {_id: null, s: {$addToSet: '$a'}, o: {$mergeObjects: '$c'}}}]",
    "[{$group: {_id: {$add: ['$b', 1]}, t: {$top: {output: '$a', sortBy: {b: 1, a: 1}}}}}]",
    "[{$group: {_id: '$$ROOT', n: {$sum: 1}}}]",
    "[{$unwind: '$t'}, {$group: {_id: '$t', n: {$sum: 1}, b: {$sum: '$b'}}}]",
    "[{$unwind: '$t'}, {$group: {_id: '$t.x', s: {$sum: {$multiply: ['$t.y', 2]}}}}]",
    "[{$unwind: {path: '$t', preserveNullAndEmptyArrays: true}}, \
      {$group: {_id: '$t', n: {$sum: 1}, all: {$push: '$t.x'}}}]",
    "[{$unwind: {path: '$t', includeArrayIndex: 'i'}}, {$group: {_id: '$i', n: {$push: '$t'}}}]",
    "[{$unwind: '$c.d'}, {$group: {_id: '$c.d', n: {$sum: 1}}}]",
    "[{$unwind: '$t'}, {$group: {_id: '$t', all: {$push: '$$ROOT'}}}]",
    "[{$project: {k: '$c.d', v: {$ifNull: ['$b', 7]}}}, \
      {$group: {_id: '$k', s: {$push: '$v'}, i: {$first: '$_id'}}}]",
    "[{$project: {_id: 0, c: 1, v: '$b'}}, {$group: {_id: '$c.d', s: {$push: '$v'}}}]",
    "[{$project: {k: {$toString: '$b'}}}, {$group: {_id: '$zz', n: {$sum: 1}}}]",
    "[{$project: {k: {$divide: [1, '$b']}}}, {$group: {_id: '$k', n: {$sum: 1}}}]",
    "[{$unwind: '$t'}, {$project: {k: '$t.x', v: '$b'}}, {$group: {_id: '$k', s: {$push: '$v'}}}]",
    "[{$group: {_id: '$a', u: {$addToSet: '$b'}, n: {$sum: 1}}}, \
      {$project: {k: '$_id', n: 1, u: {$size: '$u'}}}]",
    "[{$group: {_id: '$a', u: {$addToSet: '$b'}, w: {$addToSet: '$c'}}}, \
      {$addFields: {u: {$add: [{$size: '$u'}, 1]}}}, {$unset: 'w'}]",
    "[{$group: {_id: '$a', u: {$addToSet: '$b'}}}, \
      {$project: {u: {$size: '$u'}, first: {$arrayElemAt: ['$u', 0]}}}]",
    "[{$sortByCount: '$a'}]",
];

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0_i32..4).prop_map(|n| n.to_string()),
        2 => (0_i32..8).prop_map(|n| format!("{}", f64::from(n) / 2.0)),
        1 => (0_i64..4).prop_map(|n| format!("NumberLong({n})")),
        1 => Just("null".to_owned()),
        2 => "[ab]{0,2}".prop_map(|text| format!("'{text}'")),
        1 => Just("[]".to_owned()),
        1 => (0_i32..3).prop_map(|n| format!("[{n}, 'z']")),
        1 => (0_i32..3).prop_map(|n| format!("{{x: {n}}}")),
        1 => (0_i32..3).prop_map(|n| format!("[{{x: {n}, y: 2}}, {{x: 1, y: {n}}}, [{{x: 5}}]]")),
    ]
}

fn any_doc() -> impl Strategy<Value = String> {
    let field = |name: &'static str| {
        proptest::option::weighted(0.8, any_value()).prop_map(move |value| {
            value.map_or(String::new(), |value| format!("{name}: {value}, "))
        })
    };
    let inner = (field("d"), field("e"));
    (field("a"), field("b"), proptest::option::of(inner), field("t")).prop_map(|(a, b, c, t)| {
        let c = c.map_or(String::new(), |(d, e)| format!("c: {{{d}{e}}}, "));
        format!("{{_id: 1, {c}{a}{t}{b}}}")
    })
}

fn outcome(result: Result<Vec<String>>) -> std::result::Result<Vec<String>, i32> {
    result.map_err(|error| error.code().0)
}

proptest! {
    #[test]
    fn programs_give_what_plain_evaluation_gives(
        docs in proptest::collection::vec(any_doc(), 0..40)
    ) {
        let docs: Vec<DocBuf> =
            docs.iter().map(|doc| ejson::parse_doc(doc).expect("a document")).collect();
        for pipeline in PIPELINES {
            let plain = outcome(run(pipeline, &docs, usize::MAX, false));
            let fused = outcome(run(pipeline, &docs, usize::MAX, true));
            prop_assert_eq!(fused, plain, "{}", pipeline);
        }
    }
}

/// Documents that two threads can read.
struct Halves(Vec<DocBuf>);

impl Stream for Halves {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        Ok((!self.0.is_empty()).then(|| Doc::Made(self.0.remove(0).into_bytes())))
    }

    fn for_each(&mut self, op: &Operation, visit: &mut crate::exec::Visit<'_>) -> Result<()> {
        for doc in self.0.drain(..) {
            op.check()?;
            visit(doc.as_doc())?;
        }
        Ok(())
    }

    fn split(&mut self, _: usize) -> Vec<Box<dyn Stream>> {
        let second = self.0.split_off(self.0.len() / 2);
        vec![Box::new(Halves(second))]
    }
}

#[test]
fn two_threads_give_what_one_gives() {
    let docs = numbered(20_000, 300);
    for (fields, bytes_max) in [
        ("n: {$sum: 1}, s: {$sum: '$b'}, m: {$avg: '$b'}", usize::MAX),
        ("f: {$first: '$_id'}, l: {$last: '$_id'}, p: {$push: '$_id'}", usize::MAX),
        ("f: {$first: '$_id'}, l: {$last: '$_id'}, p: {$push: '$_id'}", 60_000),
        ("d: {$stdDevPop: '$b'}, t: {$top: {output: '$_id', sortBy: {c: 1}}}", usize::MAX),
    ] {
        let pipeline = format!("[{{$group: {{_id: '$a', {fields}}}}}]");
        let expected = run(&pipeline, &docs, usize::MAX, true).expect("groups");
        let op = Operation::for_tests(bytes_max);
        let source = ejson::parse_value(&pipeline).expect("a pipeline");
        let Val::Array(list) = source.get() else { panic!("an array") };
        let context = StageContext::of_view(ParseContext::new(0), "test");
        let parsed = stages::parse(list, &context).expect("compiles");
        let mut stream = open_stages(&parsed, Box::new(Halves(docs.clone())));
        let mut found = Vec::new();
        while let Some(doc) = stream.next(&op).expect("groups") {
            found.push(ejson::print(doc.raw(), ejson::Format::Canonical));
        }
        found.sort_unstable();
        assert!(found == expected, "{fields} with {bytes_max} bytes");
    }
}

#[test]
fn two_threads_give_the_error_of_either() {
    let mut docs = numbered(20_000, 3);
    docs.push(ejson::parse_doc("{a: 1, b: 'x'}").expect("a document"));
    for _ in 0..2 {
        let op = Operation::for_tests(usize::MAX);
        let source = ejson::parse_value("[{$group: {_id: '$a', s: {$sum: {$add: ['$b', 1]}}}}]");
        let source = source.expect("a pipeline");
        let Val::Array(list) = source.get() else { panic!("an array") };
        let context = StageContext::of_view(ParseContext::new(0), "test");
        let parsed = stages::parse(list, &context).expect("compiles");
        let mut stream = open_stages(&parsed, Box::new(Halves(docs.clone())));
        assert_eq!(stream.next(&op).err().map(|error| error.code().0), Some(14));
        // The other half has it now.
        docs.reverse();
    }
}

fn numbered(count: i32, keys: i32) -> Vec<DocBuf> {
    (0..count)
        .map(|n| {
            DocBuf::build(|out| {
                out.i32("_id", n).i32("a", n % keys).f64("b", f64::from(n) / 8.0);
                out.str("c", &format!("text {}", n % 7));
            })
        })
        .collect()
}

#[test]
fn groups_on_disk_give_what_groups_in_memory_give() {
    let docs = numbered(20_000, 6000);
    for fields in [
        "n: {$sum: 1}, s: {$sum: '$b'}, m: {$avg: '$b'}, lo: {$min: '$c'}, hi: {$max: '$b'}",
        "f: {$first: '$_id'}, l: {$last: '$_id'}, p: {$push: '$_id'}",
        "t: {$topN: {n: 2, output: '$_id', sortBy: {c: 1}}}, n: {$maxN: {n: 2, input: '$c'}}",
        "p: {$percentile: {input: '$b', p: [0.5, 0.9], method: 'approximate'}}, n: {$count: {}}",
    ] {
        let pipeline = format!("[{{$group: {{_id: '$a', {fields}}}}}]");
        let memory = run(&pipeline, &docs, usize::MAX, true).expect("groups");
        assert_eq!(memory.len(), 6000);
        // The last bound forces partitions of partitions.
        for bytes_max in [1 << 20, 200_000, 20_000] {
            let disk = run(&pipeline, &docs, bytes_max, true).expect("groups");
            assert!(disk == memory, "{fields} with {bytes_max} bytes");
        }
    }
}

#[test]
fn sets_on_disk_keep_their_members() {
    let docs = numbered(8000, 100);
    let pipeline =
        "[{$group: {_id: '$a', u: {$addToSet: '$_id'}}}, {$project: {u: {$size: '$u'}}}]";
    let memory = run(pipeline, &docs, usize::MAX, true).expect("groups");
    assert_eq!(memory.len(), 100);
    assert!(memory.iter().all(|doc| doc.contains(r#""u":{"$numberInt":"80"}"#)), "{:?}", memory[0]);
    assert_eq!(run(pipeline, &docs, 50_000, true).expect("groups"), memory);
}

#[test]
fn a_group_that_may_not_use_the_disk_fails_beyond_its_memory() {
    let docs = numbered(5000, 5000);
    let op = Operation::for_tests(10_000);
    op.set_disk_use(Some(false));
    let source = ejson::parse_value("[{$group: {_id: '$a'}}]").expect("a pipeline");
    let Val::Array(list) = source.get() else { panic!("an array") };
    let context = StageContext::of_view(ParseContext::new(0), "test");
    let parsed = stages::parse(list, &context).expect("compiles");
    let mut stream = open_stages(&parsed, Box::new(Ready(docs.into_iter())));
    assert_eq!(stream.next(&op).err().map(|error| error.code().0), Some(292));
}

#[test]
fn a_group_that_is_killed_stops_and_leaves_no_files() {
    let docs = numbered(20_000, 20_000);
    let op = Operation::for_tests(100_000);
    let source = ejson::parse_value("[{$group: {_id: '$a', n: {$sum: 1}}}]").expect("a pipeline");
    let Val::Array(list) = source.get() else { panic!("an array") };
    let context = StageContext::of_view(ParseContext::new(0), "test");
    let parsed = stages::parse(list, &context).expect("compiles");
    let mut stream = open_stages(&parsed, Box::new(Ready(docs.into_iter())));
    assert!(stream.next(&op).expect("groups").is_some());
    let folder = op.scratch().folder().to_owned();
    assert!(std::fs::read_dir(&folder).expect("has files").count() > 0);
    op.slot().killed.store(true, std::sync::atomic::Ordering::Relaxed);
    let stopped = (0..200).find_map(|_| stream.next(&op).err()).expect("stops");
    assert_eq!(stopped.code(), Code::INTERRUPTED);
    drop(stream);
    assert_eq!(std::fs::read_dir(&folder).expect("is there").count(), 0);
}

/// What an engine answers to a pipeline, found by an index or by reading all documents.
fn answers(engine: &crate::engine::Engine, pipeline: &str, hint: &str) -> Vec<String> {
    let command = format!("{{aggregate: 'c', pipeline: {pipeline}, cursor: {{}}, hint: {hint}}}");
    let command = ejson::parse_doc(&command).expect("a command");
    let reply = engine.run_command("t", command.as_doc()).expect("answers");
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
    let print = |value: Val<'_>| match value {
        Val::Document(doc) => ejson::print(doc, ejson::Format::Canonical),
        other => panic!("no document: {other:?}"),
    };
    batch.iter().map(|(_, doc)| print(doc.get())).collect()
}

/// Values with adjacent index keys, which only the data stored with the key distinguishes.
fn indexed_value() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0_i32..3).prop_map(|n| n.to_string()),
        1 => (0_i32..3).prop_map(|n| format!("{n}.0")),
        1 => (0_i32..3).prop_map(|n| format!("NumberLong({n})")),
        1 => Just("NumberLong(5000000000)".to_owned()),
        1 => Just("null".to_owned()),
        2 => "[ab]{0,2}".prop_map(|text| format!("'{text}'")),
        1 => Just("{x: 1}".to_owned()),
        1 => Just("ISODate('2020-01-01T00:00:00Z')".to_owned()),
    ]
}

const INDEXED: &[&str] = &[
    "[{$match: {a: 1}}, {$group: {_id: '$b', n: {$sum: 1}, s: {$sum: '$c'}}}]",
    "[{$match: {a: 1}}, {$group: {_id: '$b'}}]",
    "[{$match: {a: 1}}, {$group: {_id: '$c', lo: {$min: '$b'}, hi: {$max: '$b'}}}]",
    "[{$match: {a: 1, b: 1}}, {$group: {_id: {b: '$b', c: '$c'}, n: {$sum: 1}}}]",
    "[{$match: {a: {$gte: 0}}}, {$group: {_id: '$a', u: {$addToSet: '$b'}}}, \
      {$project: {u: {$size: '$u'}}}]",
    "[{$match: {a: {$in: [0, 2, 'a']}}}, {$group: {_id: '$a', f: {$sum: '$b'}, l: {$avg: '$b'}}}]",
    "[{$match: {a: {$in: [0, 1, 2]}}}, {$group: {_id: '$b', n: {$sum: 1}}}]",
    "[{$match: {a: {$gte: 0}}}, {$project: {k: '$b', v: {$ifNull: ['$c', 1]}}}, \
      {$group: {_id: '$k', n: {$sum: '$v'}}}]",
    "[{$match: {a: 1}}, {$group: {_id: {$type: '$b'}, n: {$sum: 1}}}]",
    "[{$match: {a: 1}}, {$group: {_id: '$b', lo: {$min: {$type: '$c'}}, \
      hi: {$max: {$type: '$c'}}, x: {$max: '$c'}, y: {$min: {$type: '$b'}}}}]",
    "[{$match: {a: 2}}, {$group: {_id: '$b', n: {$sum: 1}}}, {$sort: {n: -1, _id: 1}}, \
      {$limit: 2}]",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn groups_by_an_index_are_those_of_the_documents(
        docs in proptest::collection::vec(
            (indexed_value(), indexed_value(), proptest::option::of(indexed_value())), 1..60),
        descending: bool,
    ) {
        let engine = crate::engine::Engine::open(crate::engine::Options::default()).expect("opens");
        let run = |text: String| {
            let command = ejson::parse_doc(&text).expect("a command");
            engine.run_command("t", command.as_doc()).expect("works");
        };
        let docs: Vec<String> = docs
            .iter()
            .map(|(a, b, c)| {
                let c = c.as_ref().map_or(String::new(), |c| format!(", c: {c}"));
                format!("{{a: {a}, b: {b}{c}}}")
            })
            .collect();
        run(format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")));
        let order = if descending { -1 } else { 1 };
        run(format!(
            "{{createIndexes: 'c', indexes: [{{key: {{a: 1, b: {order}, c: 1}}, name: 'i'}}]}}"
        ));
        for pipeline in INDEXED {
            // Only the choice among equal keys depends on the order of the documents.
            let found = |hint| {
                let docs = answers(&engine, pipeline, hint);
                let mut docs: Vec<String> = docs.iter().map(|doc| untyped(doc)).collect();
                docs.sort_unstable();
                docs
            };
            prop_assert_eq!(found("'i'"), found("{$natural: 1}"), "{}", pipeline);
        }
    }
}

/// A printed document without the types of its numbers.
fn untyped(doc: &str) -> String {
    let mut text = doc.to_owned();
    for name in ["$numberInt", "$numberLong", "$numberDouble"] {
        text = text.replace(name, "number");
    }
    text.replace(".0\"", "\"")
}
