//! `$facet`: runs several pipelines over the same documents and returns an array for each.
//!
//! The documents are read once and kept in memory. Beyond the memory limit of a stage, they go to a
//! temporary file for each pipeline.

use super::explained::{ExplainedStage, ExplainedStages};
use super::privileges::{PipelinePrivileges, Privilege};
use super::{
    CompiledPipeline, Rewriting, Stage, StageContext, StageReads, StageRow, Within, needed,
};
use crate::exec::{Doc, Examined, Stream};
use crate::memory::Share;
use crate::operation::Operation;
use crate::planner::logical::InnerFired;
use crate::stages::pipeline::{open_stages, optimised, stage_rules};
use crate::store_failed;
use parking_lot::Mutex;
use std::sync::Arc;
use store::Run;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer, limits, writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$facet",
    help: "Runs several pipelines over the same documents.",
    in_facet: false,
    parse,
    privilege: Privilege::Beside(privilege),
    ..StageRow::BASE
};

fn privilege(client: &PipelinePrivileges<'_>, spec: Val<'_>, depth: usize) -> bool {
    let parts = spec.as_doc().unwrap_or(RawDoc::empty());
    let mut pipelines = parts.iter().filter_map(|(_, part)| part.as_array());
    pipelines.all(|stages| client.stages_allowed(stages, depth + 1))
}

/// The name in explain of the stage that feeds every part.
const TEE: &str = "$internalFacetTeeConsumer";

struct Facet {
    parts: Arc<Vec<FacetPipeline>>,
}

struct FacetPipeline {
    name: String,
    stages: Vec<Box<dyn Stage>>,
    rewriting: Rewriting,
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::new(
            Code(40169),
            format!(
                "the $facet specification must be a non-empty object, but found: {}",
                value.kind().name()
            ),
        ));
    };
    if doc.is_empty() {
        return Err(Error::new(
            Code(40169),
            "the $facet specification must be a non-empty object, but found: {}",
        ));
    }
    let inner = StageContext { within: Within::Facet, ..*context };
    let mut parts: Vec<FacetPipeline> = Vec::new();
    for (name, value) in doc {
        check_name(name)?;
        let Some(pipeline) = value.as_array() else {
            return Err(Error::new(
                Code(40170),
                format!(
                    "arguments to $facet must be arrays, {name} is type {}",
                    value.kind().name()
                ),
            ));
        };
        if parts.iter().any(|part| part.name == name) {
            return Err(Error::new(Code(16406), format!("duplicate field name: {name}")));
        }
        if let Some((_, stage)) = pipeline.iter().find(|(_, stage)| stage.as_doc().is_none()) {
            return Err(Error::new(
                Code(40171),
                format!(
                    "elements of arrays in $facet spec must be non-empty objects, {name} argument \
                     contained an element of type {}",
                    stage.kind().name()
                ),
            ));
        }
        let (pipeline, fired) = optimised(pipeline.into());
        let compiled = super::compile(pipeline.as_doc(), &inner, &[])?;
        let CompiledPipeline { stages, mut rewriting, .. } = compiled;
        rewriting.fired.add_all(fired);
        parts.push(FacetPipeline { name: name.to_owned(), stages, rewriting });
    }
    Ok(Box::new(Facet { parts: Arc::new(parts) }))
}

fn check_name(name: &str) -> Result<()> {
    let refuse = |code, message: &str| Err(Error::new(Code(code), message));
    if name.is_empty() {
        return refuse(15998, "FieldPath field names may not be empty strings.");
    }
    if name.starts_with('$') {
        return refuse(
            16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
        );
    }
    if name.contains('.') {
        return refuse(
            16412,
            "FieldPath field names may not contain '.'. Consider using $getField or $setField.",
        );
    }
    Ok(())
}

impl Stage for Facet {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Facets { input, parts: self.parts.clone(), done: false, watched: Vec::new() })
    }

    fn reads(&self) -> Option<StageReads> {
        let mut paths = Vec::new();
        for part in self.parts.iter() {
            paths.extend(needed::by(&part.stages, None)?);
        }
        Some(StageReads { paths, passes: false })
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.doc(ROW.name, |out| {
            for part in self.parts.iter() {
                out.array(&part.name, |list| {
                    list.push_doc(|out| {
                        out.doc(TEE, |_| {});
                    });
                    part.stages.iter().for_each(|stage| list.push_doc(|out| stage.explain(out)));
                });
            }
        });
    }

    fn inner_rules(&self, path: &str, inner: &mut InnerFired) -> Result<()> {
        for part in self.parts.iter() {
            let path = format!("{path}.{}.{}", ROW.name, part.name);
            part.rewriting.collect(&part.stages, stage_rules(&part.stages), &path, inner)?;
        }
        Ok(())
    }
}

struct Facets {
    input: Box<dyn Stream>,
    parts: Arc<Vec<FacetPipeline>>,
    done: bool,
    /// The input count of each part, and the statistics of its stages, for explain.
    watched: Vec<(Arc<Mutex<DocBuf>>, ExplainedStages)>,
}

impl Facets {
    /// Opens a part over the documents, with statistics if it is explained.
    fn open(&mut self, stages: &[Box<dyn Stage>], again: Again, op: &Operation) -> Box<dyn Stream> {
        if !op.is_explained() {
            return open_stages(stages, Box::new(again));
        }
        let (input, came) = ExplainedStage::watch(Box::new(again));
        let (stream, run) = ExplainedStages::watch(stages, Box::new(input));
        self.watched.push((came, run));
        stream
    }
}

