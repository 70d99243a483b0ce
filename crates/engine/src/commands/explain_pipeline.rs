//! `explain` of pipelines: the find in front as a `$cursor`, then each stage with what came out of
//! it and how long that took; or the shape of a find when nothing stands behind it.

use super::explain::{Shown, write_planner, write_server, write_stats};
use super::query::{Constants, rewrites};
use super::{Context, aggregate};
use crate::catalog::Collection;
use crate::exec::find::FindStream;
use crate::exec::ready::Ready;
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::explain::{Above, Ran};
use crate::planner::logical::Fired;
use crate::planner::run::SortTotals;
use crate::planner::{Access, Plan};
use crate::stages::pipeline::{Front, follow, front};
use crate::stages::{self, Role, Stage, StageContext};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Snapshot;
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// Explains a pipeline.
pub(super) fn explain(
    context: &mut Context<'_>,
    verbosity: &str,
    out: &mut Writer<'_>,
) -> Result<()> {
    let name = aggregate::source_name(context)?;
    let args = context.args;
    let pipeline = args.optional_array("pipeline")?.ok_or_else(|| args.missing("pipeline"))?;
    aggregate::set_disk_use(context)?;
    let constants = Constants::new(context)?;
    let scope = aggregate::scope(context);
    let mut stage_context = StageContext::new(constants.context(), &scope, context.db);
    let told = super::diagnostics::documents(context, name, pipeline)?;
    let (parsed, collection, told) = match told {
        Some((docs, rest)) => {
            let parsed = stages::parse(rest.as_doc(), &stage_context)?;
            (parsed, None, pipeline.first().and_then(|(_, stage)| Some((stage.as_doc()?, docs))))
        }
        None => {
            let first = pipeline.first().and_then(|(_, stage)| stage.as_doc()?.first());
            stages::check_source(first.map(|(name, _)| name), name.is_some())?;
            let resolved = aggregate::resolve(&scope.catalog, context.db, name, pipeline)?;
            let mut rewriting = rewrites(context, &constants, &scope, args.hint()?)?;
            let resolved = aggregate::rewritten(resolved, rewriting.as_mut(), &mut stage_context)?;
            if let Some(rewriting) = &rewriting {
                rewriting.explain(out);
            }
            resolved.fired.explain(out);
            if resolved.fired != Fired::default() {
                out.append("rewrittenPipeline", Val::Array(resolved.pipeline.as_doc()));
            }
            let parsed = stages::parse(resolved.pipeline.as_doc(), &stage_context)?;
            (parsed, resolved.collection, None)
        }
    };
    let mut parsed = parsed;
    // A stage that writes is shown, but does not write.
    let output = match parsed.last().map(|stage| stage.role()) {
        Some(Role::Output(_)) => parsed.pop(),
        _ => None,
    };
    let namespace = format!("{}.{}", context.db, name.unwrap_or("$cmd.aggregate"));
    out.str("explainVersion", "1");
    let runs = verbosity != "queryPlanner";
    let source = matches!(parsed.first().map(|stage| stage.role()), Some(Role::Source));
    if told.is_some() || source {
        let (shown, docs) = told.unwrap_or((RawDoc::empty(), Vec::new()));
        let input = Box::new(Ready(docs.into_iter()));
        let run = Run::of(&parsed, input, runs.then_some(context.op))?;
        out.array("stages", |list| {
            if !shown.is_empty() {
                list.push_doc(|out| {
                    out.extend(shown);
                });
            }
            run.write(list, &parsed);
        });
        write_server(context, out);
        return Ok(());
    }
    let asked = Asked { namespace, hint: args.hint()?, output: output.as_deref() };
    asked.explain(context, &parsed, collection.as_ref(), &scope.snapshot, runs, out)?;
    write_server(context, out);
    Ok(())
}

/// What is asked beside the stages.
struct Asked<'a> {
    namespace: String,
    hint: Option<Val<'a>>,
    output: Option<&'a dyn Stage>,
}

