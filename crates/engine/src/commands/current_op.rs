//! `currentOp`: lists the running operations, as `$currentOp` does.

use super::row::Required;
use super::{Command, Context};
use crate::access::Authorization;
use crate::cursor::Cursor;
use crate::job::Job;
use crate::operation::NamedIn;
use crate::operation::Slot;
use crate::session::OpenTransaction;
use crate::slot::CursorFacts;
use access::Action;
use query::ParseContext;
use query::filter::Filter;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use value::ejson::date;
use value::{DocBuf, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "currentOp",
    aliases: &["currentop"],
    help: "Lists the running operations.",
    // Fields other than the two options are a filter.
    fields: None,
    admin: true,
    privilege: Required::Custom(may_list),
    run: current_op,
    ..Command::BASE
};

fn current_op(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let doc = context.args.doc;
    let idle_too = doc.get("$all").is_some_and(Val::truthy);
    let own_only = doc.get("$ownOps").is_some_and(Val::truthy);
    let filter = DocBuf::build(|out| {
        for (at, (name, value)) in doc.iter().enumerate() {
            let generic = matches!(
                name,
                "lsid"
                    | "comment"
                    | "maxTimeMS"
                    | "apiVersion"
                    | "apiStrict"
                    | "readConcern"
                    | "apiDeprecationErrors"
                    | "txnNumber"
                    | "writeConcern"
            );
            let operator = matches!(name, "$and" | "$or" | "$nor" | "$expr");
            if at > 0 && !generic && (operator || !name.starts_with('$')) {
                out.raw(name, value);
            }
        }
    });
    let filter = Filter::parse(filter.as_doc(), &ParseContext::new(crate::clock::now_ms()))?;
    let mut found = Vec::new();
    for row in list(context, idle_too, own_only) {
        if filter.matches(row.as_doc())? {
            found.push(row);
        }
    }
    out.array("inprog", |rows| {
        found.iter().for_each(|row| rows.push(Val::Document(row.as_doc())));
    });
    if context.engine.data.fsync_lock.is_held() {
        out.bool("fsyncLock", true);
        out.str("info", "use db.fsyncUnlock() to terminate the fsync write/snapshot lock");
    }
    Ok(())
}

/// One row for each running command and job, and for idle connections if requested.
///
/// Clients without the right to see the operations of others see their own.
pub(super) fn list(context: &Context<'_>, idle_too: bool, own_only: bool) -> Vec<DocBuf> {
    let engine = context.engine;
    let login = &context.client.login;
    let all = !login.required || (!own_only && login.may_touch(None, Action::Inprog));
    let host = format!("{}:{}", crate::host::name(), port(&engine.data.options.listen));
    let now = date::print(crate::clock::now_ms(), false);
    let mut rows = Vec::new();
    for slot in engine.service.slots.lock().values() {
        let id = slot.operation_id.load(Ordering::Relaxed);
        // Cloned to release the lock at once: one slot is this operation's own.
        let user = slot.user.lock().clone();
        let visible = all || login.is(user.as_deref());
        if visible && (id != 0 || idle_too) {
            rows.push(DocBuf::build(|out| {
                write_slot(slot, id, &host, &now, out);
                let seqno = slot.reads_at.load(Ordering::Relaxed);
                if id != 0 && seqno != 0 {
                    out.count("pinnedBytes", engine.data.store.pinned_bytes(seqno));
                }
            }));
        }
    }
    if !all {
        return rows;
    }
    for open in engine.service.sessions.transactions.list() {
        if !open.active {
            let life =
                engine.service.sessions.transactions.lifetime_seconds.load(Ordering::Relaxed);
            rows.push(DocBuf::build(|out| {
                write_transaction(&open, life, &host, &now, out);
                if let Some(seqno) = open.snapshot {
                    out.count("pinnedBytes", engine.data.store.pinned_bytes(seqno));
                }
            }));
        }
    }
    for job in engine.data.jobs.lock().iter() {
        rows.push(DocBuf::build(|out| write_job(job, &host, &now, out)));
    }
    rows
}

