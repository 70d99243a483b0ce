//! `rawBuckets` of find, aggregate and explain, and `system.buckets.*` of time-series collections: the stored records of a layout that puts many
//! documents into one record, or their statistics for a coarser span. Filter, sort, projection and
//! stages work on these instead of on the documents of the collection.

use super::aggregate::{find_stages, scope, write_output};
use super::find::{Request, first_batch, new_cursor};
use super::query::Constants;
use super::{Context, bucket_documents, find as find_command};
use crate::args::Args;
use crate::catalog::TimeSeries;
use crate::catalog::time_series::BUCKETS;
use crate::cursor::Source;
use crate::exec::{Doc, Stream};
use crate::layout;
use crate::operation::Operation;
use crate::stages::pipeline::open_stages;
use crate::stages::{self, Role, Stage, StageContext};
use crate::txn::View;
use patterns::layout::RecordCursor;
use query::filter::Filter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use value::{Code, Error, RawDoc, Result, Val, Writer};

/// What a command asks for.
pub(super) enum Asked<'a> {
    /// The buckets, or the statistics of a level.
    Records(Option<&'a str>),
    /// The buckets of this time-series collection, in MongoDB's form.
    TimeSeries(&'a str),
}

/// What the argument `rawBuckets` or the name `system.buckets.*` asks for; `None` without both.
///
/// # Errors
/// TypeMismatch if the argument is neither a boolean nor text.
pub(super) fn asked<'a>(args: &Args<'a>, name: &'a str) -> Result<Option<Asked<'a>>> {
    match args.get("rawBuckets") {
        None | Some(Val::Bool(false)) => Ok(name.strip_prefix(BUCKETS).map(Asked::TimeSeries)),
        Some(Val::Bool(true)) => Ok(Some(Asked::Records(None))),
        Some(Val::String(level)) => Ok(Some(Asked::Records(Some(level)))),
        Some(other) => Err(Error::type_mismatch(format!(
            "'rawBuckets' must be true or the name of a level, found {}",
            other.kind().name()
        ))),
    }
}

/// Records as documents.
struct RawStream {
    records: Option<Box<dyn RecordCursor>>,
    /// Set if the documents have MongoDB's form.
    series: Option<Arc<TimeSeries>>,
    read: Arc<AtomicU64>,
}

impl Stream for RawStream {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        let Some(records) = &mut self.records else { return Ok(None) };
        let Some((_, doc)) = records.next()? else { return Ok(None) };
        self.read.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Doc::Made(match &self.series {
            Some(series) => bucket_documents::convert(series, RawDoc::new(doc)).into_bytes(),
            None => doc.to_vec(),
        })))
    }
}

fn open(view: &View, db: &str, name: &str, asked: &Asked<'_>) -> Result<RawStream> {
    let mut stream = RawStream { records: None, series: None, read: Arc::default() };
    let (name, level) = match asked {
        Asked::Records(level) => (name, *level),
        Asked::TimeSeries(name) => (*name, None),
    };
    let Some(collection) = view.catalog.get(db, name) else { return Ok(stream) };
    if let Asked::TimeSeries(_) = asked {
        stream.series.clone_from(&collection.time_series);
        if stream.series.is_none() {
            return Ok(stream);
        }
    }
    let records = layout::raw(collection, &view.snapshot, level)?.ok_or_else(|| {
        Error::new(
            Code::INVALID_OPTIONS,
            format!("'rawBuckets' needs a collection with buckets; '{db}.{name}' has none"),
        )
    })?;
    stream.records = Some(records);
    Ok(stream)
}

/// Counts the buckets of a time-series collection that match a filter.
///
/// # Errors
/// Errors of the filter; when the store fails.
pub(super) fn count(
    context: &Context<'_>,
    asked: &Asked<'_>,
    query: Option<RawDoc<'_>>,
) -> Result<u64> {
    let name = context.collection_name()?;
    let constants = Constants::new(context)?;
    let filter = Filter::parse(query.unwrap_or(RawDoc::empty()), &constants.context())?;
    let mut stream = open(&scope(context), context.db, name, asked)?;
    let mut count = 0;
    while let Some(bucket) = stream.next(context.op)? {
        count += u64::from(filter.matches(bucket.raw())?);
    }
    Ok(count)
}

/// Runs a find over buckets.
///
/// # Errors
/// InvalidOptions for a collection without buckets and for options that have no meaning here.
pub(super) fn find(
    context: &mut Context<'_>,
    asked: &Asked<'_>,
    request: &Request<'_>,
    out: &mut Writer<'_>,
) -> Result<()> {
    check_options(&context.args, asked)?;
    let name = context.collection_name()?;
    let pipeline = find_stages(&request.find, true);
    let constants = Constants::new(context)?;
    let scope = scope(context);
    let stream = open(&scope, context.db, name, asked)?;
    let stage_context = StageContext::new(constants.context(), &scope, context.db);
    let parsed = stages::parse(pipeline.as_doc(), &stage_context)?;
    let stream = open_stages(&parsed, Box::new(stream));
    let namespace = format!("{}.{name}", context.db);
    let mut cursor = new_cursor(context, Source::Stream(stream), namespace, None, false);
    cursor.snapshot = Some(scope.snapshot.seqno());
    first_batch(context, cursor, request.batch_size, request.single_batch, out)
}

