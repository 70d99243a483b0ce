//! `delete`: removes documents.

use super::explain::{Purpose, Query, first_statement};
use super::query::Find;
use super::query::{Constants, KEEP_TIMESTAMPS, writable};
use super::row::{Explain, Kind, Required, StableApi, Transactions};
use super::statements::{Statements, fails_command, statement_id, write_errors};
use super::{Command, Context, collection_uuid, stable_api};
use crate::access::Authorization;
use crate::args::Args;
use crate::catalog::Collection;
use crate::exec::modify;
use crate::exec::parts::Reads;
use crate::metrics;
use crate::report::Writes;
use crate::session::{Done, Retryable};
use ::access::Action;
use ::access::Actions;
use std::sync::Arc;
use store::Seqno;
use value::{Code, DocBuf, Error, RawDoc, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "delete",
    help: "Removes documents from a collection.",
    // The two options that concern documents have no effect here; drivers send them with every write
    // of a bulk.
    fields: Some(&[
        "delete",
        "deletes",
        "ordered",
        "bypassDocumentValidation",
        "bypassEmptyTsReplacement",
        "bypassPatterns",
        "let",
        "collectionUUID",
    ]),
    privilege: Required::Custom(allowed),
    transactions: Transactions::Allowed,
    retryable: true,
    stable_api: StableApi::Checked(|body| {
        stable_api::refuse_fields(body, "delete", &["collectionUUID"])
    }),
    usage: Kind::Remove,
    counts_itself: true,
    explain: Explain::Query(explained),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let ordered = context.args.bool_or_true("ordered")?;
    context.args.bool("bypassDocumentValidation")?;
    context.args.bool(KEEP_TIMESTAMPS)?;
    let concern = context.write_concern()?;
    let mut retryable = Retryable::of(&context.args, context.session)?;
    let constants = Constants::new(context);
    let statements = Statements::of(context, "deletes")?;
    let first = statement_id(context.args.doc)?;
    let engine = context.engine;
    writable(&context.catalog(), context.db, name)?;
    crate::namespace::check_written(context.db, name)?;
    for doc in statements.documents() {
        check_statement(&Args::new("delete.deletes", *doc))?;
    }
    let mut deleted = 0;
    let mut errors = Vec::new();
    let mut newest = None;
    let refused = collection_uuid::refused_statements(context, name, 1, ordered)?.pop();
    for (at, doc) in statements.documents().iter().enumerate() {
        context.op.check_now()?;
        metrics::add(&engine.observed.metrics.deletes, 1);
        let statement = first.wrapping_add(at as i32);
        let retry = retryable.as_mut().map(|retryable| (retryable, statement));
        let begun = context.op.begin_statement();
        let done = match (&refused, &constants) {
            (Some((_, error)), _) | (None, Err(error)) => Err(error.clone()),
            (None, Ok(constants)) => one(context, name, *doc, constants, retry),
        };
        if let Some(begun) = begun {
            let deleted = done.as_ref().ok().map(|(count, _)| *count);
            let writes = Writes { deleted, ..Writes::default() };
            context.op.end_statement(begun, DocBuf::from(*doc), writes, done.as_ref().err());
        }
        match done {
            Ok((count, seqno)) => {
                deleted += count;
                newest = newest.max(seqno);
            }
            Err(error) => {
                if fails_command(context.op, &error) {
                    return Err(error);
                }
                errors.push((at, error));
                if ordered || context.op.has_failed() {
                    break;
                }
            }
        }
    }
    metrics::add(&engine.observed.metrics.documents_deleted, deleted);
    concern.wait(engine, newest)?;
    out.count("n", deleted);
    write_errors(out, &errors);
    concern.write_error(out);
    Ok(())
}

