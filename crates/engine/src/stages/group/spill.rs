//! Groups on disk: when memory is full, the states of all groups are written to partitions by the
//! hash of their keys, and grouping continues with an empty table. At the end each partition is
//! read back separately; one that does not fit is divided again by further bits of the hash.

use super::program::Program;
use super::table::Table;
use crate::memory::Share;
use crate::operation::Operation;
use crate::store_failed;
use store::{Run, RunWriter};
use value::Result;

/// Bits of the hash that select the partition of one level.
const BITS: u32 = 4;
const PARTITIONS: usize = 1 << BITS;
/// The number of levels; after these the bits are used up.
const LEVELS_MAX: u32 = 60 / BITS;

/// The partitions of one level that have been written.
pub(super) struct Spill {
    /// Maximum bytes of the groups in memory.
    pub(super) bytes_max: usize,
    level: u32,
    writers: Vec<Option<RunWriter>>,
    totals: Totals,
    /// The shared memory that the groups take.
    pub(super) share: Option<Share>,
}

/// Spill statistics.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Totals {
    /// How often memory was full.
    pub(super) spills: u64,
    /// Groups that were written.
    pub(super) groups: u64,
    /// Bytes that were written.
    pub(super) bytes: u64,
}

impl Totals {
    pub(super) fn add(&mut self, other: Totals) {
        self.spills += other.spills;
        self.groups += other.groups;
        self.bytes += other.bytes;
    }
}

/// Groups, in memory or on disk.
pub(super) struct Groups {
    pub(super) table: Table,
    pub(super) partitions: Vec<Partition>,
    pub(super) totals: Totals,
    /// The memory accounting of the groups in the table.
    pub(super) share: Option<Share>,
}

impl Groups {
    /// Groups that were never spilled.
    pub(super) fn in_memory(table: Table, share: Option<Share>) -> Groups {
        Groups { table, partitions: Vec::new(), totals: Totals::default(), share }
    }
}

/// A written partition that is to be read.
pub(super) struct Partition {
    level: u32,
    /// Runs of the same keys, in the order of the documents.
    runs: Vec<Run>,
}

impl Spill {
    /// Begins without partitions.
    pub(super) fn new(level: u32, bytes_max: usize) -> Spill {
        Spill { bytes_max, level, writers: Vec::new(), totals: Totals::default(), share: None }
    }

    /// Whether there are hash bits left to divide by.
    pub(super) fn can_divide(&self) -> bool {
        self.level < LEVELS_MAX
    }

    /// What was written so far.
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.writers.is_empty()
    }

    /// Writes all groups of a table and empties it.
    pub(super) fn write(
        &mut self,
        table: &mut Table,
        program: &Program,
        op: &Operation,
    ) -> Result<()> {
        self.writers.resize_with(PARTITIONS, || None);
        let mut saved = Vec::new();
        for at in 0..table.len() {
            op.check()?;
            let bits = table.keys.hash(at) >> (u64::BITS - BITS * (self.level + 1));
            let Some(writer) = self.writers.get_mut(bits as usize % PARTITIONS) else { continue };
            let writer = match writer {
                Some(writer) => writer,
                None => writer.insert(op.scratch().create().map_err(store_failed)?),
            };
            saved.clear();
            table.save(at, &mut saved);
            let key = table.keys.key(at);
            writer.push(key, &saved).map_err(store_failed)?;
            self.totals.bytes += (key.len() + saved.len()) as u64;
        }
        self.totals.spills += 1;
        self.totals.groups += table.len() as u64;
        *table = Table::new(program);
        self.share = None;
        Ok(())
    }

    /// Finishes writing. Each partition has the groups of both, those of this one first.
    pub(super) fn finish(mut self, mut other: Spill) -> Result<Vec<Partition>> {
        let level = self.level + 1;
        self.writers.resize_with(PARTITIONS, || None);
        other.writers.resize_with(PARTITIONS, || None);
        let mut partitions = Vec::new();
        for pair in self.writers.into_iter().zip(other.writers) {
            let mut runs = Vec::new();
            for writer in [pair.0, pair.1].into_iter().flatten() {
                runs.push(writer.finish().map_err(store_failed)?);
            }
            if !runs.is_empty() {
                partitions.push(Partition { level, runs });
            }
        }
        Ok(partitions)
    }
}

impl Partition {
    /// The groups of the partition; or, when they do not fit into memory, smaller partitions.
    pub(super) fn read(self, program: &Program, op: &Operation) -> Result<Groups> {
        let mut table = Table::new(program);
        let mut spill = Spill::new(self.level, op.group_bytes_max());
        for mut run in self.runs {
            while let Some((key, saved)) = run.next().map_err(store_failed)? {
                op.check()?;
                table.absorb(program, &key, &saved)?;
                table.check_memory(program, &mut spill, op)?;
            }
        }
        if spill.is_empty() {
            return Ok(Groups::in_memory(table, spill.share));
        }
        spill.write(&mut table, program, op)?;
        let totals = spill.totals();
        let none = Spill::new(self.level, 0);
        Ok(Groups { table, partitions: spill.finish(none)?, totals, share: None })
    }
}
