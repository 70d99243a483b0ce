//! Keys that commits write to the prefixes of a running load. A long build with busy writers must
//! not fill the memory, so above a size limit the keys are written to temporary files as sorted
//! runs. `Taken` returns all keys in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Batch, Bytes, Result, Run, Scratch, Space, StoreError};

/// Written keys with their new values.
pub(crate) type Keys = HashMap<Bytes, Option<Bytes>>;

/// A key and its new value; `None` for a delete.
type Write = (Bytes, Option<Bytes>);

/// Memory of a key besides its bytes.
const KEY_OVERHEAD: usize = 96;
/// At this many times the limit, writers wait for the disk.
const FAR_TOO_MUCH: usize = 4;
/// How many runs of one level are merged into one of the next, so that few files are open.
const RUNS_MERGED: usize = 16;

/// Keys that commits write to the prefixes of a load.
pub(crate) struct Written {
    pub(crate) space: Space,
    pub(crate) prefixes: Vec<[u8; 4]>,
    spill: Option<Spill>,
    /// Held while a run is written, and while everything is taken.
    spilling: Mutex<()>,
    noted: Mutex<Noted>,
}

/// Where keys that exceed the memory limit are written.
pub(crate) struct Spill {
    /// The files.
    pub(crate) scratch: Arc<Scratch>,
    /// The memory limit, in bytes.
    pub(crate) bytes_max: usize,
}

#[derive(Default)]
struct Noted {
    keys: Keys,
    bytes: usize,
    /// Sorted runs with their level, the oldest first.
    runs: Vec<(u32, Run)>,
    puts: u64,
    /// The failure that lost keys: the load must fail.
    failure: Option<StoreError>,
}

impl Written {
    pub(crate) fn new(space: Space, prefixes: &[[u8; 4]], spill: Option<Spill>) -> Written {
        Written {
            space,
            prefixes: prefixes.to_vec(),
            spill,
            spilling: Mutex::default(),
            noted: Mutex::default(),
        }
    }

    /// Records the writes of a commit.
    pub(crate) fn note(&self, batch: &Batch) {
        let mut noted = None;
        for operation in batch.operations() {
            let own = operation.space == self.space
                && operation.key.first_chunk().is_some_and(|own| self.prefixes.contains(own));
            if own {
                let noted = noted.get_or_insert_with(|| self.noted.lock());
                let value = operation.value.as_ref().map_or(0, |value| value.len());
                if noted.keys.insert(operation.key.clone(), operation.value.clone()).is_none() {
                    noted.bytes += operation.key.len() + KEY_OVERHEAD;
                }
                noted.bytes += value;
                noted.puts += u64::from(operation.value.is_some());
            }
        }
    }

    /// If memory is far above its limit, blocks a writer until other threads have written it to a
    /// file.
    pub(crate) fn hold_back(&self) {
        let limit = self.spill.as_ref().map_or(usize::MAX, |spill| spill.bytes_max);
        if self.noted.lock().bytes > limit.saturating_mul(FAR_TOO_MUCH) {
            self.keep_small();
        }
    }

    /// Writes the keys in memory to a file if they exceed the limit. Called in the background. If
    /// that fails, the load fails.
    pub(crate) fn keep_small(&self) {
        let Some(Spill { scratch, bytes_max }) = &self.spill else { return };
        if self.noted.lock().bytes <= *bytes_max {
            return;
        }
        let _spilling = self.spilling.lock();
        if self.noted.lock().bytes <= *bytes_max {
            return;
        }
        let (keys, mut runs) = {
            let mut noted = self.noted.lock();
            noted.bytes = 0;
            (std::mem::take(&mut noted.keys), std::mem::take(&mut noted.runs))
        };
        let written = write_run(scratch, sorted(&keys).into_iter().map(Ok));
        let merged = written.and_then(|run| {
            runs.push((0, run));
            merge_full_level(scratch, &mut runs)
        });
        let mut noted = self.noted.lock();
        noted.runs = runs;
        noted.failure = merged.err().or(noted.failure.take());
    }

