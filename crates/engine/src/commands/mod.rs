//! Commands: what clients can ask. One file a command, one row in `ALL`.
//!
//! `dispatch` finds the row, checks the fields that all commands share, runs the command and
//! closes the reply. `args` reads fields, `query` and `statements` are what commands that look for or
//! change documents share.

mod aggregate;
mod args;
mod build_info;
mod bulk_write;
mod capped;
mod change_stream;
mod coll_mod;
pub mod coll_stats;
mod collection_uuid;
mod configure_fail_point;
mod connection_status;
mod count;
pub(crate) mod create;
mod create_indexes;
mod current_op;
mod db_stats;
mod default_concerns;
mod delete;
pub mod diagnostics;
mod digests;
mod drop;
mod drop_database;
mod drop_indexes;
mod explain;
mod explain_pipeline;
mod explain_writes;
mod find;
mod find_and_modify;
mod fsync;
mod get_cmd_line_opts;
mod get_log;
mod get_more;
mod get_nonce;
mod hello;
mod host_info;
mod in_transaction;
mod insert;
mod list_collections;
mod list_commands;
mod list_databases;
mod list_indexes;
mod listing;
mod log_rotate;
mod oplog;
mod parameters;
mod patterns;
mod ping;
mod plan_cache;
mod profile;
pub mod query;
mod re_index;
mod read_concern;
mod rename_collection;
mod replica_set;
mod roles;
mod rotate_certificates;
mod sasl;
mod server_facts;
mod server_status;
mod sessions;
mod shutdown;
mod sizes;
mod stable_api;
mod statements;
mod top;
mod transactions;
mod update;
mod users;
mod validate;
mod validate_db_metadata;
mod write_concern;

use crate::catalog::Catalog;
use crate::client::Client;
use crate::engine::Inner;
use crate::fail_points::Break;
use crate::operation::Operation;
use crate::request::{Flow, Request};
use crate::session::Retryable;
use crate::{profiler, reply, session};
use args::Args;
use in_transaction::Place;
use read_concern::ReadConcern;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use value::{Code, Error, RawDoc, Result, Val, Writer, writer};
use write_concern::WriteConcern;

/// A command that clients can send.
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it does, in one sentence.
    pub help: &'static str,
    /// The fields it takes beside the generic ones; `None` when unknown ones are ignored.
    pub fields: Option<&'static [&'static str]>,
    /// Runs on the `admin` database only.
    pub admin: bool,
    /// Answered only with `--test-commands`.
    pub test: bool,
    /// Does it.
    pub run: fn(&mut Context<'_>, &mut Writer<'_>) -> Result<()>,
}

impl Command {
    /// A command of one name that every database takes.
    const fn plain(
        name: &'static str,
        help: &'static str,
        fields: &'static [&'static str],
        run: fn(&mut Context<'_>, &mut Writer<'_>) -> Result<()>,
    ) -> Command {
        Command { name, aliases: &[], help, fields: Some(fields), admin: false, test: false, run }
    }
}

/// Whether a command logs in, or is about users: only such run on the database of users elsewhere, and
/// nobody may see their fields.
fn is_about_users(name: &str) -> bool {
    name.contains("User")
        || matches!(name, "saslStart" | "saslContinue" | "authenticate" | "logout" | "usersInfo")
}

/// What a command works with.
pub struct Context<'a> {
    /// The engine.
    pub engine: &'a Inner,
    /// The conversation.
    pub client: &'a mut Client,
    /// The running operation: time limit and interruption.
    pub op: &'a Operation,
    /// The request.
    pub request: &'a Request<'a>,
    /// The command's name, as in its row.
    pub name: &'static str,
    /// The command's fields.
    pub args: Args<'a>,
    /// The database.
    pub db: &'a str,
    /// The session, if the client named one.
    pub session: Option<[u8; 16]>,
    /// The number of the transaction that the command is part of, or ends.
    pub transaction: Option<i64>,
    /// How the conversation goes on.
    pub flow: Flow,
}

