//! Measures the disk store: durable writes by 1, 8 and 64 threads, a load of documents, point
//! reads, scans in both directions, opening. Run with
//! `cargo run --release -p motif-store --example store_bench -- [folder] [documents]`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use store::{Batch, Direction, DiskStore, Options, Space, Store};

const DOCUMENT: usize = 400;
/// All keys have one prefix, as those of a collection do.
const PREFIX: [u8; 4] = [0, 0, 0, 7];
const END: [u8; 4] = [0, 0, 0, 8];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "/tmp/store-bench".to_string());
    let documents: u64 = arguments.next().map_or(200_000, |count| count.parse().unwrap());
    let _ = std::fs::remove_dir_all(&folder);

    let start = Instant::now();
    let store = DiskStore::open(&folder, Options::default()).unwrap();
    println!("open an empty folder      {:>10.1} ms, {} MB resident", ms(start), resident());

    load(&store, documents);
    let start = Instant::now();
    store.checkpoint().unwrap();
    println!("checkpoint                {:>10.1} ms", ms(start));
    std::thread::sleep(Duration::from_millis(1500));
    reads(&store, documents);
    for threads in [1, 8, 64] {
        durable_writes(&store, threads, documents);
    }
    overwrite(&store, documents);
    reads(&store, documents);
    println!("{:#?}", store.stats());
    println!("resident                  {:>10} MB", resident());

    let start = Instant::now();
    drop(store);
    println!("drop without checkpoint   {:>10.1} ms", ms(start));
    let start = Instant::now();
    let store = DiskStore::open(&folder, Options::default()).unwrap();
    println!("open with a log to replay {:>10.1} ms", ms(start));
    store.close().unwrap();
    drop(store);
    let start = Instant::now();
    let store = DiskStore::open(&folder, Options::default()).unwrap();
    println!("open after closing        {:>10.1} ms", ms(start));
    let start = Instant::now();
    let damage = store.verify(&mut |_, _| {}).unwrap();
    println!("verify                    {:>10.1} ms, {} damaged", ms(start), damage.len());
    drop(store);
    let _ = std::fs::remove_dir_all(&folder);
}

fn key(number: u64) -> [u8; 13] {
    let mut key = [0; 13];
    key[..4].copy_from_slice(&PREFIX);
    key[4] = 0x30;
    // Spread like object ids are not: the worst case for the memtable, the usual for a scan.
    key[5..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Text-like bytes that compress about as well as BSON documents do.
fn document(number: u64) -> Vec<u8> {
    let mut document = Vec::with_capacity(DOCUMENT);
    let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while document.len() < DOCUMENT {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        document.extend_from_slice(b"\x02name\x00");
        document.extend_from_slice(format!("{:010}", random % 10_000_000_000).as_bytes());
    }
    document.truncate(DOCUMENT);
    document
}

fn load(store: &DiskStore, documents: u64) {
    let start = Instant::now();
    let mut batch = Batch::new();
    for number in 0..documents {
        batch.put(Space::Documents, &key(number), &document(number));
        batch.put(Space::Indexes, &[&[1, 2, 3, 4], &document(number)[5..20]].concat(), b"");
        if batch.len() >= 2000 {
            let seqno = store.write(&batch).unwrap();
            store.sync(seqno).unwrap();
            batch.clear();
        }
    }
    let seqno = store.write(&batch).unwrap();
    store.sync(seqno).unwrap();
    rate("durable load", documents, start);
}

fn reads(store: &DiskStore, documents: u64) {
    for round in ["cold", "warm"] {
        let start = Instant::now();
        let count = documents.min(200_000);
        for number in 0..count {
            let number = number.wrapping_mul(7919) % documents;
            let snapshot = store.snapshot();
            assert!(snapshot.get(Space::Documents, &key(number)).unwrap().is_some());
        }
        rate(&format!("snapshot and get, {round}"), count, start);
    }
    let start = Instant::now();
    let count = documents.min(200_000);
    let snapshot = store.snapshot();
    for number in 0..count {
        let number = number.wrapping_mul(7919) % documents;
        assert!(snapshot.get(Space::Documents, &key(number)).unwrap().is_some());
    }
    rate("get", count, start);
    let start = Instant::now();
    for number in 0..count {
        assert!(snapshot.get(Space::Documents, &key(number + (1 << 40))).unwrap().is_none());
    }
    rate("get what is not there", count, start);
    let start = Instant::now();
    let mut taken = 0;
    for _ in 0..1_000_000 {
        taken += store.snapshot().seqno() & 1;
    }
    println!("snapshot                  {:>10.1} ns ({taken})", ms(start));
    let start = Instant::now();
    for number in 0..20_000 {
        let number = key(number * 31 % documents);
        let mut range = snapshot
            .range(
                Space::Documents,
                Bound::Included(&number),
                Bound::Excluded(&END),
                Direction::Forward,
            )
            .unwrap();
        assert!(range.next().unwrap().is_some());
    }
    rate("short range", 20_000, start);
    for direction in [Direction::Forward, Direction::Reverse] {
        for round in ["first", "again"] {
            let start = Instant::now();
            let (from, to) = (Bound::Included(&PREFIX[..]), Bound::Excluded(&END[..]));
            let mut range = snapshot.range(Space::Documents, from, to, direction).unwrap();
            let (mut entries, mut bytes) = (0, 0);
            while let Some(block) = range.lend_block().unwrap() {
                entries += block.len();
                bytes += block.map(|(key, value)| key.len() + value.len()).sum::<usize>();
            }
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "scan {direction:?}, {round}     {:>10.0} MB/s, {:.0} ns an entry",
                bytes as f64 / 1e6 / seconds,
                seconds * 1e9 / entries as f64
            );
        }
    }
}

fn durable_writes(store: &DiskStore, threads: u64, documents: u64) {
    let before = store.stats();
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let time = Duration::from_secs(2);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut batch = Batch::new();
                while start.elapsed() < time {
                    let number =
                        next.fetch_add(1, Ordering::Relaxed).wrapping_mul(7919) % documents;
                    batch.clear();
                    batch.put(Space::Documents, &key(number), &document(number));
                    let seqno = store.write(&batch).unwrap();
                    store.sync(seqno).unwrap();
                }
            });
        }
    });
    rate(&format!("write and sync, {threads} threads"), next.load(Ordering::Relaxed), start);
    let after = store.stats();
    let syncs = after.syncs - before.syncs;
    let batches = after.synced_batches - before.synced_batches;
    println!("  {:.1} batches a flush", batches as f64 / syncs as f64);
}

fn overwrite(store: &DiskStore, documents: u64) {
    let start = Instant::now();
    let mut batch = Batch::new();
    for number in 0..documents {
        let number = number.wrapping_mul(7919) % documents;
        batch.put(Space::Documents, &key(number), &document(number + 1));
        store.write(&batch).unwrap();
        batch.clear();
    }
    rate("overwrite, not waiting", documents, start);
}

fn rate(what: &str, count: u64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what:<25} {:>10.0} /s, {:.2} us each",
        count as f64 / seconds,
        seconds * 1e6 / count as f64
    );
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}
