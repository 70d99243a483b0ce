//! Reads the input of a group, with one thread or in two parts with two threads.
//!
//! Each thread fills its own table. At the end the groups of the second are appended to those of
//! the first, so that firsts, lasts and lists are as if one thread had read everything.

use super::program::{Program, ThreadSlots};
use super::spill::{Groups, Spill};
use super::table::Table;
use crate::exec::columns::Columns;
use crate::exec::{Consumer, Stream};
use crate::operation::{Helper, Operation};
use bumpalo::Bump;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use value::{Error, RawDoc, Result};

/// Documents between two checks of the memory in use.
const DOCUMENTS_BETWEEN_CHECKS: u32 = 256;
/// Bytes of documents between two checks, when they are large.
const BYTES_BETWEEN_CHECKS: usize = 1024 * 1024;
/// The number of documents after which the number of groups is judged: merging many groups would
/// cost more than a second thread gains.
const DOCUMENTS_BEFORE_HELP: u32 = 4096;
const GROUPS_MAX_FOR_HELP: usize = 512;

/// Reads the input and its parts. Returns the groups in memory, or all of them on disk.
pub(super) fn read(
    input: &mut dyn Stream,
    parts: &mut [Box<dyn Stream>],
    program: &Program,
    op: &Operation,
) -> Result<Groups> {
    let share = op.group_bytes_max() / (parts.len() + 1);
    let mut own = Reader::new(program, share);
    let [part] = parts else {
        own.read(input, op, &mut |_| Ok(()))?;
        for part in parts {
            own.read(&mut **part, op, &mut |_| Ok(()))?;
        }
        return own.finish(Reader::new(program, share), op);
    };
    // Each thread stops when the other one failed.
    let (failed, helper_failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let flags = (&failed, &helper_failed);
    own.stop = Some(&helper_failed);
    let (result, other) = thread::scope(|scope| {
        let mut waiting = Some(part);
        let mut helping = None;
        let mut result = own.read(input, op, &mut |table| {
            let few = table.len() <= GROUPS_MAX_FOR_HELP;
            if few
                && let Some(helper) = waiting.as_ref().and_then(|_| op.helper())
                && let Some(part) = waiting.take()
            {
                helping =
                    Some(scope.spawn(move || help(&mut **part, program, share, helper, flags)));
            }
            Ok(())
        });
        failed.store(result.is_err(), Ordering::SeqCst);
        let other = helping.map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::internal("a thread of a group panicked")))
        });
        if let (Ok(()), Some(part)) = (&result, waiting) {
            result = own.read(&mut **part, op, &mut |_| Ok(()));
        }
        (result, other)
    });
    if !helper_failed.load(Ordering::SeqCst) {
        result?;
    }
    let other = other.unwrap_or_else(|| Ok(Reader::new(program, share)))?;
    own.stop = None;
    own.finish(other, op)
}

/// The work of the second thread.
fn help<'p>(
    part: &mut dyn Stream,
    program: &'p Program,
    share: usize,
    helper: Helper,
    (failed, helper_failed): (&'p AtomicBool, &AtomicBool),
) -> Result<Reader<'p>> {
    let _watching = helper.operation.watch();
    let mut reader = Reader::new(program, share);
    reader.stop = Some(failed);
    let result = reader.read(part, &helper.operation, &mut |_| Ok(()));
    // A thread that stopped because the first one failed did not fail itself.
    if result.is_err() && !failed.load(Ordering::SeqCst) {
        helper_failed.store(true, Ordering::SeqCst);
    }
    reader.stop = None;
    result.map(|()| reader)
}

/// The groups of one thread.
struct Reader<'p> {
    program: &'p Program,
    table: Table,
    spill: Spill,
    stop: Option<&'p AtomicBool>,
}

