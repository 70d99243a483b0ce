//! `bulkWrite`: inserts, updates and deletes over several collections in one command.
//!
//! Each operation runs like a statement of `insert`, `update` or `delete`; consecutive inserts into
//! one collection share commits. The result of each operation is returned in a cursor.

use super::find::{first_batch, new_cursor};
use super::insert::Insert;
use super::query::{Constants, KEEP_TIMESTAMPS, writable};
use super::row::{Required, StableApi, Transactions};
use super::statements::{Statements, fails_command, statement_id};
use super::{Command, Context, delete, insert, update};
use crate::access::Authorization;
use crate::args::Args;
use crate::cursor::Source;
use crate::exec::ready::Ready;
use crate::metrics;
use crate::session::Retryable;
use ::access::Action;
use store::Seqno;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "bulkWrite",
    help: "Runs inserts, updates and deletes over several collections.",
    fields: Some(&[
        "bulkWrite",
        "ops",
        "nsInfo",
        "ordered",
        "bypassDocumentValidation",
        "bypassEmptyTsReplacement",
        "bypassPatterns",
        "errorsOnly",
        "let",
        "cursor",
    ]),
    admin: true,
    privilege: Required::Custom(allowed),
    transactions: Transactions::Allowed,
    retryable: true,
    stable_api: StableApi::Included,
    run,
    ..Command::BASE
};

/// One parsed and checked operation.
enum Operation<'a> {
    Insert(RawDoc<'a>),
    /// A statement in the form of `update`.
    Update(DocBuf),
    /// A statement in the form of `delete`.
    Delete(DocBuf),
}

struct Entry<'a> {
    db: &'a str,
    collection: &'a str,
    operation: Operation<'a>,
}

/// The result of one operation.
#[derive(Default)]
struct Done {
    n: u64,
    modified: Option<u64>,
    upserted: Option<OwnedVal>,
}

#[derive(Default)]
struct Totals {
    errors: u64,
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
    newest: Option<Seqno>,
}

/// Options of the command.
struct BulkOptions {
    ordered: bool,
    bypass: bool,
    keeps_empty_timestamps: bool,
    errors_only: bool,
    statement_ids: Vec<i32>,
}

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = context.args;
    let batch_size = match args.optional_doc("cursor")? {
        Some(cursor) => Args::new("bulkWrite.cursor", cursor).optional_u64("batchSize")?,
        None => None,
    };
    let mut retryable = Retryable::of(&args, context.session)?;
    let concern = context.write_concern()?;
    let constants = Constants::of_writes(context)?;
    let entries = read(context, retryable.is_some())?;
    let options = BulkOptions {
        ordered: args.bool_or_true("ordered")?,
        bypass: args.bool("bypassDocumentValidation")?,
        keeps_empty_timestamps: args.bool(KEEP_TIMESTAMPS)?,
        errors_only: args.bool("errorsOnly")?,
        statement_ids: statement_ids(args.doc, entries.len())?,
    };
    let mut totals = Totals::default();
    let admin = context.db;
    let results = execute(context, &entries, &options, retryable.as_mut(), &constants, &mut totals);
    context.db = admin;
    let results = results?;
    let metrics = &context.engine.observed.metrics;
    metrics::add(&metrics.documents_inserted, totals.inserted);
    metrics::add(&metrics.documents_updated, totals.modified);
    metrics::add(&metrics.documents_deleted, totals.deleted);
    concern.wait(context.engine, totals.newest)?;
    let source = Source::Stream(Box::new(Ready(results.into_iter())));
    let cursor = new_cursor(context, source, "admin.$cmd.bulkWrite".to_owned(), None, false);
    let most = batch_size.or(Some(u64::MAX));
    first_batch(context, cursor, most, false, out)?;
    out.count("nErrors", totals.errors).count("nInserted", totals.inserted);
    out.count("nMatched", totals.matched).count("nModified", totals.modified);
    out.count("nUpserted", totals.upserted).count("nDeleted", totals.deleted);
    concern.write_error(out);
    Ok(())
}

