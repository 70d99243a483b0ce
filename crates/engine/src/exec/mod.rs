//! Execution: streams that pull documents from each other.
//!
//! `scan` finds documents by a plan's access (`entries` reads those of an index, `walk` the nodes of a tree, `columns` the values
//! in them, `distinct` one for each value), `resolve` adds to them what patterns do not store, `find` filters, sorts, skips, limits and projects
//! them, `write` changes documents. Nothing here parses.
//!
//! Layer: queries.

pub mod columns;
pub mod distinct;
pub mod entries;
pub mod find;
pub mod merge;
pub mod metadata;
pub mod modify;
mod near;
pub mod ready;
pub mod return_key;
pub mod scan;
pub mod sort;
pub mod walk;

use crate::operation::Operation;
pub use crate::planner::cover::FieldRead;
pub use crate::planner::run::Examined;
pub(crate) use crate::upkeep::write;
use columns::Columns;
use std::ops::Deref;
use store::Bytes;
use value::{DocBuf, RawDoc, Result, Writer};

/// A document on its way: bytes shared with the store, or its own.
#[derive(Clone)]
pub enum Doc {
    /// Bytes of the store; no copy was made.
    Stored(Bytes),
    /// Bytes that a stage made.
    Made(Vec<u8>),
}

impl Deref for Doc {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Doc::Stored(bytes) => bytes,
            Doc::Made(bytes) => bytes,
        }
    }
}

impl Doc {
    /// The document, to read.
    #[must_use]
    pub fn raw(&self) -> RawDoc<'_> {
        RawDoc::new(self)
    }
}

/// Takes documents that are lent to it, one after another.
pub type Visit<'v> = dyn FnMut(RawDoc<'_>) -> Result<()> + 'v;

/// Takes what is lent to it: documents, or of entries the fields that it wants.
pub trait Take {
    /// Takes a document.
    ///
    /// # Errors
    /// What whoever takes it gives.
    fn document(&mut self, doc: RawDoc<'_>) -> Result<()>;

    /// Takes the wanted fields of a document, in the order in which they were asked for.
    ///
    /// # Errors
    /// What whoever takes it gives.
    fn entry(&mut self, columns: Columns<'_>) -> Result<()>;

    /// Whether that is enough for now. Asked from time to time.
    fn pause(&self) -> bool {
        false
    }
}

/// Documents, one at a time.
pub trait Stream: Send {
    /// The next document.
    ///
    /// # Errors
    /// What the stage or the store gives, or that the operation was stopped.
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>>;

    /// Lends all documents that are left to `visit`. Stages that read everything before they
    /// answer take their input this way: a document is neither copied nor counted then.
    ///
    /// # Errors
    /// As `next`, and what `visit` gives.
    fn for_each(&mut self, op: &Operation, visit: &mut Visit<'_>) -> Result<()> {
        while let Some(doc) = self.next(op)? {
            op.check()?;
            visit(doc.raw())?;
        }
        Ok(())
    }

    /// Lends what is left as `for_each` does, but only the wanted fields where they are found
    /// without a document. True if it was asked to pause before the end.
    ///
    /// # Errors
    /// As `for_each`.
    fn lend(&mut self, op: &Operation, _reads: &[FieldRead], take: &mut dyn Take) -> Result<bool> {
        self.for_each(op, &mut |doc| take.document(doc)).map(|()| false)
    }

    /// Cuts off parts that others can read at the same time: what is left of this stream comes
    /// first, then each part in its order. Nothing where that cannot be done, or does not pay.
    fn split(&mut self, _parts: usize) -> Vec<Box<dyn Stream>> {
        Vec::new()
    }

    /// Whether it is known already that no document follows. A stream that would have to look
    /// says no, as MongoDB does: the client asks once more and gets an empty batch.
    fn is_done(&self) -> bool {
        false
    }

    /// The stream that the documents come from, if what it says of its last document and of its
    /// reading holds for this one too.
    fn source(&self) -> Option<&dyn Stream> {
        None
    }

    /// The score that the last document has for a text search, if there is one.
    fn score(&self) -> Option<f64> {
        self.source()?.score()
    }

    /// What `$meta` can ask for of the last document, by keyword.
    fn meta(&self) -> Option<DocBuf> {
        if let Some(source) = self.source() {
            return source.meta();
        }
        let score = self.score()?;
        Some(DocBuf::build(|out| {
            out.f64("textScore", score);
        }))
    }

    /// Writes what the stage itself has to tell of its run, for explain.
    fn figures(&self, _out: &mut Writer<'_>) {}

    /// Whether documents have something that `$meta` can ask for, document by document.
    fn has_meta(&self) -> bool {
        self.source().is_some_and(|source| source.has_meta())
    }

    /// Adds what was examined so far.
    fn examined(&self, total: &mut Examined) {
        if let Some(source) = self.source() {
            source.examined(total);
        }
    }
}
