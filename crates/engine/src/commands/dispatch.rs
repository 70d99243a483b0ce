//! Running a request: the steps that every command goes through, in their order.
//!
//! 1. find the row of the command
//! 2. check the request: database, fields
//! 3. authorise the client
//! 4. enter the session; read the generic fields and the place in a transaction
//! 5. begin: from here on the command shows in `$currentOp`
//! 6. prepare what it reads: patterns, read concern
//! 7. apply fail points
//! 8. enter the transaction and run
//! 9. after-effects, wait for the read concern, fail points after the command
//!
//! Then, also after a failure: leave the transaction, complete the reply, record the command.

use super::in_transaction::{self, Statement, Transactions};
use super::read_concern::{self, ReadConcern};
use super::{
    ALL, Command, Context, collection_uuid, generic, named_faces, stable_api, through_view,
    write_concern,
};
use crate::args::Args;
use crate::client::Client;
use crate::command_log::Ended;
use crate::fail_points::{Break, Failure};
use crate::operation::{NamedIn, Operation};
use crate::planner::restrictions::Restrictions;
use crate::profiler;
use crate::request::{ApiParameters, Flow, Request};
use crate::session::{self, Retryable};
use crate::shared::Inner;
use crate::upkeep::reading;
use crate::usage::Kind;
use crate::{command_log, metrics, namespace, reply};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer, writer};

/// How far a request got; decides how it is recorded afterwards.
struct Progress<'a> {
    /// The fields of the request.
    fields: Args<'a>,
    /// Its database; empty as long as none is found.
    db: &'a str,
    /// The row of the command, once it is found.
    row: Option<&'static Command>,
    /// Its place in the table of commands.
    place: usize,
    /// Whether all checks passed, so that the command counts as run.
    begun: bool,
}

impl<'a> Progress<'a> {
    /// The progress of a request that has just arrived.
    fn new(body: RawDoc<'a>) -> Progress<'a> {
        Progress { fields: Args::new("", body), db: "", row: None, place: 0, begun: false }
    }

    /// The row of a command that passed all checks.
    fn begun(&self) -> Option<&'static Command> {
        self.row.filter(|_| self.begun)
    }
}

/// Runs the command of a request and appends its reply.
pub fn dispatch(
    engine: &Inner,
    client: &mut Client,
    op: &Operation,
    request: &Request<'_>,
    reply_bytes: &mut Vec<u8>,
) -> Flow {
    let start = reply_bytes.len();
    let mut out = Writer::start(reply_bytes);
    let mut progress = Progress::new(request.body);
    let result = run(engine, client, op, request, &mut progress, &mut out);
    match leave_transaction(engine, op, &progress, result) {
        Ok(flow) => {
            out.f64("ok", 1.0);
            reply::write_times(&mut out, &engine.data);
            out.finish();
            note(engine, op, &progress, None, reply_bytes.len() - start);
            flow
        }
        Err(error) => {
            metrics::add(&engine.observed.metrics.failures, 1);
            reply_bytes.truncate(start);
            writer::write_doc(reply_bytes, |out| {
                write_concern::write_beside(out, &error, request.body);
                reply::write_error(out, &error);
                reply::write_times(out, &engine.data);
            });
            note(engine, op, &progress, Some(&error), reply_bytes.len() - start);
            Flow::Done
        }
    }
}