/// Reads all operations before the first one runs, so that a malformed one changes nothing.
fn read<'a>(context: &Context<'a>, retryable: bool) -> Result<Vec<Entry<'a>>> {
    let statements = Statements::of(context, "ops")?;
    let spaces = namespaces(context)?;
    let entry = |(at, doc): (usize, &RawDoc<'a>)| {
        let (kind, place) = doc.first().ok_or_else(|| unknown_operation(""))?;
        let operation = match kind {
            "insert" => insert_operation(*doc)?,
            "update" => update_operation(*doc, retryable)?,
            "delete" => delete_operation(*doc, retryable)?,
            other => return Err(unknown_operation(other)),
        };
        let place = place.get().as_i64_exact().and_then(|place| usize::try_from(place).ok());
        let Some((db, collection)) = place.and_then(|place| spaces.get(place)) else {
            return Err(Error::bad_value(format!(
                "BulkWrite ops entry {at} has an invalid nsInfo index."
            )));
        };
        Ok(Entry { db, collection, operation })
    };
    statements.documents().iter().enumerate().map(entry).collect()
}

fn unknown_operation(name: &str) -> Error {
    Error::failed_to_parse(format!("Unrecognized bulk write operation '{name}'"))
}

/// The collections that operations refer to by number.
fn namespaces<'a>(context: &Context<'a>) -> Result<Vec<(&'a str, &'a str)>> {
    let statements = Statements::of(context, "nsInfo")?;
    let mut spaces = Vec::new();
    for doc in statements.documents() {
        let args = Args::new("bulkWrite.nsInfo", *doc);
        args.check_fields(
            &["ns", "collectionUUID", "encryptionInformation", "shardVersion", "databaseVersion"],
            false,
        )?;
        let text = args.string("ns")?;
        let (db, collection) = text.split_once('.').unwrap_or((text, ""));
        crate::namespace::check_database(db)?;
        crate::namespace::check_collection(db, collection)?;
        if spaces.contains(&(db, collection)) {
            return Err(Error::bad_value(format!("Found duplicate namespace in nsInfo: {text}")));
        }
        spaces.push((db, collection));
    }
    Ok(spaces)
}

fn insert_operation<'a>(doc: RawDoc<'a>) -> Result<Operation<'a>> {
    let args = Args::new("bulkWrite.ops.insert", doc);
    args.check_fields(&["insert", "document"], false)?;
    Ok(Operation::Insert(args.doc("document")?))
}

fn update_operation<'a>(doc: RawDoc<'a>, retryable: bool) -> Result<Operation<'a>> {
    let args = Args::new("bulkWrite.ops.update", doc);
    args.check_fields(
        &[
            "update",
            "filter",
            "updateMods",
            "multi",
            "upsert",
            "upsertSupplied",
            "arrayFilters",
            "hint",
            "collation",
            "constants",
            "sort",
            "sampleId",
        ],
        false,
    )?;
    args.doc("filter")?;
    if doc.find("updateMods").is_none() {
        return Err(args.missing("updateMods"));
    }
    if retryable && args.bool("multi")? {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            "Cannot use retryable writes with multi=true",
        ));
    }
    Ok(Operation::Update(renamed(doc, |name| match name {
        "update" | "sampleId" => None,
        "filter" => Some("q"),
        "updateMods" => Some("u"),
        "constants" => Some("c"),
        other => Some(other),
    })))
}

fn delete_operation<'a>(doc: RawDoc<'a>, retryable: bool) -> Result<Operation<'a>> {
    let args = Args::new("bulkWrite.ops.delete", doc);
    args.check_fields(&["delete", "filter", "multi", "hint", "collation", "sampleId"], false)?;
    args.doc("filter")?;
    let multi = args.bool("multi")?;
    if retryable && multi {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            "Cannot use retryable writes with multi=true",
        ));
    }
    let mut statement = Vec::new();
    value::writer::write_doc(&mut statement, |out| {
        let renamed = renamed(doc, |name| match name {
            "filter" => Some("q"),
            "hint" | "collation" => Some(name),
            _ => None,
        });
        out.extend(renamed.as_doc());
        out.i32("limit", i32::from(!multi));
    });
    Ok(Operation::Delete(DocBuf::from_bytes(statement)))
}

