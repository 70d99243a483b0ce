//! `$densify`: adds documents where a sequence of values has gaps.

use super::lookup::field;
use super::unwind::with_value;
use super::{Stage, StageContext, StageRow};
use crate::exec::sort::{Sorted, Sorter};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use query::expr::add_to_date;
use query::sort::SortSpec;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer, compare, keys, number};

pub(super) static ROW: StageRow = StageRow {
    name: "$densify",
    help: "Adds documents where a sequence of values has gaps.",
    parse,
    ..StageRow::BASE
};

struct Densify {
    spec: Arc<Spec>,
    source: OwnedVal,
}

struct Spec {
    field: Path,
    partition: Vec<Path>,
    step: OwnedVal,
    unit: Option<String>,
    bounds: Bounds,
}

enum Bounds {
    /// From the least value of all documents to the greatest.
    Full,
    /// The same for each partition.
    Partition,
    /// From one value up to, not including, another.
    Between(OwnedVal, OwnedVal),
}

/// Maximum number of documents that one stage may add.
pub(crate) const ADDED_MAX: u64 = 500_000;

fn refuse<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code(code), message))
}

fn wrong_type<T>(name: &str, value: Val<'_>, expected: &str) -> Result<T> {
    Err(Error::type_mismatch(format!(
        "BSON field '$densify.{name}' is the wrong type '{}', expected type '{expected}'",
        value.kind().name()
    )))
}

fn parse(value: Val<'_>, _: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::failed_to_parse("The $densify stage specification must be an object"));
    };
    let (mut path, mut partition, mut range) = (None, Vec::new(), None);
    for (name, value) in doc {
        match (name, value.get()) {
            ("field", Val::String(text)) => path = Some(field(text)?),
            ("field", other) => return wrong_type(name, other, "string"),
            ("partitionByFields", Val::Array(list)) => {
                for (at, (_, name)) in list.iter().enumerate() {
                    let Val::String(name) = name.get() else {
                        return wrong_type(
                            &format!("partitionByFields.{at}"),
                            name.get(),
                            "string",
                        );
                    };
                    partition.push(field(name)?);
                }
            }
            ("partitionByFields", other) => return wrong_type(name, other, "array"),
            ("range", Val::Document(spec)) => range = Some(spec),
            ("range", other) => return wrong_type(name, other, "object"),
            _ => {
                return refuse(40415, format!("BSON field '$densify.{name}' is an unknown field."));
            }
        }
    }
    let missing = |name: &str| {
        Error::new(
            Code(40414),
            format!("BSON field '$densify.{name}' is missing but a required field"),
        )
    };
    let path = path.ok_or_else(|| missing("field"))?;
    let range = range.ok_or_else(|| missing("range"))?;
    if partition.iter().any(|by| by.text() == path.text()) {
        return refuse(8993000, "BSON field 'field' may not be one of 'partitionByFields'");
    }
    let (step, unit, bounds) = parse_range(range)?;
    if matches!(bounds, Bounds::Partition) && partition.is_empty() {
        return refuse(
            5733408,
            "one may not specify the bounds as 'partition' without specifying a non-empty array of \
             partitionByFields",
        );
    }
    let spec = Spec { field: path, partition, step, unit, bounds };
    Ok(Box::new(Densify { spec: Arc::new(spec), source: value.into() }))
}

fn parse_range(range: RawDoc<'_>) -> Result<(OwnedVal, Option<String>, Bounds)> {
    let (mut step, mut unit, mut bounds) = (None, None, None);
    for (name, value) in range {
        match (name, value.get()) {
            ("step", number) if number.is_number() => step = Some(number),
            ("step", other) => {
                return wrong_type("range.step", other, "[double, int, decimal, long]");
            }
            ("unit", Val::String(text)) => {
                add_to_date(0, text, 0)?;
                unit = Some(text.to_owned());
            }
            ("unit", other) => return wrong_type("range.unit", other, "string"),
            ("bounds", value) => bounds = Some(value),
            _ => {
                return refuse(
                    40415,
                    format!("BSON field '$densify.range.{name}' is an unknown field."),
                );
            }
        }
    }
    let missing = |name: &str| {
        Error::new(
            Code(40414),
            format!("BSON field '$densify.range.{name}' is missing but a required field"),
        )
    };
    let step = step.ok_or_else(|| missing("step"))?;
    let bounds = bounds.ok_or_else(|| missing("bounds"))?;
    if compare::compare(step, Val::Int32(0)) != Ordering::Greater {
        return refuse(
            5733401,
            "the step parameter in a range statement must be a strictly positive numeric value",
        );
    }
    if unit.is_some() && step.as_i64_exact().is_none() {
        return refuse(
            6586400,
            "The step parameter in a range statement must be a whole number when densifying a date range",
        );
    }
    let bounds = match bounds {
        Val::String("full") => Bounds::Full,
        Val::String("partition") => Bounds::Partition,
        Val::String(_) => {
            return refuse(5946802, "Bounds string must either be 'full' or 'partition'");
        }
        Val::Array(list) => {
            let values: Vec<Val<'_>> = list.iter().map(|(_, value)| value.get()).collect();
            let [low, high] = values.as_slice() else {
                return refuse(
                    5733403,
                    "a bounding array in a range statement must have exactly two elements",
                );
            };
            match (low, high) {
                (Val::DateTime(_), Val::DateTime(_)) => {
                    if unit.is_none() {
                        return refuse(5733410, "date bounds need a 'unit'");
                    }
                }
                (low, high) if low.is_number() && high.is_number() => {
                    if unit.is_some() {
                        return refuse(5733409, "numeric bounds may not have unit parameter");
                    }
                    if low.kind() != high.kind() || low.kind() != step.kind() {
                        return refuse(
                            5876900,
                            "Upper bound, lower bound, and step must all have the same type",
                        );
                    }
                }
                (low, _) if low.is_number() && unit.is_some() => {
                    return refuse(5733409, "numeric bounds may not have unit parameter");
                }
                (low, _) if low.is_number() => {
                    return refuse(
                        5733406,
                        "a bounding array must contain either both dates or both numeric types",
                    );
                }
                _ => {
                    return refuse(
                        5733402,
                        "a bounding array must be an ascending array of two numbers or two dates",
                    );
                }
            }
            if compare::compare(*low, *high) == Ordering::Greater {
                return refuse(
                    5733402,
                    "the bounds in a range statement must be the string 'full', 'partition', or an \
                     ascending array of two numbers or two dates",
                );
            }
            Bounds::Between(OwnedVal::new(*low), OwnedVal::new(*high))
        }
        other => return wrong_type("range.bounds", other, "[array, string]"),
    };
    Ok((OwnedVal::new(step), unit, bounds))
}

