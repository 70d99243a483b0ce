//! `find`: returns matching documents in batches.

use super::explain::Query;
use super::heads::{self, Heads};
use super::query::{Constants, Find, rewrites};
use super::row::{Explain, Kind, ReadConcerns, Reads, Required, StableApi, Transactions};
use super::{Command, Context, aggregate, named_faces, oplog, raw_buckets, stable_api};
use crate::args::Args;
use crate::catalog::Collection;
use crate::cursor::{BatchEnd, Cursor, Source, Tail, fill_batch};
use crate::exec::{Examined, write};
use crate::layout;
use crate::metrics;
use crate::namespace::is_made_up;
use crate::operation::Operation;
use crate::planner::min_max::MinMax;
use crate::records::resolve;
use crate::report::PlanSummary;
use ::access::Action;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use store::Snapshot;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer, limits};

pub(super) static COMMAND: Command = Command {
    name: "find",
    help: "Returns documents of a collection or view that match a filter.",
    fields: Some(&[
        "find",
        "filter",
        "sort",
        "projection",
        "hint",
        "skip",
        "limit",
        "batchSize",
        "singleBatch",
        "ntoreturn",
        "max",
        "min",
        "returnKey",
        "showRecordId",
        "tailable",
        "oplogReplay",
        "noCursorTimeout",
        "awaitData",
        "allowPartialResults",
        "collation",
        "allowDiskUse",
        "let",
        "term",
        "readOnce",
        "includeQueryStatsMetrics",
        "rewrite",
        "rawBuckets",
        "read",
        "collectionUUID",
    ]),
    by_uuid: true,
    privilege: Required::Collection(&[Action::Find]),
    transactions: Transactions::Allowed,
    stable_api: StableApi::Checked(check_stable_options),
    read_concern: ReadConcerns::Snapshot,
    usage: Kind::Query,
    counts_itself: true,
    query_stats: true,
    reads: Reads::Collection,
    explain: Explain::Query(explained),
    refuses_write_concern: true,
    run,
    ..Command::BASE
};

/// Options of `find` that are not in version 1 of the stable API.
static UNSTABLE_OPTIONS: &[&str] = &[
    "awaitData",
    "collectionUUID",
    "max",
    "min",
    "noCursorTimeout",
    "oplogReplay",
    "returnKey",
    "showRecordId",
    "tailable",
];

fn check_stable_options(body: RawDoc<'_>) -> Result<()> {
    match UNSTABLE_OPTIONS.iter().find(|name| body.find(name).is_some()) {
        Some(name) => stable_api::refuse(format!(
            "BSON field 'FindCommandRequest.{name}' is not allowed with apiStrict:true."
        )),
        None => Ok(()),
    }
}

/// Options of a find other than the query itself.
pub(super) struct Request<'a> {
    pub(super) find: Find<'a>,
    pub(super) batch_size: Option<u64>,
    pub(super) single_batch: bool,
    pub(super) tailable: bool,
    pub(super) await_data: bool,
    pub(super) no_timeout: bool,
}

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    metrics::add(&context.engine.observed.metrics.queries, 1);
    let name = context.collection_name()?;
    // The profile shows more of a query than the fast path knows.
    if !context.op.is_profiled() && point_read(context, name, out)? {
        return Ok(());
    }
    super::collection_uuid::check(context, name)?;
    let mut request = parse(context)?;
    aggregate::set_disk_use(context)?;
    if is_made_up(context.db, name) {
        return oplog::find(context, name, &request, out);
    }
    let constants = Constants::new(context)?;
    let namespace = format!("{}.{name}", context.db);
    let view = context.engine.data.view(context.op);
    view.catalog.check(context.db, name)?;
    if let Some(asked) = raw_buckets::asked(&context.args, name)? {
        return raw_buckets::find(context, &asked, &request, out);
    }
    let Some(collection) = view.catalog.get(context.db, name) else {
        request.find.check(&constants)?;
        context.op.note_plan(|plan| plan.add("EOF", None));
        context.op.report(|report| report.is_exhausted = true);
        return write_cursor(out, context.op, &namespace, |_| Ok(()));
    };
    if collection.view().is_some() {
        return aggregate::run_find_on_view(context, collection, &request, out);
    }
    let seen = view.seen(collection)?;
    let collection = seen.as_ref().unwrap_or(collection);
    let hiding = named_faces::hiding(context.op, request.find.projection, &constants.context());
    if let Some(hiding) = &hiding {
        request.find.projection = Some(hiding.as_doc());
    }
    let mut rewriting = rewrites(context, &constants, &view, request.find.hint)?;
    let other = request.find.rewritten(rewriting.as_mut(), collection)?;
    if let Some((filter, _)) = &other {
        request.find.filter = Some(filter.as_doc());
    }
    let snapshot = view.snapshot.clone();
    let shown = Heads::of_find(context, collection, &snapshot, request.find.projection)?;
    if let Some(shown) = &shown {
        request.find.heads = &shown.unread;
    }
    let page = heads::page(&request.find, collection);
    if let Some((slice, projection)) = &page {
        (request.find.slice, request.find.projection) = (Some(slice), Some(projection.as_doc()));
    }
    let mut cursor = open(context, &request, &constants, collection, snapshot, namespace)?;
    if let Some(shown) = shown.clone() {
        cursor.source = match cursor.source {
            Source::Stream(stream) => Source::Stream(shown.over(stream)),
            other => other,
        };
    }
    first_batch(context, cursor, request.batch_size, request.single_batch, out)
}

