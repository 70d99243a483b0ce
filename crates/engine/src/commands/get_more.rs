//! `getMore`: the next batch of a cursor.

use super::row::{Kind, NamedIn, ReadConcerns, Required, StableApi, Transactions};
use super::{Command, Context, stable_api};
use crate::change_streams::wait_for_more;
use crate::cursor::{BatchEnd, Cursor, Source, fill_batch};
use crate::exec::Examined;
use crate::exec::scan::Scan;
use crate::layout;
use crate::metrics;
use crate::request::Flow;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use value::{Code, DocBuf, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "getMore",
    help: "Returns the next documents of an open cursor.",
    fields: Some(&[
        "getMore",
        "collection",
        "batchSize",
        "maxTimeMS",
        "term",
        "lastKnownCommittedOpTime",
        "includeQueryStatsMetrics",
    ]),
    privilege: Required::Login,
    transactions: Transactions::NotFirst,
    stable_api: StableApi::Included,
    read_concern: ReadConcerns::OfCursor,
    usage: Kind::GetMore,
    counts_itself: true,
    namespace: NamedIn::Field("collection"),
    limits_itself: true,
    run: get_more,
    ..Command::BASE
};

/// The default wait of an `awaitData` cursor without `maxTimeMS`.
const AWAIT_DEFAULT: Duration = Duration::from_secs(1);

/// The largest command that opened a cursor which `currentOp` shows, in bytes.
const FACTS_BYTES_MAX: usize = 64 * 1024;

fn get_more(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let engine = context.engine;
    metrics::add(&engine.observed.metrics.get_mores, 1);
    let id = match context.args.doc.get("getMore") {
        Some(Val::Int64(id)) => id,
        Some(other) => return Err(context.args.wrong_type("getMore", other, "long")),
        None => return Err(context.args.missing("getMore")),
    };
    let name = context.args.string("collection")?;
    if name.is_empty() {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("Invalid namespace specified '{}.'", context.db),
        ));
    }
    let batch_size = context.args.optional_u64("batchSize")?;
    let most = match batch_size {
        None | Some(0) => usize::MAX,
        Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
    };
    let limit = match context.args.doc.get("maxTimeMS") {
        Some(value) => super::max_time(value)?,
        None => None,
    };
    let namespace = format!("{}.{name}", context.db);
    let login = &context.client.login;
    let own = |owner: Option<&str>| !login.required || login.is(owner);
    let (mut cursor, killed) = engine.service.cursors.take(id, &namespace, own)?;
    context.op.use_cursor(killed);
    let slot = context.op.slot();
    slot.reads_at.store(cursor.snapshot.unwrap_or(0), Ordering::Relaxed);
    {
        let mut current = slot.current.lock();
        current.plan.clone_from(&cursor.plan);
        // It stays until the next command of this connection.
        let small = cursor.command.bytes().len() <= FACTS_BYTES_MAX;
        current.cursor = small.then(|| cursor.facts());
    }
    context.op.report(|report| {
        (report.cursor, report.shape) = (Some(id), cursor.shape);
        report.opened_by = Some(DocBuf::clone(&cursor.command));
        // MongoDB doesn't profile listings either.
        report.is_left_out = name.starts_with("$cmd.list");
    });
    if cursor.session.is_some() && cursor.session != context.session {
        let (code, how) = match context.session {
            Some(_) => (50738, "in another session"),
            None => (50737, "in a session, without that session"),
        };
        let error = Error::new(
            Code(code),
            format!("Cannot run getMore on cursor {id}, which was created {how}"),
        );
        engine.service.cursors.give_back(cursor);
        return Err(error);
    }
    if let Err(error) = check_transaction(context, &cursor) {
        engine.service.cursors.give_back(cursor);
        return Err(error);
    }
    if let Err(error) = stable_api::check_same(cursor.command.as_doc(), context.op.api.get()) {
        engine.service.cursors.give_back(cursor);
        return Err(error);
    }
    if limit.is_some() && !cursor.waits() {
        engine.service.cursors.give_back(cursor);
        return Err(Error::bad_value(
            "cannot set maxTimeMS on getMore command for a non-awaitData cursor",
        ));
    }
    if cursor.waits() {
        context.op.note_wait();
    }
    if let Some(reader) = &cursor.reader {
        context.op.read_as(reader);
    }
    context.op.set_disk_use(cursor.command.as_doc().get("allowDiskUse").map(Val::truthy));
    if let Some(left) = cursor.time_left
        && let Err(error) = super::set_time_limit(engine, context.op, left)
    {
        engine.service.cursors.remove(id);
        return Err(error);
    }
    let before = (cursor.examined(), cursor.returned);
    let token = out.open("cursor", false);
    let mut result = Ok(BatchEnd::More);
    out.array("nextBatch", |batch| {
        let failure = if engine.observed.fail_points.any() {
            engine.observed.fail_points.fail_get_more()
        } else {
            None
        };
        result = match failure {
            Some(error) => Err(error),
            None => next_batch(context, &mut cursor, most, limit, batch),
        };
    });
    cursor.write_token(out);
    let end = match result {
        Ok(end) => end,
        Err(error) => {
            engine.service.cursors.remove(id);
            return Err(match cursor.source {
                Source::Changes(_) => stream_error(error),
                _ => error,
            });
        }
    };
    let examined = cursor.examined();
    metrics::add(&engine.observed.metrics.documents_returned, cursor.returned - before.1);
    let newly = Examined {
        keys: examined.keys - before.0.keys,
        documents: examined.documents - before.0.documents,
        bytes: examined.bytes - before.0.bytes,
    };
    context.op.add_cost(newly, cursor.returned - before.1);
    if engine.observed.query_stats.is_on() {
        let (op, elapsed) = (context.op, context.op.started.elapsed());
        engine.observed.query_stats.note_more(op, cursor.command.as_doc(), elapsed);
    }
    if cursor.time_left.is_some() {
        cursor.time_left = context.op.time_left();
    }
    cursor.batches += 1;
    let keep = end == BatchEnd::More || cursor.is_tailable();
    if keep && context.request.exhaust_allowed {
        arrange_exhaust(context, &cursor, batch_size);
        context.flow = Flow::Exhaust;
    }
    let open = if keep {
        engine.service.cursors.give_back(cursor)
    } else {
        engine.service.cursors.remove(id);
        false
    };
    if !open {
        context.op.report(|report| report.is_exhausted = true);
        context.client.exhaust = None;
        context.flow = Flow::Done;
    }
    out.i64("id", if open { id } else { 0 });
    out.str("ns", &namespace);
    out.close(token);
    Ok(())
}

