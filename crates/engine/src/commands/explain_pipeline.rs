//! `explain` of pipelines: the leading find as a `$cursor`, then each stage with its output count
//! and time. A pipeline that is only a find is explained like a find.

use super::explain::write_server;
use super::query::{Constants, explained_rewrites};
use super::{Context, aggregate};
use crate::catalog::Collection;
use crate::exec::ready::Ready;
use crate::planner::logical::{Fired, InnerFired};
use crate::stages::explained::{ESTIMATE, ExplainedFind, ExplainedStages};
use crate::stages::pipeline::{MetaRequest, rules_fired};
use crate::stages::{self, CompiledPipeline, Role, Stage, StageContext};
use std::sync::Arc;
use store::Snapshot;
use value::{Error, RawDoc, Result, Val, Writer};

/// Explains a pipeline.
pub(super) fn explain(
    context: &mut Context<'_>,
    verbosity: &str,
    out: &mut Writer<'_>,
) -> Result<()> {
    let name = aggregate::source_name(context)?;
    let args = context.args;
    let pipeline = aggregate::pipeline_of(&args)?;
    if args.get("writeConcern").is_some() {
        return Err(Error::failed_to_parse(
            "explain of an aggregation does not support the option 'writeConcern'",
        ));
    }
    aggregate::set_disk_use(context)?;
    let constants = Constants::new(context)?;
    let scope = aggregate::scope(context);
    let mut stage_context = StageContext::new(constants.context(), &scope, context.db);
    let diagnostic = stages::diagnostics::documents(context, name, pipeline)?;
    let (mut fired, mut meta) = (Fired::default(), MetaRequest::default());
    let mut is_answered = false;
    let (compiled, collection, diagnostic) = match diagnostic {
        Some((docs, rest)) => {
            let compiled = stages::compile(rest.as_doc(), &stage_context, &[])?;
            (compiled, None, pipeline.first().and_then(|(_, stage)| Some((stage.as_doc()?, docs))))
        }
        None => {
            let first = pipeline.first().and_then(|(_, stage)| stage.as_doc()?.first());
            stages::check_source(first.map(|(name, _)| name), name.is_some())?;
            let resolved = aggregate::resolve(&scope, context.db, name, pipeline)?;
            let mut rewriting = explained_rewrites(context, &constants, &scope, args.hint()?)?;
            let resolved =
                aggregate::rewritten(resolved, Some(&mut rewriting), &mut stage_context)?;
            rewriting.explain(out);
            is_answered = !rewriting.used.is_empty();
            if !resolved.fired.is_empty() {
                out.append("rewrittenPipeline", Val::Array(resolved.pipeline.as_doc()));
            }
            fired = resolved.fired;
            meta = aggregate::meta_request(resolved.pipeline.as_doc());
            let known = StageContext { source: resolved.name.as_deref(), ..stage_context };
            let compiled = stages::compile(resolved.pipeline.as_doc(), &known, &[])?;
            (compiled, resolved.collection, None)
        }
    };
    let CompiledPipeline { stages: mut parsed, rewriting, .. } = compiled;
    fired.add_all(rewriting.fired);
    // A stage that writes is shown, but does not write.
    let output = match parsed.last().map(|stage| stage.role()) {
        Some(Role::Output(_)) => parsed.pop(),
        _ => None,
    };
    // Of a view, the collection that is read.
    let namespace = match (&collection, name) {
        (Some(collection), Some(_)) => collection.namespace(),
        _ => format!("{}.{}", context.db, name.unwrap_or("$cmd.aggregate")),
    };
    out.str("explainVersion", "1");
    let runs = verbosity != "queryPlanner";
    let source = matches!(parsed.first().map(|stage| stage.role()), Some(Role::Source));
    let read = collection.as_ref().filter(|_| !source);
    let newest = context.op.reads_newest();
    fired.add_all(rules_fired(&parsed, read, &scope.snapshot, args.hint()?, meta, newest)?);
    fired.explain(out);
    let mut inner = InnerFired::default();
    rewriting.collect_inside(&parsed, "", &mut inner)?;
    inner.explain(out);
    if diagnostic.is_some() || source {
        let (first, docs) = diagnostic.unwrap_or((RawDoc::empty(), Vec::new()));
        let input = Box::new(Ready(docs.into_iter()));
        let run = ExplainedStages::of(&parsed, input, runs.then_some(context.op))?;
        out.array("stages", |list| {
            if !first.is_empty() {
                list.push_doc(|out| {
                    out.extend(first);
                });
            }
            run.write(list, &parsed);
        });
        write_server(context, out);
        return Ok(());
    }
    let (hint, output) = (args.hint()?, output.as_deref());
    let pipeline = PipelineExplain { namespace, hint, output, is_answered };
    pipeline.explain(context, &parsed, collection.as_ref(), &scope.snapshot, runs, out)?;
    write_server(context, out);
    Ok(())
}

/// Parameters of explain other than the stages.
struct PipelineExplain<'a> {
    namespace: String,
    hint: Option<Val<'a>>,
    output: Option<&'a dyn Stage>,
    is_answered: bool,
}

impl PipelineExplain<'_> {
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
        let mut planned = ExplainedFind::new(parsed, collection, snapshot, self.hint)?;
        planned.is_answered = self.is_answered;
        let rest = planned.rest(parsed);
        let mut input = planned.open(snapshot);
        if let (Some(Role::Near(near)), Some(_)) = (parsed.first().map(|s| s.role()), collection) {
            input = near.with_distances(input, &planned.front.plan)?;
        }
        let run = ExplainedStages::of(rest, input, op)?;
        let stats = runs.then(|| planned.stats());
        if rest.is_empty() && self.output.is_none() {
            planned.write(&self.namespace, stats.as_ref(), true, out);
            return Ok(());
        }
        out.array("stages", |list| {
            planned.write_stage(&self.namespace, stats.as_ref(), list);
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
