//! `explain` of pipelines: the find in front as a `$cursor`, then each stage with what came out of
//! it and how long that took; or the shape of a find when nothing stands behind it.

use super::explain::{Shown, write_planner, write_server, write_stats};
use super::query::{Constants, rewrites};
use super::{Context, aggregate};
use crate::catalog::Collection;
use crate::exec::find::FindStream;
use crate::exec::pipeline::{Front, Ready, follow, front};
use crate::exec::sort::Totals;
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::explain::{Above, Ran};
use crate::planner::{Access, Plan};
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
        let front = match collection {
            Some(collection) => {
                front(parsed, collection, snapshot, self.hint, &aggregate::everything()?)?
            }
            None => nothing(parsed)?,
        };
        let rest = parsed.get(front.stages..).unwrap_or(&[]);
        let told = Arc::new(Mutex::new(None));
        let input: Box<dyn Stream> = match collection {
            None => Box::new(Ready(Vec::new().into_iter())),
            Some(collection) => {
                let stream = front.open(collection, snapshot);
                let watched =
                    Box::new(Watched { stream, told: told.clone(), ran: Progress::default() });
                match parsed.first().map(|stage| stage.role()) {
                    Some(Role::Near(near)) => near.with_distances(watched, &front.plan)?,
                    _ => watched,
                }
            }
        };
        let run = Run::of(rest, input, op)?;
        let ran = told.lock().take().filter(|_| runs);
        let ran = ran.or_else(|| runs.then(|| Progress::default().ran(None)));
        let sort = front.sort.as_ref().map(query::sort::SortSpec::to_document);
        let above = Above {
            filter: Some(&front.filter),
            sort: sort.as_ref().map(DocBuf::as_doc),
            limit: front.limit,
            ..Above::default()
        };
        let shown =
            Shown { plan: &front.plan, above: &above, stage: None, would_modify: 0, values: false };
        let write = |out: &mut Writer<'_>, whole: bool| {
            out.doc("queryPlanner", |out| {
                let collection = collection.map(|collection| &**collection);
                write_planner(out, &self.namespace, collection, &front.filter, &shown);
                if whole {
                    out.bool("optimizedPipeline", true);
                }
            });
            if let Some(ran) = &ran {
                out.doc("executionStats", |out| write_stats(out, ran, &shown));
            }
        };
        if rest.is_empty() && self.output.is_none() {
            write(out, true);
            return Ok(());
        }
        let near = matches!(front.plan.access, Access::Near(_));
        out.array("stages", |list| {
            list.push_doc(|out| {
                out.doc(if near { "$geoNearCursor" } else { "$cursor" }, |out| write(out, false));
                if let Some(ran) = &ran {
                    out.i64("nReturned", i64::try_from(ran.returned).unwrap_or(i64::MAX));
                    out.i64(ESTIMATE, i64::try_from(ran.millis).unwrap_or(i64::MAX));
                }
            });
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

/// Writes how a pipeline inside of a stage would run: the find in front as a `$cursor`, and the
/// other stages. Nothing is written when that cannot be planned.
///
/// # Errors
/// What the planner gives.
pub(crate) fn explain_nested(
    parsed: &[Box<dyn Stage>],
    collection: Option<&Arc<Collection>>,
    snapshot: &Snapshot,
    namespace: &str,
    list: &mut value::writer::ArrayWriter<'_>,
) -> Result<()> {
    let makes_its_own = matches!(parsed.first().map(|stage| stage.role()), Some(Role::Source));
    let mut rest = parsed;
    if !makes_its_own {
        let front = match collection {
            Some(collection) => {
                front(parsed, collection, snapshot, None, &aggregate::everything()?)?
            }
            None => nothing(parsed)?,
        };
        rest = parsed.get(front.stages..).unwrap_or(&[]);
        let sort = front.sort.as_ref().map(query::sort::SortSpec::to_document);
        let above = Above {
            filter: Some(&front.filter),
            sort: sort.as_ref().map(DocBuf::as_doc),
            limit: front.limit,
            ..Above::default()
        };
        let shown =
            Shown { plan: &front.plan, above: &above, stage: None, would_modify: 0, values: false };
        list.push_doc(|out| {
            out.doc("$cursor", |out| {
                out.doc("queryPlanner", |out| {
                    let collection = collection.map(|collection| &**collection);
                    write_planner(out, namespace, collection, &front.filter, &shown);
                });
            });
        });
    }
    Run(Vec::new()).write(list, rest);
    Ok(())
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
        let sort = stream.map_or_else(Totals::default, FindStream::sort_totals);
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
struct Step {
    stream: Box<dyn Stream>,
    told: Arc<Mutex<DocBuf>>,
    ran: Progress,
}

impl Stream for Step {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        self.ran.next(&mut *self.stream, op)
    }

    fn score(&self) -> Option<f64> {
        self.stream.score()
    }

    fn meta(&self) -> Option<DocBuf> {
        self.stream.meta()
    }

    fn has_meta(&self) -> bool {
        self.stream.has_meta()
    }

    fn examined(&self, total: &mut Examined) {
        self.stream.examined(total);
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

/// What the stages behind the front did, in their order.
struct Run(Vec<Arc<Mutex<DocBuf>>>);

impl Run {
    /// Runs stages; without an operation nothing runs and nothing is told.
    fn of(
        stages: &[Box<dyn Stage>],
        input: Box<dyn Stream>,
        op: Option<&Operation>,
    ) -> Result<Run> {
        let mut told = Vec::new();
        let mut stream = input;
        let Some(op) = op else { return Ok(Run(told)) };
        let mut rest = stages;
        while !rest.is_empty() {
            let count = joins(rest);
            let (now, later) = rest.split_at(count.min(rest.len()));
            let own = Arc::new(Mutex::new(DocBuf::new()));
            told.extend(std::iter::repeat_n(own.clone(), now.len()));
            let stream_of_now = follow(now, stream);
            stream = Box::new(Step { stream: stream_of_now, told: own, ran: Progress::default() });
            rest = later;
        }
        while stream.next(op)?.is_some() {}
        drop(stream);
        Ok(Run(told))
    }

    fn write(&self, list: &mut value::writer::ArrayWriter<'_>, stages: &[Box<dyn Stage>]) {
        let mut at = 0;
        while let Some(stage) = stages.get(at) {
            let both = joins(stages.get(at..).unwrap_or(&[])) == 2;
            list.push_doc(|out| {
                match (stage.role(), stages.get(at + 1).map(|next| next.role())) {
                    (Role::Sort(sort), Some(Role::Limit(limit))) => {
                        out.doc("$sort", |out| {
                            out.append("sortKey", Val::Document(sort.to_document().as_doc()));
                            out.i64("limit", i64::try_from(limit).unwrap_or(i64::MAX));
                        });
                    }
                    _ => stage.explain(out),
                }
                if let Some(told) = self.0.get(at) {
                    out.extend(told.lock().as_doc());
                }
            });
            at += if both { 2 } else { 1 };
        }
    }
}