impl Asked<'_> {
    fn explain(
        &self,
        context: &Context<'_>,
        parsed: &[Box<dyn Stage>],
        collection: Option<&Arc<Collection>>,
        snapshot: &Snapshot,
        runs: bool,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        let op = runs.then_some(context.op);
        let planned = Planned::new(parsed, collection, snapshot, self.hint)?;
        let rest = planned.rest(parsed);
        let mut input = planned.open(snapshot);
        if let (Some(Role::Near(near)), Some(_)) = (parsed.first().map(|s| s.role()), collection) {
            input = near.with_distances(input, &planned.front.plan)?;
        }
        let run = Run::of(rest, input, op)?;
        let ran = runs.then(|| planned.ran());
        if rest.is_empty() && self.output.is_none() {
            planned.write(&self.namespace, ran.as_ref(), true, out);
            return Ok(());
        }
        out.array("stages", |list| {
            planned.write_stage(&self.namespace, ran.as_ref(), list);
            run.write(list, rest);
            if let Some(output) = self.output {
                list.push_doc(|out| {
                    output.explain(out);
                    if runs {
                        out.i64("nReturned", 0).i64(ESTIMATE, 0);
                    }
                });
            }
        });
        Ok(())
    }
}

/// The find in front of a pipeline: how it is planned, and what it did once it ran.
struct Planned {
    front: Front,
    collection: Option<Arc<Collection>>,
    told: Arc<Mutex<Option<Ran>>>,
}

impl Planned {
    fn new(
        parsed: &[Box<dyn Stage>],
        collection: Option<&Arc<Collection>>,
        snapshot: &Snapshot,
        hint: Option<Val<'_>>,
    ) -> Result<Planned> {
        let front = match collection {
            Some(collection) => {
                front(parsed, collection, snapshot, hint, &aggregate::everything()?)?
            }
            None => nothing(parsed)?,
        };
        Ok(Planned { front, collection: collection.cloned(), told: Arc::default() })
    }

