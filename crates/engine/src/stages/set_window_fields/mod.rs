//! `$setWindowFields`: computes fields from the documents around each document.
//!
//! The documents are sorted by partition and order (with temporary files when they are many), and
//! each partition is held in memory while its fields are computed. `frame` says which documents
//! belong to a window, `function` what is computed from them, `sliding` how that is done without
//! looking at every document of every window.

mod accumulate;
mod column;
mod covariance;
mod exact;
mod fade;
mod fill;
mod frame;
mod function;
mod scale;
mod shift;
mod sliding;
mod slope;

use super::unwind::with_value;
use super::{Stage, StageContext, StageRow};
use crate::exec::sort::{Sorted, Sorter};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use bumpalo::Bump;
use frame::Frame;
use function::Function;
use query::expr::{Env, Expr};
use query::sort::SortSpec;
use std::collections::VecDeque;
use std::sync::Arc;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer, keys, limits};

pub(super) static ROW: StageRow = StageRow {
    name: "$setWindowFields",
    help: "Computes fields from the documents around each document.",
    parse,
};

struct SetWindowFields {
    spec: Arc<Spec>,
    source: OwnedVal,
}

struct Spec {
    partition: Option<Expr>,
    sorting: Option<Sorting>,
    /// The order of the pairs of partition and document that are sorted.
    order: Option<SortSpec>,
    outputs: Vec<(Path, Function)>,
}

/// The order inside of a partition.
struct Sorting {
    spec: SortSpec,
    fields: Vec<(Path, bool)>,
}

fn refuse<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code(code), message))
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::failed_to_parse(format!(
            "the $setWindowFields stage specification must be an object, found {}",
            value.kind().name()
        )));
    };
    let (mut partition, mut sort, mut output) = (None, None, None);
    for (name, value) in doc {
        match (name, value.get()) {
            ("partitionBy", by) => partition = Some(Expr::parse(by, context)?),
            ("sortBy", Val::Document(by)) => sort = Some(by),
            ("output", Val::Document(fields)) => output = Some(fields),
            ("sortBy" | "output", other) => {
                return Err(Error::type_mismatch(format!(
                    "BSON field '$setWindowFields.{name}' is the wrong type '{}', expected type \
                     'object'",
                    other.kind().name()
                )));
            }
            _ => {
                return refuse(
                    40415,
                    format!("BSON field '$setWindowFields.{name}' is an unknown field."),
                );
            }
        }
    }
    let Some(output) = output else {
        return refuse(
            40414,
            "BSON field '$setWindowFields.output' is missing but a required field",
        );
    };
    // A constant is one partition.
    let partition = partition.filter(|by| by.as_constant().is_none());
    let sorting = match sort {
        Some(sort) => {
            let spec = SortSpec::parse(sort)?.with_collation(context.collation);
            let fields = sort
                .iter()
                .map(|(name, direction)| {
                    (Path::new(name), direction.get().as_f64().is_some_and(|n| n < 0.0))
                })
                .collect();
            Some(Sorting { spec, fields })
        }
        None => None,
    };
    let mut outputs: Vec<(Path, Function)> = Vec::new();
    for (name, value) in output {
        let path = super::lookup::field(name)?;
        let clash = |known: &Path| {
            let (a, b) = (known.text(), path.text());
            a == b || a.starts_with(&format!("{b}.")) || b.starts_with(&format!("{a}."))
        };
        if let Some((known, _)) = outputs.iter().find(|(known, _)| clash(known)) {
            return refuse(
                6307900,
                format!(
                    "specification contains two conflicting paths. Cannot specify both '{name}' and \
                     '{}'",
                    known.text()
                ),
            );
        }
        outputs.push((path, Function::parse(value.get(), sorting.as_ref(), context)?));
    }
    let order = match (&partition, sort) {
        (None, None) => None,
        _ => {
            let pattern = DocBuf::build(|out| {
                if partition.is_some() {
                    out.i32("p", 1);
                }
                for (name, direction) in sort.unwrap_or(RawDoc::empty()) {
                    out.raw(&format!("d.{name}"), direction);
                }
            });
            Some(SortSpec::parse(pattern.as_doc())?.with_collation(context.collation))
        }
    };
    let spec = Spec { partition, sorting, order, outputs };
    Ok(Box::new(SetWindowFields { spec: Arc::new(spec), source: value.into() }))
}

impl Stage for SetWindowFields {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Windows {
            input,
            spec: self.spec.clone(),
            started: false,
            sorted: None,
            ahead: None,
            ready: VecDeque::new(),
        })
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}

struct Windows {
    input: Box<dyn Stream>,
    spec: Arc<Spec>,
    started: bool,
    /// Pairs of partition and document in order; `None` when the input has the order already.
    sorted: Option<Sorted>,
    /// The first document of the next partition.
    ahead: Option<(Vec<u8>, Vec<u8>)>,
    ready: VecDeque<Vec<u8>>,
}