/// Copies the fields under the names that `rename` returns; `None` leaves a field out.
fn renamed(doc: RawDoc<'_>, rename: impl for<'n> Fn(&'n str) -> Option<&'n str>) -> DocBuf {
    DocBuf::build(|out| {
        for (name, value) in doc {
            if let Some(name) = rename(name) {
                out.raw(name, value);
            }
        }
    })
}

/// The statement numbers in the session's history.
fn statement_ids(body: RawDoc<'_>, count: usize) -> Result<Vec<i32>> {
    let Some(given) = body.get("stmtIds") else {
        let first = statement_id(body)?;
        return Ok((0..count).map(|at| first.wrapping_add(at as i32)).collect());
    };
    let number =
        |value: value::RawVal<'_>| value.get().as_i64_exact().and_then(|n| i32::try_from(n).ok());
    let ids: Option<Vec<i32>> =
        given.as_array().and_then(|array| array.iter().map(|(_, value)| number(value)).collect());
    ids.filter(|ids| ids.len() == count).ok_or_else(|| {
        Error::new(
            Code::INVALID_LENGTH,
            "Number of statement ids must match the number of batch entries",
        )
    })
}

fn execute<'a>(
    context: &mut Context<'a>,
    entries: &[Entry<'a>],
    options: &BulkOptions,
    mut retryable: Option<&mut Retryable>,
    constants: &Constants,
    totals: &mut Totals,
) -> Result<Vec<DocBuf>> {
    let mut results = Vec::new();
    let mut at = 0;
    while let Some(entry) = entries.get(at) {
        context.op.check_now()?;
        context.db = entry.db;
        let id = options.statement_ids.get(at).copied().unwrap_or(0);
        let retryable = retryable.as_deref_mut();
        let metrics = &context.engine.observed.metrics;
        let (outcome, update) = match &entry.operation {
            Operation::Insert(_) => {
                let end = run_of_inserts(entries, options, at);
                let failed = insert_many(
                    context,
                    entries,
                    options,
                    retryable,
                    at..end,
                    totals,
                    &mut results,
                )?;
                if failed && (options.ordered || context.op.has_failed()) {
                    return Ok(results);
                }
                at = end;
                continue;
            }
            Operation::Update(statement) => {
                metrics::add(&metrics.updates, 1);
                let outcome = update::one(
                    context,
                    entry.collection,
                    statement.as_doc(),
                    constants,
                    options.bypass,
                    retryable.map(|retryable| (retryable, id)),
                );
                let outcome = outcome.map(|outcome| {
                    totals.newest = totals.newest.max(outcome.newest);
                    totals.matched += outcome.matched;
                    totals.modified += outcome.modified;
                    totals.upserted += u64::from(outcome.upserted.is_some());
                    let n = outcome.matched + u64::from(outcome.upserted.is_some());
                    Done { n, modified: Some(outcome.modified), upserted: outcome.upserted }
                });
                (outcome, true)
            }
            Operation::Delete(statement) => {
                metrics::add(&metrics.deletes, 1);
                let retry = retryable.map(|retryable| (retryable, id));
                let outcome =
                    delete::one(context, entry.collection, statement.as_doc(), constants, retry);
                let outcome = outcome.map(|(count, seqno)| {
                    totals.newest = totals.newest.max(seqno);
                    totals.deleted += count;
                    Done { n: count, ..Done::default() }
                });
                (outcome, false)
            }
        };
        let failed = outcome.is_err();
        if let Err(error) = &outcome
            && fails_command(context.op, error)
        {
            return Err(error.clone());
        }
        totals.errors += u64::from(failed);
        push_result(&mut results, options, at, &outcome, update);
        if failed && (options.ordered || context.op.has_failed()) {
            break;
        }
        at += 1;
    }
    Ok(results)
}

/// Returns the end of the run of inserts into one collection with consecutive numbers.
fn run_of_inserts(entries: &[Entry<'_>], options: &BulkOptions, from: usize) -> usize {
    let mut end = from + 1;
    while let (Some(first), Some(next)) = (entries.get(from), entries.get(end)) {
        let same = (first.db, first.collection) == (next.db, next.collection)
            && matches!(next.operation, Operation::Insert(_))
            && end - from < insert::COMMIT_DOCUMENTS;
        let ids = (options.statement_ids.get(end - 1), options.statement_ids.get(end));
        let in_a_row = matches!(ids, (Some(a), Some(b)) if a.checked_add(1) == Some(*b));
        if !same || !in_a_row {
            break;
        }
        end += 1;
    }
    end
}

/// Inserts the documents of a range of operations. Returns whether one failed.
fn insert_many(
    context: &Context<'_>,
    entries: &[Entry<'_>],
    options: &BulkOptions,
    retryable: Option<&mut Retryable>,
    range: std::ops::Range<usize>,
    totals: &mut Totals,
    results: &mut Vec<DocBuf>,
) -> Result<bool> {
    let from = range.start;
    let chunk = entries.get(range).unwrap_or(&[]);
    let Some(first) = chunk.first() else { return Ok(false) };
    metrics::add(&context.engine.observed.metrics.inserts, chunk.len() as u64);
    let documents: Vec<RawDoc<'_>> = chunk
        .iter()
        .filter_map(|entry| match entry.operation {
            Operation::Insert(doc) => Some(doc),
            _ => None,
        })
        .collect();
    let first_statement = options.statement_ids.get(from).copied().unwrap_or(0);
    let mut job = Insert::new(
        context.db,
        first.collection,
        options.ordered,
        options.bypass,
        retryable,
        first_statement,
    );
    job.keeps_empty_timestamps = options.keeps_empty_timestamps;
    // Errors of the whole collection (a view, a bad name) fail every operation on it.
    let done = writable(&context.catalog(), context.db, first.collection)
        .and_then(|_| job.commit(context, 0, &documents));
    if let Err(error) = done {
        if fails_command(context.op, &error) {
            return Err(error);
        }
        let count = if options.ordered { 1 } else { documents.len() };
        totals.errors += count as u64;
        for at in 0..count {
            push_result(results, options, from + at, &Err(error.clone()), false);
        }
        return Ok(true);
    }
    totals.inserted += job.inserted;
    totals.newest = totals.newest.max(job.newest);
    totals.errors += job.errors.len() as u64;
    let mut errors = job.errors.iter().peekable();
    for at in 0..documents.len() {
        if let Some((_, error)) = errors.next_if(|(place, _)| *place == at) {
            push_result(results, options, from + at, &Err(error.clone()), false);
            if options.ordered {
                break;
            }
        } else {
            let done = Ok(Done { n: 1, ..Done::default() });
            push_result(results, options, from + at, &done, false);
        }
    }
    Ok(!job.errors.is_empty())
}

fn push_result(
    results: &mut Vec<DocBuf>,
    options: &BulkOptions,
    at: usize,
    outcome: &Result<Done>,
    update: bool,
) {
    let result = match outcome {
        Ok(_) if options.errors_only => return,
        Ok(done) => DocBuf::build(|out| {
            out.f64("ok", 1.0).count("idx", at as u64).count("n", done.n);
            if let Some(modified) = done.modified {
                out.count("nModified", modified);
            }
            if let Some(id) = &done.upserted {
                out.doc("upserted", |out| {
                    out.raw("_id", id.raw());
                });
            }
        }),
        Err(error) => DocBuf::build(|out| {
            out.f64("ok", 0.0).count("idx", at as u64).i32("n", 0);
            if update {
                out.i32("nModified", 0);
            }
            out.i32("code", error.code().0).str("errmsg", error.message());
            if let Some(info) = error.info() {
                out.extend(info.as_doc());
            }
        }),
    };
    results.push(result);
}

/// Each statement names its collection by its index in `nsInfo`.
fn allowed(auth: &Authorization<'_>) -> bool {
    let namespaces: Vec<&str> = auth
        .statements("nsInfo")
        .map(|info| info.get("ns").and_then(Val::as_str).unwrap_or(""))
        .collect();
    auth.statements("ops").all(|statement| {
        let Some((kind, at)) = statement.first() else { return true };
        let at = at.get().as_i64_exact().and_then(|at| usize::try_from(at).ok());
        let Some(namespace) = at.and_then(|at| namespaces.get(at)) else { return true };
        let mut needed = match kind {
            "insert" => vec![Action::Insert],
            "update" => vec![Action::Update],
            _ => vec![Action::Remove],
        };
        if kind == "update" && statement.get("upsert").is_some_and(Val::truthy) {
            needed.push(Action::Insert);
        }
        if auth.flag("bypassDocumentValidation") && kind != "delete" {
            needed.push(Action::BypassDocumentValidation);
        }
        if auth.flag("bypassPatterns") {
            needed.push(Action::BypassPatterns);
        }
        auth.on_namespace(namespace, &needed)
    })
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::{DocBuf, Val, ejson};

    fn run(engine: &Engine, text: &str) -> value::Result<DocBuf> {
        engine.run_command("admin", ejson::parse_doc(text).expect("test text").as_doc())
    }

    fn number(reply: &DocBuf, name: &str) -> i64 {
        reply.as_doc().get(name).and_then(Val::as_i64_exact).expect("a number")
    }

    #[test]
    fn operations_over_two_collections_count_for_themselves() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let reply = run(
            &engine,
            "{bulkWrite: 1, nsInfo: [{ns: 'a.x'}, {ns: 'b.y'}], ops: [
                {insert: 0, document: {_id: 1, n: 1}}, {insert: 0, document: {_id: 2, n: 1}},
                {insert: 1, document: {_id: 1}},
                {update: 0, filter: {n: 1}, updateMods: {$set: {n: 2}}, multi: true},
                {update: 1, filter: {_id: 7}, updateMods: {$set: {n: 2}}, upsert: true},
                {delete: 0, filter: {_id: 1}}]}",
        )
        .expect("works");
        for (name, expected) in [
            ("nErrors", 0),
            ("nInserted", 3),
            ("nMatched", 2),
            ("nModified", 2),
            ("nUpserted", 1),
            ("nDeleted", 1),
        ] {
            assert_eq!(number(&reply, name), expected, "{name}");
        }
    }

    #[test]
    fn an_ordered_bulk_stops_at_its_first_error() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let ops = "nsInfo: [{ns: 'a.x'}], ops: [{insert: 0, document: {_id: 1}},
            {insert: 0, document: {_id: 1}}, {insert: 0, document: {_id: 2}}]";
        let reply = run(&engine, &format!("{{bulkWrite: 1, {ops}}}")).expect("works");
        assert_eq!((number(&reply, "nErrors"), number(&reply, "nInserted")), (1, 1));
        let reply =
            run(&engine, &format!("{{bulkWrite: 1, ordered: false, errorsOnly: true, {ops}}}"))
                .expect("works");
        assert_eq!((number(&reply, "nErrors"), number(&reply, "nInserted")), (2, 1));
        let batch = reply
            .as_doc()
            .get("cursor")
            .and_then(Val::as_doc)
            .and_then(|cursor| cursor.get("firstBatch"))
            .and_then(Val::as_array)
            .expect("a batch");
        let at: Vec<_> = batch
            .iter()
            .filter_map(|(_, item)| item.as_doc()?.get("idx")?.as_i64_exact())
            .collect();
        assert_eq!(at, [0, 1]);
    }

    #[test]
    fn malformed_operations_change_nothing() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let bad = [
            ("ops: [{insert: 0, document: {}}, {insert: 3, document: {}}]", 2),
            ("ops: [{insert: 0, document: {}}, {insert: 0}]", 40414),
            ("ops: [{insert: 0, document: {}}, {update: 0, filter: {}}]", 40414),
            ("ops: [{insert: 0, document: {}}, {nope: 0}]", 9),
            ("ops: []", 16),
        ];
        for (ops, code) in bad {
            let text = format!("{{bulkWrite: 1, nsInfo: [{{ns: 'a.x'}}], {ops}}}");
            let found = run(&engine, &text).map_or_else(|error| error.code().0, |_| 0);
            assert_eq!(found, code, "{ops}");
        }
        assert!(engine.inner().data.collection("a", "x").is_none());
    }
}