impl<'p> Reader<'p> {
    fn new(program: &'p Program, bytes_max: usize) -> Reader<'p> {
        Reader { program, table: Table::new(program), spill: Spill::new(0, bytes_max), stop: None }
    }

    /// Reads all documents of a stream. `early` is called with the groups of the first ones.
    fn read(
        &mut self,
        input: &mut dyn Stream,
        op: &Operation,
        early: &mut dyn FnMut(&Table) -> Result<()>,
    ) -> Result<()> {
        let (slots, arena) = (self.program.thread_slots(), Bump::new());
        let program = self.program;
        let mut taker = GroupConsumer { reader: self, op, early, slots, arena, seen: 0, bytes: 0 };
        if input.has_meta() {
            while let Some(doc) = input.next(op)? {
                let meta = input.meta().unwrap_or_default();
                taker.take(doc.raw(), meta.as_doc())?;
            }
            return Ok(());
        }
        match program.reads.as_ref().filter(|_| !program.unwinds()) {
            Some(wanted) => input.lend(op, wanted, &mut taker).map(|_| ()),
            None => input.for_each(op, &mut |doc| taker.document(doc)),
        }
    }

    /// Appends the groups of another reader.
    fn finish(mut self, mut other: Reader<'_>, op: &Operation) -> Result<Groups> {
        let Reader { program, table, spill, .. } = &mut self;
        spill.bytes_max = op.group_bytes_max();
        if spill.is_empty() && other.spill.is_empty() {
            let mut saved = Vec::new();
            for at in 0..other.table.len() {
                op.check()?;
                saved.clear();
                other.table.save(at, &mut saved);
                table.absorb(program, other.table.keys.key(at), &saved)?;
                table.check_memory(program, spill, op)?;
            }
            if spill.is_empty() {
                return Ok(Groups::in_memory(self.table, self.spill.share));
            }
            other.table = Table::new(program);
        }
        spill.write(table, program, op)?;
        other.spill.write(&mut other.table, program, op)?;
        let mut totals = spill.totals();
        totals.add(other.spill.totals());
        let partitions = self.spill.finish(other.spill)?;
        Ok(Groups { table: self.table, partitions, totals, share: None })
    }
}

/// Adds borrowed documents to the groups of a reader.
struct GroupConsumer<'t, 'p> {
    reader: &'t mut Reader<'p>,
    op: &'t Operation,
    early: &'t mut dyn FnMut(&Table) -> Result<()>,
    slots: ThreadSlots,
    arena: Bump,
    seen: u32,
    /// Bytes of documents since the last check.
    bytes: usize,
}

impl GroupConsumer<'_, '_> {
    #[inline]
    fn take(&mut self, doc: RawDoc<'_>, meta: RawDoc<'_>) -> Result<()> {
        let Reader { program, table, .. } = &mut *self.reader;
        program.take(&mut self.slots, (doc, meta), &self.arena, table)?;
        self.bytes = self.bytes.saturating_add(doc.bytes().len());
        self.note_document()
    }

    /// Checks periodically whether to continue.
    #[inline]
    fn note_document(&mut self) -> Result<()> {
        self.arena.reset();
        self.seen = self.seen.wrapping_add(1);
        let many = self.seen.is_multiple_of(DOCUMENTS_BETWEEN_CHECKS);
        if many || self.bytes > BYTES_BETWEEN_CHECKS { self.check_limits() } else { Ok(()) }
    }

    fn check_limits(&mut self) -> Result<()> {
        self.bytes = 0;
        let Reader { program, table, spill, stop } = &mut *self.reader;
        table.check_memory(program, spill, self.op)?;
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Error::internal("the other thread of a group failed"));
        }
        if self.seen == DOCUMENTS_BEFORE_HELP { (self.early)(table) } else { Ok(()) }
    }
}

impl Consumer for GroupConsumer<'_, '_> {
    #[inline]
    fn document(&mut self, doc: RawDoc<'_>) -> Result<()> {
        self.take(doc, RawDoc::empty())
    }

    #[inline]
    fn entry(&mut self, columns: Columns<'_>) -> Result<()> {
        let Reader { program, table, .. } = &mut *self.reader;
        table.add_entry(program, &columns, &self.arena)?;
        self.note_document()
    }
}