/// One row for each cursor that no command is using.
///
/// Clients without the right to see the operations of others see their own.
pub(super) fn idle_cursors(context: &Context<'_>, own_only: bool) -> Vec<DocBuf> {
    let engine = context.engine;
    let login = &context.client.login;
    let all = !login.required || (!own_only && login.may_touch(None, Action::Inprog));
    let host = format!("{}:{}", crate::host::name(), port(&engine.data.options.listen));
    let now_ms = crate::clock::now_ms();
    let mut rows = Vec::new();
    engine.service.cursors.for_each_idle(|cursor| {
        if all || login.is(cursor.owner.as_deref()) {
            let pinned = cursor.snapshot.map_or(0, |seqno| engine.data.store.pinned_bytes(seqno));
            rows.push(DocBuf::build(|out| write_cursor(cursor, pinned, &host, now_ms, out)));
        }
    });
    rows
}

fn write_cursor(cursor: &Cursor, pinned: u64, host: &str, now_ms: i64, out: &mut Writer<'_>) {
    out.str("type", "idleCursor").str("host", host).str("ns", &cursor.namespace);
    if let Some((name, db)) = cursor.owner.as_deref().and_then(|owner| owner.rsplit_once('@')) {
        write_users(name, db, out);
    }
    if let Some(session) = &cursor.session {
        out.doc("lsid", |out| {
            out.append("id", Val::Binary(4, session));
        });
    }
    if let Some(plan) = cursor.plan.text() {
        out.str("planSummary", &plan);
    }
    out.doc("cursor", |out| {
        write_facts(&cursor.facts(), now_ms, out);
        out.count("pinnedBytes", pinned);
    });
}

/// Writes the fields of a cursor.
fn write_facts(cursor: &CursorFacts, now_ms: i64, out: &mut Writer<'_>) {
    let ago = |time: Instant| {
        let millis = i64::try_from(time.elapsed().as_millis()).unwrap_or(i64::MAX);
        Val::DateTime(now_ms.saturating_sub(millis))
    };
    out.i64("cursorId", cursor.id);
    out.append("createdDate", ago(cursor.opened));
    out.append("lastAccessDate", ago(cursor.last_used));
    out.count("nDocsReturned", cursor.returned).count("nBatchesReturned", cursor.batches);
    out.bool("noCursorTimeout", cursor.no_timeout);
    out.bool("tailable", cursor.tailable).bool("awaitData", cursor.waits);
    out.append("originatingCommand", Val::Document(cursor.command.as_doc()));
}

fn write_users(name: &str, db: &str, out: &mut Writer<'_>) {
    out.array("effectiveUsers", |users| {
        users.push_doc(|out| {
            out.str("user", name).str("db", db);
        });
    });
}

fn port(address: &str) -> &str {
    address.rsplit_once(':').map_or("27017", |(_, port)| port)
}

fn write_slot(slot: &Slot, id: u64, host: &str, now: &str, out: &mut Writer<'_>) {
    let active = id != 0;
    out.str("type", "op").str("host", host);
    out.str("desc", &format!("conn{}", slot.connection_id));
    out.count("connectionId", slot.connection_id.max(0) as u64);
    if !slot.remote.is_empty() {
        out.str("client", &slot.remote);
    }
    let application = slot.application.lock();
    if !application.is_empty() {
        out.str("appName", &application);
    }
    drop(application);
    if let Some(metadata) = &*slot.metadata.lock() {
        out.append("clientMetadata", Val::Document(metadata.as_doc()));
    }
    if let Some((name, db)) = slot.user.lock().as_deref().and_then(|user| user.rsplit_once('@')) {
        write_users(name, db, out);
    }
    out.bool("active", active).str("currentOpTime", now);
    out.bool("threaded", true);
    if !active {
        return;
    }
    let current = slot.current.lock();
    let command =
        if current.command.is_empty() { RawDoc::empty() } else { RawDoc::new(&current.command) };
    out.count("opid", id);
    if let Some(session) = command.get("lsid") {
        out.append("lsid", session);
    }
    write_running(current.started.elapsed(), out);
    out.str("op", current.kind.op());
    out.str("ns", &namespace(current.namespace, command));
    out.append("command", Val::Document(command));
    if let Some(plan) = current.plan.text() {
        out.str("planSummary", &plan);
    }
    if let Some(cursor) = &current.cursor {
        out.doc("cursor", |out| {
            write_facts(cursor, crate::clock::now_ms(), out);
            out.count("operationUsingCursorId", id);
        });
    }
    if slot.killed.load(Ordering::Relaxed) {
        out.bool("killPending", true);
    }
    let conflicts = slot.conflicts.load(Ordering::Relaxed);
    if conflicts > 0 {
        out.i64("writeConflicts", conflicts as i64);
    }
    out.i32("numYields", 0);
    // There are no locks on collections: a write waits for others only at its commit.
    out.doc("locks", |_| {});
    out.bool("waitingForLock", slot.waits.load(Ordering::Relaxed));
    out.doc("lockStats", |_| {});
    out.bool("waitingForFlowControl", false);
    out.doc("flowControlStats", |_| {});
}

