//! `aggregate`: runs a pipeline over a collection, a view or nothing.

use super::find::{first_batch, new_cursor, write_cursor};
use super::heads::Heads;
use super::query::{Constants, Find, mentions_meta, rewrites};
use super::row::{Explain, Kind, ReadConcerns, Reads, Required, StableApi, Transactions};
use super::stable_api;
use super::{Command, Context, change_stream, count, find, oplog, raw_buckets};
use crate::access::Authorization;
use crate::args::Args;
use crate::catalog::Collection;
use crate::cursor::Source;
use crate::exec::ready::Ready;
use crate::exec::{Examined, Stream};
use crate::metrics;
use crate::namespace::is_made_up;
use crate::planner::logical::{self, Answer, PatternAnswers, PatternQuery};
use crate::stages::PipelinePrivileges;
use crate::stages::pipeline;
pub(super) use crate::stages::pipeline::{Resolved, resolve};
use crate::stages::row::Position;
use crate::stages::{self, Role, Scope, Stage, StageContext};
use crate::upkeep::rewriting::Rewrites;
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "aggregate",
    help: "Runs a pipeline of stages.",
    fields: Some(&[
        "aggregate",
        "pipeline",
        "explain",
        "allowDiskUse",
        "cursor",
        "bypassDocumentValidation",
        "bypassPatterns",
        "collation",
        "hint",
        "let",
        "needsMerge",
        "fromMongos",
        "fromRouter",
        "requestReshardingResumeToken",
        "exchange",
        "isMapReduceCommand",
        "collectionUUID",
        "useNewUpsert",
        "runtimeConstants",
        "includeQueryStatsMetrics",
        "rewrite",
        "rawBuckets",
        "read",
    ]),
    privilege: Required::Custom(allowed),
    transactions: Transactions::Allowed,
    stable_api: StableApi::Checked(|body| {
        stable_api::refuse_fields(body, "aggregate", &["explain", "collectionUUID"])?;
        stable_api::check_pipeline(body)
    }),
    read_concern: ReadConcerns::Snapshot,
    usage: Kind::Read,
    counts_itself: true,
    query_stats: true,
    reads: Reads::Pipeline,
    explain: Explain::Pipeline,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    metrics::add(&context.engine.observed.metrics.queries, 1);
    let name = source_name(context)?;
    match name {
        Some(name) => super::collection_uuid::check(context, name)?,
        None if context.args.get("collectionUUID").is_some() => {
            return Err(Error::new(
                Code(4_928_901),
                "collectionUUID is not supported for a collectionless aggregation",
            ));
        }
        None => {}
    }
    let args = context.args;
    let pipeline = pipeline_of(&args)?;
    if args.bool("explain")? {
        return super::explain_pipeline::explain(context, "queryPlanner", out);
    }
    let Some(cursor) = args.optional_doc("cursor")? else {
        return Err(Error::new(
            Code::FAILED_TO_PARSE,
            "The 'cursor' option is required, except for aggregate with the explain argument",
        ));
    };
    let batch_size = batch_size(cursor)?;
    set_disk_use(context)?;
    if let Some(specification) = stages::change_stream::specification(pipeline) {
        return change_stream::run(context, name, pipeline, specification, batch_size, out);
    }
    let constants = Constants::new(context)?;
    let namespace = format!("{}.{}", context.db, name.unwrap_or("$cmd.aggregate"));
    let hint = args.hint()?;
    if context.op.is_in_transaction() {
        check_in_transaction(pipeline)?;
    }
    if let Some((docs, rest)) = stages::diagnostics::documents(context, name, pipeline)? {
        let scope = scope(context);
        let stage_context = StageContext::new(constants.context(), &scope, context.db);
        let parsed = stages::parse(rest.as_doc(), &stage_context)?;
        let docs = Box::new(Ready(docs.into_iter()));
        if let Some((last, before)) = parsed.split_last()
            && matches!(last.role(), Role::Output(_))
        {
            let stream = pipeline::open_stages(before, docs);
            return write_output(context, &**last, stream, &namespace, out);
        }
        let stream = pipeline::open_stages(&parsed, docs);
        let cursor = new_cursor(context, Source::Stream(stream), namespace, None, false);
        return first_batch(context, cursor, batch_size, false, out);
    }
    if let Some(name) = name.filter(|name| is_made_up(context.db, name)) {
        let stream = oplog::open(context, name, pipeline, false)?;
        let cursor = new_cursor(context, Source::Stream(stream), namespace, None, false);
        return first_batch(context, cursor, batch_size, false, out);
    }
    if let Some(asked) = raw_buckets::asked(&args, name.unwrap_or(""))? {
        return raw_buckets::aggregate(context, &asked, pipeline, batch_size, out);
    }
    let first = pipeline.first().and_then(|(_, stage)| stage.as_doc()?.first());
    stages::check_source(first.map(|(name, _)| name), name.is_some())?;
    let scope = scope(context);
    let resolved = resolve(&scope, context.db, name, pipeline)?;
    let mut stage_context = StageContext::new(constants.context(), &scope, context.db);
    let mut rewriting = rewrites(context, &constants, &scope, hint)?;
    let resolved = rewritten(resolved, rewriting.as_mut(), &mut stage_context)?;
    stage_context.source = resolved.name.as_deref();
    let parsed = stages::parse(resolved.pipeline.as_doc(), &stage_context)?;
    crate::planner::request::check_metadata(resolved.pipeline.as_doc())?;
    if matches!(parsed.last().map(|stage| stage.role()), Some(Role::Output(_))) {
        return run_output(context, &resolved, &parsed, &scope, &namespace, out);
    }
    if let Some(counted) = count_only(context, &resolved, &parsed, &constants, hint)? {
        let docs: Vec<DocBuf> = counted.into_iter().collect();
        metrics::add(&context.engine.observed.metrics.documents_returned, docs.len() as u64);
        context.op.add_cost(Examined::default(), docs.len() as u64);
        context.op.report(|report| report.is_exhausted = true);
        return write_cursor(out, context.op, &namespace, |batch| {
            docs.iter().for_each(|doc| batch.push_doc_bytes(doc.bytes()));
            Ok(())
        });
    }
    let stream = open_shown(context, &resolved, &parsed, &scope, hint)?;
    let source = Source::Stream(stream);
    let mut cursor = new_cursor(context, source, namespace, resolved.collection, false);
    cursor.snapshot = Some(scope.snapshot.seqno());
    first_batch(context, cursor, batch_size, false, out)
}

