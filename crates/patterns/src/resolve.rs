//! Resolves values that are not stored when a document is read: those of the strategy `pointer`,
//! and copies that wait in a queue whose pattern guarantees that readers never see them stale.
//!
//! The result is the document as if everything were stored. It depends only on the reader's
//! snapshot, so it is exact at every snapshot.

use crate::documents::Documents;
use crate::kind::StateCache;
use crate::pattern::{Pattern, Phase};
use crate::queue;
use std::sync::Arc;
use value::{DocBuf, RawDoc, Result};

/// Resolves documents of one snapshot. It caches data of that snapshot, so it must not outlive it.
#[derive(Debug)]
pub struct Resolver {
    patterns: Vec<(Arc<Pattern>, StateCache)>,
}

/// Whether a pattern has values to resolve in its phase.
fn is_active(pattern: &Pattern) -> bool {
    match pattern.phase {
        // Suspending a pattern with stored values leaves them as they are; resolved values stay
        // correct.
        Phase::Suspended => pattern.is_pointer(),
        Phase::Building | Phase::Ready | Phase::Degraded => pattern.is_resolved(),
        Phase::Preparing | Phase::Failed | Phase::Clearing => false,
    }
}

/// The patterns among the targets of a collection whose values readers may have to resolve.
#[must_use]
pub fn concerned(targets: &[Arc<Pattern>]) -> Vec<Arc<Pattern>> {
    targets.iter().filter(|pattern| is_active(pattern)).cloned().collect()
}

impl Resolver {
    /// Creates a resolver of these patterns for one snapshot; `None` if the stored values are
    /// correct.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(
        patterns: &[Arc<Pattern>],
        documents: &mut dyn Documents,
    ) -> Result<Option<Resolver>> {
        let mut active = Vec::new();
        for pattern in patterns {
            if !pattern.is_pointer() && !queue::has_any(pattern, documents)? {
                continue;
            }
            active.push((pattern.clone(), pattern.kind.reader_cache()));
        }
        Ok((!active.is_empty()).then_some(Resolver { patterns: active }))
    }

    /// Returns the document as if all maintained values were stored.
    ///
    /// # Errors
    /// When the store fails.
    pub fn resolve(&mut self, documents: &mut dyn Documents, doc: RawDoc<'_>) -> Result<DocBuf> {
        let mut image = DocBuf::from(doc);
        for (pattern, cache) in &mut self.patterns {
            image = pattern.kind.resolve(pattern, documents, image.as_doc(), cache)?;
        }
        Ok(image)
    }
}
