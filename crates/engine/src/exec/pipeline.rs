//! Running a pipeline: the leading stages become a find with a plan, the others follow it.

use super::find::{FindOptions, FindStream};
use super::scan::Scan;
use super::{Doc, Stream};
use crate::catalog::{Catalog, Collection};
use crate::operation::Operation;
use crate::planner::{self, Plan, Question};
use crate::stages::{Role, Stage};
use query::filter::Filter;
use query::sort::SortSpec;
use std::sync::Arc;
use store::Snapshot;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Views on views beyond this depth are refused.
const VIEW_DEPTH_MAX: usize = 20;

/// A pipeline with the views below it put in front.
pub struct Resolved {
    /// The collection at the bottom.
    pub collection: Option<Arc<Collection>>,
    /// All stages.
    pub pipeline: DocBuf,
}

/// Follows views down to a collection.
///
/// # Errors
/// ViewDepthLimitExceeded.
pub fn resolve(
    catalog: &Catalog,
    db: &str,
    name: Option<&str>,
    pipeline: RawDoc<'_>,
) -> Result<Resolved> {
    let mut pipeline = DocBuf::from(pipeline);
    let Some(name) = name else { return Ok(Resolved { collection: None, pipeline }) };
    let mut name = name.to_owned();
    for _ in 0..VIEW_DEPTH_MAX {
        let Some(collection) = catalog.get(db, &name) else {
            return Ok(Resolved { collection: None, pipeline });
        };
        let Some(view) = collection.view() else {
            let pipeline = improved(pipeline);
            return Ok(Resolved { collection: Some(collection.clone()), pipeline });
        };
        let mut joined = Vec::new();
        value::writer::write_array(&mut joined, |out| {
            let stages = view.pipeline.as_doc().iter().chain(pipeline.as_doc().iter());
            stages.for_each(|(_, stage)| out.push_raw(stage));
        });
        pipeline = DocBuf::from_bytes(joined);
        name = view.on.to_string();
    }
    Err(Error::new(
        Code::VIEW_DEPTH_LIMIT_EXCEEDED,
        format!("View depth too deep or view cycle detected; maximum depth is {VIEW_DEPTH_MAX}"),
    ))
}

/// The pipeline in an order that the planner can use better.
#[must_use]
pub fn improved(pipeline: DocBuf) -> DocBuf {
    super::rewrite::rewritten(pipeline.as_doc()).unwrap_or(pipeline)
}

/// The documents of a pipeline, and the plan of its front when it reads a collection.
///
/// # Errors
/// What the planner gives.
pub fn open(
    stages: &[Box<dyn Stage>],
    collection: Option<&Arc<Collection>>,
    snapshot: &Snapshot,
    hint: Option<Val<'_>>,
) -> Result<(Box<dyn Stream>, Option<Plan>)> {
    check_text(stages)?;
    if let (None, Some(Role::Near(near))) = (collection, stages.first().map(|stage| stage.role())) {
        return Err(near.no_collection());
    }
    let makes_its_own = matches!(stages.first().map(|stage| stage.role()), Some(Role::Source));
    let Some(collection) = collection.filter(|_| !makes_its_own) else {
        return Ok((follow(stages, Box::new(Ready(Vec::new().into_iter()))), None));
    };
    let front = front(stages, collection, snapshot, hint, &everything()?)?;
    let mut stream: Box<dyn Stream> = Box::new(front.open(collection, snapshot));
    if let Some(Role::Near(near)) = stages.first().map(|stage| stage.role()) {
        stream = near.with_distances(stream, &front.plan)?;
    }
    let stream = follow(stages.get(front.stages..).unwrap_or(&[]), stream);
    Ok((stream, Some(front.plan)))
}

/// Refuses a text search anywhere but in front, and a sort by its score where there is none.
fn check_text(stages: &[Box<dyn Stage>]) -> Result<()> {
    let mut searched = false;
    for (at, stage) in stages.iter().enumerate() {
        match stage.role() {
            Role::Match(filter) if filter.text().is_some() => {
                if at > 0 {
                    return Err(Error::new(
                        Code(17313),
                        "$match with $text is only allowed as the first pipeline stage",
                    ));
                }
                searched = true;
            }
            Role::Sort(sort) if sort.needs_score() && (!searched || at > 1) => {
                return Err(crate::commands::query::no_score());
            }
            _ => {}
        }
    }
    Ok(())
}

/// The filter that matches all documents.
///
/// # Errors
/// None: the filter is a constant.
pub fn everything() -> Result<Arc<Filter>> {
    Filter::parse(RawDoc::empty(), &query::ParseContext::new(0)).map(Arc::new)
}

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
    if let Some(Role::Near(near)) = stages.first().map(|stage| stage.role()) {
        let filter = near.filter(collection)?;
        let question = Question { collection, filter: &filter, sort: None, hint, snapshot };
        let plan = planner::plan(&question)?;
        return Ok(Front { filter, sort, limit, plan, stages: 1 });
    }
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