impl Stage for Densify {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Densifying {
            input,
            spec: self.spec.clone(),
            sorted: None,
            ahead: None,
            part: None,
            full: None,
            added: 0,
            ready: VecDeque::new(),
        })
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}

/// The state of the current partition.
struct CurrentPartition {
    /// Encoded key of the partition.
    key: Vec<u8>,
    /// The partition fields of its new documents.
    values: DocBuf,
    /// The next value of the sequence; `None` when there is none, or it is not known yet.
    next: Option<OwnedVal>,
    /// The end of the sequence, and whether it is inclusive.
    end: Option<(OwnedVal, bool)>,
    /// Whether the sequence begins with the first value of the partition.
    waits: bool,
}

/// A document with its value, and the key and fields of its partition.
struct Placed {
    key: Vec<u8>,
    values: DocBuf,
    value: OwnedVal,
    doc: Vec<u8>,
}

struct Densifying {
    input: Box<dyn Stream>,
    spec: Arc<Spec>,
    /// The documents, sorted by partition and value.
    sorted: Option<Sorted>,
    ahead: Option<Placed>,
    part: Option<CurrentPartition>,
    /// The least and the greatest value of all documents.
    full: Option<(OwnedVal, OwnedVal)>,
    added: u64,
    ready: VecDeque<Doc>,
}

impl Densifying {
    /// Sorts the input, on disk if it is large.
    fn sort(&mut self, op: &Operation) -> Result<Sorted> {
        let spec = self.spec.clone();
        let pattern = DocBuf::build(|out| {
            out.i32("p", 1).i32("v.v", 1);
        });
        let mut sorter = Sorter::new(SortSpec::parse(pattern.as_doc())?, None);
        let mut any = false;
        while let Some(doc) = self.input.next(op)? {
            any = true;
            let value = match spec.field.get(doc.raw()) {
                Val::Missing => Val::Null,
                value => value,
            };
            spec.check(value)?;
            if !value.is_nullish() {
                self.widen(value);
            }
            let found = DocBuf::build(|out| {
                // Inside documents, values are compared as a whole, arrays too.
                out.doc("p", |out| {
                    for path in &spec.partition {
                        let found = path.get(doc.raw());
                        out.append(path.text(), if found.is_missing() { Val::Null } else { found });
                    }
                });
                out.doc("v", |out| {
                    out.append("v", value);
                });
                out.append("d", Val::Document(doc.raw()));
            });
            sorter.push(found.as_doc(), op)?;
        }
        if !any && spec.partition.is_empty() {
            // Explicit bounds are filled even if there are no documents.
            self.part = Some(self.begin(Vec::new(), DocBuf::new()));
        }
        sorter.finish(op)
    }

    fn widen(&mut self, value: Val<'_>) {
        let (least, most) = match self.full.take() {
            None => (OwnedVal::new(value), OwnedVal::new(value)),
            Some((least, most)) => {
                let below = compare::compare(value, least.get()) == Ordering::Less;
                let above = compare::compare(value, most.get()) == Ordering::Greater;
                (
                    if below { OwnedVal::new(value) } else { least },
                    if above { OwnedVal::new(value) } else { most },
                )
            }
        };
        self.full = Some((least, most));
    }

