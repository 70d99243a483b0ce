//! Sorting: a bounded heap if only the first documents are needed, otherwise a sort of all
//! documents.
//!
//! Documents are compared by their encoded sort keys; equal keys keep their arrival order.
//! Documents are copied (`blocks`), so that they do not pin blocks of the store. Data beyond the
//! memory limit of one sort is written to temporary files as sorted runs, which are merged at the
//! end.

mod blocks;

use crate::memory::Share;
use crate::operation::Operation;
use crate::planner::run::SortTotals;
use crate::store_failed;
use blocks::{BlockPosition, Blocks, allocated};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use store::Run;
use value::{Code, Error, RawDoc, Result};

/// Collects documents and returns them in order.
pub struct Sorter {
    sort: query::sort::SortSpec,
    /// How many of the first documents are needed.
    limit: Option<usize>,
    /// The first documents so far, if there is a limit.
    heap: BinaryHeap<Entry>,
    /// Memory of the heap in bytes.
    heap_bytes: usize,
    /// All documents, if there is no limit. Created with the first document.
    blocks: Option<Blocks>,
    arrived: u64,
    /// The key of the current document.
    key: Vec<u8>,
    /// Sorted runs on disk with their level: a run of level n was merged n times.
    runs: Vec<(u32, Run)>,
    /// An upper bound of the keys needed: at least `limit` documents have smaller keys.
    bound: Option<Vec<u8>>,
    totals: SortTotals,
    /// The reserved part of the memory that operations share.
    share: Option<Share>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: Vec<u8>,
    arrived: u64,
    doc: Vec<u8>,
}

impl Entry {
    /// Returns the memory of an entry. A growing heap has capacity for twice as many entries.
    fn bytes(&self) -> usize {
        2 * size_of::<Entry>() + allocated(self.key.len()) + allocated(self.doc.len())
    }
}

/// Maximum number of runs merged at once, each with an open file and a buffer.
const RUNS_MERGED: usize = 64;
/// Memory of the buffers. A sort with little memory uses fewer.
const RUNS_BYTES: usize = (RUNS_MERGED + 1) * store::RUN_BUFFER_BYTES;
const RUNS_SHARE: usize = 16;

/// Returns how much of a sort's memory is available for documents.
fn documents_bytes_max(op: &Operation) -> usize {
    let bytes_max = op.sort_bytes_max();
    bytes_max - if op.may_use_disk() { RUNS_BYTES.min(bytes_max / RUNS_SHARE) } else { 0 }
}

impl Sorter {
    /// Creates a sorter that keeps the first `limit` documents, or all.
    #[must_use]
    pub fn new(sort: query::sort::SortSpec, limit: Option<usize>) -> Sorter {
        Sorter {
            sort,
            limit,
            heap: BinaryHeap::new(),
            heap_bytes: 0,
            blocks: None,
            arrived: 0,
            key: Vec::new(),
            runs: Vec::new(),
            bound: None,
            totals: SortTotals::default(),
            share: None,
        }
    }

    /// Adds a document.
    ///
    /// # Errors
    /// When the documents need more memory than allowed and the disk may not be used, or when the
    /// disk fails.
    pub fn push(&mut self, doc: RawDoc<'_>, op: &Operation) -> Result<()> {
        self.push_scored(doc, 0.0, op)
    }

    /// Returns whether the order depends on the score of a text search.
    #[must_use]
    pub fn needs_score(&self) -> bool {
        self.sort.needs_score()
    }

