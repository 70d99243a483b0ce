//! Views that a pattern keeps: each shows some documents of the target under a name of its own, and
//! takes writes for these documents only.

use std::fmt::Debug;
use value::{DocBuf, RawDoc, Result};

/// The views of a pattern. The name of a view in the database is that of the target, a dot, and
/// the name given here.
pub trait Views: Debug + Send + Sync {
    /// Their names, and the filters of the documents that they show.
    fn all(&self) -> Vec<(String, DocBuf)>;

    /// Completes a document that is written through a view, so that the view shows it; `None` if
    /// that is the same document.
    ///
    /// # Errors
    /// PatternViolation if a value is in the way.
    fn complete(&self, view: &str, doc: RawDoc<'_>) -> Result<Option<DocBuf>>;

    /// Refuses a document that was written through a view of the pattern of this name and that the
    /// view would not show.
    ///
    /// # Errors
    /// PatternViolation.
    fn check(&self, pattern: &str, view: &str, image: RawDoc<'_>) -> Result<()>;
}
