//! What open cursors keep from being removed: it is shown, it is bounded, and it is no memory.
#![allow(clippy::unwrap_used)]

use motifdb::{Engine, Options};
use store::{DiskStore, Store};
use value::ejson;
use value::{DocBuf, Val};

const MEMORY: u64 = 64 << 10;
const DOCUMENTS: u64 = 200;

fn run(engine: &Engine, db: &str, text: &str) -> Result<DocBuf, i32> {
    let command = ejson::parse_doc(text).expect("test text");
    engine.run_command(db, command.as_doc()).map_err(|error| error.code().0)
}

fn number(doc: &DocBuf, path: &[&str]) -> i64 {
    let mut value = Val::Document(doc.as_doc());
    for name in path {
        value = value.as_doc().and_then(|doc| doc.get(name)).unwrap_or_else(|| panic!("{path:?}"));
    }
    value.as_i64_exact().unwrap_or_else(|| panic!("{path:?}: {value:?}"))
}

/// A document that cannot be compressed much.
fn pad(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    };
    std::iter::repeat_with(next).take(60).collect()
}

/// A folder in memory where there is one: what a disk would add is time.
fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn open_engine(folder: &std::path::Path) -> Engine {
    let options = store::Options {
        cache_bytes: 1 << 20,
        memtable_bytes: MEMORY,
        segment_bytes: 64 << 10,
        ..store::Options::default()
    };
    let store: Box<dyn Store> = Box::new(DiskStore::open(folder, options).unwrap());
    Engine::with_store(Options::default(), store).unwrap()
}

fn update(engine: &Engine, round: u64) {
    for id in 0..DOCUMENTS {
        let pad = pad(round * DOCUMENTS + id);
        let update = format!(
            "{{update: 'c', updates: [{{q: {{_id: {id}}}, u: {{$set: {{pad: '{pad}'}}}}}}], \
             writeConcern: {{w: 1, j: false}}}}"
        );
        run(engine, "t", &update).unwrap();
    }
}

fn memory(status: &DocBuf) -> i64 {
    let spaces = ["catalog", "documents", "indexes", "log"];
    spaces.iter().map(|space| number(status, &["store", space, "memoryBytes"])).sum()
}

#[test]
fn what_a_cursor_keeps_is_shown_and_bounded() {
    let folder = memory_folder();
    let engine = open_engine(folder.path());
    for id in 0..DOCUMENTS {
        let insert = format!("{{insert: 'c', documents: [{{_id: {id}, pad: '{}'}}]}}", pad(id));
        run(&engine, "t", &insert).unwrap();
    }
    // No state is kept for readers of the past, so that everything is kept for the cursors.
    run(&engine, "admin", "{setParameter: 1, minSnapshotHistoryWindowInSeconds: 0}").unwrap();
    let open = |more: &str| {
        let reply = run(&engine, "t", &format!("{{find: 'c', batchSize: 2{more}}}")).unwrap();
        number(&reply, &["cursor", "id"])
    };
    let plain = open("");
    let snapshot = open(", readConcern: {level: 'snapshot'}");
    let get_more = |id: i64| {
        let command = format!("{{getMore: NumberLong('{id}'), collection: 'c', batchSize: 2}}");
        run(&engine, "t", &command).map(drop)
    };
    let pinned_by = |id: i64| {
        let list = "{aggregate: 1, pipeline: [{$currentOp: {idleCursors: true}}, {$match: {type: \
                    'idleCursor', 'cursor.cursorId': NumberLong('ID')}}], cursor: {}}";
        let reply = run(&engine, "admin", &list.replace("ID", &id.to_string())).unwrap();
        let batch = reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap();
        let rows = batch.get("firstBatch").and_then(Val::as_array).unwrap();
        let (_, row) = rows.iter().next().expect("a row of the cursor");
        let cursor = row.get().as_doc().unwrap().get("cursor").and_then(Val::as_doc).unwrap();
        assert_eq!(cursor.get("nDocsReturned").and_then(Val::as_i64_exact), Some(2));
        cursor.get("pinnedBytes").and_then(Val::as_i64_exact).unwrap()
    };
    assert_eq!((pinned_by(plain), pinned_by(snapshot)), (0, 0));
    let status = || run(&engine, "admin", "{serverStatus: 1}").unwrap();
    let mut round = 1;
    let mut shown = 0;
    // Some documents are in several tables by now. None of their memory is kept.
    while shown == 0 {
        update(&engine, round);
        round += 1;
        assert!(round < 500, "nothing was kept for the cursors");
        shown = pinned_by(plain).min(pinned_by(snapshot));
        let memory = memory(&status());
        assert!(memory <= 4 * MEMORY as i64, "{memory} bytes of memory in round {round}");
    }
    assert!(number(&status(), &["store", "pinnedBytes"]) >= shown);
    assert_eq!(number(&status(), &["store", "expiredSnapshots"]), 0);
    let limit = "{setParameter: 1, maxSnapshotRetentionMegabytes: 1}";
    run(&engine, "admin", limit).unwrap();
    while number(&status(), &["store", "expiredSnapshots"]) == 0 {
        update(&engine, round);
        round += 1;
        assert!(round < 500, "no cursor ended");
        let pinned = number(&status(), &["store", "pinnedBytes"]);
        assert!(pinned < 4 << 20, "{pinned} bytes are kept");
    }
    // Each with its own code: QueryPlanKilled and SnapshotTooOld. Then they are gone.
    let end = |id: i64| (0..DOCUMENTS).find_map(|_| get_more(id).err());
    assert_eq!(end(plain), Some(175));
    assert_eq!(end(snapshot), Some(239));
    assert_eq!(end(plain), Some(43));
    // Others read on.
    let count = run(&engine, "t", "{count: 'c'}").unwrap();
    assert_eq!(number(&count, &["n"]), DOCUMENTS as i64);
    update(&engine, round);
    assert_eq!(get_more(open("")), Ok(()));
}

#[test]
fn bounds_of_snapshots_are_parameters() {
    let folder = memory_folder();
    let engine = open_engine(folder.path());
    let get =
        "{getParameter: 1, maxSnapshotRetentionMegabytes: 1, snapshotLifetimeLimitSeconds: 1}";
    let values = || {
        let reply = run(&engine, "admin", get).unwrap();
        let get = |name: &str| number(&reply, &[name]);
        (get("maxSnapshotRetentionMegabytes"), get("snapshotLifetimeLimitSeconds"))
    };
    assert_eq!(values(), (16 << 10, 24 * 3600));
    let set = |text: &str| run(&engine, "admin", &format!("{{setParameter: 1, {text}}}")).map(drop);
    set("maxSnapshotRetentionMegabytes: 100, snapshotLifetimeLimitSeconds: 60").unwrap();
    assert_eq!(values(), (100, 60));
    for wrong in ["maxSnapshotRetentionMegabytes: 0", "snapshotLifetimeLimitSeconds: 'x'"] {
        assert_eq!(set(wrong), Err(2), "{wrong}");
    }
    assert_eq!(values(), (100, 60));
    // In memory nothing is bounded, and nothing pretends to be.
    let memory = Engine::open(Options::default()).unwrap();
    let set = "{setParameter: 1, maxSnapshotRetentionMegabytes: 100}";
    assert_eq!(run(&memory, "admin", set).map(drop), Err(2));
}
