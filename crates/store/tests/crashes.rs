//! Power goes at every write and flush of the log in turn. Afterwards every batch that was
//! acknowledged is there, none is there in part, and batches are there in order.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{Model, apply, assert_same, memory_folder, tiny};
use faults::{Fault, FaultPlan, FaultStore};
use store::{Batch, Bytes, DiskStore, Options, Space, Store, StoreError};

/// Batch `number` of the workload: it touches all spaces, overwrites and deletes what earlier ones
/// wrote, and now and then is larger than a log segment. Of every other one the document is a part of
/// what goes to the log of changes, in the same memory.
fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    let size = if number % 13 == 12 { 20_000 } else { 20 + (number * 37 % 900) as usize };
    let slot = (number % 7).to_be_bytes();
    batch.put(Space::Catalog, b"last", &number.to_be_bytes());
    let document = vec![number as u8; size];
    batch.put(Space::Documents, &slot, &document);
    batch.put(Space::Indexes, &[slot.as_slice(), &number.to_be_bytes()].concat(), b"");
    if number.is_multiple_of(2) {
        let text = [slot.as_slice(), &document, &slot].concat();
        let (record, parts) = Bytes::copy_with_parts(&text, std::iter::once(8..8 + size));
        let shared = parts.map(|part| (Bytes::copy_from(&slot), part)).collect();
        batch.share(Space::Documents, shared);
        batch.put_owned(Space::Log, number.to_be_bytes().to_vec(), record);
    } else {
        batch.put(Space::Log, &number.to_be_bytes(), &slot);
    }
    if number >= 7 {
        batch.delete(Space::Indexes, &[slot.as_slice(), &(number - 7).to_be_bytes()].concat());
    }
    batch
}

const BATCHES: u64 = 40;

/// Writes until the fault stops it. Returns how many batches were written and acknowledged.
fn work(store: &dyn Store, from: u64) -> (u64, u64) {
    let (mut written, mut acknowledged) = (from, from);
    for number in from..BATCHES {
        let Ok(seqno) = store.write(&batch(number)) else { break };
        written = number + 1;
        // Groups of several batches, so that a torn write can hold more than one.
        if number % 3 != 1 {
            if store.sync(seqno).is_err() {
                break;
            }
            acknowledged = written;
        }
        if number % 17 == 16 && store.checkpoint().is_err() {
            break;
        }
    }
    (written, acknowledged)
}

fn model(batches: u64) -> Model {
    let mut model = Model::new();
    (0..batches).for_each(|number| apply(&mut model, &batch(number)));
    model
}

/// Opens the folder after a crash, checks what is there, and returns how many batches that is.
fn check(folder: &Path, written: u64, acknowledged: u64, what: &str) -> u64 {
    let store = unlocked(|| DiskStore::open(folder, quiet()))
        .unwrap_or_else(|error| panic!("{what}: cannot open: {error}"));
    let snapshot = store.snapshot();
    let last = snapshot.get(Space::Catalog, b"last").unwrap();
    let present = last.map_or(0, |last| u64::from_be_bytes((*last).try_into().unwrap()) + 1);
    assert!(present >= acknowledged, "{what}: {acknowledged} acknowledged, {present} present");
    assert!(present <= written, "{what}: {written} written, {present} present");
    assert_same(&snapshot, &model(present));
    assert_eq!(store.verify(&mut |_, _| {}).unwrap(), vec![], "{what}");
    present
}

/// The workload decides when the log is flushed, so that a sweep meets every case.
fn quiet() -> Options {
    Options { sync_interval: Duration::from_secs(3600), ..tiny() }
}

/// The same, every other time with a cache that is much smaller than the data.
fn quiet_or_small(number: u64) -> Options {
    if number.is_multiple_of(2) {
        return quiet();
    }
    Options { cache_bytes: 4 << 10, page_bytes: 400, memtable_bytes: 4 << 10, ..quiet() }
}

