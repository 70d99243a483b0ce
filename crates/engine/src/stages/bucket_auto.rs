//! `$bucketAuto`: groups by ranges with about equal numbers of documents.

use super::bucket::{check_group_by, write_output};
use super::granularity::Granularity;
use super::{Stage, StageContext, StageRow};
use crate::exec::sort::{Sorted, Sorter};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use bumpalo::Bump;
use query::accumulate::{Accumulator, AccumulatorSpec};
use query::expr::{Env, Expr};
use query::sort::SortSpec;
use std::cmp::Ordering;
use std::sync::Arc;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer, compare};

pub(super) static ROW: StageRow = StageRow {
    name: "$bucketAuto",
    help: "Groups by ranges with about equal numbers of documents.",
    parse,
    ..StageRow::BASE
};

struct BucketAuto {
    spec: Arc<Spec>,
    source: OwnedVal,
}

struct Spec {
    group_by: Expr,
    buckets: usize,
    fields: Vec<(String, AccumulatorSpec)>,
    granularity: Option<Granularity>,
    order: SortSpec,
}

fn refuse<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code(code), message))
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return refuse(
            40240,
            format!(
                "The argument to $bucketAuto must be an object, but found type: {}.",
                value.kind().name()
            ),
        );
    };
    let (mut group_by, mut buckets, mut granularity, mut output) = (None, None, None, None);
    for (name, value) in doc {
        let value = value.get();
        match name {
            "groupBy" => {
                check_group_by(40239, value)?;
                group_by = Some(Expr::parse(value, context)?);
            }
            "buckets" => {
                if !value.is_number() {
                    return refuse(
                        40241,
                        format!(
                            "The $bucketAuto 'buckets' field must be a numeric value, but found type: {}.",
                            value.kind().name()
                        ),
                    );
                }
                let count = value.as_i64_exact().and_then(|count| i32::try_from(count).ok());
                let Some(count) = count else {
                    return refuse(
                        40242,
                        "The $bucketAuto 'buckets' field must be representable as a 32-bit integer",
                    );
                };
                let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
                    return refuse(40243, "The $bucketAuto 'buckets' field must be greater than 0");
                };
                buckets = Some(count);
            }
            "output" => {
                let Val::Document(fields) = value else {
                    return refuse(
                        40244,
                        format!(
                            "The $bucketAuto 'output' field must be an object, but found type: {}.",
                            value.kind().name()
                        ),
                    );
                };
                output = Some(fields);
            }
            "granularity" => {
                let Val::String(text) = value else {
                    return refuse(
                        40261,
                        format!(
                            "The $bucketAuto 'granularity' field must be a string, but found type: {}.",
                            value.kind().name()
                        ),
                    );
                };
                granularity = Some(Granularity::parse(text)?);
            }
            _ => return refuse(40245, format!("Unrecognized option to $bucketAuto: {name}.")),
        }
    }
    let (Some(group_by), Some(buckets)) = (group_by, buckets) else {
        return refuse(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified.");
    };
    let accumulators = DocBuf::build(|out| write_output(out, output));
    let mut fields = Vec::new();
    for (name, value) in accumulators.as_doc() {
        if name.contains('.') {
            return refuse(40235, format!("The field name '{name}' cannot contain '.'"));
        }
        if name.starts_with('$') {
            return refuse(40236, format!("The field name '{name}' cannot be an operator name"));
        }
        let spec = AccumulatorSpec::parse(name, value.get(), context)?;
        if !spec.has_constant_count() {
            return refuse(4544714, "Can't refer to the group key in $bucketAuto");
        }
        fields.push((name.to_owned(), spec));
    }
    let pattern = DocBuf::build(|out| {
        out.i32("k.v", 1);
    });
    let order = SortSpec::parse(pattern.as_doc())?.with_collation(context.collation);
    let spec = Spec { group_by, buckets, fields, granularity, order };
    Ok(Box::new(BucketAuto { spec: Arc::new(spec), source: value.into() }))
}

impl Stage for BucketAuto {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Buckets { input, spec: Some(self.spec.clone()), docs: Vec::new().into_iter() })
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}

struct Buckets {
    input: Box<dyn Stream>,
    spec: Option<Arc<Spec>>,
    docs: std::vec::IntoIter<Vec<u8>>,
}

struct Bucket {
    least: OwnedVal,
    most: OwnedVal,
    accumulators: Vec<Accumulator>,
}

/// Documents in the order of their values, with one document of lookahead.
struct Ordered<'s> {
    sorted: Sorted,
    ahead: Option<(OwnedVal, Vec<u8>)>,
    spec: &'s Spec,
    arena: Bump,
}

