//! Nested pipelines: `$lookup`, `$unionWith` and `$graphLookup` read other collections with their
//! own pipelines, over the snapshot of the whole command.
//!
//! A pipeline is compiled once. Its deferred variables are slots that are set for each outer
//! document before it is opened, so each concurrent run needs its own compiled copy.

use super::explained::ExplainedPipeline;
use super::{
    CompiledPipeline, OwnedContext, Rewriting, Role, Stage, StageContext, Within, match_stage,
    needed,
};
use crate::catalog::{Collection, faces};
use crate::exec::Stream;
use crate::memory::Share;
use crate::operation::Operation;
use crate::planner::logical::{Fired, InnerFired};
use crate::stages::pipeline::{self, MetaRequest, open_stages};
use query::DeferredVariable;
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Maximum nesting depth; it also stops views that contain themselves.
pub(crate) const DEPTH_MAX: usize = 20;

/// A pipeline over another collection or view.
pub(super) struct Nested {
    kept: OwnedContext,
    collection: Option<Arc<Collection>>,
    /// The compiled stages of the views below.
    below: Vec<Box<dyn Stage>>,
    /// The pipeline without the views below, and the rules that changed it.
    own: (DocBuf, Fired),
    /// The pipeline with the views below, and the rules that changed it.
    joined: (DocBuf, Fired),
    /// The deferred variables, which outer documents set.
    variables: Vec<String>,
}

/// A compiled pipeline.
pub(super) struct Compiled {
    /// The variables, in the order of their names.
    pub(super) variables: Vec<DeferredVariable>,
    /// The stages without the views below.
    own: Vec<Box<dyn Stage>>,
    own_rewriting: Rewriting,
    /// The stages with the views below.
    pub(super) joined: Vec<Box<dyn Stage>>,
    /// What the optimiser did to `joined`.
    pub(super) rewriting: Rewriting,
    /// The number of leading stages of `joined` that do not depend on the variables.
    pub(super) constant: usize,
    /// Whether it depends on variables of outer pipelines.
    pub(super) reads_outer: bool,
}

/// Refuses a view of another collation than that of the pipeline.
fn check_collation(context: &StageContext<'_>, scope: &super::Scope, name: &str) -> Result<()> {
    let view = scope.catalog.get(context.db, name).filter(|found| found.view().is_some());
    match view {
        Some(view) if view.collation.as_ref() != context.collation => Err(Error::new(
            Code::OPTION_NOT_SUPPORTED_ON_VIEW,
            format!(
                "Cannot override default collation of a view: {}.{name} has another collation",
                context.db
            ),
        )),
        _ => Ok(()),
    }
}

/// The stages of two pipelines, one after the other.
fn joined(first: RawDoc<'_>, second: RawDoc<'_>) -> DocBuf {
    let mut joined = Vec::new();
    value::writer::write_array(&mut joined, |out| {
        first.iter().chain(second.iter()).for_each(|(_, stage)| out.push_raw(stage));
    });
    DocBuf::from_bytes(joined)
}

