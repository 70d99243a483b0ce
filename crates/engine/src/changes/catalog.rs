//! Log entries of catalog changes: the differences between two catalogs, as the commands that an
//! oplog contains.

use super::notes::{Notes, is_private};
use crate::catalog::{Catalog, Collection, Index, IndexState};
use crate::namespace;
use std::sync::Arc;
use value::{DocBuf, RawDoc, RawVal, Val, Writer, compare};

/// The cause of a catalog change, where the two catalogs do not show it.
#[derive(Clone, Copy)]
pub(crate) enum Cause<'a> {
    /// The catalogs show the cause.
    Plain,
    /// A whole database was dropped.
    DropDatabase(&'a str),
    /// `collMod` of a collection with these fields. It is logged even if it changes nothing, as in
    /// MongoDB.
    Modify { db: &'a str, name: &'a str, fields: RawDoc<'a> },
}

/// Records the differences between two catalogs.
pub(crate) fn note_catalog(notes: &mut Notes, old: &Catalog, new: &Catalog, cause: Cause<'_>) {
    let (before, after) = (changed(old, new), changed(new, old));
    let mut replaced = Vec::new();
    for now in &after {
        let Some(was) = before.iter().find(|was| was.uuid == now.uuid) else {
            note_create(notes, now);
            continue;
        };
        if (&was.db, &was.name) == (&now.db, &now.name) {
            note_altered(notes, was, now, cause);
            continue;
        }
        let target = before
            .iter()
            .find(|other| (&other.db, &other.name) == (&now.db, &now.name))
            .filter(|other| other.uuid != now.uuid);
        replaced.extend(target.map(|target| target.uuid));
        note_rename(notes, was, now, target.copied());
    }
    for was in before {
        let gone = !after.iter().any(|now| now.uuid == was.uuid) && !replaced.contains(&was.uuid);
        // Dropping a database logs nothing for its views, as in MongoDB.
        let silent = was.view().is_some() && matches!(cause, Cause::DropDatabase(_));
        if gone && !silent {
            let command = command("drop", &was.name, |_| {});
            notes.command(&was.db, uuid(was), &command, Some(&records(was)));
        }
    }
    if let Cause::Modify { db, name, fields } = cause
        && after.is_empty()
        && let Some(unchanged) = new.get(db, name)
    {
        note_modify(notes, unchanged, fields, None);
    }
    if let Cause::DropDatabase(db) = cause {
        let command = DocBuf::build(|out| {
            out.i32("dropDatabase", 1);
        });
        notes.command(db, None, &command, None);
    }
    if notes.is_empty() {
        note_declarations(notes, old, new);
    }
}

/// Gives a change of declarations its own cluster time, so that an earlier time names the state
/// with the old ones. Change streams do not show it.
fn note_declarations(notes: &mut Notes, old: &Catalog, new: &Catalog) {
    for db in new.databases.keys().filter(|db| !old.has_patterns_of(new, db)) {
        notes.nothing(&format!("patterns of {db}"));
    }
}

/// The collections of one catalog that differ in the other, without those that are not logged.
fn changed<'c>(picture: &'c Catalog, other: &'c Catalog) -> Vec<&'c Arc<Collection>> {
    picture.differing(other).filter(|collection| !is_private(collection)).collect()
}

fn uuid(collection: &Collection) -> Option<[u8; 16]> {
    collection.view().is_none().then_some(collection.uuid)
}

fn command(verb: &str, name: &str, rest: impl FnOnce(&mut Writer<'_>)) -> DocBuf {
    DocBuf::build(|out| {
        out.str(verb, name);
        rest(out);
    })
}

fn records(collection: &Collection) -> DocBuf {
    DocBuf::build(|out| {
        out.count("numRecords", collection.counters.documents());
    })
}

fn note_create(notes: &mut Notes, now: &Collection) {
    let create = command("create", &now.name, |out| {
        for (name, value) in now.options.as_doc() {
            // MongoDB does not mark these as temporary.
            if name != "temp" || !now.name.ends_with(namespace::MOVING) {
                out.raw(name, value);
            }
        }
        let clustered = now.options.as_doc().find("clusteredIndex").is_some();
        if let Some(index) = now.indexes.first().filter(|_| !clustered) {
            out.append("idIndex", Val::Document(index.spec.as_doc()));
        }
    });
    notes.command(&now.db, uuid(now), &create, None);
    let ready = now.indexes.iter().skip(1).filter(|index| index.state == IndexState::Ready);
    ready.for_each(|index| note_index(notes, now, index));
}

/// The fields of an index that stand in front in the log.
const LOGGED_FIRST: &[&str] = &["v", "unique", "hidden"];

/// An index as it is logged.
fn logged(index: &Index) -> DocBuf {
    DocBuf::build(|out| {
        out.extend_ordered(index.spec.as_doc(), LOGGED_FIRST);
    })
}

fn note_index(notes: &mut Notes, now: &Collection, index: &Index) {
    let create = command("createIndexes", &now.name, |out| {
        out.extend_ordered(index.spec.as_doc(), LOGGED_FIRST);
    });
    notes.command(&now.db, uuid(now), &create, None);
}

fn note_rename(
    notes: &mut Notes,
    was: &Collection,
    now: &Collection,
    target: Option<&Arc<Collection>>,
) {
    let rename = command("renameCollection", &was.namespace(), |out| {
        out.str("to", &now.namespace()).bool("stayTemp", false);
        if let Some(target) = target {
            out.append("dropTarget", Val::Binary(4, &target.uuid));
        }
    });
    let details = target.map(|target| records(target));
    notes.command(&was.db, uuid(now), &rename, details.as_ref());
}

fn note_altered(notes: &mut Notes, was: &Collection, now: &Collection, cause: Cause<'_>) {
    let find = |collection: &Collection, index: &Index| {
        collection.indexes.iter().find(|other| other.name == index.name).cloned()
    };
    let ready = |index: &Arc<Index>| index.state == IndexState::Ready;
    for index in was.indexes.iter().filter(|index| ready(index)) {
        if find(now, index).is_none_or(|other| other.id != index.id) {
            let drop = command("dropIndexes", &now.name, |out| {
                out.str("index", &index.name);
            });
            notes.command(&now.db, uuid(now), &drop, Some(&logged(index)));
        }
    }
    let mut built = Vec::new();
    let mut altered = None;
    for index in now.indexes.iter().filter(|index| ready(index)) {
        match find(was, index).filter(|other| other.id == index.id) {
            None => note_index(notes, now, index),
            Some(other) if !ready(&other) => built.push(index),
            Some(other) if other.spec != index.spec => altered = Some((other, index)),
            Some(_) => {}
        }
    }
    if !built.is_empty() {
        let commit = command("commitIndexBuild", &now.name, |out| {
            let build = value::random::uuid();
            out.append("indexBuildUUID", Val::Binary(4, &build));
            out.array("indexes", |list| {
                for index in &built {
                    list.push(Val::Document(logged(index).as_doc()));
                }
            });
        });
        notes.command(&now.db, uuid(now), &commit, None);
    }
    if let Cause::Modify { fields, .. } = cause {
        note_modify(notes, was, fields, altered);
    }
}

fn note_modify(
    notes: &mut Notes,
    was: &Collection,
    fields: RawDoc<'_>,
    altered: Option<(Arc<Index>, &Arc<Index>)>,
) {
    let change =
        fields.get("index").and_then(Val::as_doc).map(|change| IndexChange::new(was, change));
    let modify = command("collMod", &was.name, |out| {
        for (name, value) in fields {
            match (name, &change) {
                ("index", Some(change)) => change.write(out),
                _ => {
                    out.raw(name, value);
                }
            }
        }
    });
    if was.view().is_some() {
        notes.command(&was.db, None, &modify, None);
        return;
    }
    let details = DocBuf::build(|out| write_before(out, was, altered, change.as_ref()));
    notes.command(&was.db, uuid(was), &modify, Some(&details));
}

/// What `collMod` was asked to change in an index, without what the index is already. A time to
/// live always counts.
struct IndexChange<'a> {
    /// The index as it was; `None` if it is not found.
    index: Option<&'a Arc<Index>>,
    changes: Vec<(&'a str, RawVal<'a>)>,
}

impl<'a> IndexChange<'a> {
    fn new(was: &'a Collection, change: RawDoc<'a>) -> IndexChange<'a> {
        let name = change.get("name").and_then(Val::as_str);
        let pattern = change.get("keyPattern").and_then(Val::as_doc);
        let index = was.indexes.iter().find(|index| match (name, pattern) {
            (Some(name), _) => *index.name == *name,
            (None, Some(pattern)) => has_key(index, pattern),
            (None, None) => false,
        });
        let counts = |name: &str, value: RawVal<'_>| {
            let Some(index) = index else { return true };
            let asked = value.get().truthy();
            match name {
                "name" | "keyPattern" => false,
                "hidden" => asked != index.hidden,
                "unique" => asked != index.unique,
                "prepareUnique" => asked != index.prepare_unique,
                _ => true,
            }
        };
        let changes = change.iter().filter(|(name, value)| counts(name, *value)).collect();
        IndexChange { index, changes }
    }

    fn has(&self, name: &str) -> bool {
        self.changes.iter().any(|(known, _)| *known == name)
    }

    /// Writes it. The index is logged by its name, however it was named.
    fn write(&self, out: &mut Writer<'_>) {
        if self.changes.is_empty() {
            return;
        }
        out.doc("index", |out| {
            if let Some(index) = self.index {
                out.str("name", &index.name);
            }
            for (name, value) in &self.changes {
                match (*name, value.get().as_f64()) {
                    ("expireAfterSeconds", Some(seconds)) => out.i64(name, seconds as i64),
                    _ => out.raw(name, *value),
                };
            }
        });
    }
}

