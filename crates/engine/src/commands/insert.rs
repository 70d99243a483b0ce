//! `insert`: adds documents. Several documents share one commit; each can fail separately.

use super::row::{Kind, Required, StableApi, Transactions};
use super::statements::{Statements, statement_id};
use super::{Command, Context, collection_uuid, query, stable_api};
use crate::access::Authorization;
use crate::exec::{modify, write};
use crate::metrics::{self, Metrics};
use crate::operation::Operation;
use crate::records::create_collection::ensure_collection;
use crate::session::{Done, Retryable};
use crate::txn::Transaction;
use ::access::Action;
use ::access::Actions;
use ::query::interrupt;
use std::borrow::Cow;
use store::Seqno;
use value::{Error, RawDoc, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "insert",
    help: "Adds documents to a collection.",
    fields: Some(&[
        "insert",
        "documents",
        "ordered",
        "bypassPatterns",
        "bypassDocumentValidation",
        "bypassEmptyTsReplacement",
        "collectionUUID",
    ]),
    privilege: Required::Custom(allowed),
    transactions: Transactions::Allowed,
    retryable: true,
    stable_api: StableApi::Checked(|body| {
        stable_api::refuse_fields(body, "insert", &["collectionUUID"])
    }),
    usage: Kind::Insert,
    counts_itself: true,
    run,
    ..Command::BASE
};

/// Documents per commit: enough to share a flush, few enough not to delay other commits.
pub(super) const COMMIT_DOCUMENTS: usize = 1000;
const COMMIT_BYTES: usize = 4 * 1024 * 1024;

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let ordered = context.args.bool_or_true("ordered")?;
    let bypass = context.args.bool("bypassDocumentValidation")?;
    let keeps_empty_timestamps = context.args.bool(query::KEEP_TIMESTAMPS)?;
    let concern = context.write_concern()?;
    let mut retryable = Retryable::of(&context.args, context.session)?;
    let statements = Statements::of(context, "documents")?;
    let documents = statements.documents();
    let engine = context.engine;
    let first = statement_id(context.args.doc)?;
    let mut job = Insert::new(context.db, name, ordered, bypass, retryable.as_mut(), first);
    job.keeps_empty_timestamps = keeps_empty_timestamps;
    query::writable(&context.catalog(), context.db, name)?;
    crate::namespace::check_written(context.db, name)?;
    job.errors = collection_uuid::refused_statements(context, name, documents.len(), ordered)?;
    let mut from = if job.errors.is_empty() { 0 } else { documents.len() };
    while from < documents.len() {
        context.op.check_now()?;
        let mut to = from;
        let mut bytes = 0;
        while to < documents.len() && to - from < COMMIT_DOCUMENTS && bytes < COMMIT_BYTES {
            bytes += documents.get(to).map_or(0, |doc| doc.bytes().len());
            to += 1;
        }
        let chunk = documents.get(from..to).unwrap_or(&[]);
        if !job.commit(context, from, chunk)? {
            break;
        }
        from = to;
    }
    // Documents that failed count, those after the end of an ordered insert do not.
    let tried = job.inserted + job.errors.len() as u64;
    metrics::add(&engine.observed.metrics.inserts, tried);
    metrics::add(&engine.observed.metrics.documents_inserted, job.inserted);
    context.op.report(|report| report.writes.inserted = Some(job.inserted));
    concern.wait(engine, job.newest)?;
    out.count("n", job.inserted);
    super::statements::write_errors(out, &job.errors);
    concern.write_error(out);
    Ok(())
}

/// The number of inserted documents, and the errors of the others.
type Inserted = (u64, Vec<(usize, Error)>);

/// The state of a running insert: its options and its results so far.
pub(super) struct Insert<'a> {
    db: &'a str,
    name: &'a str,
    ordered: bool,
    bypass: bool,
    retryable: Option<&'a mut Retryable>,
    first_statement: i32,
    /// Whether empty timestamps stay as they are.
    pub(super) keeps_empty_timestamps: bool,
    pub(super) inserted: u64,
    pub(super) errors: Vec<(usize, Error)>,
    pub(super) newest: Option<Seqno>,
}

