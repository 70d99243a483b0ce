//! `update`: changes documents by modifiers, replacement or pipeline.

use super::explain::{Purpose, Query, first_statement};
use super::query::Find;
use super::query::{Constants, KEEP_TIMESTAMPS, writable};
use super::row::{Explain, Kind, Required, StableApi, Transactions};
use super::statements::{
    Statements, count_update, fails_command, statement_id, wrapped, write_errors,
};
use super::update_together::Together;
use super::{Command, Context, collection_uuid, stable_api};
use crate::access::Authorization;
use crate::args::Args;
use crate::catalog::Collection;
use crate::exec::modify::{self, Target};
use crate::exec::parts::Reads;
use crate::metrics;
use crate::operation::Operation;
use crate::records::create_collection::ensure_collection;
use crate::report::Writes;
use crate::session::{Done, Retryable};
use crate::txn::Transaction;
use ::access::Action;
use ::access::Actions;
use query::update::{Series, Update};
use std::sync::Arc;
use store::Seqno;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "update",
    help: "Changes documents of a collection.",
    fields: Some(&[
        "update",
        "updates",
        "ordered",
        "bypassPatterns",
        "bypassDocumentValidation",
        "bypassEmptyTsReplacement",
        "let",
        "collectionUUID",
    ]),
    privilege: Required::Custom(allowed),
    transactions: Transactions::Allowed,
    retryable: true,
    stable_api: StableApi::Checked(|body| {
        stable_api::refuse_fields(body, "update", &["collectionUUID"])
    }),
    usage: Kind::Update,
    counts_itself: true,
    takes_updates: true,
    explain: Explain::Query(explained),
    run,
    ..Command::BASE
};

static STATEMENT_FIELDS: &[&str] = &[
    "q",
    "u",
    "c",
    "arrayFilters",
    "hint",
    "multi",
    "upsert",
    "upsertSupplied",
    "collation",
    "sort",
    "sampleId",
    "allowShardKeyUpdatesWithoutFullShardKeyInQuery",
];

/// The result of one statement.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) matched: u64,
    pub(super) modified: u64,
    pub(super) upserted: Option<OwnedVal>,
    pub(super) newest: Option<Seqno>,
}

impl Outcome {
    /// What the profile shows of it.
    pub(super) fn writes(&self) -> Writes {
        Writes {
            matched: Some(self.matched),
            modified: Some(self.modified),
            upserted: Some(u64::from(self.upserted.is_some())),
            ..Writes::default()
        }
    }
}

/// A statement as the profile shows it: with the options that it leaves out.
fn profiled(statement: RawDoc<'_>) -> DocBuf {
    let flag = |name| statement.get(name).is_some_and(Val::truthy);
    DocBuf::build(|out| {
        for name in ["q", "u", "c", "arrayFilters", "hint"] {
            if let Some(value) = statement.find(name) {
                out.raw(name, value);
            }
        }
        out.bool("multi", flag("multi")).bool("upsert", flag("upsert"));
        for name in ["upsertSupplied", "collation", "sort"] {
            if let Some(value) = statement.find(name) {
                out.raw(name, value);
            }
        }
    })
}

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let ordered = context.args.bool_or_true("ordered")?;
    let bypass = context.args.bool("bypassDocumentValidation")?;
    // The constants read it, too; but its error is one of the command, not of each statement.
    context.args.bool(KEEP_TIMESTAMPS)?;
    let concern = context.write_concern()?;
    let mut retryable = Retryable::of(&context.args, context.session)?;
    let constants = Constants::of_writes(context);
    let statements = Statements::of(context, "updates")?;
    let first = statement_id(context.args.doc)?;
    let engine = context.engine;
    writable(&context.catalog(), context.db, name)?;
    crate::namespace::check_written(context.db, name)?;
    // Malformed statements are refused before anything is changed.
    let metrics = &engine.observed.metrics;
    for doc in statements.documents() {
        check_statement(&Args::new("update.updates", *doc))?;
        count_update(context, doc.get("u"), doc.find("arrayFilters").is_some());
    }
    let (mut matched, mut modified) = (0, 0);
    let mut upserted: Vec<(usize, OwnedVal)> = Vec::new();
    let mut errors = Vec::new();
    let mut newest = None;
    let refused = collection_uuid::refused_statements(context, name, 1, ordered)?.pop();
    let constants = match refused {
        Some((_, error)) => Err(error),
        None => constants,
    };
    let together = |constants| Together { context, name, constants, bypass, ordered, alone: 0 };
    // Each statement has an entry of its own in the profile.
    let mut together = constants.as_ref().ok().filter(|_| !context.op.is_profiled()).map(together);
    let mut at = 0;
    'statements: while let Some(doc) = statements.documents().get(at) {
        context.op.check_now()?;
        let statement = first.wrapping_add(at as i32);
        let left = statements.documents().get(at..).unwrap_or(&[]);
        let mut outcomes = match &mut together {
            Some(together) => together.commit(left, retryable.as_mut(), statement)?,
            None => Vec::new(),
        };
        if outcomes.is_empty() {
            let retry = retryable.as_mut().map(|retryable| (retryable, statement));
            let begun = context.op.begin_statement();
            let outcome = match &constants {
                Ok(constants) => one(context, name, *doc, constants, bypass, retry),
                Err(error) => Err(error.clone()),
            };
            if let Some(begun) = begun {
                let writes = outcome.as_ref().map(Outcome::writes).unwrap_or_default();
                let error = outcome.as_ref().err();
                context.op.end_statement(begun, profiled(*doc), writes, error);
            }
            outcomes.push(outcome);
        }
        for outcome in outcomes {
            match outcome {
                Ok(outcome) => {
                    matched += outcome.matched;
                    modified += outcome.modified;
                    newest = newest.max(outcome.newest);
                    if let Some(id) = outcome.upserted {
                        matched += 1;
                        upserted.push((at, id));
                    }
                }
                Err(error) => {
                    if fails_command(context.op, &error) {
                        metrics::add(&metrics.updates, at as u64 + 1);
                        return Err(error);
                    }
                    errors.push((at, error));
                    if ordered || context.op.has_failed() {
                        at += 1;
                        break 'statements;
                    }
                }
            }
            at += 1;
        }
    }
    metrics::add(&metrics.updates, at as u64);
    metrics::add(&metrics.documents_updated, modified);
    concern.wait(engine, newest)?;
    out.count("n", matched);
    write_errors(out, &errors);
    if !upserted.is_empty() {
        out.array("upserted", |list| {
            for (index, id) in &upserted {
                list.push_doc(|out| {
                    out.count("index", *index as u64);
                    out.raw("_id", id.raw());
                });
            }
        });
    }
    out.count("nModified", modified);
    concern.write_error(out);
    Ok(())
}

