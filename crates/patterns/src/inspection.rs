//! Declarations that are accepted or refused because of the documents that are there.

use value::{RawDoc, Result};

/// A look at existing documents when a pattern is declared, before anything is changed.
pub trait Inspection {
    /// Looks at a document. Returns whether more are needed.
    ///
    /// # Errors
    /// If the document shows that the declaration is wrong.
    fn visit(&mut self, doc: RawDoc<'_>) -> Result<bool>;

    /// Called after the last document.
    ///
    /// # Errors
    /// If the documents show that the declaration is wrong.
    fn finish(&self) -> Result<()>;
}
