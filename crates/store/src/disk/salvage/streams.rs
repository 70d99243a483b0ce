//! The newest version of each key of a space: tables and log, merged.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::path::PathBuf;

use super::blocks::Entry;
use super::table::{TableFile, Walk};
use super::{Finding, KeyRange, Salvage};
use crate::disk::dropped::DroppedRange;
use crate::long::{is_stored_long, whole};
use crate::{Bytes, Seqno, Space};

/// Tables whose key ranges follow each other. Only one is open at a time, so that a large folder
/// does not need a file handle for each table.
struct Chain {
    /// The tables to come, the next one last.
    rest: Vec<(PathBuf, KeyRange)>,
    walk: Option<Walk>,
}

/// The next entry of a chain. The heap returns the lowest key first, and of one key the newest
/// version.
struct Head {
    entry: Entry,
    chain: usize,
}

impl Head {
    fn order(&self) -> (&[u8], Reverse<Seqno>) {
        (&self.entry.key, Reverse(self.entry.seqno))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        other.order().cmp(&self.order())
    }
}

/// The tables of a space while they are merged.
struct Merge {
    chains: Vec<Chain>,
    heads: BinaryHeap<Head>,
    /// Ranges in which entries of tables are lost.
    lost: Vec<KeyRange>,
    findings: Vec<Finding>,
    /// Bytes of the files that were read to their end.
    done: u64,
}

impl Merge {
    /// Puts the next entry of a chain into the heap.
    fn advance(&mut self, number: usize) {
        let chain = &mut self.chains[number];
        loop {
            if let Some(walk) = &mut chain.walk {
                let next = walk.next();
                for finding in walk.take_findings() {
                    self.lost.extend_from_slice(finding.ranges());
                    self.findings.push(finding);
                }
                if let Some(entry) = next {
                    self.heads.push(Head { entry, chain: number });
                    return;
                }
                self.done += walk.length();
                chain.walk = None;
            }
            let Some((path, range)) = chain.rest.pop() else { return };
            match Walk::open(&path, &range) {
                Ok(walk) => chain.walk = Some(walk),
                Err(finding) => {
                    self.lost.extend_from_slice(finding.ranges());
                    self.findings.push(finding);
                }
            }
        }
    }

    /// The newest version in tables of the lowest key.
    fn next(&mut self) -> Option<Entry> {
        let Head { entry, chain } = self.heads.pop()?;
        self.advance(chain);
        while self.heads.peek().is_some_and(|head| head.entry.key == entry.key) {
            if let Some(head) = self.heads.pop() {
                self.advance(head.chain);
            }
        }
        Some(entry)
    }

    fn position(&self) -> u64 {
        let open = self.chains.iter().filter_map(|chain| chain.walk.as_ref());
        self.done + open.map(Walk::position).sum::<u64>()
    }
}

impl Salvage {
    /// Calls `each` with every key of a space that is readable, in the order of the trees: the key, its newest value
    /// (`None` if it was deleted and the delete is still stored), and how many bytes of table files
    /// were read. Returns what was found in the tables; [`Salvage::findings`] has the rest.
    ///
    /// # Errors
    /// Only those of `each`.
    pub fn read<E>(
        &self,
        space: Space,
        each: &mut dyn FnMut(Bytes, Option<Bytes>, u64) -> Result<(), E>,
    ) -> Result<Vec<Finding>, E> {
        let (chains, persisted) = self.chains(space);
        let ranges = self.findings.iter().flat_map(|finding| finding.ranges());
        let mut merge = Merge {
            heads: BinaryHeap::with_capacity(chains.len()),
            chains,
            lost: ranges.filter(|range| range.space == space).cloned().collect(),
            findings: Vec::new(),
            done: 0,
        };
        (0..merge.chains.len()).for_each(|chain| merge.advance(chain));
        let mut logged = self.logged[space.index()].iter().peekable();
        let mut stored = merge.next();
        loop {
            let order = match (&stored, logged.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(entry), Some((key, _))) => (*entry.key).cmp(key.as_slice()),
            };
            let table = if order.is_le() {
                let next = merge.next();
                std::mem::replace(&mut stored, next)
            } else {
                None
            };
            let log = if order.is_ge() { logged.next() } else { None };
            let Some((key, value)) = newest(table, log, |key, seqno| {
                // The tables have this commit or have dropped it, unless they are damaged here.
                seqno > persisted || merge.lost.iter().any(|range| range.contains(key))
            }) else {
                continue;
            };
            if !is_dropped(&self.dropped[space.index()], &key) {
                // What is no entry of a long key is handed on as it is stored.
                let long = value.as_ref().filter(|_| is_stored_long(&key));
                match long.and_then(|value| whole(&key, value).ok()) {
                    Some((key, value)) => each(key, Some(value), merge.position())?,
                    None => each(key, value, merge.position())?,
                }
            }
        }
        Ok(merge.findings)
    }

    /// Arranges the tables of a space in chains. Also returns the last commit that is in tables, or
    /// 0 if they are not proven to be complete.
    fn chains(&self, space: Space) -> (Vec<Chain>, Seqno) {
        let list = &self.lists[space.index()];
        let mut persisted = 0;
        let mut known = Vec::new();
        let mut chains: Vec<(Option<Bytes>, Chain)> = Vec::new();
        for table in &list.tables {
            let part = (table.path.clone(), table.range.clone());
            match TableFile::open(&table.path).and_then(|file| file.meta) {
                Some(meta) => {
                    persisted = persisted.max(meta.seqno_max);
                    known.push((Bytes::copy_from(&meta.min), Bytes::copy_from(&meta.max), part));
                }
                None => chains.push((None, Chain { rest: vec![part], walk: None })),
            }
        }
        known.sort_by(|a, b| a.0.cmp(&b.0));
        for (min, max, part) in known {
            let fits = |chain: &&mut (Option<Bytes>, Chain)| {
                chain.0.as_ref().is_some_and(|last| *last < min)
            };
            match chains.iter_mut().find(fits) {
                Some((last, chain)) => {
                    *last = Some(max);
                    chain.rest.push(part);
                }
                None => chains.push((Some(max), Chain { rest: vec![part], walk: None })),
            }
        }
        let chains = chains.into_iter().map(|(_, mut chain)| {
            chain.rest.reverse();
            chain
        });
        (chains.collect(), if list.is_proven { persisted } else { 0 })
    }
}

/// The newer one of a table's entry and a log's operation of the same key. `counts` decides about an
/// operation of the log.
fn newest(
    table: Option<Entry>,
    log: Option<(&Bytes, &(Seqno, Option<Bytes>))>,
    counts: impl Fn(&[u8], Seqno) -> bool,
) -> Option<(Bytes, Option<Bytes>)> {
    let log = log.filter(|(key, (seqno, _))| counts(key, *seqno));
    match (table, log) {
        (Some(entry), Some((key, (seqno, value)))) if entry.seqno < *seqno => {
            Some((key.clone(), value.clone()))
        }
        (Some(entry), _) => Some((Bytes::from_tree(entry.key), entry.value.map(Bytes::from_tree))),
        (None, Some((key, (_, value)))) => Some((key.clone(), value.clone())),
        (None, None) => None,
    }
}

/// Whether a key is in one of these ranges, which are sorted and do not overlap.
fn is_dropped(ranges: &[DroppedRange], key: &[u8]) -> bool {
    let after = ranges.partition_point(|range| range.from.as_slice() <= key);
    let range = after.checked_sub(1).and_then(|at| ranges.get(at));
    range.is_some_and(|range| key < range.to.as_slice())
}