/// Refuses a malformed statement, which fails the whole command.
fn check_statement(args: &Args<'_>) -> Result<()> {
    args.check_fields(STATEMENT_FIELDS, false)?;
    args.doc("q")?;
    match args.doc.get("u") {
        Some(Val::Document(_)) => {}
        Some(Val::Array(pipeline)) => crate::stages::check_names(pipeline)?,
        Some(other) => {
            return Err(Error::failed_to_parse(format!(
                "Update argument must be either an object or an array, found {}",
                other.kind().name()
            )));
        }
        None => return Err(args.missing("u")),
    }
    array_filters(args)?;
    args.bool("multi")?;
    args.bool("upsert")?;
    args.optional_array("arrayFilters")?;
    args.optional_doc("collation")?;
    Ok(())
}

/// A compiled statement.
pub(super) struct Prepared<'a> {
    pub(super) update: Update,
    pub(super) target: Target<'a>,
    pub(super) multi: bool,
    pub(super) upsert: bool,
}

/// Compiles a statement.
pub(super) fn prepare<'a>(
    context: &Context<'_>,
    name: &str,
    doc: RawDoc<'a>,
    constants: &Constants,
    is_retryable: bool,
) -> Result<Prepared<'a>> {
    let args = Args::new("update.updates", doc);
    let constants = &constants.of_statement(context, name, &args)?;
    let multi = args.bool("multi")?;
    let upsert = args.bool("upsert")?;
    let update = doc.get("u").ok_or_else(|| args.missing("u"))?;
    let filters = array_filters(&args)?;
    let with_constants;
    let constants = match args.optional_doc("c")? {
        None => constants,
        Some(variables) => {
            if !matches!(update, Val::Array(_)) {
                return Err(Error::new(
                    Code(51198),
                    "Constant values may only be specified for pipeline updates",
                ));
            }
            // These are values, not expressions.
            with_constants =
                Constants::with_values(context, variables)?.of_statement(context, name, &args)?;
            &with_constants
        }
    };
    let update = Update::parse(update, &constants.context(), &filters)?;
    if multi && update.is_replacement() {
        return Err(Error::new(
            Code::FAILED_TO_PARSE,
            "multi update is not supported for replacement-style update",
        ));
    }
    let sort = args.optional_doc("sort")?;
    if multi && sort.is_some() {
        return Err(Error::new(Code::FAILED_TO_PARSE, "Cannot specify sort with multi=true"));
    }
    if multi && is_retryable {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            "Cannot use retryable writes with multi=true",
        ));
    }
    let mut target = modify::target(&constants.context(), args.doc("q")?, sort, args.hint()?)?;
    target.reads = Reads::of(&update, &target.filter, target.sort.as_ref());
    Ok(Prepared { update, target, multi, upsert })
}

/// Runs one statement.
pub(super) fn one(
    context: &Context<'_>,
    name: &str,
    doc: RawDoc<'_>,
    constants: &Constants,
    bypass: bool,
    retry: Option<(&mut Retryable, i32)>,
) -> Result<Outcome> {
    let statement = prepare(context, name, doc, constants, retry.is_some())?;
    let Prepared { update, target, multi, upsert } = &statement;
    if *multi {
        return many(context, name, update, target, *upsert, bypass);
    }
    single(context, name, update, target, *upsert, bypass, retry)
}

