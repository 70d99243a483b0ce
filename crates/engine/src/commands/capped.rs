//! Shared code of `convertToCapped`, `cloneCollectionAsCapped` and renames to another database: copying
//! the documents of a collection into another one.

use super::Context;
use super::create::{SIZE_MAX, rounded_size};
use crate::catalog::{Catalog, Collection};
use crate::exec::scan::Scan;
use crate::exec::write;
use crate::operation::Operation;
use crate::planner::Access;
use crate::shared::Inner;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Direction, Snapshot};
use value::{Code, DocBuf, Error, RawDoc, Result};

/// Documents per commit.
const COMMIT_DOCUMENTS: usize = 1000;

/// How often a conversion restarts because the collection was written to.
pub(super) const TRIES: usize = 5;

pub(super) fn size(context: &Context<'_>) -> Result<i64> {
    let size = context.args.get("size").filter(|size| size.is_number());
    size.and_then(value::number::to_i64_truncated)
        .filter(|size| (1..=SIZE_MAX).contains(size))
        .map(rounded_size)
        .ok_or_else(|| Error::bad_value("invalid command spec"))
}

pub(super) fn source(context: &Context<'_>) -> Result<Arc<Collection>> {
    let name = context.collection_name()?;
    let namespace = format!("{}.{name}", context.db);
    match context.engine.data.collection(context.db, name) {
        Some(view) if view.view().is_some() => Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {namespace} is a view, not a collection"),
        )),
        Some(collection) => Ok(collection),
        None if !context.catalog().databases.contains_key(context.db) => {
            Err(Error::new(Code::NAMESPACE_NOT_FOUND, format!("database {} not found", context.db)))
        }
        None => Err(Error::new(
            Code::NAMESPACE_NOT_FOUND,
            format!("source collection {namespace} does not exist"),
        )),
    }
}

pub(super) fn options(source: &Collection, size: i64) -> DocBuf {
    DocBuf::build(|out| {
        out.bool("capped", true).count("size", u64::try_from(size).unwrap_or(0));
        for (name, value) in source.options.as_doc() {
            if !matches!(name, "capped" | "size" | "clusteredIndex") {
                out.raw(name, value);
            }
        }
    })
}

/// Whether a collection was neither altered nor written to since a snapshot. Runs inside
/// `change_catalog`.
pub(super) fn is_unchanged(catalog: &Catalog, source: &Collection, snapshot: &Snapshot) -> bool {
    let now = catalog.get(&source.db, &source.name);
    now.is_some_and(|now| now.version == source.version)
        && source.counters.written_at.load(Ordering::Relaxed) <= snapshot.seqno()
}

/// Inserts the documents of a collection at a snapshot into an empty one. With `logged` each is an
/// event.
pub(super) fn copy(
    engine: &Inner,
    op: &Operation,
    source: &Arc<Collection>,
    snapshot: &Snapshot,
    target: &Collection,
    logged: bool,
) -> Result<()> {
    let access = Access::Collection(Direction::Forward);
    let mut scan = Scan::new(snapshot.clone(), source.clone(), &access);
    loop {
        let mut chunk = Vec::new();
        while chunk.len() < COMMIT_DOCUMENTS
            && let Some(row) = scan.next(op)?
        {
            chunk.push(row.doc);
        }
        if chunk.is_empty() {
            return Ok(());
        }
        engine.data.transact(op, true, |txn| {
            let gone = || Error::new(Code::COMMAND_FAILED, "the copy was dropped before its end");
            let found = txn.catalog.get(&target.db, &target.name).cloned().ok_or_else(gone)?;
            if !logged {
                txn.notes.set_silent();
            }
            for doc in &chunk {
                write::insert(txn, &found, RawDoc::new(doc))?;
            }
            match found.capped() {
                Some(_) => write::trim_capped(txn, &found),
                None => Ok(()),
            }
        })?;
    }
}
