//! The results of a window function for the documents of a partition, in order: written once, read
//! once. Many results go to a temporary file.

use super::column::Column;
use super::partition::no_disk;
use crate::operation::Operation;
use crate::store_failed;
use store::{Run, RunWriter};
use value::{RawVal, Result, Val};

/// Results during writing.
pub(super) struct Output<'o> {
    op: &'o Operation,
    rows: Column,
    /// Rows on disk, and the last of them.
    spilled: Option<(RunWriter, u8, Vec<u8>)>,
    /// Maximum memory of the rows.
    bytes_max: usize,
}

/// The part of the stage's memory for the results of all functions.
const SHARE: usize = 8;

impl<'o> Output<'o> {
    /// Begins without results, for one of this many functions.
    pub(super) fn new(op: &'o Operation, functions: usize) -> Output<'o> {
        let bytes_max = op.sort_bytes_max() / SHARE / functions.max(1);
        Output { op, rows: Column::default(), spilled: None, bytes_max }
    }

    /// Appends the result for the next document.
    pub(super) fn push(&mut self, value: Val<'_>) -> Result<()> {
        self.rows.push(value)?;
        if self.rows.memory_bytes() > self.bytes_max { self.spill() } else { Ok(()) }
    }

    /// Repeats the last result for the next document.
    pub(super) fn repeat(&mut self) -> Result<()> {
        let last = match (self.rows.len().checked_sub(1), &self.spilled) {
            (Some(at), _) => value::OwnedVal::new(self.rows.get(at)),
            (None, Some((_, kind, bytes))) => {
                value::OwnedVal::new(RawVal { kind: *kind, bytes }.get())
            }
            (None, None) => value::OwnedVal::new(Val::Null),
        };
        self.push(last.get())
    }

    fn spill(&mut self) -> Result<()> {
        if !self.op.may_use_disk() {
            return Err(no_disk());
        }
        let (mut writer, mut kind, mut bytes) = match self.spilled.take() {
            Some(spilled) => spilled,
            None => (self.op.scratch().create().map_err(store_failed)?, 0, Vec::new()),
        };
        for at in 0..self.rows.len() {
            let row = self.rows.raw(at);
            writer.push(&[row.kind], row.bytes).map_err(store_failed)?;
            if at + 1 == self.rows.len() {
                kind = row.kind;
                bytes.clear();
                bytes.extend_from_slice(row.bytes);
            }
        }
        self.spilled = Some((writer, kind, bytes));
        self.rows.clear();
        Ok(())
    }

    /// Finishes writing.
    pub(super) fn finish(self) -> Result<Results> {
        let run = match self.spilled {
            Some((writer, ..)) => Some(writer.finish().map_err(store_failed)?),
            None => None,
        };
        Ok(Results { run, rows: self.rows, next: 0 })
    }
}

/// Results for reading.
pub(super) struct Results {
    /// Those on disk come first.
    run: Option<Run>,
    rows: Column,
    next: usize,
}

impl Results {
    /// Memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes()
    }

    /// Returns the next result; `buffer` holds it if it comes from disk.
    pub(super) fn next<'a>(&'a mut self, buffer: &'a mut Vec<u8>) -> Result<RawVal<'a>> {
        if let Some(run) = &mut self.run {
            if let Some((kind, bytes)) = run.next().map_err(store_failed)? {
                *buffer = bytes;
                return Ok(RawVal { kind: kind.first().copied().unwrap_or(0), bytes: buffer });
            }
            self.run = None;
        }
        let at = self.next;
        self.next += 1;
        Ok(self.rows.raw(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_back_in_order_from_disk_and_memory() {
        for bytes_max in [80, 1000, 1 << 20] {
            let op = Operation::for_tests(bytes_max);
            let mut output = Output::new(&op, 1);
            for n in 0..500 {
                match n % 3 {
                    2 => output.repeat().expect("takes"),
                    _ => output.push(Val::Int32(n)).expect("takes"),
                }
            }
            let mut results = output.finish().expect("finishes");
            assert!(results.memory_bytes() <= bytes_max);
            let mut buffer = Vec::new();
            for n in 0..500 {
                let expected = if n % 3 == 2 { n - 1 } else { n };
                assert_eq!(results.next(&mut buffer).expect("reads").get(), Val::Int32(expected));
            }
        }
    }
}
