//! Groups of an input in which the documents of each group are consecutive. A group is returned
//! when the next one begins, so that there is no table and little memory, and the first groups are
//! returned before the input ends.

use super::program::{Program, ThreadSlots};
use super::table::Table;
use crate::exec::columns::Columns;
use crate::exec::{Consumer, Doc, Examined, Stream, Visit};
use crate::operation::Operation;
use bumpalo::Bump;
use value::{RawDoc, Result, Writer};

/// The stream of groups.
pub(super) struct Ordered {
    input: Box<dyn Stream>,
    program: Program,
    slots: ThreadSlots,
    /// Consecutive groups; the last one may still grow while the input has more.
    table: Table,
    given: usize,
    ended: bool,
    arena: Bump,
}

impl Ordered {
    pub(super) fn new(input: Box<dyn Stream>, program: Program) -> Ordered {
        let slots = program.thread_slots();
        let (table, arena) = (Table::ordered(&program), Bump::new());
        Ordered { input, program, slots, table, given: 0, ended: false, arena }
    }

    /// The number of complete groups.
    fn complete(&self) -> usize {
        self.table.len().saturating_sub(usize::from(!self.ended))
    }

    /// Ensures that there is a group to return; false at the end.
    fn advance(&mut self, op: &Operation) -> Result<bool> {
        op.check()?;
        while self.given >= self.complete() {
            if self.ended {
                return Ok(false);
            }
            if self.given > 0 {
                self.table.keep_last();
                self.given = 0;
            }
            let Ordered { input, program, slots, table, arena, .. } = self;
            let wanted = program.reads.as_deref().unwrap_or(&[]);
            let mut taker = GroupConsumer { program, slots, table, arena };
            self.ended = !input.lend(op, wanted, &mut taker)?;
        }
        Ok(true)
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.table.document(&self.program, self.given, &self.arena, out)?;
        self.arena.reset();
        self.given += 1;
        Ok(())
    }
}

impl Stream for Ordered {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if !self.advance(op)? {
            return Ok(None);
        }
        let mut doc = Vec::new();
        self.write(&mut doc)?;
        Ok(Some(Doc::Made(doc)))
    }

    fn for_each(&mut self, op: &Operation, visit: &mut Visit<'_>) -> Result<()> {
        let mut doc = Vec::new();
        while self.advance(op)? {
            doc.clear();
            self.write(&mut doc)?;
            visit(RawDoc::new(&doc))?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.ended && self.given >= self.table.len()
    }

    fn write_own_stats(&self, out: &mut Writer<'_>) {
        out.bool("usedDisk", false);
        out.i64("spills", 0).i64("spilledBytes", 0).i64("spilledRecords", 0);
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}

/// Adds borrowed documents to the current group, or begins the next.
struct GroupConsumer<'t> {
    program: &'t Program,
    slots: &'t mut ThreadSlots,
    table: &'t mut Table,
    arena: &'t mut Bump,
}

impl Consumer for GroupConsumer<'_> {
    fn document(&mut self, doc: RawDoc<'_>) -> Result<()> {
        self.program.take(self.slots, (doc, RawDoc::empty()), self.arena, self.table)?;
        self.arena.reset();
        Ok(())
    }

    #[inline]
    fn entry(&mut self, columns: Columns<'_>) -> Result<()> {
        self.table.add_entry(self.program, &columns, self.arena)?;
        self.arena.reset();
        Ok(())
    }

    fn pause(&self) -> bool {
        self.table.len() > 1
    }
}