/// An open transaction without a running statement.
fn write_transaction(
    open: &OpenTransaction,
    life_seconds: i64,
    host: &str,
    now: &str,
    out: &mut Writer<'_>,
) {
    out.str("type", "idleSession").str("host", host).str("desc", "inactive transaction");
    out.bool("active", false).str("currentOpTime", now);
    out.doc("lsid", |out| {
        out.append("id", Val::Binary(4, &open.session));
    });
    out.doc("transaction", |out| {
        out.doc("parameters", |out| {
            out.i64("txnNumber", open.number).bool("autocommit", false);
        });
        out.str("startWallClockTime", &date::print(open.begun_ms, false));
        out.i64("timeOpenMicros", open.open_for.as_micros() as i64);
        out.i64("timeInactiveMicros", open.idle_for.as_micros() as i64);
        let end = open.begun_ms.saturating_add(life_seconds.saturating_mul(1000));
        out.str("expiryTime", &date::print(end, false));
    });
    out.bool("waitingForLock", false);
}

fn write_job(job: &Job, host: &str, now: &str, out: &mut Writer<'_>) {
    let (done, total) = (job.done.load(Ordering::Relaxed), job.total.load(Ordering::Relaxed));
    out.str("type", "op").str("host", host).str("desc", &job.what);
    out.bool("active", true).str("currentOpTime", now);
    out.count("opid", job.id);
    write_running(job.started.elapsed(), out);
    out.str("op", "none").str("ns", &job.namespace);
    out.doc("command", |_| {});
    let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100).min(100);
    out.str("msg", &format!("{}: {done}/{total} {percent}%", job.what));
    out.doc("progress", |out| {
        out.count("done", done).count("total", total);
    });
    if job.killed.load(Ordering::Relaxed) {
        out.bool("killPending", true);
    }
}

fn write_running(elapsed: Duration, out: &mut Writer<'_>) {
    out.i64("secs_running", elapsed.as_secs() as i64);
    out.i64("microsecs_running", elapsed.as_micros() as i64);
}

/// The namespace of a running command.
fn namespace(named: NamedIn, command: RawDoc<'_>) -> String {
    let db = command.get("$db").and_then(Val::as_str).unwrap_or("");
    let named = match named {
        NamedIn::Qualified => NamedIn::FirstField.collection(command),
        named => named.collection(command),
    };
    match named {
        // The command's own value may be a whole namespace.
        Some(name) if name.contains('.') && db == "admin" => name.to_owned(),
        Some(name) => format!("{db}.{name}"),
        None if db.is_empty() => String::new(),
        None if command.find("aggregate").is_some() => format!("{db}.$cmd.aggregate"),
        None => format!("{db}.$cmd"),
    }
}