impl Stream for Facets {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        let parts = self.parts.clone();
        let Waiting { docs, runs, _share } = wait(&mut *self.input, parts.len(), op)?;
        let docs = Arc::new(docs);
        let mut runs = runs.into_iter();
        let mut out = Vec::new();
        let mut whole = Writer::start(&mut out);
        for part in parts.iter() {
            let again = Again { docs: docs.clone(), at: 0, run: runs.next(), meta: None };
            let mut stream = self.open(&part.stages, again, op);
            let mut results = Vec::new();
            let mut failed = None;
            writer::write_array(&mut results, |list| {
                loop {
                    match stream.next(op) {
                        Ok(Some(doc)) => list.push_doc_bytes(&doc),
                        Ok(None) => break,
                        Err(error) => {
                            failed = Some(error);
                            break;
                        }
                    }
                    if list.len() > limits::BLOCKING_STAGE_BYTES_MAX {
                        failed = Some(Error::new(
                            Code(4031700),
                            format!(
                                "document constructed by $facet is larger than the limit of {} bytes",
                                limits::BLOCKING_STAGE_BYTES_MAX
                            ),
                        ));
                        break;
                    }
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            whole.append(&part.name, Val::Array(RawDoc::new(&results)));
        }
        whole.finish();
        Ok(Some(Doc::Made(out)))
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn write_own_stats(&self, out: &mut Writer<'_>) {
        if self.watched.len() != self.parts.len() {
            return;
        }
        out.doc(ROW.name, |out| {
            for (part, (came, run)) in self.parts.iter().zip(&self.watched) {
                out.array(&part.name, |list| {
                    list.push_doc(|out| {
                        out.doc(TEE, |_| {});
                        out.extend(came.lock().as_doc());
                    });
                    run.write(list, &part.stages);
                });
            }
        });
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}

/// The input documents, which are read several times.
struct Waiting {
    /// With the metadata of each.
    docs: Vec<(Doc, Option<DocBuf>)>,
    /// The spilled documents, once for each reader.
    runs: Vec<Run>,
    /// The memory accounting of the documents.
    _share: Share,
}

fn wait(input: &mut dyn Stream, readers: usize, op: &Operation) -> Result<Waiting> {
    let mut docs = Vec::new();
    let mut writers = Vec::new();
    let mut bytes = 0;
    let mut share = op.share();
    while let Some(doc) = input.next(op)? {
        if writers.is_empty() && bytes <= op.sort_bytes_max() && share.covers(bytes + doc.len()) {
            bytes += doc.len() + 64;
            docs.push((doc, input.meta()));
            continue;
        }
        if writers.is_empty() {
            if !op.may_use_disk() {
                return Err(Error::new(
                    Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                    format!("Exceeded memory limit for $facet: {} bytes", op.sort_bytes_max()),
                ));
            }
            for _ in 0..readers {
                writers.push(op.scratch().create().map_err(store_failed)?);
            }
        }
        let meta = input.meta().map_or_else(Vec::new, DocBuf::into_bytes);
        for writer in &mut writers {
            writer.push(&meta, &doc).map_err(store_failed)?;
        }
    }
    let finish = |writer: store::RunWriter| writer.finish().map_err(store_failed);
    Ok(Waiting {
        docs,
        runs: writers.into_iter().map(finish).collect::<Result<_>>()?,
        _share: share,
    })
}

/// A stream over the buffered documents.
struct Again {
    docs: Arc<Vec<(Doc, Option<DocBuf>)>>,
    at: usize,
    run: Option<Run>,
    /// The metadata of the last document.
    meta: Option<DocBuf>,
}

impl Stream for Again {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        if let Some((doc, meta)) = self.docs.get(self.at) {
            self.at += 1;
            self.meta.clone_from(meta);
            return Ok(Some(doc.clone()));
        }
        let Some(run) = &mut self.run else { return Ok(None) };
        let Some((meta, doc)) = run.next().map_err(store_failed)? else { return Ok(None) };
        self.meta = (!meta.is_empty()).then(|| DocBuf::from_bytes(meta));
        Ok(Some(Doc::Made(doc)))
    }

    fn has_meta(&self) -> bool {
        self.docs.first().is_some_and(|(_, meta)| meta.is_some())
    }

    fn meta(&self) -> Option<DocBuf> {
        self.meta.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::ready::Ready;

    #[test]
    fn documents_beyond_the_memory_come_back_from_disk_in_order() {
        let op = Operation::for_tests(3000);
        op.set_disk_use(Some(true));
        let docs: Vec<DocBuf> = (0..500)
            .map(|n| {
                DocBuf::build(|out| {
                    out.i32("_id", n);
                })
            })
            .collect();
        let waiting = wait(&mut Ready(docs.into_iter()), 2, &op).expect("waits");
        assert!(waiting.docs.len() < 100 && waiting.runs.len() == 2);
        let shared = Arc::new(waiting.docs);
        for run in waiting.runs {
            let mut again = Again { docs: shared.clone(), at: 0, run: Some(run), meta: None };
            for n in 0..500 {
                let doc = again.next(&op).expect("reads").expect("a document");
                assert_eq!(doc.raw().get("_id"), Some(Val::Int32(n)));
            }
            assert!(again.next(&op).expect("reads").is_none());
        }
        op.set_disk_use(Some(false));
        let docs: Vec<DocBuf> = (0..500).map(|_| DocBuf::new()).collect();
        assert!(wait(&mut Ready(docs.into_iter()), 2, &op).is_err());
    }
}