    /// Takes the keys recorded so far.
    pub(crate) fn take(&self) -> Result<Taken> {
        let _spilling = self.spilling.lock();
        let mut noted = self.noted.lock();
        if let Some(failure) = &noted.failure {
            return Err(failure.clone());
        }
        noted.bytes = 0;
        Ok(Taken {
            keys: std::mem::take(&mut noted.keys),
            runs: std::mem::take(&mut noted.runs).into_iter().map(|(_, run)| run).collect(),
        })
    }

    /// How many entries were put since the load began.
    pub(crate) fn puts(&self) -> u64 {
        self.noted.lock().puts
    }
}

/// The keys recorded up to some moment.
pub(crate) struct Taken {
    keys: Keys,
    /// Oldest first; all are older than the keys in memory.
    runs: Vec<Run>,
}

impl Taken {
    /// Returns all keys, if none is in a file.
    pub(crate) fn in_memory(&self) -> Option<&Keys> {
        self.runs.is_empty().then_some(&self.keys)
    }

    /// Returns the final value of each key, in key order.
    pub(crate) fn into_ordered(self) -> Result<Ordered> {
        Ordered::new(sorted(&self.keys), self.runs)
    }
}

fn sorted(keys: &Keys) -> Vec<Write> {
    let mut keys: Vec<Write> =
        keys.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    keys.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    keys
}

fn write_run(scratch: &Scratch, writes: impl Iterator<Item = Result<Write>>) -> Result<Run> {
    let mut writer = scratch.create()?;
    let mut bytes = Vec::new();
    for write in writes {
        let (key, value) = write?;
        // A delete is encoded as no bytes, a value with one byte before it.
        bytes.clear();
        if let Some(value) = value {
            bytes.push(1);
            bytes.extend_from_slice(&value);
        }
        writer.push(&key, &bytes)?;
    }
    writer.finish()
}

/// Merges the newest runs when there are many of one level.
fn merge_full_level(scratch: &Scratch, runs: &mut Vec<(u32, Run)>) -> Result<()> {
    while let Some(&(level, _)) = runs.last() {
        let same = runs.iter().rev().take_while(|(other, _)| *other == level).count();
        if same < RUNS_MERGED {
            return Ok(());
        }
        let newest = runs.split_off(runs.len() - same);
        let merged = Ordered::new(Vec::new(), newest.into_iter().map(|(_, run)| run).collect())?;
        runs.push((level + 1, write_run(scratch, merged)?));
    }
    Ok(())
}

/// The next key of a source. Ordered by key; of equal keys the newest is first.
type Head = Reverse<(Bytes, Reverse<usize>, Option<Bytes>)>;

/// Final values of keys from memory and files, in key order; each key once.
pub(crate) struct Ordered {
    memory: std::vec::IntoIter<Write>,
    runs: Vec<Run>,
    heads: BinaryHeap<Head>,
    last: Option<Bytes>,
    /// The current key of `has`.
    peeked: Option<Write>,
}

impl Ordered {
    fn new(memory: Vec<Write>, runs: Vec<Run>) -> Result<Ordered> {
        let sources = runs.len() + 1;
        let mut ordered = Ordered {
            memory: memory.into_iter(),
            runs,
            heads: BinaryHeap::with_capacity(sources),
            last: None,
            peeked: None,
        };
        for source in 0..sources {
            ordered.advance(source)?;
        }
        Ok(ordered)
    }

