//! Running a pipeline: the leading stages become a find with a plan; the other stages read from it.

use super::{Fused, Role, Scope, Stage, needed};
use crate::catalog::{Collection, faces};
use crate::exec::Stream;
use crate::exec::distinct::DistinctScan;
use crate::exec::find::{FindOptions, FindStream};
use crate::exec::metadata::{Metadata, WithMeta};
use crate::exec::ready::Ready;
use crate::exec::scan::Scan;
use crate::operation::Operation;
use crate::plan_cache::shape::Rest;
use crate::planner::cover::FieldRead;
use crate::planner::logical::{
    self, CountQuery, Decision, Fired, GroupNeeds, Joined, Needs, Optimised,
};
use crate::planner::min_max::MinMax;
use crate::planner::{self, Access, Plan, Question};
use crate::upkeep::staleness::Staleness;
use query::filter::Filter;
use query::sort::SortSpec;
use std::sync::Arc;
use store::Snapshot;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Maximum depth of views on views.
const VIEW_DEPTH_MAX: usize = 20;

/// A pipeline with the stages of its views prepended.
pub struct Resolved {
    /// The underlying collection.
    pub collection: Option<Arc<Collection>>,
    /// Its name, also if it does not exist.
    pub name: Option<String>,
    /// All stages.
    pub pipeline: DocBuf,
    /// The optimiser rules that were applied.
    pub fired: Fired,
}

