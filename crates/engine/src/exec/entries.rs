//! Reading index entries: those within the bounds of a plan that also pass the conditions that can
//! be tested on keys.
//!
//! Key ranges express the bounds of the leading fields. Bounds of later fields are checked entry by
//! entry. After several consecutive entries outside the bounds, the scan seeks to the next key that
//! can be inside.

use super::Examined;
use super::merge::Merged;
use crate::catalog::Index;
use crate::operation::Operation;
use crate::planner::cover::{Cover, Made};
use crate::planner::key_check::{KeyCheck, KeyFilter, Verdict};
use crate::planner::probes::Probes;
use crate::planner::{Candidate, KeyRange};
use crate::store_failed;
use std::ops::Bound;
use std::sync::Arc;
use store::{Bytes, Direction, Range, Snapshot, Space};
use value::{Code, Error, RawDoc, Result};

/// Entries outside the bounds that are skipped one by one before the scan seeks. A seek costs as
/// much as several steps.
const STEPS: usize = 8;

/// How the entries of an index are read.
pub struct Reading {
    /// The index.
    pub index: Arc<Index>,
    /// How documents are built from entries, if none need be fetched.
    pub cover: Option<Arc<Cover>>,
    direction: Direction,
    check: Option<Arc<KeyCheck>>,
    key_filter: Option<Arc<KeyFilter>>,
    probes: Option<Arc<Probes>>,
}

impl Reading {
    /// Returns how a candidate reads its index.
    #[must_use]
    pub fn of(candidate: &Candidate) -> Arc<Reading> {
        Arc::new(Reading {
            index: candidate.index.clone(),
            cover: candidate.cover.clone(),
            direction: candidate.direction,
            check: candidate.check.clone(),
            key_filter: candidate.key_filter.clone(),
            probes: candidate.probes.clone(),
        })
    }
}

impl Reading {
    /// Returns whether every entry yields a document, none is skipped, and they are read in
    /// ascending order.
    #[must_use]
    pub fn yields_every_entry_forward(&self) -> bool {
        self.direction == Direction::Forward && self.yields_every_entry()
    }

    fn yields_every_entry(&self) -> bool {
        self.cover.is_some()
            && self.check.is_none()
            && self.key_filter.is_none()
            && self.probes.is_none()
    }
}

/// A scan of the entries in ranges of one index.
pub struct EntryScan {
    /// How they are read.
    pub reading: Arc<Reading>,
    source: Source,
}

enum Source {
    One(Range, KeyRange),
    Merged(Box<Merged>),
}

/// An entry: its key, its value, and whether the key filter must still be tested on the document.
pub struct Entry {
    /// The key with the index's prefix.
    pub key: Bytes,
    /// The type information that the key lacks.
    pub types: Bytes,
    /// Whether the key was not sufficient to decide the filter.
    pub unsure: bool,
}

impl EntryScan {
    /// Opens a scan of one range.
    ///
    /// # Errors
    /// When the store fails.
    pub fn one(snapshot: &Snapshot, reading: Arc<Reading>, range: KeyRange) -> Result<EntryScan> {
        let opened = open(snapshot, &range, reading.direction)?;
        Ok(EntryScan { reading, source: Source::One(opened, range) })
    }

    /// Opens a merged scan of all ranges.
    ///
    /// # Errors
    /// When the store fails.
    pub fn merged(snapshot: &Snapshot, candidate: &Candidate) -> Result<EntryScan> {
        let pairs = candidate.ranges.iter().zip(&candidate.merge);
        let opened =
            pairs.map(|(range, skip)| Ok((open(snapshot, range, candidate.direction)?, *skip)));
        let merged = Merged::new(opened.collect::<Result<Vec<_>>>()?, candidate.direction)?;
        let source = Source::Merged(Box::new(merged));
        Ok(EntryScan { reading: Reading::of(candidate), source })
    }

