//! What the stages of a pipeline need: each that reads or writes another collection, or tells about the
//! server, is a privilege of its own.

use ::access::{Action, Actions, Privileges};
use value::{RawDoc, Val};

/// Deeper pipelines in pipelines are not looked into: they are refused when they are parsed.
const DEPTH_MAX: usize = 64;

const FIND: Actions = Actions::of(&[Action::Find]);

/// Stages that read or write elsewhere.
const FOREIGN: [&str; 5] = ["$lookup", "$graphLookup", "$unionWith", "$out", "$merge"];

/// The fields of stages that privileges are asked for.
const ASKED: [&str; 9] = [
    "from",
    "coll",
    "db",
    "into",
    "pipeline",
    "whenMatched",
    "whenNotMatched",
    "allUsers",
    "allChangesForCluster",
];

/// Whether each field that matters is there once, also in what stands under `from` and `into`: of a
/// field that is there twice, one would be looked at and the other one used.
fn is_plain(doc: RawDoc<'_>) -> bool {
    let mut seen = [false; ASKED.len()];
    for (name, value) in doc {
        let Some((_, seen)) = ASKED.iter().zip(&mut seen).find(|(asked, _)| **asked == name) else {
            continue;
        };
        let inner = value.as_doc().filter(|_| matches!(name, "from" | "into"));
        if std::mem::replace(seen, true) || inner.is_some_and(|inner| !is_plain(inner)) {
            return false;
        }
    }
    true
}

/// A pipeline and what it may be run with.
pub(crate) struct Pipeline<'a> {
    pub(crate) privileges: &'a Privileges,
    pub(crate) db: &'a str,
    /// What `$out` and `$merge` need beside, because they skip something.
    pub(crate) beside: Actions,
}

