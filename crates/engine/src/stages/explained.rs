//! Pipelines in explain: the find in front with its plan, then each stage with what came out of it and
//! how long that took. Streams are wrapped by ones that count; a report is complete when its stream is
//! dropped.

use super::pipeline::{Front, everything, follow, front};
use super::{Role, Stage};
use crate::catalog::Collection;
use crate::exec::find::FindStream;
use crate::exec::ready::Ready;
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::explain::{Above, Ran};
use crate::planner::explain_query::{ExplainedPlan, write_planner, write_stats};
use crate::planner::logical::Fired;
use crate::planner::run::SortTotals;
use crate::planner::{Access, Plan};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Snapshot;
use value::{DocBuf, Result, Val, Writer};

/// The find in front of a pipeline: how it is planned, and what it did once it ran.
pub(crate) struct ExplainedFind {
    pub(crate) front: Front,
    collection: Option<Arc<Collection>>,
    report: Arc<Mutex<Option<Ran>>>,
}

impl ExplainedFind {
    pub(crate) fn new(
        parsed: &[Box<dyn Stage>],
        collection: Option<&Arc<Collection>>,
        snapshot: &Snapshot,
        hint: Option<Val<'_>>,
    ) -> Result<ExplainedFind> {
        let front = match collection {
            Some(collection) => front(parsed, collection, snapshot, hint, &everything()?)?,
            None => nothing(parsed)?,
        };
        Ok(ExplainedFind { front, collection: collection.cloned(), report: Arc::default() })
    }

    /// The stages behind it.
    pub(crate) fn rest<'s>(&self, parsed: &'s [Box<dyn Stage>]) -> &'s [Box<dyn Stage>] {
        parsed.get(self.front.stages..).unwrap_or(&[])
    }

    /// Opens it; its report is complete when the stream ends.
    pub(crate) fn open(&self, snapshot: &Snapshot) -> Box<dyn Stream> {
        match &self.collection {
            None => Box::new(Ready(Vec::new().into_iter())),
            Some(collection) => {
                let stream = self.front.open(collection, snapshot);
                Box::new(WatchedFind {
                    stream,
                    report: self.report.clone(),
                    ran: Counted::default(),
                })
            }
        }
    }

    /// What it did.
    pub(crate) fn ran(&self) -> Ran {
        self.report.lock().take().unwrap_or_else(|| Counted::default().ran(None))
    }

    pub(crate) fn write(
        &self,
        namespace: &str,
        ran: Option<&Ran>,
        whole: bool,
        out: &mut Writer<'_>,
    ) {
        let front = &self.front;
        let sort = front.sort.as_ref().map(query::sort::SortSpec::to_document);
        let above = Above {
            filter: Some(&front.filter),
            sort: sort.as_ref().map(DocBuf::as_doc),
            limit: front.limit,
            ..Above::default()
        };
        let shown = ExplainedPlan {
            plan: &front.plan,
            above: &above,
            stage: None,
            would_modify: 0,
            values: false,
        };
        out.doc("queryPlanner", |out| {
            write_planner(out, namespace, self.collection.as_deref(), &front.filter, &shown);
            if whole {
                out.bool("optimizedPipeline", true);
            }
        });
        if let Some(ran) = ran {
            out.doc("executionStats", |out| write_stats(out, ran, &shown));
        }
    }

    /// Writes it as the first of several stages.
    pub(crate) fn write_stage(
        &self,
        namespace: &str,
        ran: Option<&Ran>,
        list: &mut value::writer::ArrayWriter<'_>,
    ) {
        let near = matches!(self.front.plan.access, Access::Near(_));
        list.push_doc(|out| {
            let name = if near { "$geoNearCursor" } else { "$cursor" };
            out.doc(name, |out| self.write(namespace, ran, false, out));
            if let Some(ran) = ran {
                out.i64("nReturned", i64::try_from(ran.returned).unwrap_or(i64::MAX));
                out.i64(ESTIMATE, i64::try_from(ran.millis).unwrap_or(i64::MAX));
            }
        });
    }
}

/// A pipeline inside of a stage, for explain.
pub(crate) struct ExplainedPipeline {
    /// The find in front, unless the pipeline makes its documents itself.
    planned: Option<ExplainedFind>,
    run: Option<ExplainedStages>,
}

impl ExplainedPipeline {
    /// Plans a pipeline.
    ///
    /// # Errors
    /// What the planner gives.
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

    /// Opens the pipeline; what it did can be written once the stream is gone.
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