/// Reads the fields of a find.
pub(super) fn parse<'a>(context: &Context<'a>) -> Result<Request<'a>> {
    let args = &context.args;
    let bound = |name| Ok(args.optional_doc(name)?.filter(|doc: &RawDoc<'_>| !doc.is_empty()));
    let bounds = MinMax { min: bound("min")?, max: bound("max")? };
    bounds.check()?;
    let limit = match args.optional_i64("limit")? {
        Some(limit) if limit < 0 => {
            return Err(Error::new(
                Code(51024),
                format!("BSON field 'limit' value must be >= 0, actual value '{limit}'"),
            ));
        }
        limit => limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0),
    };
    refuse_ntoreturn(args)?;
    let tailable = args.bool("tailable")?;
    let await_data = args.bool("awaitData")?;
    if await_data && !tailable {
        return Err(Error::new(
            Code::FAILED_TO_PARSE,
            "Cannot set 'awaitData' without also setting 'tailable'",
        ));
    }
    if tailable && args.bool("singleBatch")? {
        return Err(Error::new(
            Code::FAILED_TO_PARSE,
            "Cannot use tailable option with the 'singleBatch' option",
        ));
    }
    Ok(Request {
        find: Find {
            filter: args.optional_doc("filter")?,
            sort: args.optional_doc("sort")?,
            projection: args.optional_doc("projection")?,
            hint: args.hint()?,
            skip: args.optional_u64("skip")?.unwrap_or(0),
            limit,
            bounds,
            show_record: args.bool("showRecordId")?,
            return_key: args.bool("returnKey")?,
            counts: false,
            values: None,
            needed: None,
            heads: &[],
            slice: None,
        },
        batch_size: args.optional_u64("batchSize")?,
        single_batch: args.bool("singleBatch")?,
        tailable,
        await_data,
        no_timeout: args.bool("noCursorTimeout")?,
    })
}

/// Refuses `ntoreturn`, which clients of long ago sent.
fn refuse_ntoreturn(args: &Args<'_>) -> Result<()> {
    let Some(number) = args.optional_i64("ntoreturn")? else { return Ok(()) };
    let (code, message) = match number {
        ..0 => {
            (51024, format!("BSON field 'ntoreturn' value must be >= 0, actual value '{number}'"))
        }
        _ if args.get("limit").is_some() || args.get("batchSize").is_some() => {
            (2, "'limit' and 'batchSize' are not possible with 'ntoreturn'".to_owned())
        }
        _ => (5_746_102, "the option 'ntoreturn' of find is not supported".to_owned()),
    };
    Err(Error::new(Code(code), message))
}