impl Nested {
    /// Compiles a pipeline over `from`; `None` when it makes its documents itself. `variables` are
    /// the names of the deferred variables, `field` is one of `from` that the stage itself reads.
    pub(super) fn new(
        context: &StageContext<'_>,
        within: Within,
        (from, field): (Option<&str>, Option<&str>),
        own: RawDoc<'_>,
        variables: &[&str],
    ) -> Result<Nested> {
        let depth = context.depth + 1;
        if depth > DEPTH_MAX {
            return Err(Error::new(
                Code::MAX_SUB_PIPELINE_DEPTH_EXCEEDED,
                format!("Maximum number of nested sub-pipelines exceeded. Limit is {DEPTH_MAX}"),
            ));
        }
        if let Some(name) = from {
            crate::namespace::check_collection(context.db, name)?;
        }
        let empty = RawDoc::empty();
        let (collection, base, views) = match (context.scope, from) {
            (Some(scope), Some(name)) => {
                check_collation(context, scope, name)?;
                let found = pipeline::resolve(scope, context.db, from, empty)?;
                let collection = match found.collection {
                    Some(seen) if seen.shapes.is_some() => {
                        let all = joined(found.pipeline.as_doc(), own);
                        let named = faces::of_pipeline(&seen, all.as_doc(), field);
                        Some(seen.seen_naming(scope.reader.as_ref(), named)?.unwrap_or(seen))
                    }
                    other => other,
                };
                (collection, found.name, found.pipeline)
            }
            _ => (None, None, DocBuf::new()),
        };
        let hidden = collection.as_deref().and_then(|seen| faces::hidden(seen, own));
        let own = hidden.as_ref().map_or(own, DocBuf::as_doc);
        let inner = StageContext { within, depth, source: base.as_deref(), ..*context };
        let joined = pipeline::optimised(joined(views.as_doc(), own));
        let first = joined.0.as_doc().first().and_then(|(_, stage)| stage.as_doc()?.first());
        // A stage that reports on the collection reads no document of it.
        let reports = first.and_then(|(name, _)| super::find(name)?.diagnose()).is_some();
        let collection = collection.filter(|_| !reports);
        let nested = Nested {
            kept: inner.keep(),
            collection,
            below: super::parse(views.as_doc(), &inner)?,
            own: match views.as_doc().is_empty() {
                true => joined.clone(),
                false => pipeline::optimised(own.into()),
            },
            joined,
            variables: variables.iter().map(|name| (*name).to_owned()).collect(),
        };
        if from.is_some() {
            let first = own.first().and_then(|(_, stage)| stage.as_doc()?.first());
            super::check_source(first.map(|(name, _)| name), true)?;
        }
        Ok(nested)
    }

    /// Refuses `$meta` where the pipeline does not provide the metadata. MongoDB does so when the
    /// pipeline first runs.
    pub(super) fn check_metadata(&self) -> Result<()> {
        crate::planner::request::check_metadata(self.joined.0.as_doc())
    }

    /// Compiles the pipeline.
    pub(super) fn compile(&self) -> Result<Compiled> {
        let variables: Vec<DeferredVariable> =
            self.variables.iter().map(|name| DeferredVariable::new(name)).collect();
        let known: Vec<DeferredVariable> =
            self.kept.deferred.iter().chain(&variables).cloned().collect();
        let context = self.kept.with_deferred(&known);
        let (own, reads_outer) = DeferredVariable::watch(&self.kept.deferred, || {
            super::compile(self.own.0.as_doc(), &context, &[])
        });
        let CompiledPipeline { stages: own, rewriting: mut own_rewriting, .. } = own?;
        own_rewriting.fired.add_all(self.own.1);
        let joined = super::compile(self.joined.0.as_doc(), &context, &variables)?;
        let CompiledPipeline { stages: joined, constant, mut rewriting } = joined;
        rewriting.fired.add_all(self.joined.1);
        Ok(Compiled { variables, own, own_rewriting, joined, rewriting, constant, reads_outer })
    }

    /// The context that the stage was compiled in.
    pub(super) fn kept(&self) -> &OwnedContext {
        &self.kept
    }

    /// The underlying collection.
    pub(super) fn collection(&self) -> Option<&Arc<Collection>> {
        self.collection.as_ref()
    }