fn has_key(index: &Index, pattern: RawDoc<'_>) -> bool {
    compare::equal(Val::Document(index.key.as_doc()), Val::Document(pattern))
}

/// Writes the previous values of the options that `collMod` changed.
fn write_before(
    out: &mut Writer<'_>,
    was: &Collection,
    altered: Option<(Arc<Index>, &Arc<Index>)>,
    change: Option<&IndexChange<'_>>,
) {
    out.doc("collectionOptions_old", |out| {
        if was.view().is_none() {
            out.append("uuid", Val::Binary(4, &was.uuid));
        }
        out.extend(was.options.as_doc());
    });
    let same = change.filter(|change| change.has("expireAfterSeconds"));
    let same = same.and_then(|change| change.index).map(|index| (index.clone(), index));
    let Some((old, new)) = altered.or(same) else { return };
    out.doc("indexOptions_old", |out| {
        for name in ["expireAfterSeconds", "hidden", "prepareUnique"] {
            let (old, new) = (old.spec.as_doc().get(name), new.spec.as_doc().get(name));
            match (name, old) {
                ("expireAfterSeconds", Some(old)) => {
                    let asked = change.is_some_and(|change| change.has(name));
                    if let Some(seconds) = old.as_f64().filter(|_| asked) {
                        out.i64(name, seconds as i64);
                    }
                }
                _ if old == new => {}
                // It is taken away when the index becomes unique.
                ("prepareUnique", Some(_)) => {}
                ("hidden" | "prepareUnique", _) => {
                    out.bool(name, old.is_some_and(Val::truthy));
                }
                _ => {}
            }
        }
    });
}