/// The fast path: one document by `_id`. Compiles nothing and creates no cursor.
fn point_read(context: &Context<'_>, name: &str, out: &mut Writer<'_>) -> Result<bool> {
    let mut id = None;
    for (field, value) in context.args.doc {
        match field {
            "filter" => {
                let Some(filter) = value.as_doc() else { return Ok(false) };
                let mut fields = filter.iter();
                let (Some(("_id", only)), None) = (fields.next(), fields.next()) else {
                    return Ok(false);
                };
                id = Some(only.get());
            }
            "find" | "limit" | "singleBatch" | "batchSize" | "lsid" | "$db" | "$clusterTime"
            | "$readPreference" | "maxTimeMS" | "comment" => {}
            // Any other option needs the general path.
            _ => return Ok(false),
        }
    }
    let Some(id) = id else { return Ok(false) };
    let operator = |doc: RawDoc<'_>| doc.first().is_some_and(|(name, _)| name.starts_with('$'));
    let plain = match id {
        Val::Document(doc) => !operator(doc),
        Val::Array(_) | Val::Null | Val::Undefined | Val::Regex(..) => false,
        _ => true,
    };
    let size = context.args.optional_i64("batchSize")?;
    let limit = context.args.optional_i64("limit")?;
    if !plain || size.is_some_and(|n| n < 1) || limit.is_some_and(|n| n < 0) {
        return Ok(false);
    }
    context.args.bool("singleBatch")?;
    let catalog = context.engine.data.catalog.load();
    let Some(collection) = catalog.get(context.db, name) else { return Ok(false) };
    let building = |bound: &::patterns::CollectionPatterns| bound.is_passing();
    if collection.view().is_some()
        || collection.capped().is_some()
        || collection.shapes.as_ref().is_some_and(|shapes| {
            shapes.depend_on_reader() || context.op.reader_of_cursor().is_some()
        })
        || collection.patterns.as_deref().is_some_and(building)
    {
        return Ok(false);
    }
    let mut key = smallvec::SmallVec::<[u8; 64]>::new();
    key.extend_from_slice(&collection.prefix());
    key.extend_from_slice(&write::record_of_id(collection, id));
    let snapshot = context.engine.data.store.snapshot();
    let reader = heads::reader_of(context.op, collection);
    let mut doc = layout::get_part(collection, &snapshot, &key, reader.as_ref())?;
    if let (Some(stored), true) = (&doc, collection.pointers.is_some()) {
        doc = Some(resolve::resolve_document(collection, &snapshot, stored.clone())?);
    }
    if doc.as_ref().is_some_and(|doc| doc.len() > limits::DOCUMENT_BYTES_MAX_INTERNAL) {
        // The general path has the error for it.
        return Ok(false);
    }
    let found = u64::from(doc.is_some());
    let engine = context.engine;
    metrics::add(&engine.observed.metrics.documents_returned, found);
    context.op.add_cost(Examined { keys: found, documents: found, bytes: 0 }, found);
    context.op.note_id_read();
    out.doc("cursor", |out| {
        out.array("firstBatch", |batch| {
            if let Some(doc) = &doc {
                batch.push_doc_bytes(doc);
            }
        });
        out.i64("id", 0);
        let mut namespace = smallvec::SmallVec::<[u8; 128]>::new();
        namespace.extend_from_slice(context.db.as_bytes());
        namespace.push(b'.');
        namespace.extend_from_slice(name.as_bytes());
        out.str("ns", std::str::from_utf8(&namespace).unwrap_or(""));
    });
    Ok(true)
}

fn open(
    context: &Context<'_>,
    request: &Request<'_>,
    constants: &Constants,
    collection: &Arc<Collection>,
    snapshot: Snapshot,
    namespace: String,
) -> Result<Box<Cursor>> {
    if request.tailable
        && let Some(filter) = request.find.filter
        && query::filter::Filter::parse(filter, &constants.context())?.near().is_some()
    {
        return Err(Error::bad_value("Tailable cursors and geo $near cannot be used together"));
    }
    let opened = request.find.open(constants, collection, &snapshot, context.op)?;
    let source = if request.tailable {
        if collection.capped().is_none() {
            return Err(Error::bad_value(format!(
                "error processing query: ns={namespace}: tailable cursor requested on non capped \
                 collection"
            )));
        }
        if opened.sort.is_some() {
            return Err(Error::bad_value(
                "cannot use tailable option with a sort other than {$natural: 1}",
            ));
        }
        context.op.count_tailable_scan();
        Source::Tail(Box::new(Tail {
            stream: opened.stream,
            last: Vec::new(),
            collection: collection.clone(),
            await_data: request.await_data,
        }))
    } else {
        Source::Stream(Box::new(opened.stream))
    };
    let seqno = snapshot.seqno();
    let collection = Some(collection.clone());
    let mut cursor = new_cursor(context, source, namespace, collection, request.no_timeout);
    cursor.snapshot = Some(seqno);
    Ok(cursor)
}

