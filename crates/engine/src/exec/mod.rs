//! Execution: streams that pull documents from each other.
//!
//! `scan` finds documents by a plan's access. `entries` reads index entries, `columns` reads values
//! from them, `distinct` reads one entry per value, `count` counts documents, and `walk` reads the
//! nodes of a tree. `find` filters, sorts, skips, limits and projects. `modify` changes documents. Nothing here parses
//! commands.
//!
//! Layer: queries.

pub mod columns;
pub mod count;
pub mod distinct;
pub mod entries;
pub mod find;
pub mod merge;
pub mod metadata;
pub mod modify;
mod near;
pub mod parts;
pub mod ready;
pub mod return_key;
mod row;
pub mod scan;
pub mod sort;
pub mod union;
mod walk;

use crate::operation::Operation;
pub use crate::planner::cover::FieldRead;
pub use crate::planner::run::Examined;
pub(crate) use crate::upkeep::write;
use columns::Columns;
use std::ops::Deref;
use store::Bytes;
use value::{DocBuf, RawDoc, Result, Writer};

/// A document in a stream: bytes shared with the store, or owned.
#[derive(Clone)]
pub enum Doc {
    /// Bytes of the store, not copied.
    Stored(Bytes),
    /// Bytes created by a stage.
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
    /// Returns the document for reading.
    #[must_use]
    pub fn raw(&self) -> RawDoc<'_> {
        RawDoc::new(self)
    }
}

/// A callback that gets borrowed documents one at a time.
pub type Visit<'v> = dyn FnMut(RawDoc<'_>) -> Result<()> + 'v;

/// A consumer of borrowed documents, or of selected fields of index entries.
pub trait Consumer {
    /// Consumes a document.
    ///
    /// # Errors
    /// Errors of the consumer.
    fn document(&mut self, doc: RawDoc<'_>) -> Result<()>;

    /// Consumes the selected fields of an entry, in the order in which they were requested.
    ///
    /// # Errors
    /// Errors of the consumer.
    fn entry(&mut self, columns: Columns<'_>) -> Result<()>;

    /// Returns whether the consumer wants to pause. Called from time to time.
    fn pause(&self) -> bool {
        false
    }
}

/// A pull iterator of documents.
pub trait Stream: Send {
    /// Returns the next document.
    ///
    /// # Errors
    /// Errors of the stage or the store, or that the operation was stopped.
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>>;

    /// Passes all remaining documents to `visit`. Stages that read all input before their first
    /// result use this, because it avoids copies and reference counts.
    ///
    /// # Errors
    /// As `next`, and errors of `visit`.
    fn for_each(&mut self, op: &Operation, visit: &mut Visit<'_>) -> Result<()> {
        while let Some(doc) = self.next(op)? {
            op.check()?;
            visit(doc.raw())?;
        }
        Ok(())
    }

    /// Passes the remaining documents to `consumer` like `for_each`, but only the selected fields where
    /// an index entry has them. Returns true if it paused before the end.
    ///
    /// # Errors
    /// As `for_each`.
    fn lend(
        &mut self,
        op: &Operation,
        _reads: &[FieldRead],
        consumer: &mut dyn Consumer,
    ) -> Result<bool> {
        self.for_each(op, &mut |doc| consumer.document(doc)).map(|()| false)
    }

    /// Splits off parts that can be read in parallel. The rest of this stream comes first, then
    /// each part in order. Returns an empty list if splitting is impossible or not worthwhile.
    fn split(&mut self, _parts: usize) -> Vec<Box<dyn Stream>> {
        Vec::new()
    }

    /// Whether it reads all documents of a collection, from first to last. Then splitting it is
    /// worthwhile if the collection is large.
    fn reads_all(&self) -> bool {
        false
    }

    /// Returns whether it is already known that no document remains. A stream that would have to
    /// read returns false, as in MongoDB: the client then gets an empty last batch.
    fn is_done(&self) -> bool {
        false
    }

    /// Returns the input stream, if its metadata of the last document and its statistics also apply
    /// to this stream.
    fn source(&self) -> Option<&dyn Stream> {
        None
    }

    /// Returns the text score of the last document, if there is one.
    fn score(&self) -> Option<f64> {
        self.source()?.score()
    }

    /// Returns the `$meta` metadata of the last document, by keyword.
    fn meta(&self) -> Option<DocBuf> {
        if let Some(source) = self.source() {
            return source.meta();
        }
        let score = self.score()?;
        Some(DocBuf::build(|out| {
            out.f64("textScore", score);
        }))
    }

    /// Writes the statistics of the stage itself for explain.
    fn write_own_stats(&self, _out: &mut Writer<'_>) {}

    /// Returns whether documents have `$meta` metadata.
    fn has_meta(&self) -> bool {
        self.source().is_some_and(|source| source.has_meta())
    }

    /// Adds the numbers of entries and documents examined so far.
    fn examined(&self, total: &mut Examined) {
        if let Some(source) = self.source() {
            source.examined(total);
        }
    }
}
