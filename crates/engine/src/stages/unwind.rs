//! `$unwind`: one document for each element of an array.

use super::{Role, Stage, StageContext, StageRow};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use std::collections::VecDeque;
use std::sync::Arc;
use value::path::{Part, Path};
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer, writer};

pub(super) static ROW: StageRow =
    StageRow { name: "$unwind", help: "Makes one document for each element of an array.", parse };

struct Unwind {
    spec: Arc<Spec>,
    source: OwnedVal,
}

/// What is unwound, and how.
#[derive(Clone)]
pub struct Spec {
    /// The array.
    pub path: Path,
    /// Where the element's place is written.
    pub index: Option<Path>,
    /// Whether documents without elements pass too.
    pub keep_empty: bool,
}

fn parse(value: Val<'_>, _: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let mut keep_empty = false;
    let mut index = None;
    let path = match value {
        Val::String(path) => path,
        Val::Document(doc) => {
            let mut path = None;
            for (name, value) in doc {
                match (name, value.get()) {
                    ("path", Val::String(text)) => path = Some(text),
                    ("path", other) => {
                        return Err(Error::new(
                            Code(28808),
                            format!(
                                "expected a string as the path for $unwind stage, got {}",
                                other.kind().name()
                            ),
                        ));
                    }
                    ("preserveNullAndEmptyArrays", Val::Bool(keep)) => keep_empty = keep,
                    ("preserveNullAndEmptyArrays", other) => {
                        return Err(Error::new(
                            Code(28809),
                            format!(
                                "expected a boolean for the preserveNullAndEmptyArrays option to \
                                 $unwind stage, got {}",
                                other.kind().name()
                            ),
                        ));
                    }
                    ("includeArrayIndex", Val::String(text)) if !text.is_empty() => {
                        if text.starts_with('$') {
                            return Err(Error::new(
                                Code(28822),
                                format!(
                                    "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {text}"
                                ),
                            ));
                        }
                        index = Some(Path::new(text));
                    }
                    ("includeArrayIndex", other) => {
                        return Err(Error::new(
                            Code(28810),
                            format!(
                                "expected a non-empty string for the includeArrayIndex  option to \
                                 $unwind stage, got {}",
                                other.kind().name()
                            ),
                        ));
                    }
                    _ => {
                        return Err(Error::new(
                            Code(28811),
                            format!("unrecognized option to $unwind stage: {name}"),
                        ));
                    }
                }
            }
            path.ok_or_else(|| Error::new(Code(28812), "no path specified to $unwind stage"))?
        }
        other => {
            return Err(Error::new(
                Code(15981),
                format!(
                    "expected either a string or an object as specification for $unwind stage, \
                     got {}",
                    other.kind().name()
                ),
            ));
        }
    };
    let Some(path) = path.strip_prefix('$').filter(|path| !path.is_empty()) else {
        return Err(Error::new(
            Code(28818),
            format!("path option to $unwind stage should be prefixed with a '$': {path}"),
        ));
    };
    let spec = Spec { path: Path::new(path), index, keep_empty };
    Ok(Box::new(Unwind { spec: Arc::new(spec), source: value.into() }))
}

impl Stage for Unwind {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Unwinding { input, spec: self.spec.clone(), ready: VecDeque::new() })
    }

    fn role(&self) -> Role<'_> {
        Role::Unwind(&self.spec)
    }

    fn explain(&self, out: &mut Writer<'_>) {
        match self.source.get() {
            Val::String(path) => out.doc(ROW.name, |out| {
                out.str("path", path);
            }),
            _ => out.raw(ROW.name, self.source.raw()),
        };
    }
}

struct Unwinding {
    input: Box<dyn Stream>,
    spec: Arc<Spec>,
    ready: VecDeque<Vec<u8>>,
}

impl Spec {
    fn unwind(&self, doc: RawDoc<'_>, ready: &mut VecDeque<Vec<u8>>) {
        let found = self.path.get(doc);
        match found {
            Val::Array(array) if !array.is_empty() => {
                for (at, (_, element)) in array.iter().enumerate() {
                    let mut out = Vec::with_capacity(doc.bytes().len());
                    with_value(doc, self.path.parts(), element.get(), &mut out);
                    ready.push_back(self.with_index(out, Val::Int64(at as i64)));
                }
            }
            Val::Array(_) => {
                if self.keep_empty {
                    let mut out = Vec::with_capacity(doc.bytes().len());
                    with_value(doc, self.path.parts(), Val::Missing, &mut out);
                    ready.push_back(self.with_index(out, Val::Null));
                }
            }
            Val::Missing | Val::Null | Val::Undefined => {
                if self.keep_empty {
                    ready.push_back(self.with_index(doc.bytes().to_vec(), Val::Null));
                }
            }
            _ => ready.push_back(self.with_index(doc.bytes().to_vec(), Val::Null)),
        }
    }

    fn with_index(&self, doc: Vec<u8>, place: Val<'_>) -> Vec<u8> {
        let Some(index) = &self.index else { return doc };
        let mut out = Vec::with_capacity(doc.len() + 24);
        with_value(RawDoc::new(&doc), index.parts(), place, &mut out);
        out
    }
}

/// Copies a document with the value at a path replaced, added, or dropped when it is missing.
pub(super) fn with_value(doc: RawDoc<'_>, parts: &[Part], value: Val<'_>, out: &mut Vec<u8>) {
    let Some((part, rest)) = parts.split_first() else { return };
    writer::write_doc(out, |out| {
        let mut written = false;
        for (name, old) in doc {
            if name != &*part.name {
                out.raw(name, old);
                continue;
            }
            written = true;
            if rest.is_empty() {
                out.append(name, value);
            } else {
                let inner = old.as_doc().unwrap_or(RawDoc::empty());
                let mut nested = Vec::new();
                with_value(inner, rest, value, &mut nested);
                out.append(name, Val::Document(RawDoc::new(&nested)));
            }
        }
        if !written && !value.is_missing() {
            if rest.is_empty() {
                out.append(&part.name, value);
            } else {
                let mut nested = Vec::new();
                with_value(RawDoc::empty(), rest, value, &mut nested);
                out.append(&part.name, Val::Document(RawDoc::new(&nested)));
            }
        }
    });
}

impl Stream for Unwinding {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        loop {
            if let Some(doc) = self.ready.pop_front() {
                return Ok(Some(Doc::Made(doc)));
            }
            let Some(doc) = self.input.next(op)? else { return Ok(None) };
            let spec = self.spec.clone();
            spec.unwind(doc.raw(), &mut self.ready);
        }
    }

    fn score(&self) -> Option<f64> {
        self.input.score()
    }

    fn meta(&self) -> Option<DocBuf> {
        self.input.meta()
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}
