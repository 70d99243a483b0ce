//! `dropIndexes`: removes indexes by name, by key, or all but the one on `_id`.

use super::row::{Required, StableApi};
use super::{Command, Context, query, stable_api};
use crate::catalog::{Collection, Index, change};
use crate::index::spec::same_key;
use crate::index_keys::doc_text;
use crate::upkeep::declare;
use ::access::Action;
use std::sync::Arc;
use value::{Code, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dropIndexes",
    aliases: &["deleteIndexes"],
    help: "Removes indexes of a collection.",
    fields: Some(&[
        "dropIndexes",
        "deleteIndexes",
        "index",
        "collectionUUID",
        "isTimeseriesNamespace",
    ]),
    privilege: Required::Collection(&[Action::DropIndex]),
    stable_api: StableApi::Checked(|body| {
        stable_api::refuse_fields(body, "dropIndexes", &["collectionUUID"])
    }),
    audited: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let concern = context.write_concern()?;
    let (args, db) = (context.args, context.db);
    let wanted = args.get("index").ok_or_else(|| args.missing("index"))?;
    if !matches!(wanted, Val::String(_) | Val::Document(_) | Val::Array(_)) {
        return Err(args.wrong_type("index", wanted, "[string, object]"));
    }
    query::writable(&context.engine.data.catalog.load(), db, name)?;
    super::collection_uuid::check(context, name)?;
    context
        .engine
        .data
        .wait_for_writers(&|| context.op.check_now(), |c| *c.db == *db && *c.name == *name)?;
    let (before, all, gone) = context.engine.data.change_catalog(|catalog, batch| {
        let Some(collection) = catalog.get(db, name).cloned() else {
            return Err(Error::new(Code::NAMESPACE_NOT_FOUND, format!("ns not found {db}.{name}")));
        };
        let (all, mut gone) = choose(&collection, wanted)?;
        let needed = |index: &Arc<Index>| declare::needed_by(catalog, &collection, index);
        if all {
            gone.retain(|index| needed(index).is_none());
        }
        if let Some((index, pattern)) = gone.iter().find_map(|i| Some((i, needed(i)?))) {
            return Err(Error::new(
                Code::INVALID_OPTIONS,
                format!("cannot drop the index '{}': the pattern '{pattern}' needs it", index.name),
            ));
        }
        if !gone.is_empty() {
            gone.iter().for_each(|index| change::forget_index(batch, index));
            let left = change::altered(&collection, |collection| {
                collection.indexes.retain(|index| !gone.iter().any(|g| g.id == index.id));
            });
            change::put(catalog, batch, left);
        }
        Ok((collection.indexes.len(), all, gone))
    })?;
    change::discard_indexes(&context.engine.data.trash, gone.iter());
    out.count("nIndexesWas", before as u64);
    if all {
        out.str("msg", "non-_id indexes dropped for collection");
    }
    concern.write_error(out);
    Ok(())
}

/// The indexes to drop, and whether these are all.
fn choose(collection: &Collection, wanted: Val<'_>) -> Result<(bool, Vec<Arc<Index>>)> {
    match wanted {
        Val::String("*") => Ok((true, all(collection))),
        Val::String(name) => Ok((false, vec![named(collection, name)?])),
        Val::Document(key) => Ok((false, vec![with_key(collection, key)?])),
        Val::Array(names) => {
            let mut found: Vec<Arc<Index>> = Vec::new();
            for (_, name) in names {
                match name.get() {
                    Val::String("*") if names.count() == 1 => return Ok((true, all(collection))),
                    Val::String(name) => {
                        let index = named(collection, name)?;
                        if found.iter().any(|other| other.id == index.id) {
                            return Err(not_found(name));
                        }
                        found.push(index);
                    }
                    _ => {
                        return Err(Error::type_mismatch(
                            "dropIndexes: each element of 'index' must be a string",
                        ));
                    }
                }
            }
            Ok((false, found))
        }
        _ => Ok((false, Vec::new())),
    }
}

fn all(collection: &Collection) -> Vec<Arc<Index>> {
    collection.indexes.iter().filter(|index| !index.is_id()).cloned().collect()
}

fn not_found(name: &str) -> Error {
    Error::new(Code::INDEX_NOT_FOUND, format!("index not found with name [{name}]"))
}

fn droppable(index: &Arc<Index>) -> Result<Arc<Index>> {
    if index.is_named_clustered() {
        return Err(Error::new(Code(5979800), "It is illegal to drop the clusteredIndex"));
    }
    if index.is_id() {
        return Err(Error::new(Code::INVALID_OPTIONS, "cannot drop _id index"));
    }
    Ok(index.clone())
}

fn named(collection: &Collection, name: &str) -> Result<Arc<Index>> {
    droppable(collection.index(name).ok_or_else(|| not_found(name))?)
}

fn with_key(collection: &Collection, key: RawDoc<'_>) -> Result<Arc<Index>> {
    let found: Vec<&Arc<Index>> =
        collection.indexes.iter().filter(|index| same_key(index.key.as_doc(), key)).collect();
    match found.as_slice() {
        [] => Err(Error::new(
            Code::INDEX_NOT_FOUND,
            format!("can't find index with key: {}", doc_text(key)),
        )),
        [index] => droppable(index),
        several => {
            let specs: Vec<String> = several.iter().map(|i| doc_text(i.spec.as_doc())).collect();
            Err(Error::new(
                Code::AMBIGUOUS_INDEX_KEY_PATTERN,
                format!(
                    "{} indexes found for key: {}, identify by name instead. Conflicting \
                     indexes: {}",
                    several.len(),
                    doc_text(key),
                    specs.join(", ")
                ),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::ejson;

    #[test]
    fn indexes_go_by_name_key_and_star() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let code = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).map_or_else(|e| e.code().0, |_| 0)
        };
        assert_eq!(code("{insert: 'i', documents: [{a: 1, b: 2, c: 3, d: 4}]}"), 0);
        for spec in [
            "{key: {a: 1}, name: 'a'}",
            "{key: {b: 1}, name: 'b'}",
            "{key: {c: 1}, name: 'c'}",
            "{key: {d: 1}, name: 'd'}",
            "{key: {d: 1}, name: 'd2', sparse: true}",
        ] {
            assert_eq!(code(&format!("{{createIndexes: 'i', indexes: [{spec}]}}")), 0);
        }
        for (index, expected) in [
            ("'nope'", 27),
            ("{zz: 1}", 27),
            ("'_id_'", 72),
            ("{_id: 1}", 72),
            ("['a', 'nope']", 27),
            ("['a', '_id_']", 72),
            ("['a', 'b']", 0),
            ("{d: 1}", 181),
            ("1", 14),
            ("{c: 1.0}", 0),
            ("'*'", 0),
            ("'*'", 0),
            ("[]", 0),
        ] {
            assert_eq!(code(&format!("{{dropIndexes: 'i', index: {index}}}")), expected, "{index}");
        }
        assert_eq!(code("{dropIndexes: 'i'}"), 40414);
        assert_eq!(code("{dropIndexes: 'nope', index: '*'}"), 26);
        assert_eq!(engine.inner().data.collection("t", "i").map(|c| c.indexes.len()), Some(1));
        assert!(engine.check(&mut |_, _, _| {}).expect("can be read").is_empty());
    }
}
