//! The view of a pattern through which a statement writes: documents that it inserts are completed,
//! and what it writes must be shown by the view.

use patterns::Pattern;
use std::sync::Arc;
use value::{DocBuf, RawDoc, Result};

/// A view of a pattern.
#[derive(Debug)]
pub struct WriteView {
    /// The pattern that keeps it.
    pub pattern: Arc<Pattern>,
    /// Its name behind that of the collection.
    pub view: String,
}

impl WriteView {
    /// Returns a whole document that is written through the view, completed; `None` if it is
    /// complete.
    ///
    /// # Errors
    /// PatternViolation if a value is in the way.
    pub fn complete(&self, doc: RawDoc<'_>) -> Result<Option<DocBuf>> {
        match self.pattern.kind.views() {
            Some(views) => views.complete(&self.view, doc),
            None => Ok(None),
        }
    }

    /// Refuses a document that the view would not show.
    ///
    /// # Errors
    /// PatternViolation.
    pub fn check(&self, image: RawDoc<'_>) -> Result<()> {
        match self.pattern.kind.views() {
            Some(views) => views.check(&self.pattern.name, &self.view, image),
            None => Ok(()),
        }
    }
}