impl Pipeline<'_> {
    /// Whether all that a pipeline over this collection does is allowed; without a collection it is the
    /// database's.
    pub(crate) fn is_allowed(&self, collection: Option<&str>, stages: RawDoc<'_>) -> bool {
        let first = stages.first().and_then(|(_, stage)| stage.as_doc()?.first());
        let source = match first {
            Some((name, value)) => self.source(collection, name, value.get()),
            None => None,
        };
        let source = source.unwrap_or_else(|| self.reads(self.db, collection.unwrap_or("$cmd")));
        source && self.stages_allowed(stages, 0)
    }

    /// What a first stage needs that reads something else than the collection's documents.
    fn source(&self, collection: Option<&str>, stage: &str, value: Val<'_>) -> Option<bool> {
        let on = |action| {
            let actions = Actions::of(&[action]);
            self.privileges.on_collection(self.db, collection.unwrap_or("$cmd")).contains(actions)
        };
        let cluster = |action| self.privileges.on_cluster().contains(Actions::of(&[action]));
        let flag =
            |name: &str| value.as_doc().and_then(|doc| doc.get(name)).is_some_and(Val::truthy);
        let allowed = match stage {
            "$collStats" => on(Action::CollStats),
            "$indexStats" => on(Action::IndexStats),
            "$planCacheStats" => on(Action::PlanCacheRead),
            "$listCatalog" => match collection {
                Some(_) => on(Action::ListCollections) && on(Action::ListIndexes),
                None => self
                    .privileges
                    .on_anything()
                    .contains(Actions::of(&[Action::ListCollections, Action::ListIndexes])),
            },
            "$changeStream" => self.stream_allowed(collection, flag("allChangesForCluster")),
            // Everybody may see what they run themselves.
            "$currentOp" => !flag("allUsers") || cluster(Action::Inprog),
            "$listLocalSessions" | "$listSessions" => {
                let others = value.as_doc().is_some_and(|doc| doc.find("users").is_some());
                !(others || flag("allUsers")) || cluster(Action::ListSessions)
            }
            "$queryStats" => {
                let hashed = value.as_doc().and_then(|doc| doc.get("transformIdentifiers"));
                cluster(Action::QueryStatsRead)
                    && (hashed.is_none() || cluster(Action::QueryStatsReadTransformed))
            }
            "$querySettings" => cluster(Action::QuerySettings),
            _ => return None,
        };
        Some(allowed && value.as_doc().is_none_or(is_plain))
    }

    fn stream_allowed(&self, collection: Option<&str>, cluster: bool) -> bool {
        let both = Actions::of(&[Action::Find, Action::ChangeStream]);
        match collection {
            _ if cluster => self.privileges.on_any_collection().contains(both),
            Some(name) => self.privileges.on_collection(self.db, name).contains(both),
            None => self.privileges.on_database(self.db).contains(both),
        }
    }

    fn reads(&self, db: &str, collection: &str) -> bool {
        self.privileges.on_collection(db, collection).contains(FIND)
    }

    pub(crate) fn stages_allowed(&self, stages: RawDoc<'_>, depth: usize) -> bool {
        depth >= DEPTH_MAX
            || stages
                .iter()
                .filter_map(|(_, stage)| stage.as_doc()?.first())
                .all(|(name, value)| self.stage_allowed(name, value.get(), depth))
    }

    fn stage_allowed(&self, stage: &str, value: Val<'_>, depth: usize) -> bool {
        if FOREIGN.contains(&stage) && value.as_doc().is_some_and(|doc| !is_plain(doc)) {
            return false;
        }
        let inner = |doc: RawDoc<'_>| match doc.get("pipeline") {
            Some(Val::Array(stages)) => self.stages_allowed(stages, depth + 1),
            _ => true,
        };
        match (stage, value) {
            ("$lookup" | "$graphLookup", Val::Document(doc)) => {
                let from = match doc.get("from") {
                    Some(Val::String(name)) => self.reads(self.db, name),
                    Some(Val::Document(from)) => {
                        let part = |name| from.get(name).and_then(Val::as_str).unwrap_or("");
                        self.reads(part("db"), part("coll"))
                    }
                    // A pipeline that begins with `$documents` reads no collection.
                    _ => true,
                };
                from && inner(doc)
            }
            ("$unionWith", Val::String(name)) => self.reads(self.db, name),
            ("$unionWith", Val::Document(doc)) => {
                let read = |name| self.reads(self.db, name);
                doc.get("coll").and_then(Val::as_str).is_none_or(read) && inner(doc)
            }
            ("$facet", Val::Document(parts)) => parts
                .iter()
                .filter_map(|(_, part)| part.as_array())
                .all(|stages| self.stages_allowed(stages, depth + 1)),
            ("$out", value) => {
                let (db, name) = self.target(value, "coll");
                let needed = Actions::of(&[Action::Insert, Action::Remove]).union(self.beside);
                self.privileges.on_collection(db, name).contains(needed)
            }
            ("$merge", value) => self.merge_allowed(value),
            _ => true,
        }
    }

    fn target<'v>(&'v self, value: Val<'v>, field: &str) -> (&'v str, &'v str) {
        match value {
            Val::String(name) => (self.db, name),
            Val::Document(doc) => {
                let part = |name| doc.get(name).and_then(Val::as_str);
                (part("db").unwrap_or(self.db), part(field).unwrap_or(""))
            }
            _ => (self.db, ""),
        }
    }

    fn merge_allowed(&self, value: Val<'_>) -> bool {
        let options = value.as_doc();
        let into = options.and_then(|doc| doc.get("into")).unwrap_or(value);
        let (db, name) = self.target(into, "coll");
        let mode = |name| options.and_then(|doc| doc.get(name)).and_then(Val::as_str);
        let mut needed = Actions::default();
        match mode("whenMatched") {
            Some("fail") => needed.add(Action::Insert),
            Some("keepExisting") => needed.add(Action::Update),
            _ => needed.add(Action::Update),
        }
        if mode("whenNotMatched").is_none_or(|mode| mode == "insert") {
            needed.add(Action::Insert);
        }
        self.privileges.on_collection(db, name).contains(needed.union(self.beside))
    }
}