    /// Reads the next key of a source; memory is the source after all runs.
    fn advance(&mut self, source: usize) -> Result<()> {
        let next = match self.runs.get_mut(source) {
            None => self.memory.next(),
            Some(run) => run.next()?.map(|(key, value)| {
                let value = value.split_first().map(|(_, value)| Bytes::copy_from(value));
                (Bytes::copy_from(&key), value)
            }),
        };
        if let Some((key, value)) = next {
            self.heads.push(Reverse((key, Reverse(source), value)));
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Write>> {
        while let Some(Reverse((key, Reverse(source), value))) = self.heads.pop() {
            self.advance(source)?;
            if self.last.as_ref() != Some(&key) {
                self.last = Some(key.clone());
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }

    /// Whether a key is among them. Call it with keys in ascending order.
    pub(crate) fn has(&mut self, key: &[u8]) -> Result<bool> {
        loop {
            match &self.peeked {
                Some((found, _)) if **found >= *key => return Ok(**found == *key),
                _ => match self.step()? {
                    Some(write) => self.peeked = Some(write),
                    None => return Ok(false),
                },
            }
        }
    }
}

impl Iterator for Ordered {
    type Item = Result<Write>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_does_not_fit_into_memory_comes_back_in_order_with_the_newest_value() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Arc::new(Scratch::open(folder.path()).unwrap());
        let spill = Spill { scratch: scratch.clone(), bytes_max: 4000 };
        let written = Written::new(Space::Indexes, &[[0, 0, 0, 7]], Some(spill));
        let mut expected = BTreeMap::new();
        let mut puts = 0;
        for n in 0..20_000_u32 {
            let key = [&[0, 0, 0, 7][..], &(n.wrapping_mul(7919) % 5000).to_be_bytes()].concat();
            let mut batch = Batch::new();
            let value = (n % 3 > 0).then(|| n.to_be_bytes()[..n as usize % 5].to_vec());
            match &value {
                Some(value) => batch.put(Space::Indexes, &key, value),
                None => batch.delete(Space::Indexes, &key),
            }
            // A key of another prefix.
            batch.put(Space::Indexes, &[0, 0, 0, 8], b"other");
            batch.put(Space::Documents, &key, b"other");
            puts += u64::from(value.is_some());
            expected.insert(key, value);
            written.note(&batch);
            written.hold_back();
            let noted = written.noted.lock();
            assert!(noted.bytes <= 4 * 4000 && noted.runs.len() < 4 * RUNS_MERGED);
        }
        assert_eq!(written.puts(), puts);
        let taken = written.take().unwrap();
        assert!(taken.in_memory().is_none() && taken.runs.len() > 1);
        let found: BTreeMap<Vec<u8>, Option<Vec<u8>>> = taken
            .into_ordered()
            .unwrap()
            .map(|write| write.unwrap())
            .map(|(key, value)| (key.to_vec(), value.map(|value| value.to_vec())))
            .collect();
        assert_eq!(found, expected);
        assert!(written.take().unwrap().in_memory().is_some_and(HashMap::is_empty));
        drop((written, scratch));
        assert!(!folder.path().join("tmp").exists(), "the files are gone");
    }

    #[test]
    fn a_disk_that_fails_makes_the_load_fail() {
        let folder = tempfile::tempdir().unwrap();
        // A file exists in place of the folder.
        std::fs::write(folder.path().join("tmp"), b"").unwrap();
        let scratch = Arc::new(Scratch::beside(folder.path(), "load"));
        let written =
            Written::new(Space::Indexes, &[[0; 4]], Some(Spill { scratch, bytes_max: 100 }));
        let mut batch = Batch::new();
        batch.put(Space::Indexes, &[0, 0, 0, 0, 1], &[7; 200]);
        written.note(&batch);
        written.keep_small();
        assert!(written.take().is_err());
        written.note(&batch);
        assert!(written.take().is_err(), "what was lost stays lost");
    }

    #[test]
    fn keys_are_looked_for_in_ascending_order() {
        let written = Written::new(Space::Indexes, &[[0; 4]], None);
        let mut batch = Batch::new();
        for n in [2_u8, 4, 9] {
            batch.put(Space::Indexes, &[0, 0, 0, 0, n], b"");
        }
        written.note(&batch);
        let mut ordered = written.take().unwrap().into_ordered().unwrap();
        let found: Vec<u8> = (0..12).filter(|n| ordered.has(&[0, 0, 0, 0, *n]).unwrap()).collect();
        assert_eq!(found, [2, 4, 9]);
    }
}