/// A cursor that is not registered yet.
pub(super) fn new_cursor(
    context: &Context<'_>,
    source: Source,
    namespace: String,
    collection: Option<Arc<Collection>>,
    no_timeout: bool,
) -> Box<Cursor> {
    let now = Instant::now();
    Box::new(Cursor {
        id: 0,
        namespace,
        source,
        pending: None,
        session: context.session,
        owner: context.op.slot().user.lock().clone(),
        reader: context.op.reader_of_cursor(),
        transaction: context.transaction,
        no_timeout,
        collection,
        command: Arc::new(DocBuf::from(context.args.doc)),
        plan: PlanSummary::default(),
        shape: None,
        snapshot: None,
        opened: now,
        last_used: now,
        returned: 0,
        batches: 0,
        time_left: None,
    })
}

/// Writes the first batch, and registers the cursor if there may be more.
pub(super) fn first_batch(
    context: &mut Context<'_>,
    mut cursor: Box<Cursor>,
    batch_size: Option<u64>,
    single_batch: bool,
    out: &mut Writer<'_>,
) -> Result<()> {
    let most = batch_size
        .map_or(limits::FIRST_BATCH_DOCUMENTS, |size| usize::try_from(size).unwrap_or(usize::MAX));
    let engine = context.engine;
    context.op.slot().reads_at.store(cursor.snapshot.unwrap_or(0), Ordering::Relaxed);
    let token = out.open("cursor", false);
    let mut end = BatchEnd::More;
    let mut failure = None;
    out.array("firstBatch", |batch| match fill_batch(&mut cursor, context.op, most, batch) {
        Ok(found) => end = found,
        Err(error) => failure = Some(error),
    });
    if let Some(error) = failure {
        return Err(error);
    }
    cursor.write_token(out);
    let examined = cursor.examined();
    metrics::add(&engine.observed.metrics.documents_returned, cursor.returned);
    context.op.add_cost(examined, cursor.returned);
    let open = end == BatchEnd::More || cursor.is_tailable();
    let keep = !single_batch && open && !cursor.tails_nothing();
    let id = if keep { engine.service.cursors.new_id() } else { 0 };
    out.i64("id", id);
    out.str("ns", &cursor.namespace);
    if let Some(time) = context.op.read_time() {
        out.append("atClusterTime", Val::Timestamp(time));
    }
    out.close(token);
    context.op.report(|report| {
        (report.cursor, report.is_exhausted) = (keep.then_some(id), !open);
        cursor.shape = report.shape;
    });
    if keep {
        cursor.id = id;
        cursor.plan = context.op.plan();
        cursor.batches = 1;
        if !cursor.is_tailable() {
            cursor.time_left = context.op.time_left();
        }
        engine.service.cursors.insert(cursor)?;
    }
    Ok(())
}

/// Writes a cursor that is exhausted: its only batch is written by `fill`.
pub(super) fn write_cursor(
    out: &mut Writer<'_>,
    op: &Operation,
    namespace: &str,
    fill: impl FnOnce(&mut value::writer::ArrayWriter<'_>) -> Result<()>,
) -> Result<()> {
    let token = out.open("cursor", false);
    let mut result = Ok(());
    out.array("firstBatch", |batch| result = fill(batch));
    out.i64("id", 0);
    out.str("ns", namespace);
    if let Some(time) = op.read_time() {
        out.append("atClusterTime", Val::Timestamp(time));
    }
    out.close(token);
    result
}

/// Returns the query for `explain`.
fn explained<'a>(context: &Context<'a>) -> Result<Query<'a>> {
    Ok(Query { find: parse(context)?.find, ..Query::default() })
}