/// Runs the steps of a command, from its row to its reply.
fn run<'a>(
    engine: &Inner,
    client: &mut Client,
    op: &Operation,
    request: &Request<'a>,
    progress: &mut Progress<'a>,
    out: &mut Writer<'_>,
) -> Result<Flow> {
    let named = collection_uuid::by_name(engine, client, request)?;
    let command = find_row(engine, request.body, progress)?;
    engine.data.check_open()?;
    progress.db = check_request(command, &progress.fields)?;
    let db = progress.db;
    let request = &match &named {
        Some(body) => Request { body: body.as_doc(), ..*request },
        None => *request,
    };
    let body = request.body;
    let args = match &named {
        Some(_) => Args::new(command.name, body),
        None => progress.fields.at(command.name),
    };
    authorise(client, command, db, request)?;
    let through = through_view::rewritten(engine, op, command, db, request);
    let request = &match &through {
        Some(body) => Request { body: body.as_doc(), ..*request },
        None => *request,
    };
    let (body, args) = match &through {
        Some(_) => (request.body, Args::new(command.name, request.body)),
        None => (body, args),
    };
    let session = enter_session(client, body)?;
    let concern = generic::check(engine, op, command, &args)?;
    let api = ApiParameters::of(&args);
    stable_api::check(command, body, api)?;
    op.api.set(api);
    named_faces::note(engine, op, command, db, request);
    let _restricted = restrictions(engine, api).enter();
    let statement = Statement::parse(command, &args, session)?;
    if let Some(statement) = statement {
        statement.check(command, body, db)?;
    }
    begin(engine, op, command, body);
    progress.begun = true;
    bypass_patterns(op, &args, statement)?;
    prepare_reads(engine, op, command, db, body, concern, statement)?;
    let mut context = Context {
        engine,
        client,
        op,
        request,
        name: command.name,
        args,
        db,
        session,
        transaction: statement.map(|statement| statement.number),
        flow: Flow::Done,
    };
    if !command.counts_itself {
        metrics::add(&engine.observed.metrics.commands, 1);
    }
    let after = match fail_points(command, &context)? {
        ControlFlow::Break(flow) => return Ok(flow),
        ControlFlow::Continue(after) => after,
    };
    enter_transaction(&context, command, statement)?;
    (command.run)(&mut context, out)?;
    if command.removes_users {
        engine.data.directory_generation.fetch_add(1, Ordering::Release);
    }
    if statement.is_none() {
        read_concern::wait(engine, concern, command)?;
    }
    Ok(after.apply(context.flow, out))
}

/// Finds the row of the command that a request names.
fn find_row(
    engine: &Inner,
    body: RawDoc<'_>,
    progress: &mut Progress<'_>,
) -> Result<&'static Command> {
    let Some((name, _)) = body.first() else {
        return Err(Error::new(Code::FAILED_TO_PARSE, "the command is empty"));
    };
    let found = super::place(name).and_then(|place| Some((place, *ALL.get(place)?)));
    let found = found.filter(|(_, row)| row.is_available(&engine.data.options));
    let Some((place, row)) = found else {
        metrics::add(&engine.observed.metrics.unknown_commands, 1);
        let message = format!("no such command: '{name}'");
        return Err(Error::new(Code::COMMAND_NOT_FOUND, message));
    };
    (progress.place, progress.row) = (place, Some(row));
    Ok(row)
}

/// Checks the database of the command, and refuses unknown fields.
fn check_request<'a>(command: &Command, fields: &Args<'a>) -> Result<&'a str> {
    let args = fields.at(command.name);
    let db = match args.doc.get("$db") {
        Some(Val::String(db)) => db,
        Some(other) => {
            return Err(Error::type_mismatch(format!(
                "BSON field '$db' is the wrong type '{}', expected type 'string'",
                other.kind().name()
            )));
        }
        None => {
            return Err(Error::new(Code(40571), "OP_MSG requests require a $db argument"));
        }
    };
    let names_none = matches!(command.namespace, NamedIn::None);
    if db != crate::access::EXTERNAL || !(command.credentials || names_none) {
        namespace::check_database(db)?;
    }
    if command.admin && db != "admin" {
        return Err(Error::new(
            Code::UNAUTHORIZED,
            format!("{} may only be run against the admin database.", command.name),
        ));
    }
    if let Some(fields) = command.fields {
        args.check_fields(fields, true).map_err(|error| match args.unknown_field(fields) {
            Some(name) if command.hints => {
                let known: Vec<&str> = fields.iter().copied().skip(1).collect();
                let hint = patterns::declaration::hint(name, &known);
                Error::new(error.code(), format!("'{}.{name}' is unknown{hint}", command.name))
            }
            _ => error,
        })?;
    }
    Ok(db)
}

/// Refuses commands that the client is not authorised to run.
fn authorise(
    client: &mut Client,
    command: &Command,
    db: &str,
    request: &Request<'_>,
) -> Result<()> {
    if !client.login.required {
        return Ok(());
    }
    let (login, shared) = client.login();
    let requirement = crate::access::Requirement {
        command: command.name,
        required: command.privilege,
        first_user: command.first_user,
    };
    crate::access::check(shared, login, &requirement, db, request)
}

/// The session that the client names. Unauthenticated clients get none, so that they cannot fill
/// the registry.
fn enter_session(client: &mut Client, body: RawDoc<'_>) -> Result<Option<[u8; 16]>> {
    let session = session::session_of(body)?.filter(|_| !client.login.must_log_in());
    if let Some(session) = session {
        client.touch_session(session)?;
    }
    Ok(session)
}