fn may_list(auth: &Authorization<'_>) -> bool {
    auth.flag("$ownOps") || auth.on_cluster(&[Action::Inprog])
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::{RawDoc, Val, ejson};

    #[test]
    fn a_command_sees_itself_and_filters_apply() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let count = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            let reply = engine.run_command("admin", command.as_doc()).expect("works");
            let rows = reply.as_doc().get("inprog").and_then(Val::as_array).map(RawDoc::count);
            rows.expect("rows")
        };
        assert_eq!(count("{currentOp: 1}"), 1);
        assert_eq!(count("{currentOp: 1, op: 'command'}"), 1);
        assert_eq!(count("{currentOp: 1, op: 'insert'}"), 0);
        let _idle = engine.connect(crate::request::Peer::default());
        assert_eq!(count("{currentOp: 1, $all: true}"), 2);
        assert_eq!(count("{currentOp: 1, $ownOps: true}"), 1);
    }

    #[test]
    fn a_build_can_be_killed() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |db: &str, text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command(db, command.as_doc())
        };
        for from in 0..30 {
            let documents: Vec<String> =
                (0..1000).map(|n| format!("{{_id: {}, a: {n}}}", from * 1000 + n)).collect();
            let insert = format!("{{insert: 'c', documents: [{}]}}", documents.join(","));
            run("t", &insert).expect("works");
        }
        std::thread::scope(|scope| {
            let build = "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}";
            let building = scope.spawn(|| run("t", build));
            while !building.is_finished() {
                let job = engine.inner().data.jobs.lock().first().map(|job| job.id);
                if let Some(id) = job {
                    run("admin", &format!("{{killOp: 1, op: {id}}}")).expect("works");
                    break;
                }
            }
            let built = building.join().expect("does not panic");
            assert_eq!(built.expect_err("was killed").code(), value::Code::INTERRUPTED);
        });
        assert_eq!(engine.inner().data.collection("t", "c").map(|c| c.indexes.len()), Some(1));
    }

    /// Runs a command that waits, and looks at its row until `seen` finds what it expects there;
    /// then `end` ends the wait.
    fn watch(
        engine: &Engine,
        waits: &str,
        filter: &str,
        seen: impl Fn(RawDoc<'_>) -> bool,
        end: impl FnOnce(),
    ) {
        let command = ejson::parse_doc(waits).expect("test text");
        let list = ejson::parse_doc(&format!("{{currentOp: 1, {filter}}}")).expect("test text");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| engine.run_command("t", command.as_doc()));
            loop {
                assert!(!waiting.is_finished(), "it ended before it was seen");
                let reply = engine.run_command("admin", list.as_doc()).expect("works");
                let rows = reply.as_doc().get("inprog").and_then(Val::as_array).expect("rows");
                let row = rows.first().and_then(|(_, row)| row.as_doc());
                if row.is_some_and(&seen) {
                    break;
                }
                std::thread::yield_now();
            }
            end();
            waiting.join().expect("does not panic").expect("works");
        });
    }

    #[test]
    fn a_waiting_get_more_shows_the_command_that_opened_its_cursor() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).expect("works")
        };
        run("{create: 'c', capped: true, size: 10000}");
        run("{insert: 'c', documents: [{_id: 1}]}");
        let found = run("{find: 'c', filter: {}, tailable: true, awaitData: true, batchSize: 1}");
        let cursor = found.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let id = cursor.get("id").and_then(Val::as_i64_exact).expect("it is open");
        let more = format!("{{getMore: NumberLong({id}), collection: 'c', maxTimeMS: 600000}}");
        let seen = |row: RawDoc<'_>| {
            let Some(Val::Document(cursor)) = row.get("cursor") else { return false };
            let opened = cursor.get("originatingCommand").and_then(Val::as_doc);
            assert_eq!(opened.and_then(|doc| doc.get("find")), Some(Val::String("c")));
            assert_eq!(cursor.get("cursorId"), Some(Val::Int64(id)));
            assert_eq!(cursor.get("awaitData"), Some(Val::Bool(true)));
            assert_eq!(row.get("planSummary"), Some(Val::String("COLLSCAN")));
            true
        };
        watch(&engine, &more, "op: 'getmore'", seen, || {
            run("{insert: 'c', documents: [{_id: 2}]}");
        });
    }

    #[test]
    fn a_write_that_waits_for_a_transaction_shows_its_conflict() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |db: &str, text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command(db, command.as_doc()).expect("works")
        };
        run("t", "{insert: 'c', documents: [{_id: 1}]}");
        let session = "lsid: {id: UUID('11112222-3333-4444-5555-666677778888')}, \
                       txnNumber: NumberLong(1), autocommit: false";
        let update = "update: 'c', updates: [{q: {_id: 1}, u: {$inc: {n: 1}}}]";
        run("t", &format!("{{{update}, {session}, startTransaction: true}}"));
        let seen = |row: RawDoc<'_>| {
            let waits = row.get("waitingForLock") == Some(Val::Bool(true));
            let conflicts = row.get("writeConflicts").and_then(Val::as_i64_exact);
            if waits {
                assert!(conflicts >= Some(1));
                assert_eq!(row.get("planSummary"), Some(Val::String("IDHACK")));
            }
            waits
        };
        watch(&engine, &format!("{{{update}}}"), "op: 'update'", seen, || {
            run("admin", &format!("{{abortTransaction: 1, {session}}}"));
        });
    }

    #[test]
    fn there_may_be_nothing_to_kill() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("admin", command.as_doc())
        };
        assert_eq!(run("{killOp: 1}").expect_err("no op").code().0, 4);
        run("{killOp: 1, op: 99999}").expect("nothing to kill is no error");
    }
}
