//! `count`: counts documents. Also has the code that it shares with `distinct` and `explain`.

use super::explain::{Purpose, Query};
use super::query::{Constants, Find, rewrites};
use super::row::{Explain, Kind, ReadConcerns, Reads, Required, StableApi, Transactions};
use super::{Command, Context, aggregate, oplog, raw_buckets};
use crate::catalog::Collection;
use crate::exec::scan::Scan;
use crate::exec::{self, Examined, Stream};
use crate::namespace::is_made_up;
use crate::planner::{Access, Plan};
use ::access::Action;
use query::interrupt;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::Snapshot;
use value::path::{Path, walk};
use value::{Code, Error, OwnedVal, RawDoc, Result, Val, Writer, keys, limits};

pub(super) static COMMAND: Command = Command {
    name: "count",
    help: "Counts documents of a collection or view that match a filter.",
    fields: Some(&["count", "query", "limit", "skip", "hint", "collation", "fields", "rewrite"]),
    by_uuid: true,
    privilege: Required::Collection(&[Action::Find]),
    transactions: Transactions::RefusedBecause(
        "Cannot run 'count' in a multi-document transaction. Please see http://dochub.mongodb.org/core/transaction-count for a recommended alternative.",
    ),
    stable_api: StableApi::Included,
    read_concern: ReadConcerns::Majority,
    usage: Kind::Read,
    reads: Reads::Collection,
    explain: Explain::Query(explained_count),
    mistyped_name: Code::INVALID_NAMESPACE,
    refuses_write_concern: true,
    run: count,
    ..Command::BASE
};

fn count(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let query = context.args.optional_doc("query")?;
    let skip = match context.args.optional_i64("skip")? {
        Some(skip) if skip < 0 => {
            return Err(Error::new(
                Code(51024),
                format!("BSON field 'skip' value must be >= 0, actual value '{skip}'"),
            ));
        }
        skip => skip.unwrap_or(0) as u64,
    };
    // A negative limit means its absolute value.
    let limit = context.args.optional_i64("limit")?.map_or(0, i64::unsigned_abs);
    let constants = Constants::new(context)?;
    let hint = context.args.hint()?;
    let find = Find { filter: query, hint, counts: true, ..Find::default() };
    let view = context.engine.data.view(context.op);
    let total = match view.catalog.get(context.db, name) {
        None if is_made_up(context.db, name) => {
            oplog::count(context, name, query.unwrap_or(RawDoc::empty()))?
        }
        None => {
            find.check(&constants)?;
            match raw_buckets::asked(&context.args, name)? {
                Some(asked) => raw_buckets::count(context, &asked, query)?,
                None => 0,
            }
        }
        Some(view) if view.view().is_some() => {
            aggregate::count_view(context, view, query.unwrap_or(RawDoc::empty()))?
        }
        Some(collection) => {
            let seen = view.seen(collection)?;
            let collection = seen.as_ref().unwrap_or(collection);
            let most = if limit > 0 { Some(skip.saturating_add(limit)) } else { None };
            let mut rewriting = rewrites(context, &constants, &view, hint)?;
            match find.counted(rewriting.as_mut(), collection)? {
                Some((count, _)) => count,
                None => {
                    let other = find.rewritten(rewriting.as_mut(), collection)?;
                    let filter = other.as_ref().map(|(filter, _)| filter.as_doc()).or(query);
                    let find = Find { filter, ..find };
                    matching(context, collection, &find, &constants, most)?
                }
            }
        }
    };
    let rest = total.saturating_sub(skip);
    out.count("n", if limit > 0 { rest.min(limit) } else { rest });
    Ok(())
}

/// Counts the matching documents, up to `most`.
///
/// # Errors
/// Errors of the filter or the store.
pub(super) fn matching(
    context: &Context<'_>,
    collection: &Arc<Collection>,
    find: &Find<'_>,
    constants: &Constants,
    most: Option<u64>,
) -> Result<u64> {
    let engine = context.engine;
    if find.counts_from_counters(context, collection).is_some() {
        context.op.note_plan(|plan| plan.add("RECORD_STORE_FAST_COUNT", None));
        return Ok(collection.counters.documents());
    }
    let snapshot = engine.data.view(context.op).snapshot;
    let mut opened = find.open(constants, collection, &snapshot, context.op)?;
    if opened.counts_entries {
        let scan = Scan::new(snapshot, collection.clone(), &opened.plan.access);
        let (count, examined) = scan.count_entries(most, context.op)?;
        context.op.add_cost(examined, 0);
        return Ok(count);
    }
    let (mut count, mut parts) = (0, Vec::new());
    if most.is_none() {
        count = exec::count::count(&mut opened.stream, &mut parts, context.op)?;
    }
    while most.is_some_and(|most| count < most) && opened.stream.next(context.op)?.is_some() {
        count += 1;
    }
    let mut examined = Examined::default();
    opened.stream.examined(&mut examined);
    parts.iter().for_each(|part| part.examined(&mut examined));
    context.op.add_cost(examined, 0);
    Ok(count)
}