    /// The stages behind it.
    fn rest<'s>(&self, parsed: &'s [Box<dyn Stage>]) -> &'s [Box<dyn Stage>] {
        parsed.get(self.front.stages..).unwrap_or(&[])
    }

    /// Opens it; what it did is told when it ends.
    fn open(&self, snapshot: &Snapshot) -> Box<dyn Stream> {
        match &self.collection {
            None => Box::new(Ready(Vec::new().into_iter())),
            Some(collection) => {
                let stream = self.front.open(collection, snapshot);
                Box::new(Watched { stream, told: self.told.clone(), ran: Progress::default() })
            }
        }
    }

    /// What it did.
    fn ran(&self) -> Ran {
        self.told.lock().take().unwrap_or_else(|| Progress::default().ran(None))
    }

    fn write(&self, namespace: &str, ran: Option<&Ran>, whole: bool, out: &mut Writer<'_>) {
        let front = &self.front;
        let sort = front.sort.as_ref().map(query::sort::SortSpec::to_document);
        let above = Above {
            filter: Some(&front.filter),
            sort: sort.as_ref().map(DocBuf::as_doc),
            limit: front.limit,
            ..Above::default()
        };
        let shown =
            Shown { plan: &front.plan, above: &above, stage: None, would_modify: 0, values: false };
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
    fn write_stage(
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
pub(crate) struct Inner {
    /// The find in front, unless the pipeline makes its documents itself.
    planned: Option<Planned>,
    run: Option<Run>,
}

impl Inner {
    /// Plans a pipeline.
    ///
    /// # Errors
    /// What the planner gives.
    pub(crate) fn plan(
        parsed: &[Box<dyn Stage>],
        collection: Option<&Arc<Collection>>,
        snapshot: &Snapshot,
    ) -> Result<Inner> {
        let makes_its_own = matches!(parsed.first().map(|stage| stage.role()), Some(Role::Source));
        let planned = match makes_its_own {
            true => None,
            false => Some(Planned::new(parsed, collection, snapshot, None)?),
        };
        Ok(Inner { planned, run: None })
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
        let (stream, run) = Run::watch(rest, input);
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
            None => Run(Vec::new()).write(list, rest),
        }
    }
}

const ESTIMATE: &str = "executionTimeMillisEstimate";

/// The front of a pipeline over a collection that does not exist.
fn nothing(stages: &[Box<dyn Stage>]) -> Result<Front> {
    let plan = Plan {
        access: Access::Nothing,
        sorted: true,
        told: query::filter::Conditions::default(),
        rejected: Vec::new(),
    };
    let roles = stages.iter().map(|stage| stage.role());
    let taken = |role: &Role<'_>| matches!(role, Role::Match(_) | Role::Sort(_) | Role::Limit(_));
    let stages = roles.take_while(taken).count();
    Ok(Front { filter: aggregate::everything()?, sort: None, limit: None, plan, stages })
}

/// What a stage did.
#[derive(Default)]
struct Progress {
    returned: u64,
    time: Duration,
}

impl Progress {
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

    fn ran(&self, stream: Option<&FindStream>) -> Ran {
        let mut examined = Examined::default();
        if let Some(stream) = stream {
            stream.examined(&mut examined);
        }
        let sort = stream.map_or_else(SortTotals::default, FindStream::sort_totals);
        Ran { returned: self.returned, examined, millis: self.millis(), sort }
    }
}

/// The find in front; when it ends it tells what it did.
struct Watched {
    stream: FindStream,
    told: Arc<Mutex<Option<Ran>>>,
    ran: Progress,
}

impl Stream for Watched {
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

impl Drop for Watched {
    fn drop(&mut self) {
        *self.told.lock() = Some(self.ran.ran(Some(&self.stream)));
    }
}

/// A stage; when it ends it tells what it did.
pub(crate) struct Step {
    stream: Box<dyn Stream>,
    told: Arc<Mutex<DocBuf>>,
    ran: Progress,
}

impl Step {
    /// Watches a stream; what it did is in the second part once it is gone.
    pub(crate) fn watch(stream: Box<dyn Stream>) -> (Step, Arc<Mutex<DocBuf>>) {
        let told = Arc::new(Mutex::new(DocBuf::new()));
        (Step { stream, told: told.clone(), ran: Progress::default() }, told)
    }
}

impl Stream for Step {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        self.ran.next(&mut *self.stream, op)
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.stream)
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        *self.told.lock() = DocBuf::build(|out| {
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
pub(crate) struct Run(Vec<Arc<Mutex<DocBuf>>>);

impl Run {
    /// Runs stages; without an operation nothing runs and nothing is told.
    fn of(
        stages: &[Box<dyn Stage>],
        input: Box<dyn Stream>,
        op: Option<&Operation>,
    ) -> Result<Run> {
        let Some(op) = op else { return Ok(Run(Vec::new())) };
        op.explain();
        let (mut stream, run) = Run::watch(stages, input);
        while stream.next(op)?.is_some() {}
        Ok(run)
    }

    /// Opens stages; each tells what it did when the stream goes.
    pub(crate) fn watch(
        stages: &[Box<dyn Stage>],
        input: Box<dyn Stream>,
    ) -> (Box<dyn Stream>, Run) {
        let mut told = Vec::new();
        let mut stream = input;
        let mut rest = stages;
        while !rest.is_empty() {
            let count = joins(rest);
            let (now, later) = rest.split_at(count.min(rest.len()));
            let (step, own) = Step::watch(follow(now, stream));
            told.extend(std::iter::repeat_n(own, now.len()));
            stream = Box::new(step);
            rest = later;
        }
        (stream, Run(told))
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
            let told = self.0.get(at).map(|told| told.lock().clone());
            // A stage with pipelines of its own shows itself with what those did.
            let first = told.as_ref().and_then(|told| told.as_doc().first());
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
                if let Some(told) = &told {
                    out.extend(told.as_doc());
                }
            });
            at += if both { 2 } else { 1 };
        }
    }
}