impl<'a> Context<'a> {
    /// The name of the collection in the command's first field.
    ///
    /// # Errors
    /// InvalidNamespace when it is no string or not allowed.
    pub fn collection_name(&self) -> Result<&'a str> {
        let (field, value) =
            self.args.doc.first().unwrap_or(("", value::RawVal { kind: 0x0A, bytes: &[] }));
        let Val::String(name) = value.get() else {
            return Err(Error::new(
                Code::BAD_VALUE,
                format!("collection name has invalid type {}", value.kind().name()),
            )
            .context(if field.is_empty() { "empty command: " } else { "" }));
        };
        crate::namespace::check_collection(self.db, name)?;
        Ok(name)
    }

    /// The catalog that the command works with.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        match self.op.view() {
            Some(view) => view.catalog,
            None => self.engine.data.catalog.load_full(),
        }
    }

    /// How writes of this command are acknowledged.
    ///
    /// # Errors
    /// When `writeConcern` is not understood.
    pub fn write_concern(&self) -> Result<WriteConcern> {
        let catalog = self.engine.data.catalog.load();
        match (&catalog.concerns, self.args.doc.find("writeConcern")) {
            (Some(concerns), None) => WriteConcern::parse_default(concerns.as_doc()),
            _ => WriteConcern::parse(self.args.doc),
        }
    }
}

pub use change_stream::STAGES as CHANGE_STAGES;
pub(crate) use default_concerns::reads_durably;
pub(crate) use explain_pipeline::{
    Inner as ExplainedPipeline, Run as ExplainedRun, Step as ExplainedStep,
};

/// Every command, sorted by name.
pub static ALL: &[&Command] = &[
    &transactions::ABORT,
    &aggregate::COMMAND,
    &sasl::AUTHENTICATE,
    &build_info::COMMAND,
    &bulk_write::COMMAND,
    &capped::CLONE,
    &coll_mod::COMMAND,
    &coll_stats::COMMAND,
    &transactions::COMMIT,
    &server_facts::COMPACT,
    &configure_fail_point::COMMAND,
    &replica_set::POOL_STATS,
    &connection_status::CONNECTION_STATUS,
    &capped::CONVERT,
    &count::COUNT,
    &create::COMMAND,
    &create_indexes::COMMAND,
    &patterns::CREATE,
    &roles::CREATE,
    &users::CREATE,
    &current_op::CURRENT_OP,
    &db_stats::DATA_SIZE,
    &digests::DB_HASH,
    &db_stats::DB_STATS,
    &delete::COMMAND,
    &count::DISTINCT,
    &drop::COMMAND,
    &roles::DROP_ALL,
    &users::DROP_ALL,
    &drop_database::COMMAND,
    &drop_indexes::COMMAND,
    &patterns::DROP,
    &roles::DROP,
    &users::DROP,
    &sessions::END,
    &explain::COMMAND,
    &server_facts::FEATURES,
    &digests::FILE_MD5,
    &find::COMMAND,
    &find_and_modify::COMMAND,
    &fsync::COMMAND,
    &get_cmd_line_opts::COMMAND,
    &default_concerns::GET,
    &server_facts::DIAGNOSTIC_DATA,
    &get_log::COMMAND,
    &get_more::GET_MORE,
    &parameters::GET,
    &get_nonce::COMMAND,
    &roles::GRANT_PRIVILEGES,
    &roles::GRANT,
    &users::GRANT,
    &hello::HELLO,
    &host_info::COMMAND,
    &insert::COMMAND,
    &roles::INVALIDATE,
    &hello::IS_MASTER,
    &sessions::KILL_ALL,
    &sessions::KILL_BY_PATTERN,
    &get_more::KILL_CURSORS,
    &current_op::KILL_OP,
    &sessions::KILL,
    &list_collections::COMMAND,
    &list_commands::COMMAND,
    &list_databases::COMMAND,
    &list_indexes::COMMAND,
    &patterns::LIST,
    &server_facts::LOCK_INFO,
    &log_rotate::COMMAND,
    &sasl::LOGOUT,
    &patterns::MODIFY,
    &ping::COMMAND,
    &plan_cache::CLEAR,
    &plan_cache::CLEAR_FILTERS,
    &plan_cache::LIST_FILTERS,
    &plan_cache::SET_FILTER,
    &profile::COMMAND,
    &re_index::COMMAND,
    &sessions::REFRESH,
    &rename_collection::COMMAND,
    &replica_set::GET_CONFIG,
    &replica_set::GET_STATUS,
    &oplog::RESIZE,
    &patterns::RESUME,
    &roles::REVOKE_PRIVILEGES,
    &roles::REVOKE,
    &users::REVOKE,
    &roles::INFO,
    &rotate_certificates::COMMAND,
    &sasl::CONTINUE,
    &sasl::START,
    &server_status::COMMAND,
    &default_concerns::SET,
    &parameters::SET,
    &shutdown::COMMAND,
    &sessions::START,
    &patterns::SUSPEND,
    &top::COMMAND,
    &update::COMMAND,
    &roles::UPDATE,
    &users::UPDATE,
    &users::INFO,
    &validate::COMMAND,
    &validate_db_metadata::COMMAND,
    &patterns::VALIDATE,
    &server_facts::WHATS_MY_SNI,
    &connection_status::WHATS_MY_URI,
];