/// Returns one document for each distinct value of a column, from a plan that reads these.
///
/// # Errors
/// InternalError for any other plan.
pub(super) fn distinct_scan(
    plan: &Plan,
    column: usize,
    snapshot: &Snapshot,
) -> Result<Box<dyn Stream>> {
    let Access::Index(candidate) = &plan.access else {
        return Err(Error::internal("distinct values are read from an index"));
    };
    Ok(Box::new(exec::distinct::DistinctScan::new(snapshot.clone(), candidate, column)))
}

/// Steps that it takes to keep a value of `distinct`.
const STEPS_OF_VALUE: usize = 8;

pub(super) fn distinct(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let key = context.args.string("key")?;
    if key.contains('\0') {
        return Err(Error::new(Code(31032), "Key field cannot contain an embedded null byte"));
    }
    query::check_field_path(key)?;
    let path = Path::new(key);
    let constants = Constants::new(context)?;
    let find = Find {
        filter: context.args.optional_doc("query")?,
        hint: context.args.hint()?,
        values: Some(key),
        ..Find::default()
    };
    let view = context.engine.data.view(context.op);
    view.catalog.check(context.db, name)?;
    let mut stream: Box<dyn Stream> = match view.catalog.get(context.db, name) {
        None => {
            find.check(&constants)?;
            out.array("values", |_| {});
            if let Some(time) = context.op.read_time() {
                out.append("atClusterTime", Val::Timestamp(time));
            }
            return Ok(());
        }
        Some(view) if view.view().is_some() => {
            let query = find.filter.unwrap_or(RawDoc::empty());
            aggregate::open_view(context, view, query)?
        }
        Some(collection) => {
            let snapshot = view.snapshot.clone();
            let seen = view.seen(collection)?;
            let collection = seen.as_ref().unwrap_or(collection);
            let opened = find.open(&constants, collection, &snapshot, context.op)?;
            match opened.column {
                Some(column) => distinct_scan(&opened.plan, column, &snapshot)?,
                None => Box::new(opened.stream),
            }
        }
    };
    // Keyed by order-preserving bytes: values are sorted and distinct, as from an index.
    let mut values: BTreeMap<Vec<u8>, OwnedVal> = BTreeMap::new();
    let collation = constants.collation().map(|collation| &**collation);
    let mut bytes = 0;
    while let Some(doc) = stream.next(context.op)? {
        let _: ControlFlow<()> = walk(doc.raw(), path.parts(), true, &mut |found| {
            let whole_array = matches!(found.value, Val::Array(_)) && !found.element;
            if !found.value.is_missing() && !whole_array {
                values.entry(keys::key_with(found.value, collation)).or_insert_with(|| {
                    let value = OwnedVal::new(found.value);
                    bytes += value.raw().bytes.len() + 8;
                    value
                });
            }
            if interrupt::should_stop(STEPS_OF_VALUE) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        interrupt::confirm()?;
        if bytes > limits::DOCUMENT_BYTES_MAX {
            return Err(Error::new(Code(17217), "distinct too big, 16mb cap"));
        }
    }
    let mut examined = Examined::default();
    stream.examined(&mut examined);
    context.op.add_cost(examined, 0);
    out.array("values", |list| values.values().for_each(|value| list.push_raw(value.raw())));
    if let Some(time) = context.op.read_time() {
        out.append("atClusterTime", Val::Timestamp(time));
    }
    Ok(())
}

/// Returns the query for `explain`.
fn explained_count<'a>(context: &Context<'a>) -> Result<Query<'a>> {
    let args = &context.args;
    let filter = args.optional_doc("query")?;
    let skip = args.optional_u64("skip")?.unwrap_or(0);
    let limit = args.optional_i64("limit")?.map(i64::unsigned_abs).filter(|n| *n > 0);
    let hint = args.hint()?;
    let find = Find { filter, skip, limit, hint, counts: true, ..Find::default() };
    Ok(Query { find, purpose: Purpose::Count, ..Query::default() })
}