    /// Adds a document with its score.
    ///
    /// # Errors
    /// As `push`.
    pub fn push_scored(&mut self, doc: RawDoc<'_>, score: f64, op: &Operation) -> Result<()> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        let full = self.limit.is_some_and(|limit| self.heap.len() >= limit);
        let last = if full { self.heap.peek().map(|last| last.key.as_slice()) } else { None };
        let below = self.sort.key_below(doc, score, last, &mut key);
        self.key = key;
        let arrived = self.arrived;
        self.arrived += 1;
        // Among equal keys the first arrival wins, so a later equal key is not needed.
        let key = self.key.as_slice();
        if !below? || self.bound.as_ref().is_some_and(|bound| key >= bound.as_slice()) {
            return Ok(());
        }
        if full && self.heap.peek().is_none_or(|last| key >= last.key.as_slice()) {
            return Ok(());
        }
        self.totals.bytes += key.len() + doc.bytes().len();
        let bytes_max = documents_bytes_max(op);
        if self.limit.is_none() {
            let blocks = self.blocks.get_or_insert_with(|| Blocks::new(bytes_max));
            let held = blocks.bytes_with(&self.key, doc.bytes());
            let share = self.share.get_or_insert_with(|| op.share());
            if (held > bytes_max || !share.covers(held)) && !blocks.is_empty() {
                self.spill(op)?;
            }
            if let Some(blocks) = &mut self.blocks {
                blocks.push(&self.key, doc.bytes());
            }
            return Ok(());
        }
        let replaced = if full { self.heap.pop() } else { None };
        self.heap_bytes -= replaced.as_ref().map_or(0, Entry::bytes);
        let entry = Entry { key: self.key.clone(), arrived, doc: doc.bytes().to_vec() };
        let bytes = entry.bytes();
        let held = self.heap_bytes + bytes;
        let share = self.share.get_or_insert_with(|| op.share());
        if (held > bytes_max || !share.covers(held)) && !self.heap.is_empty() {
            self.spill(op)?;
            // The documents on disk and the current one suffice.
            self.bound = replaced.map(|entry| entry.key).or(self.bound.take());
        }
        self.heap_bytes += bytes;
        self.heap.push(entry);
        Ok(())
    }

    /// Returns the resources used so far.
    #[must_use]
    pub fn totals(&self) -> SortTotals {
        self.totals
    }

    fn spill(&mut self, op: &Operation) -> Result<()> {
        if !op.may_use_disk() {
            return Err(Error::new(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                format!(
                    "Sort exceeded memory limit of {} bytes, but did not opt in to external \
                     sorting.",
                    op.sort_bytes_max()
                ),
            ));
        }
        let mut writer = op.scratch().create().map_err(store_failed)?;
        let entries = std::mem::take(&mut self.heap).into_sorted_vec();
        self.heap_bytes = 0;
        for entry in &entries {
            op.check()?;
            writer.push(&entry.key, &entry.doc).map_err(store_failed)?;
        }
        if let Some(blocks) = &mut self.blocks {
            for place in blocks.sorted()? {
                op.check()?;
                let (key, doc) = blocks.entry(&place);
                writer.push(key, doc).map_err(store_failed)?;
            }
            blocks.clear();
        }
        self.totals.spills += 1;
        self.totals.spilled_bytes += writer.bytes();
        self.runs.push((0, writer.finish().map_err(store_failed)?));
        self.merge_full_level(op)
    }

    /// Merges the newest runs into one when a level has many.
    fn merge_full_level(&mut self, op: &Operation) -> Result<()> {
        while let Some(&(level, _)) = self.runs.last() {
            let same = self.runs.iter().rev().take_while(|(other, _)| *other == level).count();
            if same < RUNS_MERGED {
                return Ok(());
            }
            let newest = self.runs.split_off(self.runs.len() - same);
            let mut merge = Merge::new(newest.into_iter().map(|(_, run)| run).collect())?;
            let mut writer = op.scratch().create().map_err(store_failed)?;
            let mut left = self.limit.unwrap_or(usize::MAX);
            while let Some((key, doc)) = merge.next_entry()?.filter(|_| left > 0) {
                op.check()?;
                left -= 1;
                writer.push(&key, &doc).map_err(store_failed)?;
            }
            self.runs.push((level + 1, writer.finish().map_err(store_failed)?));
        }
        Ok(())
    }

    /// Returns the documents in order.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn finish(mut self, op: &Operation) -> Result<Sorted> {
        if self.runs.is_empty() {
            let source = match self.blocks {
                Some(blocks) => Source::Blocks(blocks.sorted()?.into_iter(), blocks),
                None => Source::Heap(self.heap.into_sorted_vec().into_iter()),
            };
            return Ok(Sorted { source, _share: self.share });
        }
        if !self.heap.is_empty() || self.blocks.as_ref().is_some_and(|blocks| !blocks.is_empty()) {
            self.spill(op)?;
        }
        let runs = self.runs.into_iter().map(|(_, run)| run).collect();
        let left = self.limit.unwrap_or(usize::MAX);
        let source = Source::Disk { merge: Merge::new(runs)?, left };
        Ok(Sorted { source, _share: None })
    }
}

/// Documents in order, from memory or from runs on disk.
pub struct Sorted {
    source: Source,
    /// The memory reserved for the documents.
    _share: Option<Share>,
}

enum Source {
    Heap(std::vec::IntoIter<Entry>),
    Blocks(std::vec::IntoIter<BlockPosition>, Blocks),
    Disk { merge: Merge, left: usize },
}

