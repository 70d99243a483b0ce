//! `renameCollection`: renames a collection, also into another database, which copies it.

use super::capped::{TRIES, copy, is_unchanged};
use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::access::Authorization;
use crate::catalog::{Catalog, Collection, change};
use crate::namespace::{self, Namespace};
use crate::records::temporary;
use crate::upkeep::declare;
use ::access::Action;
use std::sync::Arc;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "renameCollection",
    help: "Renames a collection.",
    fields: Some(&["renameCollection", "to", "dropTarget", "collectionUUID", "stayTemp"]),
    admin: true,
    privilege: Required::Custom(allowed),
    audited: true,
    namespace: NamedIn::Qualified,
    removes_users: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let from = args.string("renameCollection")?;
    let to = args.string("to")?;
    let drop_target = match args.get("dropTarget") {
        // A UUID of the target means true: at most one target can have it.
        Some(Val::Binary(4, _)) => true,
        _ => args.bool("dropTarget")?,
    };
    let concern = context.write_concern()?;
    let named = |text: &str, what: &str| {
        Namespace::parse(text).map_err(|_| {
            Error::new(Code::INVALID_NAMESPACE, format!("Invalid {what} namespace: {text}"))
        })
    };
    let source = named(from, "source")?;
    let target = named(to, "target")?;
    for (what, name) in [("source", &source), ("target", &target)] {
        let checked = namespace::check_new_collection(&name.db, &name.collection);
        let written = || match &*name.collection {
            "system.profile" => namespace::check_written(&name.db, &name.collection),
            _ => Ok(()),
        };
        checked.and_then(|()| written()).map_err(|error| {
            let message = format!("error with {what} namespace: {}", error.message());
            Error::new(Code::ILLEGAL_OPERATION, message)
        })?;
    }
    if [&source, &target].iter().any(|name| &*name.collection == "system.views") {
        return Err(Error::new(Code::ILLEGAL_OPERATION, "renaming system.views is not allowed"));
    }
    if source == target {
        return Err(Error::new(Code::ILLEGAL_OPERATION, "Can't rename a collection to itself"));
    }
    super::collection_uuid::check_in(context, &source.db, &source.collection)?;
    if let Some(Val::Binary(4, uuid)) = args.get("dropTarget") {
        super::collection_uuid::require(context, &target.db, &target.collection, uuid)?;
    }
    context.engine.data.wait_for_writers(&|| context.op.check_now(), |c| {
        let is = |named: &Namespace| c.db == named.db && c.name == named.collection;
        is(&source) || is(&target)
    })?;
    if source.db == target.db {
        rename(context, &source, &target, drop_target)?;
    } else {
        copy_over(context, &source, &target, drop_target)?;
    }
    context.engine.data.wake_tailing_cursors();
    concern.write_error(out);
    Ok(())
}

/// Refuses a rename that is not possible; returns the collection and the one that it replaces.
fn check(
    catalog: &Catalog,
    source: &Namespace,
    target: &Namespace,
    drop_target: bool,
) -> Result<(Arc<Collection>, Option<Arc<Collection>>)> {
    let Some(collection) = catalog.get(&source.db, &source.collection).cloned() else {
        return Err(Error::new(
            Code::NAMESPACE_NOT_FOUND,
            format!("Source collection {source} does not exist"),
        ));
    };
    if collection.view().is_some() {
        return Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("cannot rename view: {source}"),
        ));
    }
    let existing = catalog.get(&target.db, &target.collection).cloned();
    let leaves =
        source.db != target.db && declare::concerns(catalog, &source.db, &source.collection);
    if leaves || declare::concerns(catalog, &target.db, &target.collection) {
        let name = if leaves { &source } else { &target };
        return Err(Error::new(
            Code::NOT_IMPLEMENTED,
            format!(
                "'{name}' takes part in patterns: it can neither move to another database nor be \
                 replaced by a renamed collection"
            ),
        ));
    }
    match &existing {
        Some(view) if view.view().is_some() => {
            return Err(Error::new(
                Code::NAMESPACE_EXISTS,
                format!("a view already exists with that name: {target}"),
            ));
        }
        Some(_) if !drop_target => {
            return Err(Error::new(Code::NAMESPACE_EXISTS, "target namespace exists"));
        }
        Some(_) => {}
        None => change::check_database_case(catalog, &target.db)?,
    }
    Ok((collection, existing))
}

/// Renames within a database. Documents and index entries do not move: their keys contain no names.
fn rename(
    context: &Context<'_>,
    source: &Namespace,
    target: &Namespace,
    drop_target: bool,
) -> Result<()> {
    let replaced = context.engine.data.change_catalog(|catalog, batch| {
        let (collection, existing) = check(catalog, source, target, drop_target)?;
        let patterns = catalog.patterns(&source.db).to_vec();
        if let Some(existing) = &existing {
            change::remove(catalog, batch, existing);
        }
        catalog.remove(&source.db, &source.collection);
        let renamed =
            change::altered(&collection, |collection| collection.name = target.collection.clone());
        change::put(catalog, batch, renamed);
        if !patterns.is_empty() {
            let names = (&*source.collection, &*target.collection);
            let ids = &context.engine.data.ids;
            declare::rename(ids, catalog, batch, &source.db, &patterns, names)?;
        }
        Ok(existing)
    })?;
    if let Some(replaced) = replaced {
        change::discard(&context.engine.data.trash, &replaced);
    }
    Ok(())
}