    fn pull(&mut self, op: &Operation) -> Result<Option<Placed>> {
        op.check()?;
        let Some(found) = self.sorted.as_mut().map_or(Ok(None), Sorted::next)? else {
            return Ok(None);
        };
        let found = RawDoc::new(&found);
        let inner = |name: &str| found.get(name).and_then(Val::as_doc).unwrap_or(RawDoc::empty());
        let doc = inner("d");
        let mut values = DocBuf::new().into_bytes();
        for path in &self.spec.partition {
            let mut out = Vec::new();
            with_value(RawDoc::new(&values), path.parts(), path.get(doc), &mut out);
            values = out;
        }
        Ok(Some(Placed {
            key: keys::key(Val::Document(inner("p"))),
            values: DocBuf::from_bytes(values),
            value: OwnedVal::new(inner("v").get("v").unwrap_or(Val::Null)),
            doc: doc.bytes().to_vec(),
        }))
    }

    fn begin(&self, key: Vec<u8>, values: DocBuf) -> CurrentPartition {
        let (next, end) = match &self.spec.bounds {
            Bounds::Between(low, high) => (Some(low.clone()), Some((high.clone(), false))),
            Bounds::Full => match &self.full {
                Some((least, most)) => (Some(least.clone()), Some((most.clone(), true))),
                None => (None, None),
            },
            // From the first value to the last: it ends with the last document.
            Bounds::Partition => (None, None),
        };
        let waits = matches!(self.spec.bounds, Bounds::Partition);
        CurrentPartition { key, values, next, end, waits }
    }

    /// Adds the values of the sequence before a document's value, or up to the end.
    fn add_until(&mut self, stop: Option<Val<'_>>, op: &Operation) -> Result<()> {
        let spec = self.spec.clone();
        let Some(going) = &mut self.part else { return Ok(()) };
        while let Some(next) = &going.next {
            op.check()?;
            let inside = match &going.end {
                None => stop.is_some(),
                Some((end, inclusive)) => match compare::compare(next.get(), end.get()) {
                    Ordering::Less => true,
                    Ordering::Equal => *inclusive,
                    Ordering::Greater => false,
                },
            };
            if !inside {
                going.next = None;
                break;
            }
            match stop.map(|stop| compare::compare(next.get(), stop)) {
                Some(Ordering::Greater) => break,
                Some(Ordering::Equal) => {
                    // The sequence goes on from the document's value, which may have another type.
                    going.next = Some(spec.after(stop.unwrap_or(next.get()))?);
                    break;
                }
                Some(Ordering::Less) | None => {}
            }
            self.added += 1;
            if self.added > ADDED_MAX {
                return refuse(
                    5897900,
                    format!(
                        "Generated {} documents in $densify, which is over the limit of {ADDED_MAX}.",
                        self.added
                    ),
                );
            }
            let mut doc = Vec::new();
            with_value(going.values.as_doc(), spec.field.parts(), next.get(), &mut doc);
            self.ready.push_back(Doc::Made(doc));
            going.next = Some(spec.after(next.get())?);
        }
        Ok(())
    }
}

impl Spec {
    fn after(&self, value: Val<'_>) -> Result<OwnedVal> {
        match (value, &self.unit) {
            (Val::DateTime(ms), Some(unit)) => {
                let by = self.step.get().as_i64_exact().unwrap_or(1);
                Ok(OwnedVal::new(Val::DateTime(add_to_date(ms, unit, by)?)))
            }
            (value, _) => {
                let sum = number::add(value, self.step.get());
                Ok(OwnedVal::new(sum.unwrap_or(Val::Double(f64::INFINITY))))
            }
        }
    }

    fn check(&self, value: Val<'_>) -> Result<()> {
        match value {
            Val::Null | Val::Undefined => Ok(()),
            Val::DateTime(_) => match &self.unit {
                Some(_) => Ok(()),
                None => refuse(6053600, "$densify with dates needs a 'unit'"),
            },
            value if value.is_number() => match &self.unit {
                None => Ok(()),
                Some(_) => refuse(6053600, "$densify with a 'unit' needs dates"),
            },
            _ => refuse(
                5733201,
                "PlanExecutor error during aggregation :: caused by :: Densify field type must be numeric or a date",
            ),
        }
    }
}

impl Stream for Densifying {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if self.sorted.is_none() {
            self.sorted = Some(self.sort(op)?);
            self.ahead = self.pull(op)?;
        }
        loop {
            if let Some(doc) = self.ready.pop_front() {
                return Ok(Some(doc));
            }
            let same = match (&self.part, &self.ahead) {
                (None, None) => return Ok(None),
                (Some(part), Some(ahead)) => part.key == ahead.key,
                (Some(_), None) => false,
                (None, Some(ahead)) => {
                    self.part = Some(self.begin(ahead.key.clone(), ahead.values.clone()));
                    continue;
                }
            };
            if !same {
                self.add_until(None, op)?;
                self.part = None;
                continue;
            }
            let next = self.pull(op)?;
            let Some(placed) = std::mem::replace(&mut self.ahead, next) else { continue };
            if !placed.value.get().is_nullish() {
                if let Some(part) = self.part.as_mut().filter(|part| part.waits) {
                    part.waits = false;
                    part.next = Some(placed.value.clone());
                }
                self.add_until(Some(placed.value.get()), op)?;
            }
            self.ready.push_back(Doc::Made(placed.doc));
        }
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}
