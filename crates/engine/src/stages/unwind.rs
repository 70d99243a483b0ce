//! `$unwind`: one document for each element of an array.

use super::{Role, Stage, StageContext, StageRow};
use crate::exec::{Doc, Stream, Visit};
use crate::operation::Operation;
use query::interrupt;
use std::collections::VecDeque;
use std::sync::Arc;
use value::path::{Part, Path};
use value::{Code, Error, OwnedVal, RawDoc, Result, Val, Writer, writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$unwind",
    help: "Makes one document for each element of an array.",
    parse,
    ..StageRow::BASE
};

struct Unwind {
    spec: Arc<Spec>,
    source: OwnedVal,
}

/// The options of `$unwind`.
#[derive(Clone)]
pub struct Spec {
    /// The array.
    pub path: Path,
    /// Where the index of the element is written.
    pub index: Option<Path>,
    /// `preserveNullAndEmptyArrays`: whether documents without elements are returned too.
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
    if path.is_empty() {
        return Err(Error::new(Code(28812), "no path specified to $unwind stage"));
    }
    let Some(path) = path.strip_prefix('$') else {
        return Err(Error::new(
            Code(28818),
            format!("path option to $unwind stage should be prefixed with a '$': {path}"),
        ));
    };
    let spec = Spec { path: super::lookup::field(path)?, index, keep_empty };
    Ok(Box::new(Unwind { spec: Arc::new(spec), source: value.into() }))
}

impl Stage for Unwind {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Unwinding::new(input, self.spec.clone()))
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
    /// Unwound documents that were not returned yet.
    ready: VecDeque<Vec<u8>>,
    /// A document whose array has elements left.
    open: Option<(Doc, Rest)>,
}

/// Elements of an array that were not unwound yet.
#[derive(Clone, Copy)]
struct Rest {
    /// The index of the first one.
    at: usize,
    /// Their bytes.
    left: usize,
}

/// Bytes of unwound documents that are made at once: an array of many elements inside of a large
/// document would otherwise fill the memory.
const READY_BYTES: usize = 256 * 1024;

/// Bytes that are copied in one step of `interrupt::charge`.
const BYTES_OF_STEP: usize = 16;

impl Unwinding {
    fn new(input: Box<dyn Stream>, spec: Arc<Spec>) -> Unwinding {
        Unwinding { input, spec, ready: VecDeque::new(), open: None }
    }
}

impl Spec {
    /// Passes the unwound documents of one document to `visit`.
    fn unwind(&self, doc: RawDoc<'_>, visit: &mut Visit<'_>) -> Result<()> {
        self.unwind_some(doc, None, usize::MAX, visit).map(drop)
    }

    /// Passes unwound documents to `visit` until they have `bytes_max` bytes; begins with all
    /// elements, or with those that an earlier call returned. Returns what is left.
    fn unwind_some(
        &self,
        doc: RawDoc<'_>,
        rest: Option<Rest>,
        bytes_max: usize,
        visit: &mut Visit<'_>,
    ) -> Result<Option<Rest>> {
        let mut out = Vec::new();
        match self.path.get(doc) {
            Val::Array(array) if !array.is_empty() => {
                let around = self.around(doc);
                let name = self.path.parts().first().map_or("", |part| &*part.name);
                let mut rest = rest.unwrap_or(Rest { at: 0, left: array.elements_bytes().len() });
                let mut elements = array.iter_last(rest.left);
                let mut bytes = 0;
                while let Some((_, element)) = elements.next_bytes() {
                    out.clear();
                    match around {
                        Some((before, after)) => {
                            let start = writer::open(&mut out);
                            out.extend_from_slice(before);
                            out.push(element.kind);
                            out.extend_from_slice(name.as_bytes());
                            out.push(0);
                            out.extend_from_slice(element.bytes);
                            out.extend_from_slice(after);
                            writer::close(&mut out, start);
                        }
                        None => with_value(doc, self.path.parts(), element.get(), &mut out),
                    }
                    interrupt::charge(1 + out.len() / BYTES_OF_STEP)?;
                    self.with_index(RawDoc::new(&out), Val::Int64(rest.at as i64), visit)?;
                    rest = Rest { at: rest.at + 1, left: elements.rest().len() };
                    bytes += out.len();
                    if bytes >= bytes_max {
                        return Ok(Some(rest));
                    }
                }
                Ok(None)
            }
            Val::Array(_) if self.keep_empty => {
                with_value(doc, self.path.parts(), Val::Missing, &mut out);
                self.with_index(RawDoc::new(&out), Val::Null, visit).map(|()| None)
            }
            Val::Array(_) => Ok(None),
            value if value.is_nullish() && !self.keep_empty => Ok(None),
            _ => self.with_index(doc, Val::Null, visit).map(|()| None),
        }
    }

    /// The bytes of a document before and after the unwound element: if the path is one name, they
    /// are copied unchanged.
    fn around<'d>(&self, doc: RawDoc<'d>) -> Option<(&'d [u8], &'d [u8])> {
        let [part] = self.path.parts() else { return None };
        let bytes = doc.elements_bytes();
        let mut elements = doc.iter();
        loop {
            let before = bytes.len() - elements.rest().len();
            let (name, _) = elements.next_bytes()?;
            if name == part.name.as_bytes() {
                return Some((bytes.get(..before)?, elements.rest()));
            }
        }
    }

    fn with_index(&self, doc: RawDoc<'_>, place: Val<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let Some(index) = &self.index else { return visit(doc) };
        let mut out = Vec::with_capacity(doc.bytes().len() + 24);
        with_value(doc, index.parts(), place, &mut out);
        visit(RawDoc::new(&out))
    }
}

/// Copies a document with the value at a path replaced, added, or removed when it is missing.
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
        op.check()?;
        loop {
            if let Some(doc) = self.ready.pop_front() {
                return Ok(Some(Doc::Made(doc)));
            }
            let (doc, rest) = match self.open.take() {
                Some((doc, rest)) => (doc, Some(rest)),
                None => match self.input.next(op)? {
                    Some(doc) => (doc, None),
                    None => return Ok(None),
                },
            };
            let ready = &mut self.ready;
            let left = self.spec.unwind_some(doc.raw(), rest, READY_BYTES, &mut |doc| {
                ready.push_back(doc.bytes().to_vec());
                Ok(())
            })?;
            self.open = left.map(|left| (doc, left));
        }
    }

    fn split(&mut self, parts: usize) -> Vec<Box<dyn Stream>> {
        let part = |input| Box::new(Unwinding::new(input, self.spec.clone())) as Box<_>;
        self.input.split(parts).into_iter().map(part).collect()
    }

    fn for_each(&mut self, op: &Operation, visit: &mut Visit<'_>) -> Result<()> {
        for doc in self.ready.drain(..) {
            visit(RawDoc::new(&doc))?;
        }
        let spec = &self.spec;
        if let Some((doc, rest)) = self.open.take() {
            spec.unwind_some(doc.raw(), Some(rest), usize::MAX, visit)?;
        }
        self.input.for_each(op, &mut |doc| spec.unwind(doc, visit))
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.input)
    }
}