/// Renames into another database: copies the documents into a temporary collection there, whose
/// inserts are events as in MongoDB, and puts it in place of the target while the source is dropped.
/// Begins again when the source was written to meanwhile.
fn copy_over(
    context: &Context<'_>,
    source: &Namespace,
    target: &Namespace,
    drop_target: bool,
) -> Result<()> {
    let data = &context.engine.data;
    for _ in 0..TRIES {
        let (collection, _) = check(&data.catalog.load(), source, target, drop_target)?;
        let name = namespace::temporary(namespace::MOVING);
        let options = &collection.options;
        let made = temporary::create(data, &target.db, &name, options, Some(&collection))?;
        let snapshot = data.store.snapshot();
        let moved =
            copy(context.engine, context.op, &collection, &snapshot, &made, true).and_then(|()| {
                data.change_catalog(|catalog, batch| {
                    if !is_unchanged(catalog, &collection, &snapshot) {
                        return Ok(None);
                    }
                    let (_, existing) = check(catalog, source, target, drop_target)?;
                    if let Some(existing) = &existing {
                        change::remove(catalog, batch, existing);
                    }
                    temporary::put_in_place(catalog, batch, &made, &target.collection)?;
                    change::remove(catalog, batch, &collection);
                    Ok(Some(existing))
                })
            });
        match moved {
            Ok(Some(existing)) => {
                change::discard(&data.trash, &collection);
                if let Some(existing) = existing {
                    change::discard(&data.trash, &existing);
                }
                return Ok(());
            }
            Ok(None) => temporary::remove(data, &made)?,
            Err(error) => {
                temporary::clean_up(data, &made);
                return Err(error);
            }
        }
        context.op.check_now()?;
    }
    Err(Error::new(
        Code::WRITE_CONFLICT,
        "the collection was written to again and again while it was copied",
    ))
}

fn allowed(auth: &Authorization<'_>) -> bool {
    let from = auth.collection();
    let to = auth.body.get("to").and_then(Val::as_str).unwrap_or("");
    let database = |namespace: &str| namespace.split_once('.').map(|(db, _)| db.to_owned());
    let drops = auth.flag("dropTarget");
    if database(from) == database(to) {
        let allowed = auth.on_namespace(from, &[Action::RenameCollectionSameDB])
            && auth.on_namespace(to, &[Action::RenameCollectionSameDB]);
        // A rename must not give access to documents that the client could not read before.
        let shows =
            auth.on_namespace(to, &[Action::Find]) && !auth.on_namespace(from, &[Action::Find]);
        if allowed && !shows && (!drops || auth.on_namespace(to, &[Action::DropCollection])) {
            return true;
        }
    }
    auth.on_namespace(from, &[Action::Find, Action::DropCollection])
        && auth.on_namespace(to, &[Action::Insert, Action::CreateIndex])
        && (!drops || auth.on_namespace(to, &[Action::DropCollection]))
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::ejson;

    #[test]
    fn documents_and_indexes_move_along() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |db: &str, text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command(db, command.as_doc())
        };
        run("t", "{insert: 'a', documents: [{_id: 1, n: 1}]}").expect("works");
        run("t", "{createIndexes: 'a', indexes: [{key: {n: 1}, name: 'n', unique: true}]}")
            .expect("works");
        run("t", "{insert: 'b', documents: [{_id: 2}, {_id: 3}]}").expect("works");
        let code = |text: &str| run("admin", text).map_or_else(|e| e.code().0, |_| 0);
        assert_eq!(code("{renameCollection: 't.a', to: 't.b'}"), 48);
        assert_eq!(code("{renameCollection: 't.a', to: 't.a'}"), 20);
        assert_eq!(code("{renameCollection: 't.no', to: 't.x'}"), 26);
        assert_eq!(code("{renameCollection: 't.a', to: 't.a$b'}"), 20);
        assert_eq!(code("{renameCollection: 't.a', to: 'bad'}"), 73);
        assert_eq!(code("{renameCollection: 't.a', to: 't.b', dropTarget: true}"), 0);
        assert_eq!(code("{renameCollection: 't.b', to: 'u.c'}"), 0);
        let duplicate = run("u", "{insert: 'c', documents: [{_id: 9, n: 1}]}").expect("replies");
        assert!(duplicate.as_doc().get("writeErrors").is_some());
        assert!(engine.inner().data.collection("t", "b").is_none());
        assert!(engine.check(&mut |_, _, _| {}).expect("can be read").is_empty());
    }
}
