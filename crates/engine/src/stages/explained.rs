//! Pipelines in explain: the leading find with its plan, then each stage with its output count and
//! time. Streams are wrapped to count documents; a report is complete when its stream is dropped.

use super::pipeline::{Front, Opened, everything, explained_front, open_stages};
use super::{Role, Stage};
use crate::catalog::Collection;
use crate::exec::ready::Ready;
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::explain::{Above, ExecutionStats};
use crate::planner::explain_query::{ExplainedPlan, write_planner, write_stats};
use crate::planner::logical::Fired;
use crate::planner::run::SortTotals;
use crate::planner::{Access, Plan};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Snapshot;
use value::{DocBuf, OwnedVal, Result, Val, Writer};

/// The leading find of a pipeline: its plan, and its statistics after it ran.
pub(crate) struct ExplainedFind {
    pub(crate) front: Front,
    collection: Option<Arc<Collection>>,
    report: Arc<Mutex<Option<ExecutionStats>>>,
    snapshot: Snapshot,
    hint: Option<OwnedVal>,
    /// Whether a pattern answers the pipeline, wholly or in part.
    pub(crate) is_answered: bool,
}

impl ExplainedFind {
    pub(crate) fn new(
        parsed: &[Box<dyn Stage>],
        collection: Option<&Arc<Collection>>,
        snapshot: &Snapshot,
        hint: Option<Val<'_>>,
    ) -> Result<ExplainedFind> {
        let front = match collection {
            Some(collection) => explained_front(parsed, collection, snapshot, hint)?,
            None => nothing(parsed)?,
        };
        Ok(ExplainedFind {
            front,
            collection: collection.cloned(),
            report: Arc::default(),
            snapshot: snapshot.clone(),
            hint: hint.map(OwnedVal::new),
            is_answered: false,
        })
    }

    /// The stages after the find.
    pub(crate) fn rest<'s>(&self, parsed: &'s [Box<dyn Stage>]) -> &'s [Box<dyn Stage>] {
        parsed.get(self.front.stages..).unwrap_or(&[])
    }

    /// Opens it; its report is complete when the stream ends.
    pub(crate) fn open(&self, snapshot: &Snapshot) -> Box<dyn Stream> {
        match &self.collection {
            None => Box::new(Ready(Vec::new().into_iter())),
            Some(collection) => {
                let stream = self.front.open_watched(collection, snapshot);
                Box::new(WatchedFind {
                    stream,
                    report: self.report.clone(),
                    counted: Counted::default(),
                })
            }
        }
    }

    /// Its statistics.
    pub(crate) fn stats(&self) -> ExecutionStats {
        self.report.lock().take().unwrap_or_else(|| Counted::default().stats(None))
    }

    pub(crate) fn write(
        &self,
        namespace: &str,
        stats: Option<&ExecutionStats>,
        whole: bool,
        out: &mut Writer<'_>,
    ) {
        let front = &self.front;
        let sort = front.sort.as_ref().map(query::sort::SortSpec::to_document);
        let above = Above {
            filter: Some(&front.filter),
            sort: sort.as_ref().map(DocBuf::as_doc),
            limit: front.limit,
            projection: front.transform.as_ref().map(DocBuf::as_doc),
            ..Above::default()
        };
        let plan = ExplainedPlan {
            plan: &front.plan,
            above: &above,
            stage: None,
            would_modify: 0,
            column: front.column,
            counts_all: false,
            hint: self.hint.as_ref().map(OwnedVal::get),
            snapshot: Some(&self.snapshot),
            is_answered: self.is_answered,
            counted_by: None,
            skipped: 0,
            returns: false,
            upserts: false,
            has_layouts: self.collection.as_ref().is_some_and(|c| c.layouts.is_some()),
            bytes_written: None,
        };
        out.doc("queryPlanner", |out| {
            write_planner(out, namespace, self.collection.as_deref(), &front.filter, &plan);
            if whole {
                out.bool("optimizedPipeline", true);
            }
        });
        if let Some(stats) = stats {
            out.doc("executionStats", |out| write_stats(out, stats, None, &plan));
        }
    }

    /// Writes it as the first of the explained stages.
    pub(crate) fn write_stage(
        &self,
        namespace: &str,
        stats: Option<&ExecutionStats>,
        list: &mut value::writer::ArrayWriter<'_>,
    ) {
        let near = matches!(self.front.plan.access, Access::Near(_));
        list.push_doc(|out| {
            let name = if near { "$geoNearCursor" } else { "$cursor" };
            out.doc(name, |out| self.write(namespace, stats, false, out));
            if let Some(stats) = stats {
                out.i64("nReturned", i64::try_from(stats.returned).unwrap_or(i64::MAX));
                out.i64(ESTIMATE, i64::try_from(stats.millis).unwrap_or(i64::MAX));
            }
        });
    }
}

