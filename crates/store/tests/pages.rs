//! Pages never show a snapshot anything but its own state: random commits, snapshots held at many
//! moments, whole, partial and abandoned scans in both directions, against a plain map, with pages
//! and a budget so small that pages come, go and are overtaken all the time.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::tiny;
use proptest::prelude::*;
use store::{Batch, Direction, DiskStore, Options, Snapshot, Space, Store};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Prefixes of the test; the last one has nobody behind it.
const PREFIXES: [u32; 3] = [7, 8, u32::MAX];

fn key(number: u16) -> Vec<u8> {
    let prefix = PREFIXES[usize::from(number) % 3];
    let mut key = prefix.to_be_bytes().to_vec();
    key.extend_from_slice(&(number / 3).to_be_bytes()[1 - usize::from(number % 2)..]);
    key.extend(std::iter::repeat_n(0, usize::from(number % 3)));
    key
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(u16, Option<u8>)>),
    Hold,
    Release(u8),
    /// A scan of a held snapshot or the newest: bounds, direction, how far, and in which manner.
    Scan {
        of: u8,
        from: Bound<u16>,
        to: Bound<u16>,
        reverse: bool,
        most: u8,
        manner: u8,
    },
    Whole {
        of: u8,
        prefix: u8,
        reverse: bool,
        manner: u8,
    },
    Get {
        of: u8,
        number: u16,
    },
    Begin {
        of: u8,
        prefix: u8,
        reverse: bool,
    },
    Continue {
        number: u8,
        most: u8,
        manner: u8,
    },
    Drop(u8),
    Checkpoint,
}

fn bound() -> impl Strategy<Value = Bound<u16>> {
    prop_oneof![
        3 => (0..300_u16).prop_map(Bound::Included),
        3 => (0..300_u16).prop_map(Bound::Excluded),
        1 => Just(Bound::Unbounded),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let change = (0..300_u16, prop::option::weighted(0.75, any::<u8>()));
    let scan = (any::<u8>(), bound(), bound(), any::<bool>(), 0..80_u8, any::<u8>());
    let whole = (any::<u8>(), 0..3_u8, any::<bool>(), any::<u8>());
    prop_oneof![
        8 => prop::collection::vec(change.clone(), 1..6).prop_map(Step::Write),
        1 => prop::collection::vec(change, 20..80).prop_map(Step::Write),
        3 => Just(Step::Hold),
        2 => any::<u8>().prop_map(Step::Release),
        6 => scan.prop_map(|(of, from, to, reverse, most, manner)| {
            Step::Scan { of, from, to, reverse, most, manner }
        }),
        6 => whole.prop_map(|(of, prefix, reverse, manner)| {
            Step::Whole { of, prefix, reverse, manner }
        }),
        8 => (any::<u8>(), 0..300_u16).prop_map(|(of, number)| Step::Get { of, number }),
        3 => (any::<u8>(), 0..3_u8, any::<bool>())
            .prop_map(|(of, prefix, reverse)| Step::Begin { of, prefix, reverse }),
        6 => (any::<u8>(), 0..40_u8, any::<u8>())
            .prop_map(|(number, most, manner)| Step::Continue { number, most, manner }),
        1 => (0..2_u8).prop_map(Step::Drop),
        1 => Just(Step::Checkpoint),
    ]
}

/// Takes up to `most` entries, by one of the ways that a range offers; it may take more, but then
/// all that it has taken is returned.
fn take(range: &mut store::Range, most: usize, manner: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    while entries.len() < most {
        match (manner.wrapping_add(entries.len() as u8)) % 4 {
            0 => match range.next_entry().unwrap() {
                Some((key, value)) => entries.push((key.to_vec(), value.to_vec())),
                None => break,
            },
            1 => {
                let lent = match range.next().unwrap() {
                    Some((key, value)) => (key.to_vec(), value.to_vec()),
                    None => break,
                };
                let (key, value) = range.own().unwrap();
                assert_eq!(lent, (key.to_vec(), value.to_vec()));
                entries.push(lent);
            }
            2 if manner >= 128 => match range.lend_block().unwrap() {
                Some(run) => {
                    let before = entries.len();
                    let length = run.len();
                    entries.extend(run.map(|(key, value)| (key.to_vec(), value.to_vec())));
                    assert_eq!(entries.len(), before + length);
                }
                None => break,
            },
            _ => match range.next().unwrap() {
                Some((key, value)) => entries.push((key.to_vec(), value.to_vec())),
                None => break,
            },
        }
    }
    entries
}

struct Held {
    snapshot: Snapshot,
    map: Map,
}

struct Open {
    range: store::Range,
    left: Vec<(Vec<u8>, Vec<u8>)>,
}

fn within(
    map: &Map,
    from: &Bound<Vec<u8>>,
    to: &Bound<Vec<u8>>,
    reverse: bool,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries: Vec<_> = map
        .iter()
        .filter(|(key, _)| {
            let above = match from {
                Bound::Included(from) => *key >= from,
                Bound::Excluded(from) => *key > from,
                Bound::Unbounded => true,
            };
            above
                && match to {
                    Bound::Included(to) => *key <= to,
                    Bound::Excluded(to) => *key < to,
                    Bound::Unbounded => true,
                }
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if reverse {
        entries.reverse();
    }
    entries
}

fn direction(reverse: bool) -> Direction {
    if reverse { Direction::Reverse } else { Direction::Forward }
}

fn bounds_of(prefix: u8) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let prefix = PREFIXES[usize::from(prefix)];
    let to = prefix
        .checked_add(1)
        .map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_be_bytes().to_vec()));
    (Bound::Included(prefix.to_be_bytes().to_vec()), to)
}

