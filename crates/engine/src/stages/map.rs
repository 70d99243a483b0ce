//! Stages that turn each document into another one, or into none.

use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use bumpalo::Bump;
use std::sync::Arc;
use value::{DocBuf, RawDoc, Result};

/// Makes one document from another.
pub(super) trait Change: Send + Sync {
    /// Appends the new document to `out`.
    fn apply(&self, doc: RawDoc<'_>, arena: &Bump, out: &mut Vec<u8>) -> Result<()>;

    /// The same with metadata that `$meta` can ask for.
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

    fn score(&self) -> Option<f64> {
        self.input.score()
    }

    fn meta(&self) -> Option<DocBuf> {
        self.input.meta()
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}
