//! `convertToCapped` and `cloneCollectionAsCapped`: the newest documents of a collection as a capped
//! one, in its place or beside it. Its other indexes and options are not taken over.

use super::create::rounded_size;
use super::row::Required;
use super::{Command, Context};
use crate::access::Authorization;
use crate::catalog::{Collection, change};
use crate::engine::Inner;
use crate::exec::scan::Scan;
use crate::exec::write;
use crate::layout;
use crate::namespace;
use crate::operation::Operation;
use crate::planner::Access;
use crate::stages::out::{TEMPORARY, remove};
use ::access::Action;
use std::sync::Arc;
use store::{Direction, Snapshot};
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static CLONE: Command = Command {
    name: "cloneCollectionAsCapped",
    help: "Copies the newest documents of a collection into a new capped one.",
    fields: Some(&["cloneCollectionAsCapped", "toCollection", "size"]),
    privilege: Required::Custom(may_clone),
    run: clone,
    ..Command::BASE
};

pub(super) static CONVERT: Command = Command {
    name: "convertToCapped",
    help: "Makes a collection capped; the newest documents stay.",
    fields: Some(&["convertToCapped", "size"]),
    privilege: Required::Collection(&[Action::ConvertToCapped]),
    run: convert,
    ..Command::BASE
};

/// Documents of one commit.
const COMMIT_DOCUMENTS: usize = 1000;

/// How often a conversion begins anew because the collection was written to.
const TRIES: usize = 5;

fn size(context: &Context<'_>) -> Result<i64> {
    let size = context.args.get("size").filter(|size| size.is_number());
    size.and_then(value::number::to_i64_truncated)
        .filter(|size| *size > 0)
        .map(rounded_size)
        .ok_or_else(|| Error::bad_value("invalid command spec"))
}

fn source(context: &Context<'_>) -> Result<Arc<Collection>> {
    let name = context.collection_name()?;
    let namespace = format!("{}.{name}", context.db);
    match context.engine.data.collection(context.db, name) {
        Some(view) if view.view().is_some() => Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {namespace} is a view, not a collection"),
        )),
        Some(collection) => Ok(collection),
        None => Err(Error::new(
            Code::NAMESPACE_NOT_FOUND,
            format!("source collection {namespace} does not exist"),
        )),
    }
}

fn clone(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let concern = context.write_concern()?;
    let Some(Val::String(to)) = context.args.get("toCollection") else {
        return Err(Error::type_mismatch("'toCollection' must be of type String"));
    };
    let size = size(context)?;
    let source = source(context)?;
    namespace::check_new_collection(context.db, to)?;
    let engine = context.engine;
    let made = engine.data.change_catalog(|catalog, batch| {
        if catalog.get(context.db, to).is_some() {
            return Err(Error::new(
                Code::NAMESPACE_EXISTS,
                format!(
                    "cloneCollectionAsCapped failed - destination collection {}.{to} already \
                     exists. source collection: {}",
                    context.db,
                    source.namespace()
                ),
            ));
        }
        change::create(&engine.data.ids, catalog, batch, context.db, to, options(size))
    })?;
    let copied = copy(engine, context.op, &source, &engine.data.store.snapshot(), &made);
    if copied.is_err() {
        // What failed is told; that the copy could not be removed would hide it.
        let _ = remove(&engine.data, &made);
    }
    copied?;
    concern.write_error(out);
    Ok(())
}

fn convert(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let concern = context.write_concern()?;
    let size = size(context)?;
    let engine = context.engine;
    for _ in 0..TRIES {
        let source = source(context)?;
        if source.patterns.is_some() {
            return Err(Error::new(
                Code::INVALID_OPTIONS,
                format!("'{}' takes part in patterns: it cannot be capped", source.namespace()),
            ));
        }
        let name = format!("{TEMPORARY}{:016x}", value::random::u64());
        let made = engine.data.change_catalog(|catalog, batch| {
            change::create(&engine.data.ids, catalog, batch, context.db, &name, options(size))
        })?;
        let snapshot = engine.data.store.snapshot();
        let done = copy(engine, context.op, &source, &snapshot, &made)
            .and_then(|()| put_in_place(engine, context.op, &source, &snapshot, &made));
        match done {
            Ok(true) => {
                concern.write_error(out);
                return Ok(());
            }
            Ok(false) => remove(&engine.data, &made)?,
            Err(error) => {
                let _ = remove(&engine.data, &made);
                return Err(error);
            }
        }
    }
    Err(Error::new(
        Code::WRITE_CONFLICT,
        "the collection was written to again and again while it was converted",
    ))
}

fn options(size: i64) -> DocBuf {
    DocBuf::build(|out| {
        out.bool("capped", true).count("size", u64::try_from(size).unwrap_or(0));
    })
}

/// Inserts the documents that a collection has at a snapshot into an empty capped one.
fn copy(
    engine: &Inner,
    op: &Operation,
    source: &Arc<Collection>,
    snapshot: &Snapshot,
    target: &Collection,
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
            for doc in &chunk {
                write::insert(txn, &found, RawDoc::new(doc))?;
            }
            write::trim_capped(txn, &found)
        })?;
    }
}

/// Gives the copy the name of its source; false if that was changed since the snapshot.
fn put_in_place(
    engine: &Inner,
    op: &Operation,
    source: &Arc<Collection>,
    snapshot: &Snapshot,
    made: &Arc<Collection>,
) -> Result<bool> {
    let replaced = engine.data.change_catalog(|catalog, batch| {
        let now = catalog.get(&source.db, &source.name).cloned();
        let Some(now) = now.filter(|now| now.version == source.version) else { return Ok(None) };
        if !is_unchanged(op, source, snapshot, &engine.data.store.snapshot())? {
            return Ok(None);
        }
        let made = catalog.get(&made.db, &made.name).cloned().ok_or_else(|| {
            Error::new(Code::COMMAND_FAILED, "the copy was dropped before its end")
        })?;
        change::remove(catalog, batch, &now);
        catalog.remove(&made.db, &made.name);
        let renamed = change::altered(&made, |made| made.name = source.name.clone());
        change::put(catalog, batch, renamed);
        Ok(Some(now))
    })?;
    let Some(replaced) = replaced else { return Ok(false) };
    change::discard(&engine.data.trash, &replaced);
    engine.data.wake_tailing_cursors();
    Ok(true)
}

/// Whether a collection has the same documents at two snapshots.
fn is_unchanged(
    op: &Operation,
    collection: &Collection,
    before: &Snapshot,
    after: &Snapshot,
) -> Result<bool> {
    let (mut before, mut after) =
        (layout::all(collection, before)?, layout::all(collection, after)?);
    loop {
        op.check()?;
        let one = before.next_entry()?;
        let other = after.next_entry()?;
        match (one, other) {
            (None, None) => return Ok(true),
            (Some((key, doc)), Some((other_key, other_doc)))
                if *key == *other_key && *doc == *other_doc => {}
            _ => return Ok(false),
        }
    }
}

fn may_clone(auth: &Authorization<'_>) -> bool {
    let target = auth.body.get("toCollection").and_then(Val::as_str).unwrap_or("");
    auth.on_collection(auth.collection(), &[Action::Find])
        && auth
            .on_collection(target, &[Action::Insert, Action::CreateIndex, Action::ConvertToCapped])
}
