//! Reading the past: every time that a client was told reads as it was, whatever was written since.
#![allow(clippy::unwrap_used)]

use motifdb::{Engine, Options, Storage};
use proptest::prelude::*;
use std::collections::BTreeMap;
use store::{DiskStore, MemoryStore, Store};
use value::ejson::{self, Format};
use value::{DocBuf, Val};

/// An engine with what the tests ask of it.
struct Bench {
    engine: Engine,
}

impl Bench {
    fn new(store: Box<dyn Store>) -> Bench {
        Bench { engine: Engine::with_store(Options::default(), store).unwrap() }
    }

    /// A store that flushes and merges all the time.
    fn on_disk(folder: &std::path::Path) -> Bench {
        let options = store::Options {
            cache_bytes: 1 << 20,
            memtable_bytes: 16 << 10,
            segment_bytes: 8 << 10,
            page_bytes: 2 << 10,
            ..store::Options::default()
        };
        Bench::new(Box::new(DiskStore::open(folder, options).unwrap()))
    }

    fn try_run(&self, text: &str) -> Result<DocBuf, i32> {
        let command = ejson::parse_doc(text).expect("test text");
        self.engine.run_command("t", command.as_doc()).map_err(|error| error.code().0)
    }

    /// Runs a command; returns its operation time.
    fn run(&self, text: &str) -> u64 {
        let reply = self.try_run(text).unwrap_or_else(|code| panic!("{text} fails with {code}"));
        match reply.as_doc().get("operationTime") {
            Some(Val::Timestamp(time)) => time,
            other => panic!("no operation time: {other:?}"),
        }
    }

    /// The documents that a find or an aggregate returns at a time, or the code of its error.
    fn at(&self, command: &str, time: u64) -> Result<Vec<String>, i32> {
        let reply = self.try_run(&with_concern(command, time))?;
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap();
        let batch = cursor.get("firstBatch").and_then(Val::as_array).unwrap();
        Ok(batch.iter().map(|(_, doc)| ejson::print_value(doc.get(), Format::Shell)).collect())
    }
}

fn with_concern(command: &str, time: u64) -> String {
    let (seconds, count) = (time >> 32, time & 0xFFFF_FFFF);
    let concern =
        format!("readConcern: {{level: 'snapshot', atClusterTime: Timestamp({seconds}, {count})}}");
    format!("{}, {concern}}}", command.strip_suffix('}').unwrap())
}

/// One random step.
#[derive(Clone, Debug)]
enum Step {
    Insert(u8, u8),
    Set(u8, u8),
    SetMany(u8, u8),
    Delete(u8),
    MakeIndex,
    DropIndex,
    /// Read at this share of the times so far.
    Read(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..60, any::<u8>()).prop_map(|(id, a)| Step::Insert(id, a)),
        4 => (0_u8..60, any::<u8>()).prop_map(|(id, a)| Step::Set(id, a)),
        1 => (0_u8..60, any::<u8>()).prop_map(|(id, a)| Step::SetMany(id, a)),
        2 => (0_u8..60).prop_map(Step::Delete),
        1 => Just(Step::MakeIndex),
        1 => Just(Step::DropIndex),
        3 => any::<u8>().prop_map(Step::Read),
    ]
}

type Model = BTreeMap<u8, u8>;