/// The pipeline of a command; null is none.
///
/// # Errors
/// When it is missing or not an array.
pub(super) fn pipeline_of<'a>(args: &Args<'a>) -> Result<RawDoc<'a>> {
    match args.doc.get("pipeline") {
        Some(Val::Array(stages)) => Ok(stages),
        Some(other) => Err(args.wrong_type("pipeline", other, "array")),
        None => Err(args.missing("pipeline")),
    }
}

/// Rewrites the pipeline to read from patterns. A pipeline that does not compile fails unchanged.
///
/// # Errors
/// Errors of a stage; errors of the store.
pub(super) fn rewritten(
    resolved: Resolved,
    rewriting: Option<&mut Rewrites<'_>>,
    context: &mut StageContext<'_>,
) -> Result<Resolved> {
    let Some(collection) = &resolved.collection else { return Ok(resolved) };
    let asked = PatternQuery::Pipeline { collection, pipeline: resolved.pipeline.as_doc() };
    let source = rewriting.map(|rewriting| rewriting as &mut dyn PatternAnswers);
    match logical::answer(source, &asked)? {
        Some((Answer::Pipeline(other), rule)) => {
            stages::parse(resolved.pipeline.as_doc(), context)?;
            context.rewritten = true;
            let mut fired = resolved.fired;
            fired.add(rule);
            let name = other.collection.as_ref().map(|other| other.name.to_string());
            Ok(Resolved { collection: other.collection, name, pipeline: other.stages, fired })
        }
        _ => Ok(resolved),
    }
}

