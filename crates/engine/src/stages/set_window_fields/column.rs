//! Columns: a compact list with a value for every document of a partition, and the memory limit for
//! the columns of a partition.

use super::Partition;
use crate::operation::Operation;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use std::cell::Cell;
use value::writer::write_value;
use value::{Code, Error, RawVal, Result, Val};

/// A list of encoded values.
#[derive(Default)]
pub(super) struct Column {
    kinds: Vec<u8>,
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

/// Memory overhead of a value.
const VALUE_BYTES: usize = size_of::<u8>() + size_of::<u32>();

impl Column {
    /// Appends a value.
    pub(super) fn push(&mut self, value: Val<'_>) -> Result<()> {
        write_value(&mut self.bytes, value);
        let end = u32::try_from(self.bytes.len());
        let end = end.map_err(|_| exceeded(self.memory_bytes(), u32::MAX as usize))?;
        self.kinds.push(value.kind() as u8);
        self.ends.push(end);
        Ok(())
    }

    /// The value at an index; missing beyond the end.
    pub(super) fn get(&self, at: usize) -> Val<'_> {
        self.raw(at).get()
    }

    /// The undecoded value at an index.
    pub(super) fn raw(&self, at: usize) -> RawVal<'_> {
        let end = |at: usize| self.ends.get(at).map_or(0, |end| *end as usize);
        let from = at.checked_sub(1).map_or(0, end);
        let kind = self.kinds.get(at).copied().unwrap_or(0);
        RawVal { kind, bytes: self.bytes.get(from..end(at)).unwrap_or(&[]) }
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// All values.
    pub(super) fn iter(&self) -> impl Iterator<Item = Val<'_>> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// The first index, in sorted values, at which a test fails.
    pub(super) fn partition_point(&self, holds: impl Fn(Val<'_>) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(self.get(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.len() * VALUE_BYTES
    }

    /// Removes all values.
    pub(super) fn clear(&mut self) {
        self.kinds.clear();
        self.ends.clear();
        self.bytes.clear();
    }
}

/// The memory limit for the columns of one partition. Documents and results can go to disk, columns
/// cannot.
pub(super) struct Memory {
    used: Cell<usize>,
    max: usize,
}

impl Memory {
    /// A limit of this many bytes.
    pub(super) fn new(max: usize) -> Memory {
        Memory { used: Cell::new(0), max }
    }

    /// Reserves bytes.
    pub(super) fn take(&self, bytes: usize) -> Result<()> {
        let used = self.used.get().saturating_add(bytes);
        self.used.set(used);
        if used > self.max { Err(exceeded(used, self.max)) } else { Ok(()) }
    }

    /// The bytes in use.
    pub(super) fn used(&self) -> usize {
        self.used.get()
    }

    /// Releases everything reserved since `used` had this value.
    pub(super) fn give_back(&self, used: usize) {
        self.used.set(used);
    }
}

fn exceeded(used: usize, max: usize) -> Error {
    Error::new(
        Code(5414201),
        format!(
            "Exceeded memory limit in DocumentSourceSetWindowFields, used {used} bytes but max \
             allowed is {max}"
        ),
    )
}

/// The value of an expression for every document; null where it has none.
pub(super) fn evaluate(expr: &Expr, partition: &Partition, op: &Operation) -> Result<Column> {
    evaluate_or(expr, partition, Val::Null, op)
}

/// The value of an expression for every document; a default where it has none.
pub(super) fn evaluate_or(
    expr: &Expr,
    partition: &Partition,
    other: Val<'static>,
    op: &Operation,
) -> Result<Column> {
    let mut column = Column::default();
    let mut arena = Bump::new();
    partition.for_each(op, |doc| {
        let before = column.memory_bytes();
        match expr.eval(&Env::new(doc, &arena))? {
            Val::Missing => column.push(other)?,
            value => column.push(value)?,
        }
        arena.reset();
        partition.memory.take(column.memory_bytes() - before)
    })?;
    Ok(column)
}