/// Reads `arrayFilters`.
pub(super) fn array_filters<'a>(args: &Args<'a>) -> Result<Vec<RawDoc<'a>>> {
    let Some(array) = args.optional_array("arrayFilters")? else { return Ok(Vec::new()) };
    let filter = |(at, value): (&str, value::RawVal<'a>)| {
        let name = format!("arrayFilters.{at}");
        value.as_doc().ok_or_else(|| args.wrong_type(&name, value.get(), "object"))
    };
    array.iter().map(filter).collect()
}

fn single(
    context: &Context<'_>,
    name: &str,
    update: &Update,
    target: &Target<'_>,
    upsert: bool,
    bypass: bool,
    mut retry: Option<(&mut Retryable, i32)>,
) -> Result<Outcome> {
    let engine = context.engine;
    loop {
        let collection = if upsert {
            Some(ensure_collection(&engine.data, context.op, context.db, name)?)
        } else {
            context.catalog().get(context.db, name).cloned()
        };
        let capped = collection.as_ref().is_some_and(|c| c.is_written_locked());
        let (outcome, seqno) = engine.data.transact(context.op, capped, |txn| {
            if let Some((retryable, statement)) = &mut retry
                && let Some(done) = retryable.begin(&engine.observed.metrics, txn, *statement)?
            {
                return Ok(Some(again(done)));
            }
            let Some(collection) = writable(&txn.catalog, context.db, name)? else {
                return Ok(if upsert { None } else { Some(Outcome::default()) });
            };
            let collection = context.op.sees_to_write(collection)?;
            let outcome = change(txn, context.op, &collection, update, target, upsert, bypass)?;
            if let Some((retryable, statement)) = &mut retry {
                retryable.store(&engine.observed.metrics, txn, vec![done(*statement, &outcome)]);
            }
            Ok(Some(outcome))
        })?;
        if let Some(mut outcome) = outcome {
            outcome.newest = Some(seqno);
            return Ok(outcome);
        }
    }
}

/// Changes the first document that matches, or inserts one.
pub(super) fn change(
    txn: &mut Transaction,
    op: &Operation,
    collection: &Arc<Collection>,
    update: &Update,
    target: &Target<'_>,
    upsert: bool,
    bypass: bool,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    match modify::choose_one(txn, op, collection, target)? {
        Some(chosen) => {
            outcome.matched = 1;
            let mut once = Series::new(update);
            let new = modify::update_chosen(txn, collection, &mut once, &chosen, bypass)?;
            outcome.modified = u64::from(new.is_some());
        }
        None if upsert => {
            let doc = modify::upsert(txn, collection, update, target, bypass)?;
            outcome.upserted = doc.as_doc().get("_id").map(OwnedVal::new);
        }
        None => {}
    }
    Ok(outcome)
}

/// The result of a statement, for the session's history.
pub(super) fn done(statement: i32, outcome: &Outcome) -> Done {
    let detail = outcome.upserted.as_ref().map(|id| wrapped("_id", id.get()));
    Done::one(statement, outcome.matched as i64, outcome.modified as i64, detail)
}

/// The result of a statement that ran before, for a retry.
pub(super) fn again(done: &Done) -> Outcome {
    let id = done.detail.as_ref().and_then(|detail| detail.as_doc().get("_id"));
    Outcome {
        matched: done.n as u64,
        modified: done.modified as u64,
        upserted: id.map(OwnedVal::new),
        newest: None,
    }
}

fn many(
    context: &Context<'_>,
    name: &str,
    update: &Update,
    target: &Target<'_>,
    upsert: bool,
    bypass: bool,
) -> Result<Outcome> {
    let engine = context.engine;
    if let Some(collection) = writable(&context.catalog(), context.db, name)? {
        let collection = context.op.sees_to_write(collection)?;
        let mut updates = Series::new(update);
        let done = modify::for_each_match(
            &engine.data,
            context.op,
            &collection,
            target,
            |txn, collection, chosen| {
                let new = modify::update_chosen(txn, collection, &mut updates, chosen, bypass)?;
                Ok(new.is_some())
            },
        )?;
        if done.matched > 0 || !upsert {
            return Ok(Outcome {
                matched: done.matched,
                modified: done.changed,
                upserted: None,
                newest: done.newest,
            });
        }
    }
    if upsert {
        single(context, name, update, target, true, bypass, None)
    } else {
        Ok(Outcome::default())
    }
}

fn allowed(auth: &Authorization<'_>) -> bool {
    let mut needed = Actions::of(&[Action::Update]);
    if auth.statements("updates").any(|statement| statement.get("upsert").is_some_and(Val::truthy))
    {
        needed.add(Action::Insert);
    }
    auth.writes(needed)
}

/// Returns the query for `explain`: that of the first statement.
fn explained<'a>(context: &Context<'a>) -> Result<Query<'a>> {
    let (statement, find) = first_statement(context, "updates", "update.updates")?;
    let limit = (!statement.bool("multi")?).then_some(1);
    let (find, upserts) = (Find { limit, ..find }, statement.bool("upsert")?);
    Ok(Query { find, purpose: Purpose::Update, upserts, returns: false })
}
