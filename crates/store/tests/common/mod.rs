//! What the tests of the store share: small options, and a plain map to compare with.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;

use store::{Batch, Direction, Options, Snapshot, Space};

pub type Model = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

/// A folder for tests that flush thousands of times: in memory where the system has such a place with
/// room, since all that a disk would add is time.
pub fn memory_folder() -> tempfile::TempDir {
    const PLACE: &str = "/dev/shm";
    let room = rustix::fs::statvfs(PLACE).map_or(0, |place| place.f_bavail * place.f_frsize);
    let made = (room > 1 << 30).then(|| tempfile::tempdir_in(PLACE).ok()).flatten();
    made.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

/// Options under which flushes, merges and segment changes happen all the time.
pub fn tiny() -> Options {
    Options {
        cache_bytes: 1 << 20,
        memtable_bytes: 16 << 10,
        segment_bytes: 8 << 10,
        reserve_bytes: 0,
        reclaim_interval: std::time::Duration::from_millis(50),
        ..Options::default()
    }
}

/// Everything in a space, in the order of the direction.
pub fn scan(snapshot: &Snapshot, space: Space, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    scan_range(snapshot, space, Bound::Unbounded, Bound::Unbounded, direction)
}

pub fn scan_range(
    snapshot: &Snapshot,
    space: Space,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut range = snapshot.range(space, from, to, direction).unwrap();
    let mut entries = Vec::new();
    while let Some((key, value)) = range.next().unwrap() {
        entries.push((key.to_vec(), value.to_vec()));
    }
    entries
}

/// Applies a batch to the model.
pub fn apply(model: &mut Model, batch: &Batch) {
    for operation in batch.operations() {
        let key = (operation.space as u8, operation.key.to_vec());
        match &operation.value {
            Some(value) => drop(model.insert(key, value.to_vec())),
            None => drop(model.remove(&key)),
        }
    }
}

/// Fails unless the snapshot holds exactly what the model holds.
pub fn assert_same(snapshot: &Snapshot, model: &Model) {
    for space in Space::ALL {
        let expected: Vec<_> = model
            .iter()
            .filter(|((number, _), _)| *number == space as u8)
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect();
        assert_eq!(scan(snapshot, space, Direction::Forward), expected, "{space:?} forward");
        let mut reversed = scan(snapshot, space, Direction::Reverse);
        reversed.reverse();
        assert_eq!(reversed, expected, "{space:?} reverse");
        for (key, value) in &expected {
            assert_eq!(snapshot.get(space, key).unwrap().as_deref(), Some(&value[..]));
            assert_eq!(snapshot.get_to_write(space, key).unwrap().as_deref(), Some(&value[..]));
        }
    }
}
