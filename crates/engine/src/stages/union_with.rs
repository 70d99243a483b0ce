//! `$unionWith`: appends the documents of another pipeline.

use super::explained::ExplainedPipeline;
use super::nested::{Compiled, Nested};
use super::privileges::{PipelinePrivileges, Privilege};
use super::{Stage, StageContext, StageReads, StageRow, Within};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::logical::InnerFired;
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$unionWith",
    help: "Appends the documents of another pipeline.",
    in_transactions: false,
    parse,
    privilege: Privilege::Beside(privilege),
    ..StageRow::BASE
};

fn privilege(client: &PipelinePrivileges<'_>, spec: Val<'_>, depth: usize) -> bool {
    let read = |name| client.reads(client.db, name);
    match spec {
        Val::String(name) => read(name),
        Val::Document(doc) => {
            let other = doc.get("coll").and_then(Val::as_str);
            other.is_none_or(read) && client.inner_allowed(other, doc, depth)
        }
        _ => true,
    }
}

struct UnionWith {
    other: Arc<Other>,
    from: Option<String>,
}

/// The other pipeline.
struct Other {
    nested: Nested,
    compiled: Compiled,
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let mut from = None;
    let mut pipeline = RawDoc::empty();
    match value {
        Val::String(name) => from = Some(name),
        Val::Document(doc) => {
            for (name, value) in doc {
                match (name, value.get()) {
                    ("coll", Val::String(name)) => from = Some(name),
                    ("coll", other) => {
                        return Err(Error::type_mismatch(format!(
                            "BSON field '$unionWith.coll' is the wrong type '{}', expected type \
                             'string'",
                            other.kind().name()
                        )));
                    }
                    ("pipeline", Val::Array(stages)) => pipeline = stages,
                    ("pipeline", other) => {
                        return Err(Error::type_mismatch(format!(
                            "BSON field '$unionWith.pipeline' is the wrong type '{}', expected \
                             type 'array'",
                            other.kind().name()
                        )));
                    }
                    _ => {
                        return Err(Error::new(
                            Code(40415),
                            format!("BSON field '$unionWith.{name}' is an unknown field."),
                        ));
                    }
                }
            }
        }
        other => {
            return Err(Error::failed_to_parse(format!(
                "the $unionWith stage specification must be an object or string, but found {}",
                other.kind().name()
            )));
        }
    }
    let first = pipeline.first().and_then(|(_, stage)| stage.as_doc()?.first());
    if from.is_none() && first.is_none_or(|(name, _)| name != "$documents") {
        return Err(Error::failed_to_parse(
            "$unionWith stage without explicit collection must have a pipeline with $documents as \
             first stage",
        ));
    }
    let nested = Nested::new(context, Within::Union, (from, None), pipeline, &[])?;
    let compiled = nested.compile()?;
    let from = from.map(str::to_owned);
    Ok(Box::new(UnionWith { other: Arc::new(Other { nested, compiled }), from }))
}

impl Stage for UnionWith {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Union {
            input: Some(input),
            before: Examined::default(),
            other: self.other.clone(),
            from: self.from.clone(),
            begun: false,
            second: None,
            watched: None,
        })
    }

    fn reads(&self) -> Option<StageReads> {
        Some(StageReads { paths: Vec::new(), passes: true })
    }

    fn explain(&self, out: &mut Writer<'_>) {
        self.other.explain(self.from.as_deref(), None, out);
    }

    fn inner_rules(&self, path: &str, inner: &mut InnerFired) -> Result<()> {
        let Other { nested, compiled } = &*self.other;
        let fired = nested.rules(&compiled.joined)?;
        let path = format!("{path}.{}.pipeline", ROW.name);
        compiled.rewriting.collect(&compiled.joined, fired, &path, inner)
    }
}

impl Other {
    fn explain(
        &self,
        from: Option<&str>,
        watched: Option<&ExplainedPipeline>,
        out: &mut Writer<'_>,
    ) {
        out.doc(ROW.name, |out| {
            if let Some(from) = from {
                out.str("coll", from);
            }
            let name = from.unwrap_or("$cmd.aggregate");
            out.array("pipeline", |list| {
                self.nested.explain(&self.compiled.joined, name, watched, list);
            });
        });
    }
}

struct Union {
    input: Option<Box<dyn Stream>>,
    /// What the input had examined when it ended.
    before: Examined,
    other: Arc<Other>,
    from: Option<String>,
    /// Whether the other pipeline was opened.
    begun: bool,
    second: Option<Box<dyn Stream>>,
    /// The statistics of the other pipeline once it has ended, for explain.
    watched: Option<ExplainedPipeline>,
}

impl Stream for Union {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if let Some(input) = &mut self.input {
            if let Some(doc) = input.next(op)? {
                return Ok(Some(doc));
            }
            input.examined(&mut self.before);
            self.input = None;
        }
        if !std::mem::replace(&mut self.begun, true) {
            let Other { nested, compiled } = &*self.other;
            nested.check_metadata()?;
            if op.is_explained() {
                let (second, watched) = nested.watch(&compiled.joined)?;
                (self.second, self.watched) = (Some(second), Some(watched));
            } else {
                self.second = Some(nested.read(&compiled.joined, None)?);
            }
        }
        let Some(second) = &mut self.second else { return Ok(None) };
        let doc = second.next(op)?;
        if doc.is_none() {
            second.examined(&mut self.before);
            self.second = None;
        }
        Ok(doc)
    }

    fn write_own_stats(&self, out: &mut Writer<'_>) {
        // A pipeline that was not read to its end has not reported yet.
        let ended = self.begun && self.second.is_none();
        if let Some(watched) = self.watched.as_ref().filter(|_| ended) {
            self.other.explain(self.from.as_deref(), Some(watched), out);
        }
    }

    fn has_meta(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.has_meta())
    }

    fn meta(&self) -> Option<DocBuf> {
        self.input.as_ref().and_then(|input| input.meta())
    }

    fn is_done(&self) -> bool {
        self.begun && self.second.as_ref().is_none_or(|second| second.is_done())
    }

    fn examined(&self, total: &mut Examined) {
        total.keys += self.before.keys;
        total.documents += self.before.documents;
        total.bytes += self.before.bytes;
        for part in self.input.iter().chain(&self.second) {
            part.examined(total);
        }
    }
}