/// Reads one time in several ways: all of it, by a scan and by an index, one by `_id`, a count.
fn check(bench: &Bench, time: u64, model: &Model) {
    let show = |(id, a): (&u8, &u8)| format!("{{ _id: {id}, a: {a} }}");
    let project = "projection: {pad: 0}, batchSize: 1000";
    let all = bench.at(&format!("{{find: 'c', sort: {{_id: 1}}, {project}}}"), time).unwrap();
    assert_eq!(all, model.iter().map(show).collect::<Vec<_>>(), "at {time:x}");
    let upper = bench
        .at(
            &format!("{{find: 'c', filter: {{a: {{$gte: 128}}}}, sort: {{_id: 1}}, {project}}}"),
            time,
        )
        .unwrap();
    let expected: Vec<_> = model.iter().filter(|(_, a)| **a >= 128).map(show).collect();
    assert_eq!(upper, expected);
    if let Some((id, a)) = model.iter().next() {
        let one = bench.at(&format!("{{find: 'c', filter: {{_id: {id}}}, {project}}}"), time);
        assert_eq!(one.unwrap(), vec![show((id, a))]);
    }
    let counted =
        bench.at("{aggregate: 'c', pipeline: [{$count: 'n'}], cursor: {}}", time).unwrap();
    let expected = (!model.is_empty()).then(|| format!("{{ n: {} }}", model.len()));
    assert_eq!(counted, expected.into_iter().collect::<Vec<_>>());
    let distinct = bench.try_run(&with_concern("{distinct: 'c', key: 'a'}", time)).unwrap();
    let values = distinct.as_doc().get("values").and_then(Val::as_array).unwrap().iter().count();
    let mut expected: Vec<_> = model.values().collect();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(values, expected.len());
}