/// Refuses a malformed statement, which fails the whole command. Returns its limit.
fn check_statement(args: &Args<'_>) -> Result<i64> {
    args.check_fields(&["q", "limit", "hint", "collation", "sampleId"], false)?;
    args.doc("q")?;
    args.optional_doc("collation")?;
    let limit = args.optional_i64("limit")?.ok_or_else(|| args.missing("limit"))?;
    if limit != 0 && limit != 1 {
        return Err(Error::new(
            Code::FAILED_TO_PARSE,
            format!("The limit field in delete objects must be 0 or 1. Got {limit}"),
        ));
    }
    Ok(limit)
}

/// Refuses a capped collection in a transaction.
fn refuse_capped(context: &Context<'_>, name: &str) -> Result<()> {
    let is_capped = context.op.is_in_transaction()
        && context.catalog().get(context.db, name).is_some_and(|found| found.capped().is_some());
    match is_capped {
        true => Err(Error::new(
            Code::ILLEGAL_OPERATION,
            format!(
                "Cannot remove from a capped collection in a multi-document transaction: {}.{name}",
                context.db
            ),
        )),
        false => Ok(()),
    }
}

/// Runs one statement. Returns the number of deleted documents and the commit.
pub(super) fn one(
    context: &Context<'_>,
    name: &str,
    doc: RawDoc<'_>,
    constants: &Constants,
    mut retry: Option<(&mut Retryable, i32)>,
) -> Result<(u64, Option<Seqno>)> {
    let args = Args::new("delete.deletes", doc);
    refuse_capped(context, name)?;
    let constants = &constants.of_statement(context, name, &args)?;
    let limit = check_statement(&args)?;
    let mut target = modify::target(&constants.context(), args.doc("q")?, None, args.hint()?)?;
    target.reads = Reads::of_delete(&target.filter, None);
    let engine = context.engine;
    if limit == 0 {
        if retry.is_some() {
            return Err(Error::new(
                Code::INVALID_OPTIONS,
                "Cannot use retryable writes with limit=0",
            ));
        }
        let Some(collection) = find(context, name) else { return Ok((0, None)) };
        let collection = context.op.sees_to_write(collection)?;
        let done = modify::for_each_match(
            &engine.data,
            context.op,
            &collection,
            &target,
            |txn, collection, chosen| {
                modify::delete_chosen(txn, collection, chosen)?;
                Ok(true)
            },
        )?;
        return Ok((done.changed, done.newest));
    }
    let capped = find(context, name).is_some_and(|c| c.is_written_locked());
    let (count, seqno) = engine.data.transact(context.op, capped, |txn| {
        if let Some((retryable, statement)) = &mut retry
            && let Some(done) = retryable.begin(&engine.observed.metrics, txn, *statement)?
        {
            return Ok(done.n as u64);
        }
        let Some(collection) = writable(&txn.catalog, context.db, name)? else { return Ok(0) };
        let collection = context.op.sees_to_write(collection)?;
        let chosen = modify::choose_one(txn, context.op, &collection, &target)?;
        if let Some(chosen) = &chosen {
            modify::delete_chosen(txn, &collection, chosen)?;
        }
        let count = u64::from(chosen.is_some());
        if let Some((retryable, statement)) = &mut retry {
            let done = Done::one(*statement, count as i64, 0, None);
            retryable.store(&engine.observed.metrics, txn, vec![done]);
        }
        Ok(count)
    })?;
    Ok((count, Some(seqno)))
}

fn find(context: &Context<'_>, name: &str) -> Option<Arc<Collection>> {
    context.catalog().get(context.db, name).cloned()
}

fn allowed(auth: &Authorization<'_>) -> bool {
    auth.writes(Actions::of(&[Action::Remove]))
}

/// Returns the query for `explain`: that of the first statement.
fn explained<'a>(context: &Context<'a>) -> Result<Query<'a>> {
    let (statement, find) = first_statement(context, "deletes", "delete.deletes")?;
    let limit = (statement.optional_i64("limit")? == Some(1)).then_some(1);
    let find = Find { limit, ..find };
    Ok(Query { find, purpose: Purpose::Delete, ..Query::default() })
}