/// What the command forbids its plans.
fn restrictions(engine: &Inner, api: ApiParameters) -> Restrictions {
    Restrictions {
        stable_only: api.strict == Some(true),
        no_scans: engine.data.resources.no_scans.load(Ordering::Relaxed),
    }
}

/// Registers the command for `$currentOp`.
fn begin(engine: &Inner, op: &Operation, command: &Command, body: RawDoc<'_>) {
    let slot = op.slot();
    slot.operation_id
        .store(engine.data.next_operation.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    slot.reads_at.store(0, Ordering::Relaxed);
    slot.conflicts.store(0, Ordering::Relaxed);
    if engine.observed.profiler.is_active() {
        op.begin_report();
    }
    let fields = if command.credentials { &[] } else { body.bytes() };
    slot.current.lock().set(op.started, command.usage, command.namespace, fields);
}

/// Reads `bypassPatterns`.
fn bypass_patterns(op: &Operation, args: &Args<'_>, statement: Option<Statement>) -> Result<()> {
    if !args.has("bypassPatterns") {
        return Ok(());
    }
    op.bypasses_patterns.set(args.bool("bypassPatterns")?);
    if statement.is_some() && op.bypasses_patterns.get() {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            "'bypassPatterns' is not possible in a multi-document transaction",
        ));
    }
    Ok(())
}

/// Applies the read concern, and makes the command read the values of patterns.
fn prepare_reads(
    engine: &Inner,
    op: &Operation,
    command: &Command,
    db: &str,
    body: RawDoc<'_>,
    concern: Option<ReadConcern<'_>>,
    statement: Option<Statement>,
) -> Result<()> {
    let fresh = concern.is_some_and(|concern| concern.fresh_patterns);
    reading::prepare(&engine.data, op, db, command.reads, body, fresh)?;
    if let Some(concern) = concern {
        concern.check_times(engine)?;
        match statement {
            Some(_) => concern.enter_transaction(op)?,
            None => concern.apply(engine, op, command)?,
        }
    }
    if statement.is_none() {
        reading::complete(&engine.data, op, db, command.reads, body)?;
    }
    Ok(())
}

/// Actions of fail points after a command ran.
#[derive(Default)]
struct AfterRun {
    /// Close the connection without a reply.
    close: bool,
    /// Fields that are added to the reply.
    add: Option<DocBuf>,
}

impl AfterRun {
    fn apply(self, flow: Flow, out: &mut Writer<'_>) -> Flow {
        if self.close {
            return Flow::Abort;
        }
        if let Some(fields) = self.add {
            out.extend(fields.as_doc());
        }
        flow
    }
}

/// Runs the actions of fail points before a command; returns those for after it.
fn fail_points(command: &Command, context: &Context<'_>) -> Result<ControlFlow<Flow, AfterRun>> {
    let points = &context.engine.observed.fail_points;
    if !points.any() {
        return Ok(ControlFlow::Continue(AfterRun::default()));
    }
    let body = context.request.body;
    let failure = failure_of(command, context);
    if let Some(time) = failure.block {
        std::thread::sleep(time);
        context.op.check_now()?;
    }
    if failure.close {
        return Ok(ControlFlow::Break(Flow::Abort));
    }
    if let Some(error) = failure.error {
        if failure.labelled {
            context.op.keep_labels();
        }
        return Err(error);
    }
    // A retried write that was already done only returns its reply, so it cannot fail.
    let repeated = Retryable::of(&context.args, context.session)?
        .is_some_and(|write| write.was_done(&context.engine.data, body));
    match if repeated { None } else { points.break_write(body) } {
        Some(Break::CloseBefore) => Ok(ControlFlow::Break(Flow::Abort)),
        Some(Break::Fail(error)) => Err(error),
        Some(Break::CloseAfter) => {
            Ok(ControlFlow::Continue(AfterRun { close: true, add: failure.add }))
        }
        None => Ok(ControlFlow::Continue(AfterRun { close: false, add: failure.add })),
    }
}