/// A nested pipeline of a stage, for explain.
pub(crate) struct ExplainedPipeline {
    /// The leading find, unless the pipeline makes its documents itself.
    planned: Option<ExplainedFind>,
    run: Option<ExplainedStages>,
}

impl ExplainedPipeline {
    /// Plans a pipeline.
    ///
    /// # Errors
    /// Errors of the planner.
    pub(crate) fn plan(
        parsed: &[Box<dyn Stage>],
        collection: Option<&Arc<Collection>>,
        snapshot: &Snapshot,
    ) -> Result<ExplainedPipeline> {
        let makes_its_own = matches!(parsed.first().map(|stage| stage.role()), Some(Role::Source));
        let planned = match makes_its_own {
            true => None,
            false => Some(ExplainedFind::new(parsed, collection, snapshot, None)?),
        };
        Ok(ExplainedPipeline { planned, run: None })
    }

    /// Opens the pipeline; its statistics are available once the stream is dropped.
    pub(crate) fn open(
        &mut self,
        parsed: &[Box<dyn Stage>],
        snapshot: &Snapshot,
    ) -> Box<dyn Stream> {
        let (input, rest) = match &self.planned {
            Some(planned) => (planned.open(snapshot), planned.rest(parsed)),
            None => (Box::new(Ready(Vec::new().into_iter())) as Box<dyn Stream>, parsed),
        };
        let (stream, run) = ExplainedStages::watch(rest, input);
        self.run = Some(run);
        stream
    }

    /// Writes the plan of the pipeline, and its statistics if it ran.
    pub(crate) fn write(
        &self,
        parsed: &[Box<dyn Stage>],
        namespace: &str,
        list: &mut value::writer::ArrayWriter<'_>,
    ) {
        let mut rest = parsed;
        if let Some(planned) = &self.planned {
            rest = planned.rest(parsed);
            let stats = self.run.as_ref().map(|_| planned.stats());
            planned.write_stage(namespace, stats.as_ref(), list);
        }
        match &self.run {
            Some(run) => run.write(list, rest),
            None => ExplainedStages(Vec::new()).write(list, rest),
        }
    }
}

pub(crate) const ESTIMATE: &str = "executionTimeMillisEstimate";

/// The leading find over a collection that does not exist.
fn nothing(stages: &[Box<dyn Stage>]) -> Result<Front> {
    let plan = Plan {
        access: Access::Nothing,
        sorted: true,
        implied: query::filter::Conditions::default(),
        rejected: Vec::new(),
    };
    let roles = stages.iter().map(|stage| stage.role());
    let taken = |role: &Role<'_>| matches!(role, Role::Match(_) | Role::Sort(_) | Role::Limit(_));
    let stages = roles.take_while(taken).count();
    Ok(Front {
        filter: everything()?,
        sort: None,
        limit: None,
        plan,
        column: None,
        is_grouped: false,
        stages,
        fired: Fired::default(),
        needed: None,
        heads: Vec::new(),
        transform: None,
    })
}

/// Statistics of a stage.
#[derive(Default)]
struct Counted {
    returned: u64,
    time: Duration,
}

impl Counted {
    /// Returns the next document, and adds the time that this stage and all before it took.
    fn next(&mut self, stream: &mut dyn Stream, op: &Operation) -> Result<Option<Doc>> {
        let started = Instant::now();
        let doc = stream.next(op);
        self.time += started.elapsed();
        self.returned += u64::from(matches!(doc, Ok(Some(_))));
        doc
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX)
    }

    fn stats(&self, stream: Option<&Opened>) -> ExecutionStats {
        let mut examined = Examined::default();
        let mut sort = SortTotals::default();
        match stream {
            Some(Opened::Find(stream)) => {
                stream.examined(&mut examined);
                sort = stream.sort_totals();
            }
            Some(Opened::Distinct(stream)) => stream.examined(&mut examined),
            None => {}
        }
        ExecutionStats { returned: self.returned, examined, millis: self.millis(), sort }
    }
}

/// The stream of the leading find; it reports its statistics when it ends.
struct WatchedFind {
    stream: Opened,
    report: Arc<Mutex<Option<ExecutionStats>>>,
    counted: Counted,
}

impl WatchedFind {
    fn stream(&self) -> &dyn Stream {
        match &self.stream {
            Opened::Find(stream) => &**stream,
            Opened::Distinct(stream) => &**stream,
        }
    }
}