/// The command of this name; names are taken as they are written, but for the handshake's.
#[must_use]
pub fn find(name: &str) -> Option<&'static Command> {
    let exact = ALL.binary_search_by(|row| row.name.cmp(name)).ok().and_then(|at| ALL.get(at));
    let is_master =
        |row: &&&Command| row.name == "isMaster" && name.eq_ignore_ascii_case("isMaster");
    exact
        .or_else(|| ALL.iter().find(|row| row.aliases.contains(&name)))
        .or_else(|| ALL.iter().find(is_master))
        .copied()
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
    let result = run(engine, client, op, request, &mut out);
    match leave(engine, op, request.body, result) {
        Ok(flow) => {
            out.f64("ok", 1.0);
            reply::write_times(&mut out, &engine.data);
            out.finish();
            note(engine, op, request.body, None, reply_bytes.len() - start);
            flow
        }
        Err(error) => {
            crate::metrics::add(&engine.observed.metrics.failures, 1);
            reply_bytes.truncate(start);
            writer::write_doc(reply_bytes, |out| {
                write_concern::write_beside(out, &error, request.body);
                reply::write_error(out, &error);
                reply::write_times(out, &engine.data);
            });
            note(engine, op, request.body, Some(&error), reply_bytes.len() - start);
            Flow::Done
        }
    }
}

/// Ends the part that a command had in a transaction: what fails aborts it.
fn leave(engine: &Inner, op: &Operation, body: RawDoc<'_>, result: Result<Flow>) -> Result<Flow> {
    if body.find("autocommit").is_none() {
        return result;
    }
    let failed = result.is_err() || op.has_failed();
    let left = engine.service.sessions.transactions.leave(engine, op, failed);
    let result = result.and_then(|flow| left.map(|()| flow));
    if op.keeps_labels() {
        return result;
    }
    result.map_err(|error| in_transaction::label(error, op.name.get()))
}

/// Tells the log and the profiler of a command that ended.
fn note(
    engine: &Inner,
    op: &Operation,
    body: RawDoc<'_>,
    error: Option<&Error>,
    reply_bytes: usize,
) {
    let elapsed = op.started.elapsed();
    let name = op.name.get();
    crate::usage::note(&engine.data, name, body, elapsed, op.cost().documents);
    if engine.observed.query_stats.is_on() && error.is_none() {
        engine.observed.query_stats.note(op, body, elapsed);
    }
    let db = body.get("$db").and_then(Val::as_str).unwrap_or("");
    // Commands that were refused before they began have no name yet.
    let shown = if name.is_empty() { crate::journal::known_name(body) } else { name };
    let ended = profiler::Ended { name: shown, body, db, elapsed, error, reply_bytes };
    crate::journal::note(op, &ended);
    if name.is_empty() || !engine.observed.profiler.concerns(elapsed) || is_about_users(name) {
        return;
    }
    profiler::note(engine, op, &ended);
}