impl<'a> Insert<'a> {
    /// Starts inserting into a collection.
    pub(super) fn new(
        db: &'a str,
        name: &'a str,
        ordered: bool,
        bypass: bool,
        retryable: Option<&'a mut Retryable>,
        first_statement: i32,
    ) -> Insert<'a> {
        let (inserted, errors, newest) = (0, Vec::new(), None);
        Insert {
            db,
            name,
            ordered,
            bypass,
            retryable,
            first_statement,
            keeps_empty_timestamps: false,
            inserted,
            errors,
            newest,
        }
    }

    /// Inserts some documents in one commit. Returns false when the command must stop.
    pub(super) fn commit(
        &mut self,
        context: &Context<'_>,
        from: usize,
        chunk: &[RawDoc<'_>],
    ) -> Result<bool> {
        let engine = context.engine;
        let stamps = !self.keeps_empty_timestamps;
        let prepared: Vec<Result<Cow<'_, [u8]>>> =
            chunk.iter().map(|doc| write::prepare_with(*doc, stamps)).collect();
        if let Some(refused) = self.all_refused(context, from, &prepared) {
            self.errors.extend(refused);
            if context.op.is_in_transaction() {
                context.op.fail_transaction();
            }
            return Ok(!self.ordered && !context.op.is_in_transaction());
        }
        // A collection that is dropped meanwhile is created again.
        let ((inserted, errors), seqno) = loop {
            let collection = ensure_collection(&engine.data, context.op, self.db, self.name)?;
            let locked = collection.is_written_locked();
            let (outcome, seqno) = engine.data.transact(context.op, locked, |txn| {
                self.insert(&engine.observed.metrics, context.op, txn, from, &prepared)
            })?;
            if let Some(outcome) = outcome {
                break (outcome, seqno);
            }
        };
        self.inserted += inserted;
        let failed = !errors.is_empty();
        if failed && context.op.is_in_transaction() {
            context.op.fail_transaction();
            self.errors.extend(errors);
            return Ok(false);
        }
        self.errors.extend(errors);
        self.newest = Some(seqno);
        Ok(!(failed && self.ordered))
    }

    /// Returns the errors if no document can be inserted and the collection does not exist: it is
    /// not created then.
    fn all_refused(
        &self,
        context: &Context<'_>,
        from: usize,
        prepared: &[Result<Cow<'_, [u8]>>],
    ) -> Option<Vec<(usize, Error)>> {
        let first_only = self.ordered || context.op.is_in_transaction();
        let seen = prepared.get(..if first_only { 1 } else { prepared.len() })?;
        if seen.iter().any(Result::is_ok) || context.catalog().get(self.db, self.name).is_some() {
            return None;
        }
        let error = |(at, doc): (usize, &Result<_>)| Some((from + at, doc.as_ref().err()?.clone()));
        Some(seen.iter().enumerate().filter_map(error).collect())
    }

    /// Returns `None` when the collection does not exist.
    fn insert(
        &mut self,
        metrics: &Metrics,
        op: &Operation,
        txn: &mut Transaction,
        from: usize,
        prepared: &[Result<Cow<'_, [u8]>>],
    ) -> Result<Option<Inserted>> {
        txn.catalog.check(self.db, self.name)?;
        let Some(collection) = txn.catalog.get(self.db, self.name).cloned() else {
            return Ok(None);
        };
        let collection = op.sees_to_write(collection)?;
        if let Some(retryable) = &mut self.retryable {
            retryable.load(txn)?;
        }
        let mut done = Vec::new();
        let mut inserted = 0;
        let mut errors = Vec::new();
        let mut changed = false;
        txn.begin_storing_later(&collection);
        for (at, doc) in prepared.iter().enumerate() {
            let statement = self.first_statement.wrapping_add((from + at) as i32);
            if let Some(retryable) = &self.retryable {
                if retryable.find(statement).is_some() {
                    inserted += 1;
                    continue;
                }
                txn.notes.set_statement(statement);
            }
            let result = match doc {
                Err(error) => Err(error.clone()),
                Ok(doc) => modify::accept_new(&collection, RawDoc::new(doc)).and_then(|doc| {
                    let doc = RawDoc::new(&doc);
                    collection.validate(doc, self.bypass)?;
                    write::insert(txn, &collection, doc)
                }),
            };
            match result {
                Ok(()) => {
                    inserted += 1;
                    changed = true;
                    if self.retryable.is_some() {
                        done.push(Done::one(statement, 1, 0, None));
                    }
                }
                Err(error) if interrupt::ends_operation(&error) => return Err(error),
                Err(error) => {
                    errors.push((from + at, error));
                    if self.ordered || txn.is_of_session() {
                        break;
                    }
                }
            }
        }
        txn.store_now()?;
        if changed {
            write::trim_capped(txn, &collection)?;
            if let Some(retryable) = &mut self.retryable {
                retryable.store(metrics, txn, done);
            }
        }
        Ok(Some((inserted, errors)))
    }
}

fn allowed(auth: &Authorization<'_>) -> bool {
    auth.writes(Actions::of(&[Action::Insert]))
}
