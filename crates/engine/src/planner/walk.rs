//! Searches that follow links between documents: matches are found by traversing an index on the
//! linking field, instead of reading all documents. A pattern gives the starting points.

use super::Question;
use crate::catalog::{Index, IndexKind, IndexState};
use ::patterns::Pattern;
use ::patterns::descent::Start;
use std::sync::Arc;
use value::path::Path;
use value::{RawDoc, RawVal, Val, keys};

/// A traversal from some documents to those that refer to them.
#[derive(Clone)]
pub struct Walk {
    /// The pattern that gives the starting points.
    pub pattern: Arc<Pattern>,
    /// The field whose value identifies a document in links.
    pub id: Path,
    /// The index on the field that holds the links.
    pub index: Arc<Index>,
    /// The starting points.
    pub starts: Vec<Start>,
}

impl Walk {
    /// The identifying value of a document, as encoded in the index.
    #[must_use]
    pub fn name_of(&self, doc: RawDoc<'_>) -> Vec<u8> {
        keys::key(self.id.find(doc).map_or(Val::Null, RawVal::get))
    }

    /// Whether links refer to the `_id`.
    #[must_use]
    pub fn is_by_id(&self) -> bool {
        self.id.text() == "_id"
    }
}

/// The traversal that answers a query, if there is one.
pub(super) fn of(question: &Question<'_>) -> Option<Walk> {
    // The filter of a reader with a form of its own may mean other fields.
    let is_canonical = question.collection.form.is_none();
    let pointers = question.collection.pointers.as_deref().filter(|_| is_canonical)?;
    pointers.patterns.iter().find_map(|pattern| {
        let descent = pattern.kind.descend(pattern, question.filter.root())?;
        let index = question.collection.indexes.iter().find(|index| {
            let plain = index.partial.is_none() && !index.sparse && index.collation.is_none();
            let ready = index.state == IndexState::Ready && !index.is_clustered();
            let [field] = index.fields.as_slice() else { return false };
            let ordered = matches!(index.kind, IndexKind::Ordered) && !field.descending;
            plain && ready && ordered && field.path.text() == descent.link.text()
        })?;
        let (id, starts) = (descent.id, descent.starts);
        Some(Walk { pattern: pattern.clone(), id, index: index.clone(), starts })
    })
}