fn open(
    snapshot: &Snapshot,
    space: Space,
    from: &Bound<Vec<u8>>,
    to: &Bound<Vec<u8>>,
    reverse: bool,
) -> store::Range {
    let (from, to) = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
    snapshot.range(space, from, to, direction(reverse)).unwrap()
}

fn run(space: Space, page_bytes: usize, cache_bytes: u64, steps: Vec<Step>) {
    let folder = common::memory_folder();
    let options = Options { page_bytes, cache_bytes, ..tiny() };
    let store = DiskStore::open(folder.path(), options).unwrap();
    let mut map = Map::new();
    let mut held: Vec<Held> = Vec::new();
    let mut scans: Vec<Open> = Vec::new();
    // What is read of a dropped prefix is not promised: whole tables go before others that hold
    // older versions of the same keys. Everything beside it must stay as it is.
    let mut dropped: Vec<[u8; 4]> = Vec::new();
    let is_dropped = |dropped: &[[u8; 4]], key: &[u8]| {
        key.first_chunk().is_some_and(|prefix| dropped.contains(prefix))
    };
    for step in steps {
        // The newest state, or one that is held.
        let chosen = |of: u8, held: &Vec<Held>, map: &Map| match usize::from(of) % (held.len() + 2)
        {
            n if n < held.len() => (held[n].snapshot.clone(), held[n].map.clone()),
            _ => (store.snapshot(), map.clone()),
        };
        match step {
            Step::Write(changes) => {
                let mut batch = Batch::new();
                for (number, content) in changes {
                    let key = key(number);
                    if is_dropped(&dropped, &key) {
                        continue;
                    }
                    match content {
                        Some(content) => {
                            let value = vec![content; usize::from(content % 160)];
                            batch.put(space, &key, &value);
                            map.insert(key, value);
                        }
                        None => {
                            batch.delete(space, &key);
                            map.remove(&key);
                        }
                    }
                }
                store.write(&batch).unwrap();
            }
            Step::Hold => held.push(Held { snapshot: store.snapshot(), map: map.clone() }),
            Step::Release(number) => {
                if !held.is_empty() {
                    held.swap_remove(usize::from(number) % held.len());
                }
            }
            Step::Scan { of, from, to, reverse, most, manner } => {
                let (snapshot, map) = chosen(of, &held, &map);
                let (from, to) = (from.map(key), to.map(key));
                let expected = within(&map, &from, &to, reverse);
                let mut range = open(&snapshot, space, &from, &to, reverse);
                if !dropped.is_empty() {
                    let mut found = take(&mut range, usize::MAX, manner);
                    found.retain(|(key, _)| !is_dropped(&dropped, key));
                    assert_eq!(found, expected);
                    continue;
                }
                let found = take(&mut range, usize::from(most), manner);
                let expected = &expected[..expected.len().min(found.len().max(usize::from(most)))];
                assert_eq!(found, expected);
            }
            Step::Whole { prefix, .. } | Step::Begin { prefix, .. }
                if dropped.contains(&PREFIXES[usize::from(prefix)].to_be_bytes()) => {}
            Step::Whole { of, prefix, reverse, manner } => {
                let (snapshot, map) = chosen(of, &held, &map);
                let (from, to) = bounds_of(prefix);
                let mut range = open(&snapshot, space, &from, &to, reverse);
                let found = take(&mut range, usize::MAX, manner);
                assert_eq!(found, within(&map, &from, &to, reverse));
            }
            Step::Get { of, number } => {
                let (snapshot, map) = chosen(of, &held, &map);
                let key = key(number);
                if is_dropped(&dropped, &key) {
                    continue;
                }
                let found = snapshot.get(space, &key).unwrap().map(|value| value.to_vec());
                assert_eq!(found.as_ref(), map.get(&key));
            }
            Step::Begin { of, prefix, reverse } => {
                let (snapshot, map) = chosen(of, &held, &map);
                let (from, to) = bounds_of(prefix);
                let mut left = within(&map, &from, &to, reverse);
                left.reverse();
                scans.push(Open { range: open(&snapshot, space, &from, &to, reverse), left });
            }
            Step::Continue { number, most, manner } => {
                if !scans.is_empty() {
                    let number = usize::from(number) % scans.len();
                    let found = take(&mut scans[number].range, usize::from(most), manner);
                    let ended = found.len() < usize::from(most);
                    for entry in found {
                        assert_eq!(Some(entry), scans[number].left.pop());
                    }
                    if ended {
                        assert!(scans.swap_remove(number).left.is_empty());
                    }
                }
            }
            Step::Drop(prefix) => {
                let prefix = PREFIXES[usize::from(prefix)];
                let (start, end) = (prefix.to_be_bytes(), (prefix + 1).to_be_bytes());
                // Nobody may read a prefix that is dropped, so this ends what reads.
                scans.clear();
                held.clear();
                store.delete_range(space, &start, &end).unwrap();
                map.retain(|key, _| !key.starts_with(&start));
                dropped.push(start);
            }
            Step::Checkpoint => store.checkpoint().unwrap(),
        }
    }
    for mut scan in scans {
        let found = take(&mut scan.range, usize::MAX, 129);
        scan.left.reverse();
        assert_eq!(found, scan.left);
    }
    for held in held {
        let mut found = take(
            &mut open(&held.snapshot, space, &Bound::Unbounded, &Bound::Unbounded, false),
            usize::MAX,
            0,
        );
        found.retain(|(key, _)| !is_dropped(&dropped, key));
        assert_eq!(found, held.map.into_iter().collect::<Vec<_>>());
    }
    let stats = store.stats();
    assert!(stats.page_bytes <= stats.page_capacity_bytes, "{stats:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn pages_show_each_snapshot_its_own_state(
        steps in prop::collection::vec(step(), 1..200),
        page_bytes in prop_oneof![Just(1_usize), Just(64), Just(300), Just(4096)],
        cache_bytes in prop_oneof![Just(0_u64), Just(24_000), Just(1 << 20)],
        indexes in any::<bool>(),
    ) {
        let space = if indexes { Space::Indexes } else { Space::Documents };
        run(space, page_bytes, cache_bytes, steps);
    }
}