    /// Writes how the pipeline would run, or did.
    pub(crate) fn write(
        &self,
        parsed: &[Box<dyn Stage>],
        namespace: &str,
        list: &mut value::writer::ArrayWriter<'_>,
    ) {
        let mut rest = parsed;
        if let Some(planned) = &self.planned {
            rest = planned.rest(parsed);
            let ran = self.run.as_ref().map(|_| planned.ran());
            planned.write_stage(namespace, ran.as_ref(), list);
        }
        match &self.run {
            Some(run) => run.write(list, rest),
            None => ExplainedStages(Vec::new()).write(list, rest),
        }
    }
}

pub(crate) const ESTIMATE: &str = "executionTimeMillisEstimate";

/// The front of a pipeline over a collection that does not exist.
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
        is_grouped: false,
        stages,
        fired: Fired::default(),
        needed: None,
    })
}

/// What a stage did.
#[derive(Default)]
struct Counted {
    returned: u64,
    time: Duration,
}

impl Counted {
    /// Takes the next document, and notes how long it took with all stages before this one.
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

    pub(crate) fn ran(&self, stream: Option<&FindStream>) -> Ran {
        let mut examined = Examined::default();
        if let Some(stream) = stream {
            stream.examined(&mut examined);
        }
        let sort = stream.map_or_else(SortTotals::default, FindStream::sort_totals);
        Ran { returned: self.returned, examined, millis: self.millis(), sort }
    }
}

/// The find in front; when it ends it tells what it did.
struct WatchedFind {
    stream: FindStream,
    report: Arc<Mutex<Option<Ran>>>,
    ran: Counted,
}

impl Stream for WatchedFind {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        self.ran.next(&mut self.stream, op)
    }

    fn score(&self) -> Option<f64> {
        Stream::score(&self.stream)
    }

    fn has_meta(&self) -> bool {
        self.stream.has_meta()
    }

    fn examined(&self, total: &mut Examined) {
        self.stream.examined(total);
    }
}

impl Drop for WatchedFind {
    fn drop(&mut self) {
        *self.report.lock() = Some(self.ran.ran(Some(&self.stream)));
    }
}

/// A stage; when it ends it tells what it did.
pub(crate) struct ExplainedStage {
    stream: Box<dyn Stream>,
    report: Arc<Mutex<DocBuf>>,
    ran: Counted,
}

impl ExplainedStage {
    /// Watches a stream; what it did is in the second part once it is gone.
    pub(crate) fn watch(stream: Box<dyn Stream>) -> (ExplainedStage, Arc<Mutex<DocBuf>>) {
        let report = Arc::new(Mutex::new(DocBuf::new()));
        (ExplainedStage { stream, report: report.clone(), ran: Counted::default() }, report)
    }
}

impl Stream for ExplainedStage {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        self.ran.next(&mut *self.stream, op)
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.stream)
    }
}

impl Drop for ExplainedStage {
    fn drop(&mut self) {
        *self.report.lock() = DocBuf::build(|out| {
            self.stream.figures(out);
            out.i64("nReturned", i64::try_from(self.ran.returned).unwrap_or(i64::MAX));
            out.i64(ESTIMATE, i64::try_from(self.ran.millis()).unwrap_or(i64::MAX));
        });
    }
}

/// How many stages run as one: a sort that a limit follows keeps only what is needed.
fn joins(stages: &[Box<dyn Stage>]) -> usize {
    match (stages.first().map(|s| s.role()), stages.get(1).map(|s| s.role())) {
        (Some(Role::Sort(_)), Some(Role::Limit(_))) => 2,
        _ => 1,
    }
}

/// What stages did, in their order.
pub(crate) struct ExplainedStages(Vec<Arc<Mutex<DocBuf>>>);

impl ExplainedStages {
    /// Runs stages; without an operation nothing runs and nothing is reported.
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

    /// Opens stages; each tells what it did when the stream goes.
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
            let (step, own) = ExplainedStage::watch(follow(now, stream));
            report.extend(std::iter::repeat_n(own, now.len()));
            stream = Box::new(step);
            rest = later;
        }
        (stream, ExplainedStages(report))
    }

    /// Writes the stages with what they did.
    pub(crate) fn write(
        &self,
        list: &mut value::writer::ArrayWriter<'_>,
        stages: &[Box<dyn Stage>],
    ) {
        let mut at = 0;
        while let Some(stage) = stages.get(at) {
            let both = joins(stages.get(at..).unwrap_or(&[])) == 2;
            let report = self.0.get(at).map(|report| report.lock().clone());
            // A stage with pipelines of its own shows itself with what those did.
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
