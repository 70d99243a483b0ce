//! `drop`: removes a collection or view. As in MongoDB 7, a missing one is no error.

use super::row::{Required, StableApi};
use super::{Command, Context, stable_api};
use crate::catalog::time_series::BUCKETS;
use crate::catalog::{Catalog, Collection, change};
use crate::exec::modify::{self, Chosen};
use crate::exec::write;
use crate::txn::Transaction;
use crate::upkeep::{declare, kept_views};
use ::access::Action;
use std::sync::Arc;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "drop",
    help: "Removes a collection or view.",
    fields: Some(&["drop", "collectionUUID"]),
    privilege: Required::Collection(&[Action::DropCollection]),
    stable_api: StableApi::Checked(|body| {
        stable_api::refuse_fields(body, "drop", &["collectionUUID"])
    }),
    audited: true,
    removes_users: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let concern = context.write_concern()?;
    super::collection_uuid::check(context, name)?;
    let db = context.db;
    // The buckets of a time-series collection are the collection.
    let name = match name.strip_prefix(BUCKETS) {
        Some(other)
            if context
                .engine
                .data
                .collection(db, other)
                .is_some_and(|c| c.time_series.is_some()) =>
        {
            other
        }
        _ => name,
    };
    if crate::namespace::is_oplog(db, name) {
        return Err(Error::new(Code(5_255_000), "can't drop live oplog while replicating"));
    }
    let (dropped, patterns) = loop {
        empty_source(context, name)?;
        context
            .engine
            .data
            .wait_for_writers(&|| context.op.check_now(), |c| *c.db == *db && *c.name == *name)?;
        let removed = context.engine.data.change_catalog(|catalog, batch| {
            let collection = catalog.get(db, name).cloned();
            let patterns = declare::dropped_with(catalog, db, name);
            if let Some(collection) = &collection {
                // Patterns would miss the removal of documents that were written since.
                if is_read(collection) && collection.counters.documents() > 0 {
                    return Ok(None);
                }
                refuse_kept_view(catalog, db, name)?;
                declare::remove(catalog, batch, db, &patterns)?;
                kept_views::remove(catalog, batch, db, &patterns);
                change::remove(catalog, batch, collection);
            }
            Ok(Some((collection, patterns)))
        })?;
        if let Some(removed) = removed {
            break removed;
        }
        context.op.check_now()?;
    };
    declare::discard(&context.engine.data, &patterns);
    if let Some(collection) = dropped {
        change::discard(&context.engine.data.trash, &collection);
        context.engine.data.wake_tailing_cursors();
        if collection.view().is_none() {
            out.count("nIndexesWas", collection.indexes.len() as u64);
        }
        out.str("ns", &collection.namespace());
    }
    concern.write_error(out);
    Ok(())
}

/// Refuses to drop or change a view that a pattern keeps.
///
/// # Errors
/// InvalidOptions.
pub(super) fn refuse_kept_view(catalog: &Catalog, db: &str, name: &str) -> Result<()> {
    let Some((view, _)) = kept_views::of(catalog, db, name) else { return Ok(()) };
    Err(Error::new(
        Code::INVALID_OPTIONS,
        format!(
            "the view '{db}.{name}' belongs to the pattern '{}' of '{}': drop the pattern, or \
             declare it with 'views: false'",
            view.pattern.name, view.pattern.collection
        ),
    ))
}

/// Whether patterns of other collections read this one.
fn is_read(collection: &Collection) -> bool {
    let read = |bound: &::patterns::CollectionPatterns| {
        bound.sources.iter().any(|p| p.target != *collection.name)
    };
    collection.patterns.as_deref().is_some_and(read)
}

/// Deletes all documents of a collection for the patterns that read it, before the drop.
fn empty_source(context: &Context<'_>, name: &str) -> Result<()> {
    let Some(collection) = context.engine.data.collection(context.db, name) else { return Ok(()) };
    if !is_read(&collection) {
        return Ok(());
    }
    let all = modify::everything()?;
    let delete = |txn: &mut Transaction, collection: &Arc<Collection>, chosen: &Chosen| {
        write::delete(txn, collection, &chosen.record, chosen.canonical()).map(|()| true)
    };
    modify::for_each_match(&context.engine.data, context.op, &collection, &all, delete).map(drop)
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::{Val, ejson};

    #[test]
    fn documents_are_gone_and_the_name_is_free() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).expect("works")
        };
        run("{insert: 'c', documents: [{_id: 1}]}");
        let reply = run("{drop: 'c'}");
        assert_eq!(reply.as_doc().get("nIndexesWas"), Some(Val::Int32(1)));
        assert_eq!(reply.as_doc().get("ns"), Some(Val::String("t.c")));
        assert!(run("{drop: 'c'}").as_doc().get("ns").is_none());
        run("{insert: 'c', documents: [{_id: 2}]}");
        let count = run("{count: 'c'}");
        assert_eq!(count.as_doc().get("n"), Some(Val::Int32(1)));
    }
}
