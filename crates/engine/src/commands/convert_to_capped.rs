//! `convertToCapped`: makes a collection capped and keeps its newest documents.

use super::capped::{TRIES, copy, options, size, source};
use super::row::Required;
use super::{Command, Context};
use crate::catalog::{Collection, change};
use crate::layout;
use crate::operation::Operation;
use crate::shared::Inner;
use crate::stages::out::{TEMPORARY, remove};
use ::access::Action;
use std::sync::Arc;
use store::Snapshot;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "convertToCapped",
    help: "Makes a collection capped and keeps its newest documents.",
    fields: Some(&["convertToCapped", "size"]),
    privilege: Required::Collection(&[Action::ConvertToCapped]),
    run: convert,
    ..Command::BASE
};

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
            change::create(
                &engine.data.ids,
                catalog,
                batch,
                context.db,
                &name,
                options(&source, size),
            )
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

/// Renames the copy to its source; false if the source was changed since the snapshot.
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