impl Stream for WatchedFind {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        match &mut self.stream {
            Opened::Find(stream) => self.counted.next(&mut **stream, op),
            Opened::Distinct(stream) => self.counted.next(&mut **stream, op),
        }
    }

    fn score(&self) -> Option<f64> {
        self.stream().score()
    }

    fn has_meta(&self) -> bool {
        self.stream().has_meta()
    }

    fn examined(&self, total: &mut Examined) {
        self.stream().examined(total);
    }
}

impl Drop for WatchedFind {
    fn drop(&mut self) {
        *self.report.lock() = Some(self.counted.stats(Some(&self.stream)));
    }
}

/// The stream of a stage; it reports its statistics when it ends.
pub(crate) struct ExplainedStage {
    stream: Box<dyn Stream>,
    report: Arc<Mutex<DocBuf>>,
    counted: Counted,
}

impl ExplainedStage {
    /// Wraps a stream; its statistics are in the second part once it is dropped.
    pub(crate) fn watch(stream: Box<dyn Stream>) -> (ExplainedStage, Arc<Mutex<DocBuf>>) {
        let report = Arc::new(Mutex::new(DocBuf::new()));
        (ExplainedStage { stream, report: report.clone(), counted: Counted::default() }, report)
    }
}

impl Stream for ExplainedStage {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        self.counted.next(&mut *self.stream, op)
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.stream)
    }
}

impl Drop for ExplainedStage {
    fn drop(&mut self) {
        *self.report.lock() = DocBuf::build(|out| {
            self.stream.write_own_stats(out);
            out.i64("nReturned", i64::try_from(self.counted.returned).unwrap_or(i64::MAX));
            out.i64(ESTIMATE, i64::try_from(self.counted.millis()).unwrap_or(i64::MAX));
        });
    }
}

/// How many stages run as one: a sort followed by a limit keeps only the needed documents.
fn joins(stages: &[Box<dyn Stage>]) -> usize {
    match (stages.first().map(|s| s.role()), stages.get(1).map(|s| s.role())) {
        (Some(Role::Sort(_)), Some(Role::Limit(_))) => 2,
        _ => 1,
    }
}

/// Statistics of stages, in order.
pub(crate) struct ExplainedStages(Vec<Arc<Mutex<DocBuf>>>);

impl ExplainedStages {
    /// Runs the stages. Without an operation, nothing runs and nothing is reported.
    pub(crate) fn of(
        stages: &[Box<dyn Stage>],
        input: Box<dyn Stream>,
        op: Option<&Operation>,
    ) -> Result<ExplainedStages> {
        let Some(op) = op else { return Ok(ExplainedStages(Vec::new())) };
        op.explain();
        let (mut stream, run) = ExplainedStages::watch(stages, input);
        while stream.next(op)?.is_some() {}
        Ok(run)
    }

    /// Opens the stages; each reports its statistics when its stream is dropped.
    pub(crate) fn watch(
        stages: &[Box<dyn Stage>],
        input: Box<dyn Stream>,
    ) -> (Box<dyn Stream>, ExplainedStages) {
        let mut report = Vec::new();
        let mut stream = input;
        let mut rest = stages;
        while !rest.is_empty() {
            let count = joins(rest);
            let (now, later) = rest.split_at(count.min(rest.len()));
            let (step, own) = ExplainedStage::watch(open_stages(now, stream));
            report.extend(std::iter::repeat_n(own, now.len()));
            stream = Box::new(step);
            rest = later;
        }
        (stream, ExplainedStages(report))
    }

    /// Writes the stages with their statistics.
    pub(crate) fn write(
        &self,
        list: &mut value::writer::ArrayWriter<'_>,
        stages: &[Box<dyn Stage>],
    ) {
        let mut at = 0;
        while let Some(stage) = stages.get(at) {
            let both = joins(stages.get(at..).unwrap_or(&[])) == 2;
            let report = self.0.get(at).map(|report| report.lock().clone());
            // A stage with nested pipelines writes itself, with their statistics.
            let first = report.as_ref().and_then(|report| report.as_doc().first());
            let shows_itself = first.is_some_and(|(name, _)| name.starts_with('$'));
            list.push_doc(|out| {
                match (stage.role(), stages.get(at + 1).map(|next| next.role())) {
                    (Role::Sort(sort), Some(Role::Limit(limit))) => {
                        out.doc("$sort", |out| {
                            out.append("sortKey", Val::Document(sort.to_document().as_doc()));
                            out.i64("limit", i64::try_from(limit).unwrap_or(i64::MAX));
                        });
                    }
                    _ if shows_itself => {}
                    _ => stage.explain(out),
                }
                if let Some(report) = &report {
                    out.extend(report.as_doc());
                }
            });
            at += if both { 2 } else { 1 };
        }
    }
}