/// Records whether the command may spill to disk (`allowDiskUse`).
///
/// # Errors
/// When `allowDiskUse` is not a boolean.
pub(super) fn set_disk_use(context: &Context<'_>) -> Result<()> {
    if context.args.get("allowDiskUse").is_some() {
        context.op.set_disk_use(Some(context.args.bool("allowDiskUse")?));
    }
    Ok(())
}

/// Refuses stages that write, or that read outside a transaction's snapshot.
fn check_in_transaction(pipeline: RawDoc<'_>) -> Result<()> {
    for (_, stage) in pipeline {
        let name = stage.as_doc().and_then(RawDoc::first).map_or("", |(name, _)| name);
        let Some(row) = stages::find(name).filter(|row| !row.in_transactions) else { continue };
        let message = match row.position {
            Position::Last => format!("{name} cannot be used in a transaction"),
            _ => format!("Stage not supported inside of a multi-document transaction: {name}"),
        };
        return Err(Error::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message));
    }
    Ok(())
}

/// The collection's name, or `None` for `{aggregate: 1}`.
pub(super) fn source_name<'a>(context: &Context<'a>) -> Result<Option<&'a str>> {
    match context.args.doc.get("aggregate") {
        Some(Val::String(_)) => context.collection_name().map(Some),
        Some(value) if value.as_f64() == Some(1.0) => Ok(None),
        Some(other @ Val::Binary(..)) => Err(context.args.wrong_type("aggregate", other, "string")),
        _ => Err(Error::new(
            Code::FAILED_TO_PARSE,
            "Invalid command format: the 'aggregate' field must specify a collection name or 1",
        )),
    }
}

fn batch_size(cursor: RawDoc<'_>) -> Result<Option<u64>> {
    let args = crate::args::Args::new("cursor", cursor);
    args.check_fields(&["batchSize"], false)?;
    args.optional_u64("batchSize")
}

/// Returns the newest catalog and snapshot, from which the stages of a pipeline read.
pub(super) fn scope(context: &Context<'_>) -> Arc<Scope> {
    let mut view = context.engine.data.view(context.op);
    view.data = Some(Arc::downgrade(&context.engine.data));
    Arc::new(view)
}

/// Opens the stream of a pipeline.
pub(super) fn open(
    context: &Context<'_>,
    resolved: &Resolved,
    parsed: &[Box<dyn Stage>],
    scope: &Scope,
    hint: Option<Val<'_>>,
) -> Result<Box<dyn Stream>> {
    let collection = resolved.collection.as_ref();
    let wanted = meta_request(resolved.pipeline.as_doc());
    let (snapshot, op) = (&scope.snapshot, Some(context.op));
    let (stream, _) = pipeline::open_with_metadata(parsed, collection, snapshot, hint, wanted, op)?;
    Ok(stream)
}

/// Opens the stream of a pipeline whose documents are returned, with heads of large arrays if the
/// reader wants these.
fn open_shown(
    context: &Context<'_>,
    resolved: &Resolved,
    parsed: &[Box<dyn Stage>],
    scope: &Scope,
    hint: Option<Val<'_>>,
) -> Result<Box<dyn Stream>> {
    let pipeline = resolved.pipeline.as_doc();
    let heads = match &resolved.collection {
        Some(collection) => Heads::of_pipeline(context, collection, &scope.snapshot, pipeline)?,
        None => None,
    };
    let Some(heads) = heads else { return open(context, resolved, parsed, scope, hint) };
    let wanted = pipeline::MetaRequest { heads: heads.unread.clone(), ..meta_request(pipeline) };
    let (collection, op) = (resolved.collection.as_ref(), Some(context.op));
    let opened =
        pipeline::open_with_metadata(parsed, collection, &scope.snapshot, hint, wanted, op)?;
    Ok(heads.over(opened.0))
}

