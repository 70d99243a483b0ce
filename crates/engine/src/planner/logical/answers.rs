//! Queries that are answered from what patterns maintain. What a pattern can answer is up to its
//! kind; here is what the optimiser asks.

use super::{Apply, RULES, RuleId};
use crate::catalog::Collection;
use std::sync::Arc;
use value::{DocBuf, RawDoc, Result};

/// What patterns can answer, at the snapshot of a query.
pub trait PatternAnswers {
    /// The filter that finds the same documents with less work. `most` is how many documents are
    /// needed, from the first one in the order of `sort` on.
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

    /// How many documents match.
    ///
    /// # Errors
    /// When the store fails.
    fn count(&mut self, collection: &Collection, filter: RawDoc<'_>) -> Result<Option<u64>>;

    /// The pipeline that gives the same documents with less work.
    ///
    /// # Errors
    /// When the store fails.
    fn pipeline(
        &mut self,
        collection: &Arc<Collection>,
        pipeline: RawDoc<'_>,
    ) -> Result<Option<PipelineAnswer>>;
}

/// A pipeline in place of another one.
pub struct PipelineAnswer {
    /// The collection that it reads; `None` when it brings its own documents.
    pub collection: Option<Arc<Collection>>,
    /// Its stages.
    pub stages: DocBuf,
}

/// What is asked of patterns.
#[derive(Clone, Copy)]
pub enum Asked<'a> {
    /// A filter in place of that of a find.
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
    /// The number of documents that match.
    Count {
        /// The collection.
        collection: &'a Collection,
        /// The filter.
        filter: RawDoc<'a>,
    },
    /// A pipeline in place of another one.
    Pipeline {
        /// The collection.
        collection: &'a Arc<Collection>,
        /// The stages.
        pipeline: RawDoc<'a>,
    },
}

/// What patterns answer; the variant is that of the question.
pub enum Answer {
    /// A filter.
    Filter(DocBuf),
    /// A number of documents.
    Count(u64),
    /// A pipeline.
    Pipeline(PipelineAnswer),
}

/// The answer of patterns, and the rule that gave it. Without `source` the client wants none.
///
/// # Errors
/// When the store fails.
pub fn answer(
    source: Option<&mut dyn PatternAnswers>,
    asked: &Asked<'_>,
) -> Result<Option<(Answer, RuleId)>> {
    let Some(source) = source else { return Ok(None) };
    for (at, rule) in RULES.iter().enumerate() {
        if let Apply::Answer(apply) = rule.apply
            && let Some(answer) = apply(&mut *source, asked)?
        {
            return Ok(Some((answer, RuleId(at))));
        }
    }
    Ok(None)
}
