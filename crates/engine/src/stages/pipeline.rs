//! Running a pipeline: the leading stages become a find with a plan, the others follow it.

use super::{Fused, Role, Stage};
use crate::catalog::{Catalog, Collection};
use crate::exec::Stream;
use crate::exec::find::{FindOptions, FindStream};
use crate::exec::ready::Ready;
use crate::exec::scan::Scan;
use crate::exec::shown::{Shown, WithMeta};
use crate::planner::logical::{self, Fired, Optimised};
use crate::planner::{self, Plan, Question};
use crate::upkeep::staleness::Staleness;
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
    /// The rules that changed them.
    pub fired: Fired,
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
    let fired = Fired::default();
    let Some(name) = name else { return Ok(Resolved { collection: None, pipeline, fired }) };
    let mut name = name.to_owned();
    for _ in 0..VIEW_DEPTH_MAX {
        catalog.check(db, &name)?;
        let Some(collection) = catalog.get(db, &name) else {
            return Ok(Resolved { collection: None, pipeline, fired });
        };
        let Some(view) = collection.view() else {
            let (pipeline, fired) = optimised(pipeline);
            return Ok(Resolved { collection: Some(collection.clone()), pipeline, fired });
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

/// The pipeline after the optimiser's rules, and which of them fired.
#[must_use]
pub fn optimised(pipeline: DocBuf) -> (DocBuf, Fired) {
    let Optimised { stages, fired } = logical::optimise(pipeline.as_doc());
    (stages.unwrap_or(pipeline), fired)
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
    open_showing(stages, collection, snapshot, hint, Wanted::default())
}

/// What a pipeline asks for by `$meta` of the documents that it reads.
#[derive(Clone, Copy, Default)]
pub struct Wanted {
    /// The keys of the index through which they are found.
    pub index_key: bool,
    /// The keys of their records.
    pub record: bool,
    /// How far what patterns maintain is behind.
    pub patterns: bool,
}

/// As `open`, with what `$meta` asks for.
///
/// # Errors
/// What the planner gives.
pub fn open_showing(
    stages: &[Box<dyn Stage>],
    collection: Option<&Arc<Collection>>,
    snapshot: &Snapshot,
    hint: Option<Val<'_>>,
    wanted: Wanted,
) -> Result<(Box<dyn Stream>, Option<Plan>)> {
    check_text(stages)?;
    if let (None, Some(Role::Near(near))) = (collection, stages.first().map(|stage| stage.role())) {
        return Err(near.no_collection());
    }
    let makes_its_own = matches!(stages.first().map(|stage| stage.role()), Some(Role::Source));
    let Some(collection) = collection.filter(|_| !makes_its_own) else {
        return Ok((follow(stages, Box::new(Ready(Vec::new().into_iter()))), None));
    };
    let mut front = front(stages, collection, snapshot, hint, &everything()?)?;
    let shown = Shown {
        sort: front.sort.clone().filter(|sort| sort.shows_key),
        access: wanted.index_key.then(|| front.plan.access.clone()),
        record: wanted.record.then(|| collection.clone()),
        patterns: wanted.patterns.then(|| Staleness::new(collection, snapshot)),
    };
    let rest = stages.get(front.stages..).unwrap_or(&[]);
    if shown.is_empty() {
        front.cover(rest);
    }
    let found = front.open(collection, snapshot);
    if shown.is_empty()
        && found.lends_entries()
        && let Some((fused, taken)) = fuse(rest)
        && fused.key_path().is_some_and(|path| front.plan.access.keeps_together(path))
    {
        let groups = fused.open_ordered(Box::new(found));
        return Ok((follow(rest.get(taken..).unwrap_or(&[]), groups), Some(front.plan)));
    }
    let mut stream: Box<dyn Stream> = Box::new(found);
    if !shown.is_empty() {
        stream = Box::new(WithMeta::new(stream, shown));
    }
    if let Some(Role::Near(near)) = stages.first().map(|stage| stage.role()) {
        stream = near.with_distances(stream, &front.plan)?;
    }
    Ok((follow(rest, stream), Some(front.plan)))
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
                return Err(planner::request::no_score());
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
    /// Lets the plan answer from its index alone, if that has all that a group behind it reads.
    fn cover(&mut self, rest: &[Box<dyn Stage>]) {
        let Some((fused, _)) = fuse(rest) else { return };
        let Some(wanted) = fused.wanted() else { return };
        let mut needed: Vec<String> = wanted.iter().map(|wanted| wanted.path.clone()).collect();
        if let Some(sort) = &self.sort {
            if sort.needs_score() {
                return;
            }
            needed.extend(sort.fields.iter().map(|field| field.path.text().to_owned()));
        }
        planner::cover::apply_needed(&mut self.plan, &self.filter, needed);
    }

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

/// Puts stages behind a stream; a sort that a limit follows keeps only what is needed, and a group
/// stands for its neighbours where it can.
#[must_use]
pub fn follow(stages: &[Box<dyn Stage>], mut stream: Box<dyn Stream>) -> Box<dyn Stream> {
    let mut at = 0;
    while let Some(stage) = stages.get(at) {
        if let Some((fused, taken)) = fuse(stages.get(at..).unwrap_or(&[])) {
            stream = fused.open(stream);
            at += taken;
            continue;
        }
        at += 1;
        stream = match (stage.role(), stages.get(at).map(|next| next.role())) {
            (Role::Sort(sort), Some(Role::Limit(limit))) => {
                super::open_sorted(stream, sort.clone(), usize::try_from(limit).ok())
            }
            _ => stage.open(stream),
        };
    }
    stream
}

/// The group at the start of these stages, with the stages in front of it and behind it that it
/// can stand for; and how many they are.
fn fuse(stages: &[Box<dyn Stage>]) -> Option<(Fused, usize)> {
    let role = |at: usize| stages.get(at).map(|stage| stage.role());
    let mut at = 0;
    let unwind = match role(at) {
        Some(Role::Unwind(unwind)) => Some(unwind),
        _ => None,
    };
    at += usize::from(unwind.is_some());
    let project = match role(at) {
        Some(Role::Project(project)) => Some(project),
        _ => None,
    };
    at += usize::from(project.is_some());
    let Some(Role::Group(group)) = role(at) else { return None };
    at += 1;
    let behind = match role(at) {
        Some(Role::Project(project)) => Some(project),
        _ => None,
    };
    let fused = group.fused(unwind, project, behind)?;
    at += usize::from(fused.after.is_some());
    Some((fused, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Doc;
    use crate::operation::Operation;
    use crate::stages::{self, StageContext};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    /// Documents without end; counts those that were asked for.
    struct Endless(Arc<AtomicU64>);

    impl Stream for Endless {
        fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
            op.check()?;
            let n = self.0.fetch_add(1, Ordering::Relaxed);
            let doc = DocBuf::build(|out| {
                out.i64("_id", n as i64).i64("a", (n % 1000) as i64);
                out.array("t", |out| (0..3).for_each(|at| out.push(Val::Int32(at))));
            });
            Ok(Some(Doc::Made(doc.into_bytes())))
        }
    }

    fn opened(pipeline: &str) -> (Box<dyn Stream>, Arc<AtomicU64>) {
        let source = value::ejson::parse_value(pipeline).expect("a pipeline");
        let Val::Array(list) = source.get() else { panic!("an array") };
        let context = StageContext::of_view(query::ParseContext::new(0), "test");
        let parsed = stages::parse(list, &context).expect("compiles");
        let read = Arc::new(AtomicU64::new(0));
        (follow(&parsed, Box::new(Endless(read.clone()))), read)
    }

    #[test]
    fn a_pipeline_that_streams_answers_before_its_input_ends() {
        let op = Operation::for_tests(usize::MAX);
        let (mut stream, read) = opened(
            "[{$match: {a: {$gte: 5}}}, {$unwind: '$t'}, {$project: {a: 1, b: {$add: ['$t', 1]}}}, \
              {$addFields: {c: 1}}, {$skip: 2}, {$limit: 5}]",
        );
        for _ in 0..5 {
            assert!(stream.next(&op).expect("runs").is_some());
        }
        assert!(stream.next(&op).expect("runs").is_none());
        assert!(read.load(Ordering::Relaxed) <= 8, "read {read:?} documents");
    }

    #[test]
    fn what_reads_everything_stops_at_its_time_limit_and_leaves_no_files() {
        for (pipeline, bytes_max) in [
            ("[{$group: {_id: '$a', n: {$sum: 1}}}]", usize::MAX),
            ("[{$group: {_id: '$_id', n: {$sum: 1}}}]", 50_000),
            ("[{$unwind: '$t'}, {$group: {_id: {a: '$_id', t: '$t'}, p: {$push: '$t'}}}]", 50_000),
            ("[{$sort: {a: -1}}]", 50_000),
            ("[{$sort: {a: -1}}, {$limit: 10}]", usize::MAX),
            ("[{$match: {zz: 1}}, {$count: 'n'}]", usize::MAX),
        ] {
            let op = Operation::for_tests(bytes_max);
            let begin = Instant::now();
            op.set_deadline(Duration::from_millis(100));
            let (mut stream, _) = opened(pipeline);
            let failed = stream.next(&op).err().expect("the input has no end");
            assert_eq!(failed.code(), Code::MAX_TIME_MS_EXPIRED, "{pipeline}");
            // Much more than it takes: other tests run at the same time.
            assert!(begin.elapsed() < Duration::from_secs(20), "{pipeline}");
            drop(stream);
            let left = std::fs::read_dir(op.scratch().folder()).map_or(0, Iterator::count);
            assert_eq!(left, 0, "files of {pipeline}");
        }
    }
}
