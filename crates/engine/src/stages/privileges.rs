//! The privileges that a client needs to run a pipeline. The row of a stage says what it needs;
//! here is the shared code.

use ::access::{Action, Actions, Privileges};
use value::{RawDoc, Val};

/// The nesting depth to which pipelines are checked; deeper ones are refused when parsed.
const DEPTH_MAX: usize = 64;

const FIND: Actions = Actions::of(&[Action::Find]);

/// What a stage needs; part of its row.
#[derive(Clone, Copy)]
pub(crate) enum Privilege {
    /// Nothing but the right to read the collection of the pipeline.
    None,
    /// The result of this function, instead of the right to read the collection: the stage is first
    /// and reads something else. Gets the name of the collection and the specification.
    Source(fn(&PipelinePrivileges<'_>, Option<&str>, Val<'_>) -> bool),
    /// The result of this function, and the right to read the collection. Gets the specification
    /// and the nesting depth of the stage.
    Beside(fn(&PipelinePrivileges<'_>, Val<'_>, usize) -> bool),
}

/// The fields of stages that privileges depend on.
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

/// Whether each relevant field occurs once, also under `from` and `into`: of a duplicate field, one
/// would be checked and the other one used.
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

/// The rights of a client, and the pipeline that is checked against them.
pub(crate) struct PipelinePrivileges<'a> {
    /// The client's privileges.
    pub(crate) privileges: &'a Privileges,
    /// The database of the pipeline.
    pub(crate) db: &'a str,
    /// What `$out` and `$merge` also need, if the command bypasses validation or patterns.
    pub(crate) beside: Actions,
}

impl PipelinePrivileges<'_> {
    /// Whether a pipeline over this collection is allowed; without a collection, over the database.
    pub(crate) fn is_allowed(&self, collection: Option<&str>, stages: RawDoc<'_>) -> bool {
        let first = stages.first().and_then(|(_, stage)| stage.as_doc()?.first());
        let source = first.and_then(|(name, value)| match super::find(name)?.privilege {
            Privilege::Source(allows) => {
                let value = value.get();
                Some(allows(self, collection, value) && value.as_doc().is_none_or(is_plain))
            }
            _ => None,
        });
        let source = source.unwrap_or_else(|| self.reads(self.db, collection.unwrap_or("$cmd")));
        source && self.stages_allowed(stages, 0)
    }

    /// Whether the stages are allowed, apart from reading the collection.
    pub(crate) fn stages_allowed(&self, stages: RawDoc<'_>, depth: usize) -> bool {
        depth >= DEPTH_MAX
            || stages
                .iter()
                .filter_map(|(_, stage)| stage.as_doc()?.first())
                .all(|(name, value)| self.stage_allowed(name, value.get(), depth))
    }

    fn stage_allowed(&self, name: &str, value: Val<'_>, depth: usize) -> bool {
        match super::find(name).map(|row| row.privilege) {
            Some(Privilege::Beside(allows)) => {
                value.as_doc().is_none_or(is_plain) && allows(self, value, depth)
            }
            _ => true,
        }
    }

    /// Whether the client may read a collection.
    pub(super) fn reads(&self, db: &str, collection: &str) -> bool {
        self.privileges.on_collection(db, collection).contains(FIND)
    }

    /// Whether the client may do an action on the collection of the pipeline.
    pub(super) fn on_collection(&self, collection: Option<&str>, action: Action) -> bool {
        let actions = Actions::of(&[action]);
        self.privileges.on_collection(self.db, collection.unwrap_or("$cmd")).contains(actions)
    }

    /// Whether the client may do an action on the server.
    pub(super) fn on_cluster(&self, action: Action) -> bool {
        self.privileges.on_cluster().contains(Actions::of(&[action]))
    }

    /// Whether the `pipeline` of a stage over a collection is allowed, if it has one. A stage that
    /// reports on the collection needs its own privilege beside that of reading.
    pub(super) fn inner_allowed(
        &self,
        collection: Option<&str>,
        spec: RawDoc<'_>,
        depth: usize,
    ) -> bool {
        let Some(Val::Array(stages)) = spec.get("pipeline") else { return true };
        let first = stages.first().and_then(|(_, stage)| stage.as_doc()?.first());
        let source =
            first.is_none_or(|(name, value)| match super::find(name).map(|row| row.privilege) {
                Some(Privilege::Source(allows)) => allows(self, collection, value.get()),
                _ => true,
            });
        source && self.stages_allowed(stages, depth + 1)
    }

    /// Whether the client may read the collection of a `$lookup` or `$graphLookup`, and run its
    /// pipeline.
    pub(super) fn join_allowed(&self, value: Val<'_>, depth: usize) -> bool {
        let Val::Document(doc) = value else { return true };
        let from = match doc.get("from") {
            Some(Val::String(name)) => self.reads(self.db, name),
            Some(Val::Document(from)) => {
                let part = |name| from.get(name).and_then(Val::as_str).unwrap_or("");
                self.reads(part("db"), part("coll"))
            }
            // A pipeline that begins with `$documents` reads no collection.
            _ => true,
        };
        let collection = doc.get("from").and_then(Val::as_str);
        from && self.inner_allowed(collection, doc, depth)
    }

    /// Whether actions are allowed on the collection that `$out` or `$merge` writes to.
    pub(super) fn output_allowed(&self, into: Val<'_>, actions: Actions) -> bool {
        let (db, name) = match into {
            Val::String(name) => (self.db, name),
            Val::Document(doc) => {
                let part = |name| doc.get(name).and_then(Val::as_str);
                (part("db").unwrap_or(self.db), part("coll").unwrap_or(""))
            }
            _ => (self.db, ""),
        };
        self.privileges.on_collection(db, name).contains(actions.union(self.beside))
    }
}

/// Whether a field of a specification is true.
pub(super) fn flag(spec: Val<'_>, name: &str) -> bool {
    spec.as_doc().and_then(|doc| doc.get(name)).is_some_and(Val::truthy)
}