fn run(bench: &Bench, steps: &[Step]) {
    let mut model = Model::new();
    let begun = bench.run("{create: 'c'}");
    let mut states = vec![(begun, model.clone())];
    let pad = "x".repeat(300);
    for step in steps {
        let time = match step {
            Step::Insert(id, a) => {
                if model.contains_key(id) {
                    continue;
                }
                model.insert(*id, *a);
                bench.run(&format!(
                    "{{insert: 'c', documents: [{{_id: {id}, a: {a}, pad: '{pad}'}}]}}"
                ))
            }
            Step::Set(id, a) => {
                model.entry(*id).and_modify(|old| *old = *a);
                bench.run(&format!(
                    "{{update: 'c', updates: [{{q: {{_id: {id}}}, u: {{$set: {{a: {a}}}}}}}]}}"
                ))
            }
            Step::SetMany(from, a) => {
                model.range_mut(from..).for_each(|(_, old)| *old = *a);
                bench.run(&format!(
                    "{{update: 'c', updates: [{{q: {{_id: {{$gte: {from}}}}}, u: {{$set: {{a: {a}}}}}, multi: true}}]}}"
                ))
            }
            Step::Delete(id) => {
                model.remove(id);
                bench.run(&format!("{{delete: 'c', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"))
            }
            Step::MakeIndex => {
                bench.run("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}")
            }
            Step::DropIndex => match bench.try_run("{dropIndexes: 'c', index: 'a'}") {
                Ok(_) => bench.run("{ping: 1}"),
                Err(_) => continue,
            },
            Step::Read(share) => {
                let (time, model) = &states[usize::from(*share) * states.len() / 256];
                check(bench, *time, model);
                continue;
            }
        };
        states.push((time, model.clone()));
    }
    for (time, model) in states.iter().step_by(1 + states.len() / 40) {
        check(bench, *time, model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_time_reads_as_it_was_in_memory(steps in proptest::collection::vec(step(), 10..200)) {
        run(&Bench::new(Box::new(MemoryStore::new())), &steps);
    }

    #[test]
    fn every_time_reads_as_it_was_on_disk(steps in proptest::collection::vec(step(), 10..200)) {
        let folder = tempfile::tempdir().unwrap();
        run(&Bench::on_disk(folder.path()), &steps);
    }
}

#[test]
fn collections_that_came_went_or_were_renamed_since_are_refused() {
    let bench = Bench::new(Box::new(MemoryStore::new()));
    for name in ["kept", "dropped", "again", "renamed"] {
        bench.run(&format!("{{insert: '{name}', documents: [{{_id: 1}}]}}"));
    }
    let then = bench.run("{insert: 'kept', documents: [{_id: 2}]}");
    bench.run("{insert: 'later', documents: [{_id: 1}]}");
    bench.run("{drop: 'dropped'}");
    bench.run("{drop: 'again'}");
    bench.run("{insert: 'again', documents: [{_id: 1}]}");
    let rename =
        ejson::parse_doc("{renameCollection: 't.renamed', to: 't.other'}").expect("test text");
    bench.engine.run_command("admin", rename.as_doc()).unwrap();
    bench.run("{collMod: 'kept', validator: {b: 1}}");
    bench.run("{insert: 'kept', documents: [{_id: 3, b: 1}]}");
    let find = |name: &str| bench.at(&format!("{{find: '{name}'}}"), then);
    assert_eq!(find("kept").unwrap(), ["{ _id: 1 }", "{ _id: 2 }"]);
    assert_eq!(find("never"), Ok(Vec::new()));
    for name in ["later", "dropped", "again", "renamed", "other"] {
        assert_eq!(find(name), Err(246), "{name}");
        let join = format!(
            "{{aggregate: 'kept', pipeline: [{{$lookup: {{from: '{name}', localField: '_id', \
             foreignField: '_id', as: 'x'}}}}], cursor: {{}}}}"
        );
        assert_eq!(bench.at(&join, then), Err(246), "{name}");
        let distinct = with_concern(&format!("{{distinct: '{name}', key: '_id'}}"), then);
        assert_eq!(bench.try_run(&distinct).err(), Some(246), "{name}");
    }
    let now = bench.run("{ping: 1}");
    assert_eq!(bench.at("{find: 'later'}", now).unwrap(), ["{ _id: 1 }"]);
    assert_eq!(bench.at("{find: 'dropped'}", now), Ok(Vec::new()));
}

#[test]
fn indexes_that_came_or_went_since_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::on_disk(folder.path());
    let then = bench.run("{insert: 'c', documents: [{_id: 1, a: 5}, {_id: 2, a: 5}]}");
    bench.run("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1'}]}");
    let with_index = bench.run("{insert: 'c', documents: [{_id: 3, a: 5}]}");
    bench.run("{delete: 'c', deletes: [{q: {_id: 1}, limit: 1}]}");
    let find = "{find: 'c', filter: {a: 5}}";
    let hinted = "{find: 'c', filter: {a: 5}, hint: 'a_1'}";
    assert_eq!(bench.at(find, then).unwrap().len(), 2);
    assert_eq!(bench.at(hinted, then), Err(2));
    assert_eq!(bench.at(hinted, with_index).unwrap().len(), 3);
    bench.run("{dropIndexes: 'c', index: 'a_1'}");
    assert_eq!(bench.at(find, with_index).unwrap().len(), 3);
    assert_eq!(bench.at(hinted, with_index), Err(2));
}

#[test]
fn what_is_outside_of_the_window_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = || {
        let storage = Storage::Disk(folder.path().to_owned());
        Bench { engine: Engine::open(Options { storage, ..Options::default() }).unwrap() }
    };
    let bench = engine();
    let first = bench.run("{insert: 'c', documents: [{_id: 1}]}");
    let second = bench.run("{insert: 'c', documents: [{_id: 2}]}");
    assert_eq!(bench.at("{find: 'c'}", first).unwrap().len(), 1);
    assert_eq!(bench.at("{find: 'c'}", 1000 << 32).err(), Some(239));
    assert_eq!(bench.at("{find: 'c'}", second + 1).err(), Some(72), "it is not there yet");
    bench.engine.close().unwrap();
    drop(bench);
    // The past begins anew with the process.
    let bench = engine();
    let third = bench.run("{insert: 'c', documents: [{_id: 3}]}");
    let fourth = bench.run("{delete: 'c', deletes: [{q: {}, limit: 0}]}");
    assert_eq!(bench.at("{find: 'c'}", first).err(), Some(239));
    assert_eq!(bench.at("{find: 'c'}", third).unwrap().len(), 3);
    let set = |seconds: i32| {
        let text = format!("{{setParameter: 1, minSnapshotHistoryWindowInSeconds: {seconds}}}");
        let command = ejson::parse_doc(&text).expect("test text");
        bench.engine.run_command("admin", command.as_doc()).unwrap();
    };
    set(1);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while bench.at("{find: 'c'}", third).is_ok() {
        assert!(std::time::Instant::now() < end, "the window does not move");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(bench.at("{find: 'c'}", third).err(), Some(239));
    assert_eq!(bench.at("{find: 'c'}", fourth), Ok(Vec::new()), "nothing has changed since");
    set(0);
    assert_eq!(bench.at("{find: 'c'}", fourth), Ok(Vec::new()));
}

#[test]
fn a_transaction_reads_the_time_that_it_begins_with() {
    let bench = Bench::new(Box::new(MemoryStore::new()));
    bench.run("{create: 'new'}");
    let then = bench.run("{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 1}]}");
    bench.run("{update: 'c', updates: [{q: {_id: 1}, u: {$set: {a: 2}}}]}");
    bench.run("{insert: 'later', documents: [{_id: 1}]}");
    let number = std::cell::Cell::new(0);
    // A session for each: the record of one that has written since the time would conflict.
    let session =
        || format!("lsid: {{id: UUID('00000000-0000-4000-8000-00000000000{}')}}", number.get());
    let begin = |command: &str, time: u64| {
        number.set(number.get() + 1);
        let command = command.strip_suffix('}').unwrap();
        bench.try_run(&with_concern(
            &format!(
                "{command}, {}, txnNumber: NumberLong({}), autocommit: false, \
                 startTransaction: true}}",
                session(),
                number.get()
            ),
            time,
        ))
    };
    let go_on = |command: &str| {
        let command = command.strip_suffix('}').unwrap();
        bench.try_run(&format!(
            "{command}, {}, txnNumber: NumberLong({}), autocommit: false}}",
            session(),
            number.get()
        ))
    };
    let end = || {
        let text = format!(
            "{{commitTransaction: 1, {}, txnNumber: NumberLong({}), autocommit: false}}",
            session(),
            number.get()
        );
        let command = ejson::parse_doc(&text).expect("test text");
        bench.engine.run_command("admin", command.as_doc()).map_err(|error| error.code().0)
    };
    let documents = |reply: &DocBuf| {
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap();
        ejson::print_value(cursor.get("firstBatch").unwrap(), Format::Shell)
    };
    let read = begin("{find: 'c', filter: {a: 1}}", then).unwrap();
    assert_eq!(documents(&read), "[{ _id: 1, a: 1 }, { _id: 2, a: 1 }]");
    go_on("{update: 'c', updates: [{q: {_id: 2}, u: {$set: {a: 9}}}]}").unwrap();
    assert_eq!(documents(&go_on("{find: 'c'}").unwrap()), "[{ _id: 1, a: 1 }, { _id: 2, a: 9 }]");
    end().unwrap();
    let now = bench.run("{ping: 1}");
    assert_eq!(bench.at("{find: 'c'}", now).unwrap(), ["{ _id: 1, a: 2 }", "{ _id: 2, a: 9 }"]);
    // What was written since the time conflicts; what was made since cannot be read.
    begin("{find: 'c'}", then).unwrap();
    let update = "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {a: 7}}}]}";
    assert_eq!(go_on(update).err(), Some(112));
    assert_eq!(end().err(), Some(251));
    assert_eq!(begin("{find: 'later'}", then).err(), Some(246));
    assert_eq!(begin("{insert: 'later', documents: [{_id: 2}]}", then).err(), Some(246));
    assert_eq!(begin("{find: 'c'}", 1000 << 32).err(), Some(239));
    assert_eq!(end().err(), Some(251));
    begin("{insert: 'new', documents: [{_id: 5}]}", then).unwrap();
    end().unwrap();
}