    /// Returns the next entry that passes.
    ///
    /// # Errors
    /// When the store fails, an entry is damaged or the operation is stopped.
    pub fn next(
        &mut self,
        snapshot: &Snapshot,
        examined: &mut Examined,
        op: &Operation,
    ) -> Result<Option<Entry>> {
        let mut outside = 0;
        loop {
            let found = match &mut self.source {
                Source::One(range, _) => range.next_entry().map_err(store_failed)?,
                Source::Merged(merged) => merged.next_entry()?,
            };
            let Some((key, types)) = found else { return Ok(None) };
            examined.keys += 1;
            if let Some(check) = &self.reading.check {
                match check.check(&key, self.reading.direction) {
                    Verdict::Inside => {}
                    Verdict::Damaged => return Err(damaged(&self.reading.index)),
                    Verdict::Jump(target) => {
                        op.check()?;
                        outside += 1;
                        if outside >= STEPS {
                            outside = 0;
                            if !self.jump(snapshot, target)? {
                                return Ok(None);
                            }
                        }
                        continue;
                    }
                }
            }
            let mut unsure = false;
            if let Some(test) = &self.reading.key_filter {
                match test.cover.document(key.get(4..).unwrap_or(&[]), &types) {
                    Made::Document(doc) => {
                        if !test.filter.matches(RawDoc::new(&doc))? {
                            op.check()?;
                            continue;
                        }
                    }
                    Made::Unknown => unsure = true,
                    Made::Damaged => return Err(damaged(&self.reading.index)),
                }
            }
            if let Some(probes) = &self.reading.probes {
                match probes.pass(snapshot, &key, examined)? {
                    Some(true) => {}
                    Some(false) => {
                        op.check()?;
                        continue;
                    }
                    None => return Err(damaged(&self.reading.index)),
                }
            }
            return Ok(Some(Entry { key, types, unsure }));
        }
    }

    /// Returns whether every entry yields a document and none is skipped.
    #[must_use]
    pub fn yields_every_entry(&self) -> bool {
        matches!(self.source, Source::One(..)) && self.reading.yields_every_entry()
    }

    /// Returns the range that is read if `yields_every_entry` holds, with its index and its cover.
    pub fn plain(&mut self) -> Option<(&Index, &mut Range, &Cover)> {
        let Source::One(range, _) = &mut self.source else { return None };
        Some((&self.reading.index, range, self.reading.cover.as_deref()?))
    }

    /// Returns whether a document passes the filter that an unsure entry could not decide.
    ///
    /// # Errors
    /// Errors of the filter.
    pub fn passes(&self, doc: &[u8]) -> Result<bool> {
        let test = self.reading.key_filter.as_ref();
        test.map_or(Ok(true), |test| test.filter.matches(RawDoc::new(doc)))
    }

    /// Seeks to a key. Returns false if it is after the range. Merged ranges are read entry by
    /// entry.
    fn jump(&mut self, snapshot: &Snapshot, target: Vec<u8>) -> Result<bool> {
        let Source::One(range, whole) = &mut self.source else { return Ok(true) };
        match self.reading.direction {
            Direction::Forward => whole.from = target,
            Direction::Reverse => whole.to = target,
        }
        if whole.from >= whole.to {
            return Ok(false);
        }
        *range = open(snapshot, whole, self.reading.direction)?;
        Ok(true)
    }
}

fn open(snapshot: &Snapshot, range: &KeyRange, direction: Direction) -> Result<Range> {
    let from = Bound::Included(range.from.as_slice());
    let to = Bound::Excluded(range.to.as_slice());
    snapshot.range(Space::Indexes, from, to, direction).map_err(store_failed)
}

/// Returns the error for a damaged entry.
#[cold]
pub(crate) fn damaged(index: &Index) -> Error {
    Error::new(
        Code::DATA_CORRUPTION_DETECTED,
        format!("an entry of index '{}' is not understood; run `motif check`", index.name),
    )
}