fn run(
    engine: &Inner,
    client: &mut Client,
    op: &Operation,
    request: &Request<'_>,
    out: &mut Writer<'_>,
) -> Result<Flow> {
    let body = request.body;
    let Some((name, _)) = body.first() else {
        return Err(Error::new(Code::FAILED_TO_PARSE, "the command is empty"));
    };
    let not_found = || Error::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'"));
    let command = find(name).ok_or_else(not_found)?;
    if command.test && !engine.data.options.test_commands {
        return Err(not_found());
    }
    engine.data.check_open()?;
    let db = match body.get("$db") {
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
    if db != crate::access::EXTERNAL || !is_about_users(command.name) {
        crate::namespace::check_database(db)?;
    }
    if command.admin && db != "admin" {
        return Err(Error::new(
            Code::UNAUTHORIZED,
            format!("{} may only be run against the admin database.", command.name),
        ));
    }
    let args = Args::new(command.name, body);
    if let Some(fields) = command.fields {
        args.check_fields(fields, true)?;
    }
    if client.login.required {
        let (login, shared) = client.login();
        crate::access::check(shared, login, command.name, db, request)?;
    }
    // Those who have not logged in have no sessions, so that they cannot fill the registry.
    let session = session::session_of(body)?.filter(|_| !client.login.is_stranger());
    if let Some(session) = session {
        client.touch_session(session)?;
    }
    let concern = check_generic(engine, op, body)?;
    stable_api::check(command, body)?;
    let place = Place::of(command, body, session)?;
    if let Some(place) = place {
        place.check(command, body, db)?;
    }
    let slot = op.slot();
    slot.operation_id
        .store(engine.data.next_operation.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    // Nobody else shall see a password.
    let shown = if is_about_users(command.name) { &[] } else { body.bytes() };
    slot.current.lock().set(op.started, command.name, shown);
    op.name.set(command.name);
    if body.find("bypassPatterns").is_some() {
        op.bypasses_patterns.set(args.bool("bypassPatterns")?);
        if place.is_some() && op.bypasses_patterns.get() {
            return Err(Error::new(
                Code::INVALID_OPTIONS,
                "'bypassPatterns' is not possible in a multi-document transaction",
            ));
        }
    }
    let fresh = concern.is_some_and(|concern| concern.fresh_patterns);
    crate::upkeep::reading::prepare(&engine.data, op, db, command.name, body, fresh)?;
    if let Some(concern) = concern {
        concern.check_times(engine)?;
        match place {
            Some(_) => concern.enter_transaction(op)?,
            None => concern.apply(engine, op, command)?,
        }
    }
    if place.is_none() {
        crate::upkeep::reading::complete(&engine.data, op, db, command.name, body)?;
    }
    let mut context = Context {
        engine,
        client,
        op,
        request,
        name: command.name,
        args,
        db,
        session,
        transaction: place.map(|place| place.number),
        flow: Flow::Done,
    };
    // Those have counters of their own.
    if !matches!(command.name, "find" | "getMore" | "insert" | "update" | "delete" | "aggregate") {
        crate::metrics::add(&engine.observed.metrics.commands, 1);
    }
    if engine.observed.fail_points.any() {
        return run_or_fail(command, place, &mut context, out);
    }
    enter(&context, place)?;
    (command.run)(&mut context, out)?;
    if matches!(command.name, "drop" | "dropDatabase" | "renameCollection") {
        // It may have been the collection of users.
        engine.data.directory_generation.fetch_add(1, Ordering::Release);
    }
    if place.is_none() {
        read_concern::wait(engine, concern, command)?;
    }
    Ok(context.flow)
}

/// Makes a command run in the transaction that it names, and ends what its session goes on from.
fn enter(context: &Context<'_>, place: Option<Place>) -> Result<()> {
    let Some(session) = context.session else { return Ok(()) };
    let (engine, op) = (context.engine, context.op);
    let transactions = &engine.service.sessions.transactions;
    match place {
        Some(_) if in_transaction::ends(context.name) => Ok(()),
        Some(Place { number, start: true }) => transactions.begin(engine, op, session, number),
        Some(Place { number, start: false }) => transactions.go_on(engine, op, session, number),
        None if transactions.open() == 0 => Ok(()),
        None => match session::number_of(context.args.doc, Some(session))? {
            Some(number) => transactions.supersede(engine, op, session, number),
            None => Ok(()),
        },
    }
}

/// Runs a command while a fail point is on.
fn run_or_fail(
    command: &Command,
    place: Option<Place>,
    context: &mut Context<'_>,
    out: &mut Writer<'_>,
) -> Result<Flow> {
    let body = context.request.body;
    let collection = body.first().and_then(|(_, value)| value.get().as_str()).unwrap_or("$cmd");
    let namespace = format!("{}.{collection}", context.db);
    let application = context.op.slot().application.lock().clone();
    let points = &context.engine.observed.fail_points;
    let failure =
        points.fail_command(command.name, body, &application, &namespace).unwrap_or_default();
    if let Some(time) = failure.block {
        std::thread::sleep(time);
        context.op.check_now()?;
    }
    if failure.close {
        return Ok(Flow::Abort);
    }
    if let Some(error) = failure.error {
        if failure.labelled {
            context.op.keep_labels();
        }
        return Err(error);
    }
    // What was written before is not written again, and so not broken.
    let repeated = Retryable::of(body, context.session)?
        .is_some_and(|write| write.was_done(&context.engine.data, body));
    let broken = if repeated { None } else { points.break_write(body) };
    match broken {
        Some(Break::CloseBefore) => return Ok(Flow::Abort),
        Some(Break::Fail(error)) => return Err(error),
        _ => {}
    }
    enter(context, place)?;
    (command.run)(context, out)?;
    if broken.is_some() {
        return Ok(Flow::Abort);
    }
    if let Some(fields) = failure.add {
        out.extend(fields.as_doc());
    }
    Ok(context.flow)
}

/// Checks the fields that every command may carry.
fn check_generic<'a>(
    engine: &Inner,
    op: &Operation,
    body: RawDoc<'a>,
) -> Result<Option<ReadConcern<'a>>> {
    let mut concern = None;
    for (name, value) in body {
        match name {
            "maxTimeMS" => {
                let limit = max_time(value.get())?;
                if let Some(limit) = limit
                    && body
                        .first()
                        .is_none_or(|(command, _)| command != "getMore" && command != "hello")
                {
                    set_time_limit(engine, op, limit)?;
                }
            }
            "$clusterTime" => {
                let seen = value.as_doc().and_then(|doc| doc.get("clusterTime"));
                if let Some(Val::Timestamp(seen)) = seen {
                    engine.data.clock.advance_to(seen);
                }
            }
            "apiVersion" if value.get().as_str() != Some("1") => {
                return Err(Error::new(Code::API_VERSION_ERROR, "API version must be \"1\""));
            }
            "readConcern" => concern = Some(ReadConcern::parse(value.get())?),
            _ => {}
        }
    }
    Ok(concern)
}