impl Sorted {
    /// Returns the next document.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>> {
        match &mut self.source {
            Source::Heap(entries) => Ok(entries.next().map(|entry| entry.doc)),
            Source::Blocks(places, blocks) => {
                Ok(places.next().map(|place| blocks.entry(&place).1.to_vec()))
            }
            Source::Disk { left: 0, .. } => Ok(None),
            Source::Disk { merge, left } => {
                *left -= 1;
                Ok(merge.next_entry()?.map(|(_, doc)| doc))
            }
        }
    }

    /// Returns whether no document remains.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.source {
            Source::Heap(entries) => entries.len() == 0,
            Source::Blocks(places, _) => places.len() == 0,
            Source::Disk { merge, left } => *left == 0 || merge.heads.is_empty(),
        }
    }
}

/// The next entry of a run: its key, the number of the run, the document. Equal keys of an earlier
/// run come first.
type RunHead = (Vec<u8>, usize, Vec<u8>);

/// A merge of several sorted runs.
struct Merge {
    runs: Vec<Run>,
    /// The next entry of each run that has one, smallest first.
    heads: BinaryHeap<Reverse<RunHead>>,
}

impl Merge {
    fn new(runs: Vec<Run>) -> Result<Merge> {
        let mut merge = Merge { heads: BinaryHeap::with_capacity(runs.len()), runs };
        for at in 0..merge.runs.len() {
            merge.advance(at)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, at: usize) -> Result<()> {
        let Some(run) = self.runs.get_mut(at) else { return Ok(()) };
        if let Some((key, doc)) = run.next().map_err(store_failed)? {
            self.heads.push(Reverse((key, at, doc)));
        }
        Ok(())
    }

    fn next_entry(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(Reverse((key, at, doc))) = self.heads.pop() else { return Ok(None) };
        self.advance(at)?;
        Ok(Some((key, doc)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{DocBuf, Val};

    /// Returns documents sorted by a and then by arrival, with little memory.
    fn sorted(limit: Option<usize>, bytes_max: usize) -> (Vec<(i32, i32)>, SortTotals) {
        let op = Operation::for_tests(bytes_max);
        let spec = DocBuf::build(|out| {
            out.i32("a", 1);
        });
        let spec = query::sort::SortSpec::parse(spec.as_doc()).expect("a sort");
        let mut sorter = Sorter::new(spec, limit);
        for n in 0..5000_i32 {
            let doc = DocBuf::build(|out| {
                out.i32("_id", n).i32("a", n.wrapping_mul(7919) % 1000);
            });
            sorter.push(doc.as_doc(), &op).expect("sorts");
            let blocks_bytes = sorter.blocks.as_ref().map_or(0, Blocks::bytes);
            assert!(sorter.heap_bytes + blocks_bytes <= bytes_max);
        }
        let totals = sorter.totals();
        let mut sorted = sorter.finish(&op).expect("sorts");
        let mut found = Vec::new();
        while let Some(doc) = sorted.next().expect("reads") {
            let number = |name| match RawDoc::new(&doc).get(name) {
                Some(Val::Int32(n)) => n,
                _ => panic!("a number"),
            };
            found.push((number("a"), number("_id")));
        }
        assert!(sorted.is_done());
        (found, totals)
    }

    #[test]
    fn a_sort_that_may_not_use_the_disk_fails_beyond_its_memory() {
        let op = Operation::for_tests(100);
        op.set_disk_use(Some(false));
        let doc = DocBuf::build(|out| {
            out.i32("a", 1);
        });
        let spec = query::sort::SortSpec::parse(doc.as_doc()).expect("a sort");
        let mut sorter = Sorter::new(spec, None);
        let mut push = || sorter.push(doc.as_doc(), &op);
        let failed = push().and_then(|()| push()).expect_err("is refused");
        assert_eq!(failed.code().0, 292);
    }

    #[test]
    fn a_sort_on_disk_gives_the_order_of_one_in_memory() {
        let (expected, none) = sorted(None, usize::MAX);
        assert!(expected.is_sorted() && expected.len() == 5000 && none.spills == 0);
        for bytes_max in [4000, 20_000, 150_000] {
            let (found, totals) = sorted(None, bytes_max);
            assert!(totals.spills > 0);
            assert_eq!(found, expected, "with {bytes_max} bytes");
        }
        for limit in [1, 10, 700] {
            let (found, _) = sorted(Some(limit), 20_000);
            assert_eq!(found, expected[..limit], "the first {limit}");
        }
    }
}
