//! Searches that follow links between documents: those that can match are found by walking an index on
//! the linking field, instead of reading all documents. A pattern says where to begin.

use super::Question;
use crate::catalog::{Index, IndexKind, IndexState};
use ::patterns::Pattern;
use ::patterns::descent::Start;
use std::sync::Arc;
use value::path::Path;
use value::{RawDoc, RawVal, Val, keys};

/// A walk from some documents to those that name them.
#[derive(Clone)]
pub struct Walk {
    /// The pattern that says where to begin.
    pub pattern: Arc<Pattern>,
    /// The field by which documents are named.
    pub id: Path,
    /// The index on the field in which documents name others.
    pub index: Arc<Index>,
    /// Where it begins.
    pub starts: Vec<Start>,
}

impl Walk {
    /// The name of a document, as the index has it.
    #[must_use]
    pub fn name_of(&self, doc: RawDoc<'_>) -> Vec<u8> {
        keys::key(self.id.find(doc).map_or(Val::Null, RawVal::get))
    }

    /// Whether documents are named by their `_id`s.
    #[must_use]
    pub fn is_by_id(&self) -> bool {
        self.id.text() == "_id"
    }
}

/// The walk that answers a question, if there is one.
pub(super) fn of(question: &Question<'_>) -> Option<Walk> {
    let pointers = question.collection.pointers.as_deref()?;
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