impl Ordered<'_> {
    fn pull(&mut self) -> Result<Option<(OwnedVal, Vec<u8>)>> {
        let Some(pair) = self.sorted.next()? else { return Ok(None) };
        let pair = RawDoc::new(&pair);
        let key = pair.get("k").and_then(Val::as_doc).and_then(|key| key.get("v"));
        let doc = pair.get("d").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
        Ok(Some((OwnedVal::new(key.unwrap_or(Val::Null)), doc.bytes().to_vec())))
    }

    fn take(&mut self) -> Result<Option<(OwnedVal, Vec<u8>)>> {
        let next = self.pull()?;
        Ok(std::mem::replace(&mut self.ahead, next))
    }

    /// Adds the next document to a bucket.
    fn take_into(&mut self, bucket: &mut Bucket) -> Result<bool> {
        let Some((key, doc)) = self.take()? else { return Ok(false) };
        bucket.most = key;
        self.add(bucket, &doc)?;
        Ok(true)
    }

    fn add(&mut self, bucket: &mut Bucket, doc: &[u8]) -> Result<()> {
        {
            let env = Env::new(RawDoc::new(doc), &self.arena);
            for ((_, spec), state) in self.spec.fields.iter().zip(&mut bucket.accumulators) {
                state.process(spec.argument(&env)?)?;
            }
        }
        self.arena.reset();
        Ok(())
    }

    /// Compares the next value with another.
    fn next_compared(&self, other: Val<'_>) -> Option<Ordering> {
        self.ahead.as_ref().map(|(key, _)| compare::compare(key.get(), other))
    }
}

fn fill(input: &mut dyn Stream, spec: &Spec, op: &Operation) -> Result<Vec<Vec<u8>>> {
    let mut sorter = Sorter::new(spec.order.clone(), None);
    let mut arena = Bump::new();
    let mut total: u64 = 0;
    while let Some(doc) = input.next(op)? {
        let pair = {
            let value = spec.group_by.eval(&Env::new(doc.raw(), &arena))?;
            let value = if value.is_missing() { Val::Null } else { value };
            if let Some(granularity) = &spec.granularity {
                granularity.check(value)?;
            }
            DocBuf::build(|out| {
                out.doc("k", |out| {
                    out.append("v", value);
                });
                out.append("d", Val::Document(doc.raw()));
            })
        };
        arena.reset();
        sorter.push(pair.as_doc(), op)?;
        total += 1;
    }
    let mut ordered = Ordered { sorted: sorter.finish(op)?, ahead: None, spec, arena };
    ordered.ahead = ordered.pull()?;
    let size = ((total as f64 / spec.buckets as f64).round() as u64).max(1);
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut least_next: Option<OwnedVal> = None;
    while buckets.len() < spec.buckets {
        op.check()?;
        let Some((key, doc)) = ordered.take()? else { break };
        let start = |(_, spec): &(String, AccumulatorSpec)| spec.start(Val::Null);
        let accumulators = spec.fields.iter().map(start).collect::<Result<_>>()?;
        let least = match (least_next.take(), &spec.granularity) {
            (Some(least), _) => least,
            (None, Some(granularity)) => granularity.round_down(key.get()),
            (None, None) => key.clone(),
        };
        let mut bucket = Bucket { least, most: key, accumulators };
        ordered.add(&mut bucket, &doc)?;
        let is_last = buckets.len() + 1 == spec.buckets;
        let mut held = 1;
        while (is_last || held < size) && ordered.take_into(&mut bucket)? {
            op.check()?;
            held += 1;
        }
        match &spec.granularity {
            Some(granularity) => {
                let edge = granularity.round_up(bucket.most.get());
                while ordered.next_compared(edge.get()) == Some(Ordering::Less) {
                    op.check()?;
                    ordered.take_into(&mut bucket)?;
                }
                // Zero is not a member of any series: the values after it need a separate boundary.
                if ordered.ahead.is_none() || !number_is_zero(edge.get()) {
                    bucket.most = edge;
                } else {
                    let next = ordered.ahead.as_ref().map_or(Val::Null, |(key, _)| key.get());
                    bucket.most = granularity.round_down(next);
                }
                least_next = Some(bucket.most.clone());
            }
            None => {
                while ordered.next_compared(bucket.most.get()) == Some(Ordering::Equal) {
                    op.check()?;
                    ordered.take_into(&mut bucket)?;
                }
                if let Some((key, _)) = &ordered.ahead {
                    bucket.most = key.clone();
                }
            }
        }
        buckets.push(bucket);
    }
    let arena = ordered.arena;
    let mut docs = Vec::with_capacity(buckets.len());
    for bucket in &buckets {
        let mut bytes = Vec::new();
        let mut out = Writer::start(&mut bytes);
        out.doc("_id", |out| {
            out.append("min", bucket.least.get()).append("max", bucket.most.get());
        });
        for ((name, _), state) in spec.fields.iter().zip(&bucket.accumulators) {
            out.append(name, state.finish(&arena)?);
        }
        out.finish();
        docs.push(bytes);
    }
    Ok(docs)
}

fn number_is_zero(value: Val<'_>) -> bool {
    value.as_f64() == Some(0.0)
}

impl Stream for Buckets {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        if let Some(spec) = self.spec.take() {
            self.docs = fill(&mut *self.input, &spec, op)?.into_iter();
        }
        Ok(self.docs.next().map(Doc::Made))
    }

    fn is_done(&self) -> bool {
        self.spec.is_none() && self.docs.len() == 0
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}