/// Checks that a cursor of a transaction is read in it, and any other cursor outside.
fn check_transaction(context: &Context<'_>, cursor: &Cursor) -> Result<()> {
    let id = cursor.id;
    let (code, how) = match (cursor.transaction, context.transaction) {
        (None, Some(now)) => {
            (50739, format!("which was not created in a transaction, in transaction {now}"))
        }
        (Some(own), None) => {
            (50740, format!("which was created in transaction {own}, without a txnNumber"))
        }
        (Some(own), Some(now)) if own != now => {
            (50741, format!("which was created in transaction {own}, in transaction {now}"))
        }
        _ => return Ok(()),
    };
    Err(Error::new(Code(code), format!("Cannot run getMore on cursor {id}, {how}")))
}

/// Codes of errors after which a driver resumes a change stream: the server is shutting down or
/// unreachable.
static RESUMABLE: &[i32] =
    &[6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436];

/// The error of a change stream, with the labels that drivers need.
fn stream_error(error: Error) -> Error {
    let error = error.context("Executor error during getMore :: caused by :: ");
    if RESUMABLE.contains(&error.code().0) {
        return error.with_label("ResumableChangeStreamError");
    }
    error
}

/// Stores the next `getMore` of an exhaust stream, which runs without a request.
pub(super) fn arrange_exhaust(context: &mut Context<'_>, cursor: &Cursor, size: Option<u64>) {
    let name = cursor.namespace.split_once('.').map_or("", |(_, name)| name);
    let body = DocBuf::build(|out| {
        out.i64("getMore", cursor.id).str("collection", name);
        if let Some(size) = size {
            out.i64("batchSize", i64::try_from(size).unwrap_or(i64::MAX));
        }
        for field in ["lsid", "apiVersion", "apiStrict", "apiDeprecationErrors", "$db"] {
            if let Some(value) = context.args.doc.find(field) {
                out.raw(field, value);
            }
        }
    });
    context.client.exhaust = Some(body);
}

/// Fills a batch. A tailable cursor continues after its last record, and waits if requested.
fn next_batch(
    context: &Context<'_>,
    cursor: &mut Cursor,
    most: usize,
    limit: Option<Duration>,
    batch: &mut value::writer::ArrayWriter<'_>,
) -> Result<BatchEnd> {
    let end = fill_batch(cursor, context.op, most, batch)?;
    if !cursor.is_tailable() || end == BatchEnd::More {
        return Ok(end);
    }
    let engine = context.engine;
    let until = Instant::now() + limit.unwrap_or(AWAIT_DEFAULT);
    if matches!(cursor.source, Source::Changes(_)) {
        return next_changes(context, cursor, most, until, batch);
    }
    loop {
        let seen = *engine.data.tail.0.lock();
        resume_tail(context, cursor)?;
        fill_batch(cursor, context.op, most, batch)?;
        if !batch.is_empty() || !cursor.waits() {
            return Ok(BatchEnd::Exhausted);
        }
        let mut commits = engine.data.tail.0.lock();
        while *commits == seen {
            let step = until.min(Instant::now() + Duration::from_millis(100));
            engine.data.tail.1.wait_until(&mut commits, step);
            context.op.check_now()?;
            if Instant::now() >= until {
                return Ok(BatchEnd::Exhausted);
            }
        }
    }
}

/// Continues a cursor on the change log that has read all entries so far.
fn next_changes(
    context: &Context<'_>,
    cursor: &mut Cursor,
    most: usize,
    until: Instant,
    batch: &mut value::writer::ArrayWriter<'_>,
) -> Result<BatchEnd> {
    let engine = context.engine;
    while batch.is_empty() && cursor.waits() && cursor.is_tailable() {
        // Read before the cursor checks again, so that no change is missed in between.
        let seen = engine.data.changes.newest().0;
        fill_batch(cursor, context.op, most, batch)?;
        if batch.is_empty() && !wait_for_more(&engine.data, context.op, seen, until)? {
            break;
        }
    }
    Ok(if cursor.is_tailable() { BatchEnd::More } else { BatchEnd::Exhausted })
}

fn resume_tail(context: &Context<'_>, cursor: &mut Cursor) -> Result<()> {
    let Source::Tail(tail) = &mut cursor.source else { return Ok(()) };
    let snapshot = context.engine.data.store.snapshot();
    if !tail.last.is_empty() {
        let key = crate::exec::write::document_key(&tail.collection, &tail.last);
        if layout::get(&tail.collection, &snapshot, &key)?.is_none() {
            return Err(Error::new(
                Code::CAPPED_POSITION_LOST,
                "CollectionScan died due to position in capped collection being deleted",
            ));
        }
    }
    let scan = Scan::after(snapshot, tail.collection.clone(), &tail.last);
    tail.stream.continue_with(scan);
    Ok(())
}
