//! Queries that are answered from values that patterns maintain. The kind of a pattern decides what
//! it can answer; this file has the interface that the optimiser uses.

use super::{Apply, RULES, RuleId};
use crate::catalog::Collection;
use std::sync::Arc;
use value::{DocBuf, RawDoc, Result};

/// The queries that patterns can answer, at the snapshot of a query.
pub trait PatternAnswers {
    /// A filter that finds the same documents with less work. `most` is the number of documents
    /// needed, counted from the first one in the order of `sort`.
    ///
    /// # Errors
    /// When the store fails.
    fn filter(
        &mut self,
        collection: &Collection,
        filter: RawDoc<'_>,
        sort: Option<RawDoc<'_>>,
        most: Option<u64>,
    ) -> Result<Option<DocBuf>>;

    /// The number of matching documents.
    ///
    /// # Errors
    /// When the store fails.
    fn count(&mut self, collection: &Collection, filter: RawDoc<'_>) -> Result<Option<u64>>;

    /// A pipeline that returns the same documents with less work.
    ///
    /// # Errors
    /// When the store fails.
    fn pipeline(
        &mut self,
        collection: &Arc<Collection>,
        pipeline: RawDoc<'_>,
    ) -> Result<Option<PipelineAnswer>>;
}

/// A pipeline that replaces another one.
pub struct PipelineAnswer {
    /// The collection that it reads; `None` if it starts with its own documents.
    pub collection: Option<Arc<Collection>>,
    /// Its stages.
    pub stages: DocBuf,
}

/// A question to patterns.
#[derive(Clone, Copy)]
pub enum PatternQuery<'a> {
    /// A replacement for the filter of a find.
    Filter {
        /// The collection.
        collection: &'a Collection,
        /// The filter.
        filter: RawDoc<'a>,
        /// The order.
        sort: Option<RawDoc<'a>>,
        /// How many documents are needed.
        most: Option<u64>,
    },
    /// The number of matching documents.
    Count {
        /// The collection.
        collection: &'a Collection,
        /// The filter.
        filter: RawDoc<'a>,
    },
    /// A replacement for a pipeline.
    Pipeline {
        /// The collection.
        collection: &'a Arc<Collection>,
        /// The stages.
        pipeline: RawDoc<'a>,
    },
}

/// An answer of patterns; its variant is that of the question.
pub enum Answer {
    /// A filter.
    Filter(DocBuf),
    /// A number of documents.
    Count(u64),
    /// A pipeline.
    Pipeline(PipelineAnswer),
}

/// The answer of patterns, and the rule that produced it. `source` is `None` if the client disabled
/// rewrites.
///
/// # Errors
/// When the store fails.
pub fn answer(
    source: Option<&mut dyn PatternAnswers>,
    query: &PatternQuery<'_>,
) -> Result<Option<(Answer, RuleId)>> {
    let Some(source) = source else { return Ok(None) };
    for (at, rule) in RULES.iter().enumerate() {
        if let Apply::Answer(apply) = rule.apply
            && let Some(answer) = apply(&mut *source, query)?
        {
            return Ok(Some((answer, RuleId(at))));
        }
    }
    Ok(None)
}