/// Opens a folder. A test beside this one may be starting a process at this moment, which holds a
/// copy of the folder's lock until it runs its own program: then wait a little.
fn unlocked<T>(open: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 0..3000 {
        match open() {
            Err(StoreError::Locked { .. }) => std::thread::sleep(Duration::from_millis(10)),
            result => return result,
        }
    }
    open()
}

fn sweep(fault: Fault) {
    let mut fired = 0;
    for nth in 0.. {
        let folder = memory_folder();
        let plan = FaultPlan::new(fault, nth);
        let what = format!("{fault:?} at {nth}");
        let options = quiet_or_small(nth);
        let open =
            |plan| unlocked(|| FaultStore::open(folder.path(), options.clone(), Arc::clone(&plan)));
        let Ok(store) = open(plan.clone()) else {
            assert!(plan.fired(), "{what}");
            check(folder.path(), 0, 0, &what);
            continue;
        };
        let (written, acknowledged) = work(&store, 0);
        let done = !plan.fired();
        store.crash();
        let present = check(folder.path(), written, acknowledged, &what);
        if done {
            assert_eq!(acknowledged, BATCHES - 1 + u64::from((BATCHES - 1) % 3 != 1));
            break;
        }
        fired += 1;
        // A second crash at once, then the work goes on where it ended, and a third.
        let second = open(FaultPlan::none()).unwrap();
        second.crash();
        let again = check(folder.path(), present, present, &what);
        let third = open(FaultPlan::none()).unwrap();
        let (written, acknowledged) = work(&third, again);
        assert_eq!(written, BATCHES, "{what}");
        third.crash();
        check(folder.path(), written, acknowledged, &what);
    }
    assert!(fired > 20, "{fault:?} was tried only {fired} times");
}

#[test]
fn torn_writes() {
    sweep(Fault::TearWrite);
}

#[test]
fn scattered_writes() {
    sweep(Fault::ScatterWrite);
}

#[test]
fn forgotten_writes() {
    sweep(Fault::ForgetBeforeSync);
}

#[test]
fn power_goes_after_a_flush() {
    sweep(Fault::StopAfterSync);
}

#[test]
fn failed_writes() {
    sweep(Fault::FailWrite);
}

#[test]
fn failed_flushes() {
    sweep(Fault::FailSync);
}

/// The child of the next test: writes until it is killed, and says what it has acknowledged.
#[test]
fn killed_child() {
    use std::io::Write;
    let Ok(folder) = std::env::var("STORE_TEST_KILL_FOLDER") else { return };
    let small = Options { cache_bytes: 4 << 10, page_bytes: 400, ..tiny() };
    let options = if std::process::id().is_multiple_of(2) { tiny() } else { small };
    let store = unlocked(|| DiskStore::open(&folder, options.clone())).unwrap();
    let last = store.snapshot().get(Space::Catalog, b"last").unwrap();
    let from = last.map_or(0, |last| u64::from_be_bytes((*last).try_into().unwrap()) + 1);
    for number in from.. {
        let seqno = store.write(&batch(number)).unwrap();
        if number % 5 == 0 {
            store.sync(seqno).unwrap();
            let mut output = std::io::stdout();
            writeln!(output, "acknowledged {}", number + 1).unwrap();
            output.flush().unwrap();
        }
    }
}

#[test]
fn killed_processes() {
    use std::io::BufRead;
    let folder = tempfile::tempdir().unwrap();
    let mut most = 0;
    let begun = std::time::Instant::now();
    // On a slow machine the first ones do not come far.
    for round in 0.. {
        if round >= 12 && (most > 100 || begun.elapsed() > Duration::from_secs(120)) {
            break;
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["killed_child", "--exact", "--nocapture"])
            .env("STORE_TEST_KILL_FOLDER", folder.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let output = std::io::BufReader::new(child.stdout.take().unwrap());
        let (begins, begun) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let numbers = output.lines().filter_map(|line| {
                line.unwrap().rsplit_once("acknowledged ")?.1.parse::<u64>().ok()
            });
            let tell = |_: &u64| {
                let _ = begins.send(());
            };
            numbers.inspect(tell).last()
        });
        // Every other one is killed wherever it is, be it still opening; the rest while they write.
        if round % 2 == 1 {
            begun.recv_timeout(Duration::from_secs(60)).expect("the child writes");
        }
        std::thread::sleep(Duration::from_millis(60 + (round % 12) * 23));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = reader.join().unwrap().unwrap_or(0).max(most);
        most = check(folder.path(), u64::MAX, acknowledged, &format!("round {round}"));
    }
    assert!(most > 100, "only {most} batches were written");
}

