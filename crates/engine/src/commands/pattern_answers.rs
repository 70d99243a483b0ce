//! Connects the optimiser to the rewrites of patterns (`upkeep/rewriting`). `upkeep` is below the
//! planner, so the two are connected here.

use crate::catalog::Collection;
use crate::planner::logical::{PatternAnswers, PipelineAnswer};
use crate::upkeep::rewriting::Rewrites;
use std::sync::Arc;
use value::{DocBuf, RawDoc, Result};

impl PatternAnswers for Rewrites<'_> {
    fn filter(
        &mut self,
        collection: &Collection,
        filter: RawDoc<'_>,
        sort: Option<RawDoc<'_>>,
        most: Option<u64>,
    ) -> Result<Option<DocBuf>> {
        Rewrites::filter(self, collection, filter, sort, most)
    }

    fn count(&mut self, collection: &Collection, filter: RawDoc<'_>) -> Result<Option<u64>> {
        Rewrites::count(self, collection, filter)
    }

    fn pipeline(
        &mut self,
        collection: &Arc<Collection>,
        pipeline: RawDoc<'_>,
    ) -> Result<Option<PipelineAnswer>> {
        let found = Rewrites::pipeline(self, collection, pipeline)?;
        Ok(found.map(|found| PipelineAnswer { collection: found.collection, stages: found.stages }))
    }
}