/// Returns the metadata that a pipeline needs of its input documents.
pub(super) fn meta_request(stages: RawDoc<'_>) -> pipeline::MetaRequest {
    let asks = |keyword| mentions_meta(stages, &[keyword], 0);
    pipeline::MetaRequest {
        index_key: asks("indexKey"),
        record: asks("recordId"),
        patterns: asks("patterns"),
        heads: Vec::new(),
    }
}

/// Runs a pipeline whose last stage writes; the reply is an empty cursor.
fn run_output(
    context: &mut Context<'_>,
    resolved: &Resolved,
    parsed: &[Box<dyn Stage>],
    scope: &Scope,
    namespace: &str,
    out: &mut Writer<'_>,
) -> Result<()> {
    let Some((last, before)) = parsed.split_last() else { return Ok(()) };
    let hint = context.args.hint()?;
    let stream = open(context, resolved, before, scope, hint)?;
    write_output(context, &**last, stream, namespace, out)
}

/// Writes documents by the last stage of a pipeline; the reply is an empty cursor.
pub(super) fn write_output(
    context: &mut Context<'_>,
    last: &dyn Stage,
    mut stream: Box<dyn Stream>,
    namespace: &str,
    out: &mut Writer<'_>,
) -> Result<()> {
    let level =
        context.args.get("readConcern").and_then(Val::as_doc).and_then(|doc| doc.get("level"));
    if level.and_then(Val::as_str) == Some("linearizable") {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            "Aggregation stage that writes cannot run with a readConcern other than 'local', or in \
             a multi-document transaction. Current readConcern: linearizable",
        ));
    }
    let bypass = context.args.bool("bypassDocumentValidation")?;
    let concern = context.write_concern()?;
    let Role::Output(output) = last.role() else { return Ok(()) };
    let newest = output.write(&context.engine.data, context.op, bypass, &mut *stream)?;
    let mut examined = Examined::default();
    stream.examined(&mut examined);
    context.op.add_cost(examined, 0);
    concern.wait(context.engine, newest)?;
    write_cursor(out, context.op, namespace, |_| Ok(()))?;
    concern.write_error(out);
    Ok(())
}

/// Answers the `$match`, `$group` pipeline of drivers' `countDocuments` like `count`: from an index
/// or the counters where possible. `Some(None)` is an empty result.
fn count_only(
    context: &Context<'_>,
    resolved: &Resolved,
    parsed: &[Box<dyn Stage>],
    constants: &Constants,
    hint: Option<Val<'_>>,
) -> Result<Option<Option<DocBuf>>> {
    let Some(collection) = &resolved.collection else { return Ok(None) };
    if logical::is_count_only(&parsed).is_none() {
        return Ok(None);
    }
    let Some(Role::Count(shape)) = parsed.last().map(|stage| stage.role()) else { return Ok(None) };
    let matches = parsed.len() > 1;
    let pipeline = resolved.pipeline.as_doc();
    let filter = if matches {
        pipeline.first().and_then(|(_, stage)| stage.as_doc()).and_then(|s| s.get("$match"))
    } else {
        None
    };
    let filter = filter.and_then(Val::as_doc);
    let find = Find { filter, hint, counts: true, ..Find::default() };
    let n = count::matching(context, collection, &find, constants, None)?;
    if n == 0 {
        return Ok(Some(None));
    }
    Ok(Some(Some(DocBuf::build(|out| {
        out.append("_id", shape.id);
        out.count(shape.field, n);
    }))))
}

