//! `$setWindowFields`: computes fields over windows of documents.
//!
//! The documents are sorted by partition and order, with temporary files if needed. `partition`
//! holds one partition, on disk if it is large; `column` holds the values that a function reads,
//! which must fit into memory, and `output` its results. `frame` defines windows, `function` the
//! window functions; `sliding` and `ranked` compute them without visiting every document of every
//! window.

mod accumulate;
mod column;
mod covariance;
mod exact;
mod fade;
mod fill;
mod frame;
mod function;
mod output;
mod partition;
mod ranked;
mod scale;
mod set;
mod shift;
mod sliding;
mod slope;
mod spans;

use super::{Stage, StageContext, StageRow};
use crate::exec::sort::{Sorted, Sorter};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use bumpalo::Bump;
use frame::Frame;
use function::Function;
use output::{Output, Results};
use partition::{Collector, Partition, PartitionDocuments};
use query::expr::{Env, Expr};
use query::sort::SortSpec;
use std::sync::Arc;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer, keys};

pub(super) static ROW: StageRow = StageRow {
    name: "$setWindowFields",
    help: "Computes fields over windows of documents.",
    parse,
    ..StageRow::BASE
};

struct SetWindowFields {
    spec: Arc<Spec>,
    source: OwnedVal,
}

struct Spec {
    partition: Option<Expr>,
    sorting: Option<Sorting>,
    /// The order of the sorted pairs of partition and document.
    order: Option<SortSpec>,
    outputs: Vec<(Path, Function)>,
}

/// The order inside a partition.
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
    if partition.as_ref().and_then(Expr::as_constant).is_some_and(|by| matches!(by, Val::Array(_)))
    {
        return Err(Error::type_mismatch(
            "An expression used to partition cannot evaluate to value of type array",
        ));
    }
    // A constant means one partition.
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
            current: None,
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
    /// Sorted pairs of partition and document; `None` when the input is already sorted.
    sorted: Option<Sorted>,
    /// The first document of the next partition.
    ahead: Option<(Vec<u8>, Vec<u8>)>,
    /// The last computed partition, with the documents that were not returned yet.
    current: Option<Computed>,
}

/// A partition with the values of its fields.
struct Computed {
    documents: PartitionDocuments,
    left: usize,
    columns: Vec<Results>,
    buffer: Vec<u8>,
}

impl Computed {
    /// The next document with its fields.
    fn next(&mut self, spec: &Spec) -> Result<Option<Vec<u8>>> {
        let Some(mut doc) = self.documents.next()? else { return Ok(None) };
        self.left = self.left.saturating_sub(1);
        for ((path, _), column) in spec.outputs.iter().zip(&mut self.columns) {
            let mut out = Vec::with_capacity(doc.len() + 32);
            let value = match column.next(&mut self.buffer)?.get() {
                // A neighbouring document without the field.
                Val::Undefined => Val::Missing,
                value => value,
            };
            set::set(RawDoc::new(&doc), path.parts(), value, &mut out);
            doc = out;
        }
        Ok(Some(doc))
    }
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

    /// Computes the fields of the next partition. Returns false at the end.
    fn advance(&mut self, op: &Operation) -> Result<bool> {
        if !self.started {
            self.started = true;
            self.sort(op)?;
            self.ahead = self.pull(op)?;
        }
        let Some((key, first)) = self.ahead.take() else { return Ok(false) };
        let with_keys = self.spec.outputs.iter().any(|(_, function)| function.reads_keys());
        let spec = self.spec.clone();
        let mut collector = Collector::new(spec.sorting.as_ref(), with_keys, op);
        collector.push(first, op)?;
        while let Some((next, doc)) = self.pull(op)? {
            if next != key {
                self.ahead = Some((next, doc));
                break;
            }
            collector.push(doc, op)?;
        }
        let partition = collector.finish()?;
        let mut columns = Vec::new();
        for (_, function) in &spec.outputs {
            let used = partition.memory.used();
            let mut output = Output::new(op, spec.outputs.len());
            function.compute(&partition, op, &mut output)?;
            let results = output.finish()?;
            partition.memory.give_back(used);
            partition.memory.take(results.memory_bytes())?;
            columns.push(results);
        }
        let left = partition.len();
        let documents = partition.into_documents()?;
        self.current = Some(Computed { documents, left, columns, buffer: Vec::new() });
        Ok(true)
    }
}

impl Stream for Windows {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        loop {
            if let Some(current) = &mut self.current {
                if let Some(doc) = current.next(&self.spec)? {
                    return Ok(Some(Doc::Made(doc)));
                }
                self.current = None;
            }
            if !self.advance(op)? {
                return Ok(None);
            }
        }
    }

    fn is_done(&self) -> bool {
        let given = self.current.as_ref().is_none_or(|current| current.left == 0);
        self.started && given && self.ahead.is_none()
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}

#[cfg(test)]
mod tests;