/// Writers move amounts between accounts of two prefixes while readers scan and read points; the
/// sum is always the same, and a snapshot says the same twice, whichever way it is asked.
#[test]
fn concurrent_scans_see_whole_commits() {
    const ACCOUNTS: u64 = 300;
    const SUM: u64 = ACCOUNTS * 2 * 1000;
    let folder = common::memory_folder();
    let options =
        Options { page_bytes: 500, cache_bytes: 40_000, memtable_bytes: 256 << 10, ..tiny() };
    let store = &DiskStore::open(folder.path(), options).unwrap();
    let key = |prefix: u32, account: u64| {
        [&prefix.to_be_bytes()[..], &account.to_be_bytes()[..]].concat()
    };
    let mut batch = Batch::new();
    for account in 0..ACCOUNTS {
        batch.put(Space::Documents, &key(1, account), &1000_u64.to_be_bytes());
        batch.put(Space::Documents, &key(2, account), &1000_u64.to_be_bytes());
    }
    store.write(&batch).unwrap();
    let (stop, checks) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let commit = &std::sync::Mutex::new(());
    let number = |value: &[u8]| u64::from_be_bytes(value.try_into().unwrap());
    std::thread::scope(|scope| {
        for writer in 0..2_u64 {
            scope.spawn(move || {
                let mut random = writer + 77;
                while !stop.load(Ordering::Relaxed) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    // Mostly in one corner, so that pages elsewhere live for a while.
                    let most = if random >> 60 == 0 { ACCOUNTS } else { ACCOUNTS / 10 };
                    let (from, to) = (key(1, (random >> 33) % most), key(2, (random >> 45) % most));
                    let _lock = commit.lock().unwrap();
                    let snapshot = store.snapshot();
                    let read = |key| number(&snapshot.get(Space::Documents, key).unwrap().unwrap());
                    let (a, b) = (read(&from), read(&to));
                    let amount = a.min(random % 10);
                    let mut batch = Batch::new();
                    batch.put(Space::Documents, &from, &(a - amount).to_be_bytes());
                    batch.put(Space::Documents, &to, &(b + amount).to_be_bytes());
                    store.write(&batch).unwrap();
                    if random.is_multiple_of(16) {
                        std::thread::sleep(Duration::from_micros(300));
                    }
                }
            });
        }
        for reader in 0..4_u64 {
            scope.spawn(move || {
                let mut random = reader;
                while !stop.load(Ordering::Relaxed) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let snapshot = store.snapshot();
                    let scan = |reverse: bool, manner: u8| {
                        let mut all = Vec::new();
                        for prefix in [1_u32, 2] {
                            let from = Bound::Included(prefix.to_be_bytes().to_vec());
                            let to = Bound::Excluded((prefix + 1).to_be_bytes().to_vec());
                            let mut range = open(&snapshot, Space::Documents, &from, &to, reverse);
                            let mut part = take(&mut range, usize::MAX, manner);
                            if reverse {
                                part.reverse();
                            }
                            all.extend(part);
                        }
                        all
                    };
                    let first = scan(reader % 2 == 1, (random >> 40) as u8);
                    let sum: u64 = first.iter().map(|(_, value)| number(value)).sum();
                    assert_eq!((first.len() as u64, sum), (ACCOUNTS * 2, SUM));
                    if reader == 3 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    assert_eq!(first, scan(reader % 2 == 0, (random >> 48) as u8));
                    for (key, value) in first.iter().step_by(7) {
                        let got = snapshot.get(Space::Documents, key).unwrap();
                        assert_eq!(got.as_deref(), Some(&value[..]));
                    }
                    checks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // At least so long, and until enough was seen: that takes longer on a slow machine.
        let begun = Instant::now();
        let done = || checks.load(Ordering::Relaxed) > 50 && store.stats().page_hits > 1000;
        while begun.elapsed() < Duration::from_secs(4)
            || (!done() && begun.elapsed() < Duration::from_secs(60))
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let stats = store.stats();
    assert!(checks.load(Ordering::Relaxed) > 50 && stats.page_hits > 1000, "{stats:?}");
    assert!(stats.page_bytes <= stats.page_capacity_bytes, "{stats:?}");
}

/// A scan of more than fits, again and again, finds in pages about the share that fits.
#[test]
fn a_scan_larger_than_the_budget_keeps_its_hits() {
    let folder = common::memory_folder();
    let options = Options { page_bytes: 1000, cache_bytes: 400_000, ..tiny() };
    let store = DiskStore::open(folder.path(), options).unwrap();
    let mut batch = Batch::new();
    for number in 0..6000_u64 {
        let key = [&[0, 0, 0, 5][..], &number.to_be_bytes()].concat();
        batch.put(Space::Documents, &key, &[number as u8; 100]);
    }
    store.write(&batch).unwrap();
    let (from, to) = (Bound::Included(vec![0, 0, 0, 5]), Bound::Excluded(vec![0, 0, 0, 6]));
    for _ in 0..6 {
        let snapshot = store.snapshot();
        let mut range = open(&snapshot, Space::Documents, &from, &to, false);
        assert_eq!(take(&mut range, usize::MAX, 3).len(), 6000);
    }
    let stats = store.stats();
    assert!(stats.page_bytes <= stats.page_capacity_bytes, "{stats:?}");
    assert!(stats.page_bytes > stats.page_capacity_bytes / 2, "{stats:?}");
    // Dropping the prefix gives the memory back.
    store.delete_range(Space::Documents, &[0, 0, 0, 5], &[0, 0, 0, 6]).unwrap();
    assert_eq!(store.stats().page_bytes, 0);
}

/// A statement that reads everything and writes behind itself leaves pages of everything, however
/// much it wrote: the next one need not look into the tree.
#[test]
fn a_scan_that_writes_behind_itself_leaves_its_pages() {
    const ENTRIES: u64 = 80_000;
    let folder = common::memory_folder();
    let options = Options { page_bytes: 4000, ..Options::default() };
    let store = DiskStore::open(folder.path(), options).unwrap();
    let key = |number: u64| [&[0, 0, 0, 5][..], &number.to_be_bytes()].concat();
    let mut batch = Batch::new();
    (0..ENTRIES).for_each(|number| batch.put(Space::Documents, &key(number), &[1; 50]));
    store.write(&batch).unwrap();
    let (from, to) = (Bound::Included(vec![0, 0, 0, 5]), Bound::Excluded(vec![0, 0, 0, 6]));
    for (round, hole) in [(2_u8, 40_000), (3, 70_000), (4, 0)] {
        let snapshot = store.snapshot();
        let mut range = open(&snapshot, Space::Documents, &from, &to, false);
        loop {
            let chunk = take(&mut range, 500, 1);
            if chunk.is_empty() {
                break;
            }
            let mut batch = Batch::new();
            for (key, value) in chunk {
                assert_eq!(value, [round - 1; 50]);
                batch.put(Space::Documents, &key, &[round; 50]);
            }
            store.write(&batch).unwrap();
        }
        // A single write takes a page away, where the next round finds a gap.
        let mut batch = Batch::new();
        batch.put(Space::Documents, &key(hole), &[round; 50]);
        store.write(&batch).unwrap();
    }
    let stats = store.stats();
    assert!(stats.page_bytes > (ENTRIES - 1000) * 62, "{stats:?}");
}

/// Looks at single entries of an index, which are small, end up in pages.
#[test]
fn short_ranges_of_small_entries_find_pages() {
    const ENTRIES: u64 = 20_000;
    let folder = common::memory_folder();
    let store = DiskStore::open(folder.path(), Options::default()).unwrap();
    let key = |number: u64| [&[0, 0, 0, 5][..], &number.to_be_bytes()].concat();
    let mut batch = Batch::new();
    (0..ENTRIES).for_each(|number| batch.put(Space::Indexes, &key(number), &[]));
    store.write(&batch).unwrap();
    let look = |number: u64| {
        let (from, to) = (Bound::Included(key(number)), Bound::Excluded(key(number + 1)));
        let snapshot = store.snapshot();
        assert_eq!(take(&mut open(&snapshot, Space::Indexes, &from, &to, false), 9, 0).len(), 1);
    };
    (0..ENTRIES).step_by(7).cycle().take(20_000).for_each(look);
    let before = store.stats();
    (0..ENTRIES).step_by(13).for_each(look);
    let after = store.stats();
    // Between two pages may lie entries that nobody asked for.
    let (looks, misses) = (ENTRIES / 13, after.page_misses - before.page_misses);
    assert!(misses < looks / 10, "{misses} of {looks}: {after:?}");
}
