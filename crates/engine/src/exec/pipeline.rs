//! Running a pipeline: the leading stages become a find with a plan, the others follow it.

use super::find::{FindOptions, FindStream};
use super::scan::Scan;
use super::{Doc, Stream};
use crate::catalog::Collection;
use crate::operation::Operation;
use crate::planner::{self, Plan, Question};
use crate::stages::{Role, Stage};
use query::filter::Filter;
use query::sort::SortSpec;
use std::sync::Arc;
use store::Snapshot;
use value::{DocBuf, Result, Val};

/// The part of a pipeline that a find answers.
pub struct Front {
    /// The filter of the leading `$match`.
    pub filter: Arc<Filter>,
    /// The order of a `$sort` behind it.
    pub sort: Option<SortSpec>,
    /// How many documents are needed, when a `$limit` follows.
    pub limit: Option<u64>,
    /// The chosen plan.
    pub plan: Plan,
    /// How many stages the find stands for.
    pub stages: usize,
}

/// Chooses the plan of a pipeline's leading stages.
///
/// # Errors
/// What the planner gives.
pub fn front(
    stages: &[Box<dyn Stage>],
    collection: &Arc<Collection>,
    snapshot: &Snapshot,
    hint: Option<Val<'_>>,
    everything: &Arc<Filter>,
) -> Result<Front> {
    let mut taken = 0;
    let mut filter = everything.clone();
    if let Some(Role::Match(found)) = stages.first().map(|stage| stage.role()) {
        filter = found.clone();
        taken = 1;
    }
    let mut sort = None;
    let mut limit = None;
    if let Some(Role::Sort(found)) = stages.get(taken).map(|stage| stage.role()) {
        sort = Some(found.clone());
        taken += 1;
    }
    if let Some(Role::Limit(found)) = stages.get(taken).map(|stage| stage.role()) {
        limit = Some(found);
        taken += 1;
    }
    let question = Question { collection, filter: &filter, sort: sort.as_ref(), hint, snapshot };
    let plan = planner::plan(&question)?;
    Ok(Front { filter, sort, limit, plan, stages: taken })
}

impl Front {
    /// The documents of the front.
    #[must_use]
    pub fn open(&self, collection: &Arc<Collection>, snapshot: &Snapshot) -> FindStream {
        let scan = Scan::new(snapshot.clone(), collection.clone(), &self.plan.access);
        let options = FindOptions {
            filter: (!self.filter.is_empty()).then(|| self.filter.clone()),
            sort: self.sort.clone(),
            limit: self.limit,
            ..FindOptions::default()
        };
        FindStream::new(scan, &self.plan, options)
    }
}

/// Puts stages behind a stream; a sort that a limit follows keeps only what is needed.
#[must_use]
pub fn follow(stages: &[Box<dyn Stage>], mut stream: Box<dyn Stream>) -> Box<dyn Stream> {
    for (at, stage) in stages.iter().enumerate() {
        let next = stages.get(at + 1).map(|next| next.role());
        stream = match (stage.role(), next) {
            (Role::Sort(sort), Some(Role::Limit(limit))) => {
                crate::stages::open_sorted(stream, sort.clone(), usize::try_from(limit).ok())
            }
            _ => stage.open(stream),
        };
    }
    stream
}

/// A stream of documents that are there already.
pub struct Ready(pub std::vec::IntoIter<DocBuf>);

impl Stream for Ready {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        Ok(self.0.next().map(|doc| Doc::Made(doc.into_bytes())))
    }
}