    /// The pipeline with the views below, in source form.
    pub(super) fn joined(&self) -> RawDoc<'_> {
        self.joined.0.as_doc()
    }

    /// Whether there are views between the pipeline and the collection.
    pub(super) fn is_on_view(&self) -> bool {
        !self.below.is_empty()
    }

    /// Returns the documents of the views below, or of the collection, that match a filter. `base`
    /// skips the views. `after` is what is read of the documents, `None` for all.
    pub(super) fn open_matching(
        &self,
        filter: RawDoc<'_>,
        base: bool,
        after: Option<&[String]>,
    ) -> Result<Box<dyn Stream>> {
        let filter = vec![match_stage::make(filter, &self.kept.get())?];
        if self.below.is_empty() || base {
            return self.read(&filter, after);
        }
        let read = needed::by(&filter, after);
        Ok(open_stages(&filter, self.read(&self.below, read.as_deref())?))
    }

    /// The documents of the views below, or of the collection.
    pub(super) fn open_below(
        &self,
        base: bool,
        after: Option<&[String]>,
    ) -> Result<Box<dyn Stream>> {
        self.read(if base { &[] } else { &self.below }, after)
    }

    /// Writes the plan of compiled stages over the collection `name` for explain, with statistics
    /// if they ran.
    pub(super) fn explain(
        &self,
        stages: &[Box<dyn Stage>],
        name: &str,
        watched: Option<&ExplainedPipeline>,
        list: &mut value::writer::ArrayWriter<'_>,
    ) {
        let namespace = format!("{}.{name}", self.kept.get().db);
        match watched {
            Some(watched) => watched.write(stages, &namespace, list),
            None => match self.plan(stages) {
                Ok(planned) => planned.write(stages, &namespace, list),
                // Stages that cannot be planned are written in source form.
                Err(_) => self.joined().iter().for_each(|(_, stage)| list.push_raw(stage)),
            },
        }
    }

    fn plan(&self, stages: &[Box<dyn Stage>]) -> Result<ExplainedPipeline> {
        ExplainedPipeline::plan(stages, self.collection.as_ref(), &self.scope()?.snapshot)
    }

    /// Opens compiled stages with statistics for explain.
    pub(super) fn watch(
        &self,
        stages: &[Box<dyn Stage>],
    ) -> Result<(Box<dyn Stream>, ExplainedPipeline)> {
        let mut planned = self.plan(stages)?;
        Ok((planned.open(stages, &self.scope()?.snapshot), planned))
    }

    fn scope(&self) -> Result<&super::Scope> {
        self.kept
            .scope
            .as_deref()
            .ok_or_else(|| Error::internal("a pipeline that was only checked does not run"))
    }

    /// The documents of compiled stages over the collection. `after` is what is read of them,
    /// `None` for all.
    pub(super) fn read(
        &self,
        stages: &[Box<dyn Stage>],
        after: Option<&[String]>,
    ) -> Result<Box<dyn Stream>> {
        pipeline::open(stages, self.collection.as_ref(), &self.scope()?.snapshot, after)
    }

    /// Whether documents of the collection can be read in part.
    pub(super) fn has_parts(&self) -> bool {
        self.collection.as_ref().is_some_and(|collection| collection.layouts.is_some())
    }

    /// The rules that decide how `read` runs compiled stages.
    pub(super) fn rules(&self, stages: &[Box<dyn Stage>]) -> Result<Fired> {
        let makes_its_own = matches!(stages.first().map(|stage| stage.role()), Some(Role::Source));
        let collection = self.collection.as_ref().filter(|_| !makes_its_own);
        let snapshot = &self.scope()?.snapshot;
        pipeline::open_rules(stages, collection, snapshot, None, MetaRequest::default())
    }
}

impl Compiled {
    /// Opens the pipeline over documents of the views below.
    pub(super) fn open_own(&self, stream: Box<dyn Stream>) -> Box<dyn Stream> {
        open_stages(&self.own, stream)
    }

    /// The stages that `open_own` opens.
    pub(super) fn own(&self) -> &[Box<dyn Stage>] {
        &self.own
    }

    /// Adds the rules of the pipeline that `open_own` opens.
    pub(super) fn own_rules(&self, path: &str, inner: &mut InnerFired) -> Result<()> {
        self.own_rewriting.collect(&self.own, pipeline::stage_rules(&self.own), path, inner)
    }

    /// Whether the pipeline without the views below has stages.
    pub(super) fn has_own(&self) -> bool {
        !self.own.is_empty()
    }
}

/// Reads all documents of a stream, within the memory limits of a stage and of all operations.
pub(super) fn collect(
    stream: &mut dyn Stream,
    op: &Operation,
    bytes_max: usize,
    share: &mut Share,
) -> Result<Option<Vec<crate::exec::Doc>>> {
    let mut docs = Vec::new();
    let mut bytes = 0;
    while let Some(doc) = stream.next(op)? {
        bytes += doc.len() + 48;
        if bytes > bytes_max || !share.covers(bytes) {
            return Ok(None);
        }
        docs.push(doc);
    }
    Ok(Some(docs))
}

/// A field of a stage that must be a string.
pub(super) fn string_field<'v>(stage: &str, name: &str, value: Val<'v>) -> Result<&'v str> {
    match value {
        Val::String(text) => Ok(text),
        other => Err(Error::failed_to_parse(format!(
            "{stage} argument '{name}' must be a string, found {name}: {}",
            other.kind().name()
        ))),
    }
}