/// Sets the time by which a command must end, as the fail points want it.
///
/// # Errors
/// MaxTimeMSExpired when a fail point says so.
pub(crate) fn set_time_limit(engine: &Inner, op: &Operation, limit: Duration) -> Result<()> {
    if !engine.observed.fail_points.any() {
        op.set_deadline(limit);
        return Ok(());
    }
    match engine.observed.fail_points.time_limit(limit) {
        Some(limit) => {
            op.set_deadline(limit);
            op.check_now()
        }
        None => Ok(()),
    }
}

/// The time limit that `maxTimeMS` gives; 0 is none.
///
/// # Errors
/// BadValue when it is negative or too large.
pub fn max_time(value: Val<'_>) -> Result<Option<Duration>> {
    if !value.is_number() {
        return Err(Error::bad_value("maxTimeMS must be a number"));
    }
    let ms =
        value.as_i64_exact().ok_or_else(|| Error::bad_value("maxTimeMS has non-integral value"))?;
    if !(0..=i64::from(i32::MAX)).contains(&ms) {
        return Err(Error::bad_value(format!("{ms} value for maxTimeMS is out of range")));
    }
    Ok((ms > 0).then(|| Duration::from_millis(ms as u64)))
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn the_registry_is_sorted_so_that_binary_search_works() {
        for pair in ALL.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} stands before {}", pair[0].name, pair[1].name);
        }
    }
}