/// The actions of `failCommand` for a command.
fn failure_of(command: &Command, context: &Context<'_>) -> Failure {
    if command.test {
        return Failure::default();
    }
    let body = context.request.body;
    let collection = body.first().and_then(|(_, value)| value.get().as_str()).unwrap_or("$cmd");
    let namespace = format!("{}.{collection}", context.db);
    let application = context.op.slot().application.lock().clone();
    let points = &context.engine.observed.fail_points;
    let retryable = body.find("txnNumber").is_some()
        && (command.transactions.ends() || body.find("autocommit").is_none());
    // By any of its names: drivers say `ismaster`.
    let is_named = |name: &str| super::find(name).is_some_and(|row| std::ptr::eq(row, command));
    points.fail_command(is_named, body, &application, &namespace, retryable).unwrap_or_default()
}

/// Makes a command run in the transaction that it names. A statement outside transactions aborts an
/// open transaction of its session that has a lower number.
fn enter_transaction(
    context: &Context<'_>,
    command: &Command,
    statement: Option<Statement>,
) -> Result<()> {
    let Some(session) = context.session else { return Ok(()) };
    let (engine, op) = (context.engine, context.op);
    let transactions = &engine.service.sessions.transactions;
    match statement {
        Some(_) if command.transactions.ends() => Ok(()),
        Some(Statement { number, start: true }) => {
            transactions.begin(&engine.data, op, session, number)
        }
        Some(Statement { number, start: false }) => {
            transactions.continue_transaction(&engine.data, op, session, number)
        }
        None if transactions.open() == 0 => Ok(()),
        None => match session::number_of(&context.args, Some(session))? {
            Some(number) => transactions.supersede(&engine.data, op, session, number),
            None => Ok(()),
        },
    }
}

/// Ends the command's part in a transaction. A failed command aborts the transaction.
fn leave_transaction(
    engine: &Inner,
    op: &Operation,
    progress: &Progress<'_>,
    result: Result<Flow>,
) -> Result<Flow> {
    if !progress.fields.has("autocommit") {
        return result;
    }
    let failed = result.is_err() || op.has_failed();
    let left = engine.service.sessions.transactions.leave(&engine.data, op, failed);
    let result = result.and_then(|flow| left.map(|()| flow));
    if op.keeps_labels() {
        return result;
    }
    let rules = progress.begun().map_or(Transactions::Refused, |row| row.transactions);
    result.map_err(|error| in_transaction::label(error, rules))
}

/// Records a finished command: in the usage of its collection, the query statistics, the log and
/// the profile.
fn note(
    engine: &Inner,
    op: &Operation,
    progress: &Progress<'_>,
    error: Option<&Error>,
    reply_bytes: usize,
) {
    let elapsed = op.started.elapsed();
    let body = progress.fields.doc;
    let (row, begun) = (progress.row, progress.begun());
    let kind = begun.map_or(Kind::Command, |row| row.usage);
    let (metrics, cost) = (&engine.observed.metrics, op.cost());
    if let Some(runs) = metrics.runs.of(progress.place).filter(|_| row.is_some()) {
        metrics::add(&runs.total, 1);
        if error.is_some() {
            metrics::add(&runs.failed, 1);
        }
    }
    if cost.keys > 0 {
        metrics::add(&metrics.keys_examined, cost.keys);
    }
    if cost.documents > 0 {
        metrics::add(&metrics.documents_examined, cost.documents);
    }
    if begun.is_some() {
        let in_transaction = progress.fields.has("autocommit");
        engine.observed.latencies.note_all(kind, in_transaction, elapsed);
    }
    let named = begun.map_or(NamedIn::FirstField, |row| row.namespace);
    if let Some(name) = named.collection(body)
        && let Some(collection) = engine.data.catalog.load().get(progress.db, name)
    {
        collection.counters.usage.note(kind, elapsed, cost.documents);
    }
    if engine.observed.query_stats.is_on()
        && error.is_none()
        && begun.is_some_and(|row| row.query_stats)
    {
        engine.observed.query_stats.note(op, body, elapsed);
    }
    let ended = Ended {
        // Unknown command names come from the client and are not recorded.
        name: row.map_or("unknown", |row| row.name),
        kind,
        body,
        namespace: row.map_or(NamedIn::FirstField, |row| row.namespace),
        db: progress.db,
        elapsed,
        error,
        reply_bytes,
        waits: row.is_some_and(|row| row.waits),
    };
    command_log::note(op, &ended, row.is_some_and(|row| row.audited));
    if engine.observed.profiler.concerns(elapsed)
        && begun.is_some_and(|row| row.profiled && !row.credentials)
    {
        profiler::note(&engine.observed.profiler, &engine.data, op, &ended);
    }
}