/// Refuses options of find that name record keys or indexes.
fn check_options(args: &Args<'_>, asked: &Asked<'_>) -> Result<()> {
    // Buckets are read in one way, which MongoDB's collection of buckets has as well.
    let natural = |hint: Val<'_>| {
        let key = hint.as_doc().and_then(RawDoc::first);
        key.is_some_and(|(name, _)| matches!(name, "$natural" | "_id"))
    };
    let ignores_hint =
        matches!(asked, Asked::TimeSeries(_)) && args.get("hint").is_some_and(natural);
    let names = ["hint", "min", "max", "showRecordId", "returnKey", "tailable", "awaitData"];
    let given = |name: &&&str| args.get(name).is_some_and(Val::truthy);
    match names.iter().filter(|name| !(ignores_hint && **name == "hint")).find(given) {
        None => Ok(()),
        Some(name) => Err(Error::new(
            Code::INVALID_OPTIONS,
            format!("'{name}' cannot be used together with 'rawBuckets'"),
        )),
    }
}

/// Runs a pipeline over buckets.
///
/// # Errors
/// As `find`, and errors of stages.
pub(super) fn aggregate(
    context: &mut Context<'_>,
    asked: &Asked<'_>,
    pipeline: RawDoc<'_>,
    batch_size: Option<u64>,
    out: &mut Writer<'_>,
) -> Result<()> {
    check_options(&context.args, asked)?;
    let name = context.collection_name()?;
    let constants = Constants::new(context)?;
    let scope = scope(context);
    let stream = open(&scope, context.db, name, asked)?;
    let stage_context = StageContext::new(constants.context(), &scope, context.db);
    let parsed = stages::parse(pipeline, &stage_context)?;
    let namespace = format!("{}.{name}", context.db);
    if let Some((last, before)) = parsed.split_last()
        && matches!(last.role(), Role::Output(_))
    {
        let stream = open_stages(before, Box::new(stream));
        return write_output(context, &**last, stream, &namespace, out);
    }
    let stream = open_stages(&parsed, Box::new(stream));
    let mut cursor = new_cursor(context, Source::Stream(stream), namespace, None, false);
    cursor.snapshot = Some(scope.snapshot.seqno());
    first_batch(context, cursor, batch_size, false, out)
}

/// Explains a find or a pipeline over buckets. `totalDocsExamined` counts buckets.
///
/// # Errors
/// As `find` and `aggregate`.
pub(super) fn explain(
    context: &mut Context<'_>,
    asked: &Asked<'_>,
    verbosity: &str,
    out: &mut Writer<'_>,
) -> Result<()> {
    check_options(&context.args, asked)?;
    let name = context.collection_name()?;
    let found;
    let pipeline = match context.args.get("pipeline") {
        Some(Val::Array(pipeline)) => pipeline,
        _ => {
            found = find_stages(&find_command::parse(context)?.find, true);
            found.as_doc()
        }
    };
    let constants = Constants::new(context)?;
    let scope = scope(context);
    let stream = open(&scope, context.db, name, asked)?;
    let stage_context = StageContext::new(constants.context(), &scope, context.db);
    let parsed: Vec<Box<dyn Stage>> = stages::parse(pipeline, &stage_context)?;
    if parsed.last().is_some_and(|stage| matches!(stage.role(), Role::Output(_))) {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            "a pipeline that writes cannot be explained together with 'rawBuckets'",
        ));
    }
    out.doc("queryPlanner", |out| {
        out.str("namespace", &format!("{}.{name}", context.db));
        out.doc("winningPlan", |out| {
            out.str("stage", "RAW_BUCKETS");
            if let Asked::Records(Some(level)) = asked {
                out.str("level", level);
            }
            out.append("pipeline", Val::Array(pipeline));
        });
        out.array("rejectedPlans", |_| {});
    });
    if verbosity == "queryPlanner" {
        return Ok(());
    }
    let read = stream.read.clone();
    let mut stream = open_stages(&parsed, Box::new(stream));
    let mut returned = 0_u64;
    while stream.next(context.op)?.is_some() {
        returned += 1;
    }
    out.doc("executionStats", |out| {
        out.bool("executionSuccess", true).count("nReturned", returned);
        out.i32("totalKeysExamined", 0);
        out.count("totalDocsExamined", read.load(Ordering::Relaxed));
    });
    Ok(())
}
