//! `convertToCapped`: makes a collection capped and keeps its newest documents.

use super::capped::{TRIES, copy, is_unchanged, options, size, source};
use super::row::Required;
use super::{Command, Context};
use crate::catalog::{Collection, change};
use crate::namespace;
use crate::records::temporary;
use crate::shared::Inner;
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
    if context.collection_name()? == "system.profile" {
        return Err(Error::bad_value("Cannot convert system.profile into a capped collection"));
    }
    let engine = context.engine;
    for _ in 0..TRIES {
        let source = source(context)?;
        if source.patterns.is_some() {
            return Err(Error::new(
                Code::INVALID_OPTIONS,
                format!("'{}' takes part in patterns: it cannot be capped", source.namespace()),
            ));
        }
        let name = namespace::temporary(&format!(".convertToCapped.{}", source.name));
        let made =
            temporary::create(&engine.data, context.db, &name, &options(&source, size), None)?;
        let snapshot = engine.data.store.snapshot();
        let done = copy(engine, context.op, &source, &snapshot, &made, false)
            .and_then(|()| put_in_place(engine, &source, &snapshot, &made));
        match done {
            Ok(true) => {
                concern.write_error(out);
                return Ok(());
            }
            Ok(false) => temporary::remove(&engine.data, &made)?,
            Err(error) => {
                temporary::clean_up(&engine.data, &made);
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
    source: &Arc<Collection>,
    snapshot: &Snapshot,
    made: &Arc<Collection>,
) -> Result<bool> {
    let replaced = engine.data.change_catalog(|catalog, batch| {
        if !is_unchanged(catalog, source, snapshot) {
            return Ok(false);
        }
        change::remove(catalog, batch, source);
        temporary::put_in_place(catalog, batch, made, &source.name)?;
        Ok(true)
    })?;
    if replaced {
        change::discard(&engine.data.trash, source);
        engine.data.wake_tailing_cursors();
    }
    Ok(replaced)
}