/// Resolves views to a collection, as the reader sees it.
///
/// # Errors
/// ViewDepthLimitExceeded; errors of the collection's shapes.
pub fn resolve(
    scope: &Scope,
    db: &str,
    name: Option<&str>,
    pipeline: RawDoc<'_>,
) -> Result<Resolved> {
    let catalog = &scope.catalog;
    let mut pipeline = DocBuf::from(pipeline);
    let fired = Fired::default();
    let Some(name) = name else {
        return Ok(Resolved { collection: None, name: None, pipeline, fired });
    };
    let mut name = name.to_owned();
    for _ in 0..VIEW_DEPTH_MAX {
        catalog.check(db, &name)?;
        let Some(collection) = catalog.get(db, &name) else {
            return Ok(Resolved { collection: None, name: Some(name), pipeline, fired });
        };
        let Some(view) = collection.view() else {
            let (mut pipeline, fired) = optimised(pipeline);
            let named = faces::of_pipeline(collection, pipeline.as_doc(), None);
            let seen = collection.seen_naming(scope.reader.as_ref(), named)?;
            let seen = seen.unwrap_or_else(|| collection.clone());
            if let Some(hidden) = faces::hidden(&seen, pipeline.as_doc()) {
                pipeline = hidden;
            }
            return Ok(Resolved { collection: Some(seen), name: Some(name), pipeline, fired });
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

/// Applies the optimiser's rules. Returns the pipeline and the applied rules.
#[must_use]
pub fn optimised(pipeline: DocBuf) -> (DocBuf, Fired) {
    let Optimised { stages, fired } = logical::optimise(pipeline.as_doc());
    (stages.unwrap_or(pipeline), fired)
}

/// Opens a pipeline. Returns its documents. `after` is what is read of them, `None` for all.
///
/// # Errors
/// Errors of the planner.
pub fn open(
    stages: &[Box<dyn Stage>],
    collection: Option<&Arc<Collection>>,
    snapshot: &Snapshot,
    after: Option<&[String]>,
) -> Result<Box<dyn Stream>> {
    let wanted = MetaRequest::default();
    Ok(open_for(stages, collection, snapshot, (None, after), wanted, None)?.0)
}

/// What a pipeline needs of its input documents besides what its stages read: metadata, for `$meta`.
#[derive(Clone, Default)]
pub struct MetaRequest {
    /// The keys of the index that is used.
    pub index_key: bool,
    /// The record keys.
    pub record: bool,
    /// How far the maintained values of patterns lag behind.
    pub patterns: bool,
    /// The arrays of which the head is enough, unless the leading stages read them.
    pub heads: Vec<String>,
}

impl MetaRequest {
    /// Whether any metadata is needed.
    fn any(&self) -> bool {
        self.index_key || self.record || self.patterns
    }
}

/// Same as `open`, with metadata for `$meta`. Records the plan in the operation. Returns also the
/// plan of the leading stages, if the pipeline reads a collection.
///
/// # Errors
/// Errors of the planner.
pub fn open_with_metadata(
    stages: &[Box<dyn Stage>],
    collection: Option<&Arc<Collection>>,
    snapshot: &Snapshot,
    hint: Option<Val<'_>>,
    wanted: MetaRequest,
    op: Option<&Operation>,
) -> Result<(Box<dyn Stream>, Option<Plan>)> {
    open_for(stages, collection, snapshot, (hint, None), wanted, op)
}

fn open_for(
    stages: &[Box<dyn Stage>],
    collection: Option<&Arc<Collection>>,
    snapshot: &Snapshot,
    (hint, after): (Option<Val<'_>>, Option<&[String]>),
    wanted: MetaRequest,
    op: Option<&Operation>,
) -> Result<(Box<dyn Stream>, Option<Plan>)> {
    check_text(stages)?;
    if let (None, Some(Role::Near(near))) = (collection, stages.first().map(|stage| stage.role())) {
        return Err(near.no_collection());
    }
    let makes_its_own = matches!(stages.first().map(|stage| stage.role()), Some(Role::Source));
    let Some(collection) = collection.filter(|_| !makes_its_own) else {
        return Ok((open_stages(stages, Box::new(Ready(Vec::new().into_iter()))), None));
    };
    let plain = !wanted.any() && !sort_provides_key(stages);
    let arranged = Arranged::new(stages, collection, snapshot, (hint, after), plain)?;
    let Arranged { mut front, fused } = arranged;
    front.heads = wanted.heads;
    if let Some(op) = op {
        front.note_in(collection, hint.is_some(), op);
    }
    let found = front.open_stream(collection, snapshot);
    let rest = stages.get(front.stages..).unwrap_or(&[]);
    if let Some(fused) = fused {
        let behind = rest.get(fused.taken..).unwrap_or(&[]);
        let groups = match front.is_grouped {
            true => fused.group.open_ordered(found),
            false => fused.group.open(found),
        };
        return Ok((open_stages(behind, groups), Some(front.plan)));
    }
    let metadata = Metadata {
        sort: front.sort.clone().filter(|sort| sort.shows_key),
        access: wanted.index_key.then(|| front.plan.access.clone()),
        record: wanted.record.then(|| collection.clone()),
        patterns: wanted.patterns.then(|| Staleness::new(collection, snapshot)),
        near: None,
    };
    let mut stream = found;
    if !metadata.is_empty() {
        stream = Box::new(WithMeta::new(stream, metadata));
    }
    if let Some(Role::Near(near)) = stages.first().map(|stage| stage.role()) {
        stream = near.with_distances(stream, &front.plan)?;
    }
    Ok((open_stages(rest, stream), Some(front.plan)))
}

/// How the stages of a pipeline over a collection run.
struct Arranged {
    front: Front,
    /// The group directly after the leading find, if the find reads for it.
    fused: Option<FusedStages>,
}

impl Arranged {
    /// Applies the rules. `plain` is false when metadata is needed, which only documents that are
    /// read one by one have. `after` is what is read of the results, `None` for all.
    fn new(
        stages: &[Box<dyn Stage>],
        collection: &Arc<Collection>,
        snapshot: &Snapshot,
        (hint, after): (Option<Val<'_>>, Option<&[String]>),
        plain: bool,
    ) -> Result<Arranged> {
        let (extent, _) = logical::front(&stages);
        let fused = match plain && !extent.is_near {
            true => fuse(stages, extent.len()),
            false => None,
        };
        let needs = match &fused {
            None => Needs::Documents,
            Some(fused) => Needs::Group(GroupNeeds {
                reads: fused.group.reads(),
                key_path: fused.group.key_path(),
                is_limited: extent.limits,
                firsts: fused.group.firsts(),
            }),
        };
        let mut front = planned_front(stages, collection, snapshot, hint, &everything()?, &needs)?;
        if front.needed.is_none() && collection.layouts.is_some() && plain && !extent.is_near {
            front.needed = needed::by(stages.get(front.stages..).unwrap_or(&[]), after);
        }
        Ok(Arranged { front, fused })
    }
}

/// Whether the leading `$sort` provides its key as metadata.
fn sort_provides_key(stages: &[Box<dyn Stage>]) -> bool {
    let (extent, _) = logical::front(&stages);
    let sort = stages.get(usize::from(extent.filters)).filter(|_| extent.sorts);
    matches!(sort.map(|stage| stage.role()), Some(Role::Sort(sort)) if sort.shows_key)
}

/// Returns the rules that decide how compiled stages run, for explain. Reads only samples.
///
/// # Errors
/// Errors of the planner.
pub fn rules_fired(
    stages: &[Box<dyn Stage>],
    collection: Option<&Arc<Collection>>,
    snapshot: &Snapshot,
    hint: Option<Val<'_>>,
    wanted: MetaRequest,
    reads_newest: bool,
) -> Result<Fired> {
    let (Some(collection), Some(rule)) = (collection, logical::is_count_only(&stages)) else {
        return open_rules(stages, collection, snapshot, hint, wanted);
    };
    let mut fired = Fired::from(rule);
    let filter = match stages.first().map(|stage| stage.role()) {
        Some(Role::Match(filter)) => filter.clone(),
        _ => everything()?,
    };
    let is_of_all = filter.is_empty() && hint.is_none();
    let count = CountQuery { collection, is_of_all, reads_newest };
    if let Some(rule) = logical::counts_from_counters(&count) {
        fired.add(rule);
    } else {
        let question = Question {
            collection,
            filter: &filter,
            sort: None,
            hint,
            snapshot,
            projection: None,
            written: None,
        };
        fired.add_all(logical::decide(&question, &Needs::Count, MinMax::default())?.fired);
    }
    Ok(fired)
}

/// Returns the rules that decide how `open` runs compiled stages.
///
/// # Errors
/// Errors of the planner.
pub(super) fn open_rules(
    stages: &[Box<dyn Stage>],
    collection: Option<&Arc<Collection>>,
    snapshot: &Snapshot,
    hint: Option<Val<'_>>,
    wanted: MetaRequest,
) -> Result<Fired> {
    let mut fired = Fired::default();
    let mut at = 0;
    if let Some(collection) = collection {
        let plain = !wanted.any() && !sort_provides_key(stages);
        let Arranged { front, fused } =
            Arranged::new(stages, collection, snapshot, (hint, None), plain)?;
        fired.add_all(front.fired);
        at = front.stages;
        if let Some(fused) = fused {
            fired.add_all(fused.fired);
            at += fused.taken;
        }
    }
    fired.add_all(stage_rules(stages.get(at..).unwrap_or(&[])));
    Ok(fired)
}

/// Returns the rules that decide how `follow` runs compiled stages.
pub(super) fn stage_rules(stages: &[Box<dyn Stage>]) -> Fired {
    let mut fired = Fired::default();
    let mut at = 0;
    while at < stages.len() {
        let (taken, rules) = match logical::joined(&stages, at) {
            Some((Joined::SortLimit, rule)) => (2, Fired::from(rule)),
            _ => fuse(stages, at).map_or((1, Fired::default()), |fused| (fused.taken, fused.fired)),
        };
        fired.add_all(rules);
        at += taken;
    }
    fired
}

/// Refuses a text search that is not first, and a sort by text score without one.
fn check_text(stages: &[Box<dyn Stage>]) -> Result<()> {
    let near = matches!(stages.first().map(|stage| stage.role()), Some(Role::Near(_)));
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
            Role::Sort(sort) if sort.needs_distance() && !near => {
                return Err(planner::request::no_distance("geoNearDistance"));
            }
            Role::Sort(sort) if sort.needs_score() && !sort.needs_distance() && !searched => {
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
/// None: the filter is constant.
pub fn everything() -> Result<Arc<Filter>> {
    Filter::parse(RawDoc::empty(), &query::ParseContext::new(0)).map(Arc::new)
}

/// The leading part of a pipeline that runs as a find.
pub struct Front {
    /// The filter of the leading `$match`.
    pub filter: Arc<Filter>,
    /// The order of a `$sort` after it.
    pub sort: Option<SortSpec>,
    /// The number of documents needed, if a `$limit` follows.
    pub limit: Option<u64>,
    /// The chosen plan.
    pub plan: Plan,
    /// The column of the index of which one entry per value is read.
    pub column: Option<usize>,
    /// Whether its entries are grouped for the group after it.
    pub is_grouped: bool,
    /// The number of stages that the find replaces.
    pub stages: usize,
    /// The applied rules.
    pub fired: Fired,
    /// The paths that the later stages read; `None` for all.
    pub needed: Option<Vec<String>>,
    /// The arrays of which the head is enough.
    pub heads: Vec<String>,
    /// The fields that entries of an index provide in place of documents, as a projection.
    pub transform: Option<DocBuf>,
}

/// Plans the leading part of a pipeline as it runs, for explain.
///
/// # Errors
/// Errors of the planner.
pub(super) fn explained_front(
    stages: &[Box<dyn Stage>],
    collection: &Arc<Collection>,
    snapshot: &Snapshot,
    hint: Option<Val<'_>>,
) -> Result<Front> {
    let plain = !sort_provides_key(stages);
    Ok(Arranged::new(stages, collection, snapshot, (hint, None), plain)?.front)
}

/// The projection on the fields that a group reads.
fn transform(reads: &[FieldRead]) -> DocBuf {
    DocBuf::build(|out| {
        for read in reads.iter().filter(|read| read.path != "_id") {
            out.i32(&read.path, 1);
        }
        out.i32("_id", i32::from(reads.iter().any(|read| read.path == "_id")));
    })
}

fn planned_front(
    stages: &[Box<dyn Stage>],
    collection: &Arc<Collection>,
    snapshot: &Snapshot,
    hint: Option<Val<'_>>,
    everything: &Arc<Filter>,
    needs: &Needs<'_>,
) -> Result<Front> {
    let (extent, rule) = logical::front(&stages);
    let mut filter = everything.clone();
    let (mut sort, mut limit) = (None, None);
    for stage in stages.iter().take(extent.len()) {
        match stage.role() {
            Role::Match(found) => filter = found.clone(),
            Role::Near(near) => filter = near.filter(collection)?,
            Role::Sort(found) => sort = Some(found.clone()),
            Role::Limit(found) => limit = Some(found),
            _ => {}
        }
    }
    let question = Question {
        collection,
        filter: &filter,
        sort: sort.as_ref(),
        hint,
        snapshot,
        projection: None,
        written: None,
    };
    let decision = logical::decide(&question, needs, MinMax::default())?;
    let Decision { plan, column, is_grouped, mut fired, .. } = decision;
    if let Some(rule) = rule {
        fired.add(rule);
    }
    let needed = match needs {
        Needs::Group(GroupNeeds { reads: Some(reads), .. }) if collection.layouts.is_some() => {
            Some(reads.iter().map(|read| read.path.clone()).collect())
        }
        _ => None,
    };
    let transform = match needs {
        Needs::Group(GroupNeeds { reads: Some(reads), .. }) if plan.is_covered() => {
            Some(transform(reads))
        }
        _ => None,
    };
    Ok(Front {
        filter,
        sort,
        limit,
        plan,
        column,
        is_grouped,
        stages: extent.len(),
        fired,
        needed,
        heads: Vec::new(),
        transform,
    })
}

/// The stream of the leading part of a pipeline.
pub(super) enum Opened {
    /// A find.
    Find(Box<FindStream>),
    /// One entry of an index for each group.
    Distinct(Box<DistinctScan>),
}

impl Front {
    /// Records the plan in an operation.
    fn note_in(&self, collection: &Collection, is_hinted: bool, op: &Operation) {
        let collation = self.filter.collation().map(|collation| &**collation);
        let rest = Rest { sort: self.sort.as_ref(), projection: None, collation };
        let scan = if self.column.is_some() { "DISTINCT_SCAN" } else { "IXSCAN" };
        self.plan.note_query(collection, &self.filter, &rest, (scan, is_hinted), op);
    }

    /// Opens the leading find, or the scan that replaces it.
    fn open_stream(&self, collection: &Arc<Collection>, snapshot: &Snapshot) -> Box<dyn Stream> {
        match self.open_watched(collection, snapshot) {
            Opened::Find(stream) => stream,
            Opened::Distinct(stream) => stream,
        }
    }

    /// The same as it is.
    #[must_use]
    pub(super) fn open_watched(&self, collection: &Arc<Collection>, snapshot: &Snapshot) -> Opened {
        match (&self.plan.access, self.column) {
            (Access::Index(candidate), Some(column)) => {
                let scan = DistinctScan::of_groups(snapshot.clone(), candidate, column);
                Opened::Distinct(Box::new(scan))
            }
            _ => Opened::Find(Box::new(self.open(collection, snapshot))),
        }
    }

    /// Opens the leading find.
    #[must_use]
    pub fn open(&self, collection: &Arc<Collection>, snapshot: &Snapshot) -> FindStream {
        let scan = Scan::new(snapshot.clone(), collection.clone(), &self.plan.access);
        let options = FindOptions {
            filter: (!self.filter.is_empty()).then(|| self.filter.clone()),
            sort: self.sort.clone(),
            limit: self.limit,
            needed: self.needed.clone(),
            heads: self.heads.clone(),
            ..FindOptions::default()
        };
        FindStream::new(scan, &self.plan, options)
    }
}

/// Opens stages over a stream; stages that run as one are opened together.
#[must_use]
pub fn open_stages(stages: &[Box<dyn Stage>], mut stream: Box<dyn Stream>) -> Box<dyn Stream> {
    let mut at = 0;
    while let Some(stage) = stages.get(at) {
        let joined = logical::joined(&stages, at).map(|(joined, _)| joined);
        if let (Some(Joined::SortLimit), Role::Sort(sort), Some(Role::Limit(limit))) =
            (joined, stage.role(), stages.get(at + 1).map(|next| next.role()))
        {
            stream = super::open_sorted(stream, sort.clone(), usize::try_from(limit).ok());
            at += 2;
            continue;
        }
        if let Some(Joined::Group { .. }) = joined
            && let Some(fused) = fuse(stages, at)
        {
            stream = fused.group.open(stream);
            at += fused.taken;
            continue;
        }
        stream = stage.open(stream);
        at += 1;
    }
    stream
}

/// A group that also does the work of neighbouring stages.
struct FusedStages {
    group: Fused,
    /// The number of stages that it replaces.
    taken: usize,
    /// The rule, if it replaces more than itself.
    fired: Fired,
}

/// Returns the group at a position, with the stages before and after it that it can replace. `None`
/// if there is no group, or the result would differ.
fn fuse(stages: &[Box<dyn Stage>], at: usize) -> Option<FusedStages> {
    let Some((Joined::Group { unwind, project, behind }, rule)) = logical::joined(&stages, at)
    else {
        return None;
    };
    let role = |at: usize| stages.get(at).map(|stage| stage.role());
    let unwinds = match role(at).filter(|_| unwind) {
        Some(Role::Unwind(spec)) => Some(spec),
        _ => None,
    };
    let projection = |at: usize, there: bool| match role(at).filter(|_| there) {
        Some(Role::Project(projection)) => Some(projection),
        _ => None,
    };
    let first = at + usize::from(unwind);
    let projects = projection(first, project);
    let place = first + usize::from(project);
    let Some(Role::Group(group)) = role(place) else { return None };
    let group = group.fused(unwinds, projects, projection(place + 1, behind))?;
    let taken = place + 1 + usize::from(group.after.is_some()) - at;
    let fired = if taken > 1 { Fired::from(rule) } else { Fired::default() };
    Some(FusedStages { group, taken, fired })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Doc;
    use crate::operation::Operation;
    use crate::stages::{self, StageContext};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    /// An endless stream that counts the documents read.
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
        (open_stages(&parsed, Box::new(Endless(read.clone()))), read)
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
            // A generous limit: other tests run at the same time.
            assert!(begin.elapsed() < Duration::from_secs(20), "{pipeline}");
            drop(stream);
            let left = std::fs::read_dir(op.scratch().folder()).map_or(0, Iterator::count);
            assert_eq!(left, 0, "files of {pipeline}");
        }
    }
}
