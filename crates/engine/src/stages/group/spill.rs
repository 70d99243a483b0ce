//! Groups on disk: when memory is full, the states of all groups are written to partitions by the
//! hash of their keys, and grouping goes on with an empty table. At the end each partition is read
//! back alone; one that does not fit either is divided again by further bits of the hash.

use super::program::Program;
use super::table::Table;
use crate::operation::Operation;
use crate::store_failed;
use store::{Run, RunWriter};
use value::Result;

/// Bits of the hash that tell the partitions of one level apart.
const BITS: u32 = 4;
const PARTITIONS: usize = 1 << BITS;
/// Levels after which the bits are used up.
const LEVELS_MAX: u32 = 60 / BITS;

/// The partitions of one level, as far as they are written.
pub(super) struct Spill {
    level: u32,
    writers: Vec<Option<RunWriter>>,
}

/// A partition that was written and is to be read.
pub(super) struct Partition {
    level: u32,
    run: Run,
}

impl Spill {
    /// No partitions yet.
    pub(super) fn new(level: u32) -> Spill {
        Spill { level, writers: Vec::new() }
    }

    /// Whether there are bits left to divide by.
    pub(super) fn can_divide(&self) -> bool {
        self.level < LEVELS_MAX
    }

    /// Whether nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.writers.is_empty()
    }

    /// Writes all groups of a table, which is empty then.
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
            table.save(program, at, &mut saved);
            writer.push(table.keys.key(at), &saved).map_err(store_failed)?;
        }
        *table = Table::new();
        Ok(())
    }

    /// Ends writing.
    pub(super) fn finish(self) -> Result<Vec<Partition>> {
        let level = self.level + 1;
        let written = self.writers.into_iter().flatten();
        written
            .map(|writer| Ok(Partition { level, run: writer.finish().map_err(store_failed)? }))
            .collect()
    }
}

impl Partition {
    /// The groups of the partition; or, when they do not fit into memory, smaller partitions.
    pub(super) fn read(
        mut self,
        program: &Program,
        op: &Operation,
    ) -> Result<(Table, Vec<Partition>)> {
        let mut table = Table::new();
        let mut spill = Spill::new(self.level);
        while let Some((key, saved)) = self.run.next().map_err(store_failed)? {
            op.check()?;
            table.absorb(program, &key, &saved)?;
            table.check_memory(program, &mut spill, op)?;
        }
        if spill.is_empty() {
            return Ok((table, Vec::new()));
        }
        spill.write(&mut table, program, op)?;
        Ok((table, spill.finish()?))
    }
}
