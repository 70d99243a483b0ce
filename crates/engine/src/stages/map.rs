//! Stages that turn each document into another one, or into none.

use crate::exec::{Doc, Stream, Visit};
use crate::operation::Operation;
use bumpalo::Bump;
use std::sync::Arc;
use value::{RawDoc, Result};

/// Computes one document from another.
pub(super) trait Change: Send + Sync {
    /// Appends the new document to `out`.
    fn apply(&self, doc: RawDoc<'_>, arena: &Bump, out: &mut Vec<u8>) -> Result<()>;

    /// The same, with metadata for `$meta`.
    fn apply_with_meta(
        &self,
        doc: RawDoc<'_>,
        _meta: RawDoc<'_>,
        arena: &Bump,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.apply(doc, arena, out)
    }
}

/// Applies a change to every document of a stream.
pub(super) fn mapped(input: Box<dyn Stream>, change: Arc<dyn Change>) -> Box<dyn Stream> {
    Box::new(Mapped { input, change, arena: Bump::new() })
}

struct Mapped {
    input: Box<dyn Stream>,
    change: Arc<dyn Change>,
    arena: Bump,
}

impl Stream for Mapped {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        let Some(doc) = self.input.next(op)? else { return Ok(None) };
        let mut out = Vec::with_capacity(doc.len());
        match self.input.meta() {
            None => self.change.apply(doc.raw(), &self.arena, &mut out)?,
            Some(meta) => {
                self.change.apply_with_meta(doc.raw(), meta.as_doc(), &self.arena, &mut out)?;
            }
        }
        self.arena.reset();
        Ok(Some(Doc::Made(out)))
    }

    fn split(&mut self, parts: usize) -> Vec<Box<dyn Stream>> {
        let parts = self.input.split(parts).into_iter();
        parts.map(|input| mapped(input, self.change.clone())).collect()
    }

    fn for_each(&mut self, op: &Operation, visit: &mut Visit<'_>) -> Result<()> {
        // Metadata belongs to the last returned document, so documents are read one by one.
        if self.input.has_meta() {
            while let Some(doc) = self.next(op)? {
                visit(doc.raw())?;
            }
            return Ok(());
        }
        let Mapped { input, change, arena } = self;
        let mut out = Vec::new();
        input.for_each(op, &mut |doc| {
            out.clear();
            change.apply(doc, arena, &mut out)?;
            arena.reset();
            visit(RawDoc::new(&out))
        })
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.input)
    }
}