/// Opens a view with an additional filter.
pub(super) fn open_view(
    context: &Context<'_>,
    view: &Arc<Collection>,
    filter: RawDoc<'_>,
) -> Result<Box<dyn Stream>> {
    let mut pipeline = Vec::new();
    value::writer::write_array(&mut pipeline, |out| {
        if !filter.is_empty() {
            out.push_doc(|out| {
                out.append("$match", Val::Document(filter));
            });
        }
    });
    open_pipeline(context, &view.name, RawDoc::new(&pipeline))
}

/// Opens a pipeline over a collection or view.
pub(super) fn open_pipeline(
    context: &Context<'_>,
    name: &str,
    pipeline: RawDoc<'_>,
) -> Result<Box<dyn Stream>> {
    let constants = Constants::new(context)?;
    let scope = scope(context);
    let resolved = resolve(&scope, context.db, Some(name), pipeline)?;
    let mut stage_context = StageContext::new(constants.context(), &scope, context.db);
    stage_context.source = resolved.name.as_deref();
    let parsed = stages::parse(resolved.pipeline.as_doc(), &stage_context)?;
    open(context, &resolved, &parsed, &scope, None)
}

/// Counts the documents of a view that match a filter.
pub(super) fn count_view(
    context: &Context<'_>,
    view: &Arc<Collection>,
    filter: RawDoc<'_>,
) -> Result<u64> {
    let mut stream = open_view(context, view, filter)?;
    let mut count = 0;
    while stream.next(context.op)?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// Converts a find to stages, with or without its sort.
pub(super) fn find_stages(find: &Find<'_>, sorted: bool) -> DocBuf {
    let mut pipeline = Vec::new();
    value::writer::write_array(&mut pipeline, |out| {
        let mut stage = |name: &str, value: Val<'_>| {
            out.push_doc(|out| {
                out.append(name, value);
            });
        };
        if let Some(filter) = find.filter.filter(|doc| !doc.is_empty()) {
            stage("$match", Val::Document(filter));
        }
        if let Some(sort) = find.sort.filter(|doc| sorted && !doc.is_empty()) {
            stage("$sort", Val::Document(sort));
        }
        if find.skip > 0 {
            stage("$skip", Val::Int64(i64::try_from(find.skip).unwrap_or(i64::MAX)));
        }
        if let Some(limit) = find.limit {
            stage("$limit", Val::Int64(i64::try_from(limit).unwrap_or(i64::MAX)));
        }
        if let Some(projection) = find.projection.filter(|doc| !doc.is_empty()) {
            stage("$project", Val::Document(projection));
        }
    });
    DocBuf::from_bytes(pipeline)
}

/// Runs a find on a view as a pipeline.
pub(super) fn run_find_on_view(
    context: &mut Context<'_>,
    view: &Arc<Collection>,
    request: &find::Request<'_>,
    out: &mut Writer<'_>,
) -> Result<()> {
    let find = &request.find;
    let pipeline = find_stages(find, true).into_bytes();
    let constants = Constants::new(context)?;
    let scope = scope(context);
    let resolved = resolve(&scope, context.db, Some(&view.name), RawDoc::new(&pipeline))?;
    let mut stage_context = StageContext::new(constants.context(), &scope, context.db);
    stage_context.source = resolved.name.as_deref();
    let parsed = stages::parse(resolved.pipeline.as_doc(), &stage_context)?;
    let stream = open_shown(context, &resolved, &parsed, &scope, find.hint)?;
    let namespace = view.namespace();
    let source = Source::Stream(stream);
    let mut cursor = new_cursor(context, source, namespace, resolved.collection, false);
    cursor.snapshot = Some(scope.snapshot.seqno());
    first_batch(context, cursor, request.batch_size, request.single_batch, out)
}

fn allowed(auth: &Authorization<'_>) -> bool {
    let collection = auth.body.first().and_then(|(_, value)| value.get().as_str());
    let stages = auth.body.get("pipeline").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let beside = auth.skips();
    PipelinePrivileges { privileges: auth.privileges, db: auth.db, beside }
        .is_allowed(collection, stages)
}