#[test]
fn after_a_failed_flush_writing_stops_and_reading_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan::new(Fault::FailSync, 3);
    let store = unlocked(|| FaultStore::open(folder.path(), quiet(), plan.clone())).unwrap();
    let mut number = 0;
    let error = loop {
        let seqno = store.write(&batch(number)).unwrap();
        number += 1;
        if let Err(error) = store.sync(seqno) {
            break error;
        }
    };
    assert!(matches!(error, StoreError::Poisoned { .. }), "{error}");
    assert!(error.to_string().contains("injected flush failure"), "{error}");
    assert!(matches!(store.write(&batch(number)), Err(StoreError::Poisoned { .. })));
    assert!(matches!(store.checkpoint(), Err(StoreError::Poisoned { .. })));
    assert_same(&store.snapshot(), &model(number));
}

#[test]
fn a_full_disk_refuses_writes_whole_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan::new(Fault::NoSpace, 3);
    // Nothing is flushed to tables by itself, so that log segments pile up.
    let options = Options { memtable_bytes: 64 << 20, ..quiet() };
    let store = FaultStore::open(folder.path(), options, plan.clone()).unwrap();
    let mut number = 0;
    let mut refusals = 0;
    // Ten times in a row, because a spare segment may be in the making at the first time.
    while refusals < 10 {
        match store.write(&batch(number)) {
            Ok(_) => (number, refusals) = (number + 1, 0),
            Err(error) => {
                assert!(matches!(error, StoreError::Full), "{error}");
                refusals += 1;
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        assert!(number < 10_000);
    }
    assert_same(&store.snapshot(), &model(number));
    store.sync(store.snapshot().seqno()).unwrap();
    assert!(matches!(store.write(&batch(number)), Err(StoreError::Full)));
    plan.make_room();
    for _ in 0..20 {
        let seqno = store.write(&batch(number)).unwrap();
        store.sync(seqno).unwrap();
        number += 1;
    }
    assert_same(&store.snapshot(), &model(number));
    store.crash();
    assert_eq!(check(folder.path(), number, number, "after a full disk"), number);
}

#[test]
fn unsynced_batches_reach_the_disk_soon() {
    let folder = tempfile::tempdir().unwrap();
    let store = FaultStore::open(folder.path(), tiny(), FaultPlan::none()).unwrap();
    let seqno = store.write(&batch(0)).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while store.stats().durable < seqno {
        assert!(std::time::Instant::now() < deadline, "the batch is not on disk");
        std::thread::sleep(Duration::from_millis(10));
    }
    store.crash();
    check(folder.path(), 1, 1, "after the interval");
}

#[test]
fn dropped_ranges_are_remembered_after_a_crash() {
    for flush in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store =
            unlocked(|| FaultStore::open(folder.path(), quiet(), FaultPlan::none())).unwrap();
        let mut batch = Batch::new();
        for number in 0..100_u8 {
            batch.put(Space::Documents, &[1, number], &[number; 100]);
            batch.put(Space::Documents, &[2, number], &[number; 100]);
        }
        store.write(&batch).unwrap();
        if flush {
            store.checkpoint().unwrap();
        }
        store.delete_range(Space::Documents, &[1], &[2]).unwrap();
        let seqno = store.write(&self::batch(0)).unwrap();
        store.sync(seqno).unwrap();
        store.crash();
        let store = unlocked(|| DiskStore::open(folder.path(), quiet())).unwrap();
        store.checkpoint().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while store.approximate_range_bytes(Space::Documents, &[1], &[2]) > 0 {
            assert!(std::time::Instant::now() < deadline, "the range is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(store.snapshot().get(Space::Documents, &[2, 50]).unwrap().is_some());
    }
}