impl Windows {
    /// Sorts the input.
    fn sort(&mut self, op: &Operation) -> Result<()> {
        let spec = self.spec.clone();
        let Some(order) = &spec.order else { return Ok(()) };
        let mut sorter = Sorter::new(order.clone(), None);
        let mut arena = Bump::new();
        while let Some(doc) = self.input.next(op)? {
            let pair = {
                let partition = match &spec.partition {
                    None => Val::Missing,
                    Some(by) => match by.eval(&Env::new(doc.raw(), &arena))? {
                        Val::Missing => Val::Null,
                        Val::Array(_) => {
                            return Err(Error::type_mismatch(
                                "An expression used to partition cannot evaluate to value of type \
                                 array",
                            ));
                        }
                        value => value,
                    },
                };
                DocBuf::build(|out| {
                    out.append("p", partition).append("d", Val::Document(doc.raw()));
                })
            };
            arena.reset();
            sorter.push(pair.as_doc(), op)?;
        }
        self.sorted = Some(sorter.finish(op)?);
        Ok(())
    }

    /// The next document with the key of its partition.
    fn pull(&mut self, op: &Operation) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        op.check()?;
        let Some(sorted) = &mut self.sorted else {
            return Ok(self.input.next(op)?.map(|doc| (Vec::new(), doc.to_vec())));
        };
        let Some(pair) = sorted.next()? else { return Ok(None) };
        let pair = RawDoc::new(&pair);
        let collation = self.spec.order.as_ref().and_then(|order| order.collation.as_deref());
        let key = pair.get("p").map_or_else(Vec::new, |p| keys::key_with(p, collation));
        let doc = pair.get("d").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
        Ok(Some((key, doc.bytes().to_vec())))
    }

    /// Computes the fields of one partition. False when there is none left.
    fn advance(&mut self, op: &Operation) -> Result<bool> {
        if !self.started {
            self.started = true;
            self.sort(op)?;
            self.ahead = self.pull(op)?;
        }
        let Some((key, first)) = self.ahead.take() else { return Ok(false) };
        let mut bytes = first.len();
        let mut docs = vec![first];
        while let Some((next, doc)) = self.pull(op)? {
            if next != key {
                self.ahead = Some((next, doc));
                break;
            }
            bytes += doc.len() + 32;
            if bytes > limits::BLOCKING_STAGE_BYTES_MAX {
                return Err(Error::new(
                    Code(5414201),
                    format!(
                        "Exceeded memory limit in DocumentSourceSetWindowFields, used {bytes} bytes \
                         but max allowed is {}",
                        limits::BLOCKING_STAGE_BYTES_MAX
                    ),
                ));
            }
            docs.push(doc);
        }
        let partition = Partition::new(docs, self.spec.sorting.as_ref())?;
        let mut columns = Vec::new();
        for (path, function) in &self.spec.outputs {
            columns.push((path, function.compute(&partition, op)?));
        }
        for (at, doc) in partition.docs.iter().enumerate() {
            let mut doc = doc.clone();
            for (path, column) in &columns {
                let mut out = Vec::with_capacity(doc.len() + 32);
                let value = match column.get(at).map_or(Val::Null, OwnedVal::get) {
                    // A neighbour that lacks the field.
                    Val::Undefined => Val::Missing,
                    value => value,
                };
                with_value(RawDoc::new(&doc), path.parts(), value, &mut out);
                doc = out;
            }
            self.ready.push_back(doc);
        }
        Ok(true)
    }
}

/// The documents of a partition, in order.
struct Partition {
    docs: Vec<Vec<u8>>,
    /// The value that a single sort field has in each.
    keys: Vec<OwnedVal>,
    /// The bytes that order each.
    order: Vec<Vec<u8>>,
}

impl Partition {
    fn new(docs: Vec<Vec<u8>>, sorting: Option<&Sorting>) -> Result<Partition> {
        let mut keys = Vec::with_capacity(docs.len());
        let mut order = Vec::with_capacity(docs.len());
        for doc in &docs {
            let doc = RawDoc::new(doc);
            let mut key = Vec::new();
            let mut value = Val::Null;
            if let Some(sorting) = sorting {
                sorting.spec.key(doc, &mut key)?;
                if let [(path, _)] = sorting.fields.as_slice() {
                    value = path.get(doc);
                }
            }
            keys.push(OwnedVal::new(if value.is_missing() { Val::Null } else { value }));
            order.push(key);
        }
        Ok(Partition { docs, keys, order })
    }

    fn len(&self) -> usize {
        self.docs.len()
    }
}

impl Stream for Windows {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        loop {
            if let Some(doc) = self.ready.pop_front() {
                return Ok(Some(Doc::Made(doc)));
            }
            if !self.advance(op)? {
                return Ok(None);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.started && self.ready.is_empty() && self.ahead.is_none()
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}
