//! `renameCollection`: renames a collection, also into another database. Documents and index
//! entries do not move: their keys do not contain names.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::access::Authorization;
use crate::catalog::change;
use crate::namespace::{self, Namespace};
use crate::upkeep::declare;
use ::access::Action;
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
        namespace::check_new_collection(&name.db, &name.collection).map_err(|error| {
            let message = format!("error with {what} namespace: {}", error.message());
            Error::new(Code::ILLEGAL_OPERATION, message)
        })?;
    }
    if source == target {
        return Err(Error::new(Code::ILLEGAL_OPERATION, "Can't rename a collection to itself"));
    }
    context.engine.data.wait_for_writers(&|| context.op.check_now(), |c| {
        let is = |named: &Namespace| c.db == named.db && c.name == named.collection;
        is(&source) || is(&target)
    })?;
    let replaced = context.engine.data.change_catalog(|catalog, batch| {
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
        let patterns = catalog.patterns(&source.db).to_vec();
        let leaves =
            source.db != target.db && declare::concerns(catalog, &source.db, &source.collection);
        if leaves || declare::concerns(catalog, &target.db, &target.collection) {
            let name = if leaves { &source } else { &target };
            return Err(Error::new(
                Code::NOT_IMPLEMENTED,
                format!(
                    "'{name}' takes part in patterns: it can neither move to another database nor \
                     be replaced by a renamed collection"
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
            Some(existing) => change::remove(catalog, batch, existing),
            None => change::check_database_case(catalog, &target.db)?,
        }
        catalog.remove(&source.db, &source.collection);
        let renamed = change::altered(&collection, |collection| {
            collection.db = target.db.clone();
            collection.name = target.collection.clone();
        });
        change::put(catalog, batch, renamed);
        if source.db == target.db && !patterns.is_empty() {
            let names = (&*source.collection, &*target.collection);
            declare::rename(catalog, batch, &source.db, &patterns, names)?;
        }
        Ok(existing)
    })?;
    if let Some(replaced) = replaced {
        change::discard(&context.engine.data.trash, &replaced);
    }
    context.engine.data.wake_tailing_cursors();
    concern.write_error(out);
    Ok(())
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
