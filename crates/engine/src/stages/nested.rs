//! Pipelines inside of stages: `$lookup`, `$unionWith` and `$graphLookup` read other collections
//! with pipelines of their own, over the snapshot of the whole command.

use super::{Kept, Stage, StageContext, Within, match_stage};
use crate::catalog::Collection;
use crate::exec::Stream;
use crate::exec::pipeline::{self, follow};
use crate::operation::Operation;
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Pipelines nested deeper than this are refused; it ends views that contain themselves, too.
const DEPTH_MAX: usize = 20;

/// A pipeline over another collection or view.
pub(super) struct Nested {
    kept: Kept,
    collection: Option<Arc<Collection>>,
    /// The stages of the views below, compiled.
    below: Vec<Box<dyn Stage>>,
    /// The pipeline without the views below.
    own: DocBuf,
    /// The pipeline with the views below.
    joined: DocBuf,
    /// Both compiled, when no variable of the stage can occur in them.
    compiled: Option<Compiled>,
}

struct Compiled {
    own: Vec<Box<dyn Stage>>,
    joined: Vec<Box<dyn Stage>>,
}

impl Nested {
    /// Compiles a pipeline over `from`; `None` when it makes its documents itself. `variables` are
    /// the names that each document of the outer pipeline gives values to.
    pub(super) fn new(
        context: &StageContext<'_>,
        within: Within,
        from: Option<&str>,
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
        let inner = StageContext { within, depth, ..*context };
        let empty = RawDoc::empty();
        let (collection, views) = match (context.scope, from) {
            (Some(scope), Some(_)) => {
                let found = pipeline::resolve(&scope.catalog, context.db, from, empty)?;
                (found.collection, found.pipeline)
            }
            _ => (None, DocBuf::new()),
        };
        let mut joined = Vec::new();
        value::writer::write_array(&mut joined, |out| {
            let stages = views.as_doc().iter().chain(own.iter());
            stages.for_each(|(_, stage)| out.push_raw(stage));
        });
        let joined = pipeline::improved(DocBuf::from_bytes(joined));
        // Variables have values only later; null stands for them to see whether all compiles.
        let unknown: Vec<(&str, Val<'_>)> =
            variables.iter().map(|name| (*name, Val::Null)).collect();
        let unknown = with_values(context.parse.variables, &unknown);
        let checked =
            StageContext { parse: context.parse.with_variables(unknown.as_doc()), ..inner };
        let own_stages = super::parse(own, &checked)?;
        if from.is_some() {
            let first = own.first().and_then(|(_, stage)| stage.as_doc()?.first());
            super::check_source(first.map(|(name, _)| name), true)?;
        }
        let below = super::parse(views.as_doc(), &inner)?;
        let compiled = match variables.is_empty() {
            true => {
                let joined = super::parse(joined.as_doc(), &inner)?;
                Some(Compiled { own: own_stages, joined })
            }
            false => None,
        };
        Ok(Nested { kept: inner.keep(), collection, below, own: own.into(), joined, compiled })
    }

    /// The context that the stage was compiled in.
    pub(super) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// The collection at the bottom.
    pub(super) fn collection(&self) -> Option<&Arc<Collection>> {
        self.collection.as_ref()
    }

    /// Whether views stand between the pipeline and the collection.
    pub(super) fn is_on_view(&self) -> bool {
        !self.below.is_empty()
    }

    /// The documents of the whole pipeline.
    pub(super) fn open(&self, variables: RawDoc<'_>) -> Result<Box<dyn Stream>> {
        match &self.compiled {
            Some(compiled) => self.read(&compiled.joined),
            None => {
                let context = self.kept.with_variables(variables);
                self.read(&super::parse(self.joined.as_doc(), &context)?)
            }
        }
    }

    /// The documents of the views below, or of the collection, that match a filter.
    pub(super) fn open_matching(&self, filter: RawDoc<'_>) -> Result<Box<dyn Stream>> {
        let filter = vec![match_stage::make(filter, &self.kept.get())?];
        if self.below.is_empty() {
            return self.read(&filter);
        }
        Ok(follow(&filter, self.read(&self.below)?))
    }

    /// The documents of the views below, or of the collection.
    pub(super) fn open_below(&self) -> Result<Box<dyn Stream>> {
        self.read(&self.below)
    }

    /// Puts the pipeline behind documents of the views below.
    pub(super) fn follow(
        &self,
        variables: RawDoc<'_>,
        stream: Box<dyn Stream>,
    ) -> Result<Box<dyn Stream>> {
        if self.own.as_doc().is_empty() {
            return Ok(stream);
        }
        match &self.compiled {
            Some(compiled) => Ok(follow(&compiled.own, stream)),
            None => {
                let context = self.kept.with_variables(variables);
                Ok(follow(&super::parse(self.own.as_doc(), &context)?, stream))
            }
        }
    }

    fn read(&self, stages: &[Box<dyn Stage>]) -> Result<Box<dyn Stream>> {
        let scope = self
            .kept
            .scope
            .as_ref()
            .ok_or_else(|| Error::internal("a pipeline that was only checked does not run"))?;
        let (stream, _) = pipeline::open(stages, self.collection.as_ref(), &scope.snapshot, None)?;
        Ok(stream)
    }
}

/// Variables with some set anew. A missing value is kept as undefined, which the language reads
/// as missing.
pub(super) fn with_values(outer: RawDoc<'_>, values: &[(&str, Val<'_>)]) -> DocBuf {
    DocBuf::build(|out| {
        for (name, value) in outer {
            if !values.iter().any(|(new, _)| *new == name) {
                out.raw(name, value);
            }
        }
        for (name, value) in values {
            out.append(name, if value.is_missing() { Val::Undefined } else { *value });
        }
    })
}

/// All documents of a stream, within the memory that a stage may use.
pub(super) fn collect(
    stream: &mut dyn Stream,
    op: &Operation,
    bytes_max: usize,
) -> Result<Option<Vec<crate::exec::Doc>>> {
    let mut docs = Vec::new();
    let mut bytes = 0;
    while let Some(doc) = stream.next(op)? {
        bytes += doc.len() + 48;
        if bytes > bytes_max {
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
