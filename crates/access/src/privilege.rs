//! Privileges: actions on resources, and the combined privileges of a user.

use crate::action::{Action, Actions};
use crate::resource::{BUCKETS_PREFIX, Resource};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use value::{Code, Error, RawDoc, Result, Val, Writer};

/// Actions on a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Privilege {
    /// The resource.
    pub resource: Resource,
    /// The actions.
    pub actions: Actions,
}

impl Privilege {
    /// Reads `{resource, actions}`.
    ///
    /// # Errors
    /// FailedToParse for what is not understood, an unknown action included.
    pub fn parse(doc: RawDoc<'_>) -> Result<Privilege> {
        let wrong = |message: String| Error::new(Code::FAILED_TO_PARSE, message);
        let (mut resource, mut actions) = (None, None);
        for (name, value) in doc {
            match (name, value.get()) {
                ("resource", Val::Document(doc)) => resource = Some(Resource::parse(doc)?),
                ("actions", Val::Array(names)) => {
                    let mut set = Actions::default();
                    for (_, name) in names {
                        let name = name.get().as_str().unwrap_or("");
                        let action = Action::named(name).ok_or_else(|| {
                            Error::bad_value(format!("Unrecognized action: {name}"))
                        })?;
                        set.add(action);
                    }
                    actions = Some(set);
                }
                _ => return Err(wrong(format!("a privilege has no field `{name}` of this type"))),
            }
        }
        match (resource, actions) {
            (Some(_), Some(actions)) if actions.is_empty() => {
                Err(wrong("privilege must have at least one action".to_owned()))
            }
            (Some(resource), Some(actions)) => Ok(Privilege { resource, actions }),
            _ => Err(wrong("a privilege must have the fields `resource` and `actions`".to_owned())),
        }
    }

    /// Writes its fields.
    pub fn write(&self, out: &mut Writer<'_>) {
        out.doc("resource", |out| self.resource.write(out));
        out.array("actions", |names| {
            self.actions.names().into_iter().for_each(|name| names.push(Val::String(name)));
        });
    }
}

type Map<V> = HashMap<Box<str>, V, RandomState>;

/// The combined privileges of a user, indexed so that a check costs a few look-ups.
#[derive(Clone, Debug, Default)]
pub struct Privileges {
    anything: Actions,
    cluster: Actions,
    any_collection: Actions,
    databases: Map<Actions>,
    named: Map<Actions>,
    exact: Map<Map<Actions>>,
    buckets: Vec<Buckets>,
}

/// Database and collection; `None` means all of them.
type Buckets = (Option<Box<str>>, Option<Box<str>>, Actions);

impl Privileges {
    /// Everything.
    #[must_use]
    pub fn all() -> Privileges {
        Privileges { anything: Actions::EVERY, ..Privileges::default() }
    }

    /// Adds what a privilege allows.
    pub fn add(&mut self, privilege: &Privilege) {
        let set = |actions: &mut Actions| *actions = actions.union(privilege.actions);
        match &privilege.resource {
            Resource::Anything => set(&mut self.anything),
            Resource::Cluster => set(&mut self.cluster),
            Resource::AnyCollection => set(&mut self.any_collection),
            Resource::Database(db) => set(self.databases.entry(db.clone()).or_default()),
            Resource::Named(name) => set(self.named.entry(name.clone()).or_default()),
            Resource::Exact(db, name) => {
                set(self.exact.entry(db.clone()).or_default().entry(name.clone()).or_default());
            }
            Resource::Buckets(db, name) => {
                let known =
                    self.buckets.iter_mut().find(|known| known.0 == *db && known.1 == *name);
                match known {
                    Some((_, _, actions)) => set(actions),
                    None => self.buckets.push((db.clone(), name.clone(), privilege.actions)),
                }
            }
        }
    }

    /// What is allowed on a collection.
    #[must_use]
    pub fn on_collection(&self, db: &str, name: &str) -> Actions {
        let mut actions = self.anything;
        if let Some(series) = name.strip_prefix(BUCKETS_PREFIX) {
            for (in_db, of, allowed) in &self.buckets {
                let here = in_db.as_deref().is_none_or(|in_db| in_db == db);
                if here && of.as_deref().is_none_or(|of| of == series) {
                    actions = actions.union(*allowed);
                }
            }
        }
        if !name.starts_with("system.") {
            actions = actions.union(self.on_ordinary_collections(db));
        }
        if let Some(named) = self.named.get(name) {
            actions = actions.union(*named);
        }
        match self.exact.get(db).and_then(|names| names.get(name)) {
            Some(exact) => actions.union(*exact),
            None => actions,
        }
    }

    /// What is allowed on a database as such.
    #[must_use]
    pub fn on_database(&self, db: &str) -> Actions {
        self.anything.union(self.on_ordinary_collections(db))
    }

    fn on_ordinary_collections(&self, db: &str) -> Actions {
        let own = self.databases.get(db).copied().unwrap_or_default();
        if matches!(db, "local" | "config") { own } else { own.union(self.any_collection) }
    }

    /// What is allowed on the server as a whole.
    #[must_use]
    pub fn on_cluster(&self) -> Actions {
        self.anything.union(self.cluster)
    }

    /// What is allowed on all collections of all databases, those of the system apart.
    #[must_use]
    pub fn on_any_collection(&self) -> Actions {
        self.anything.union(self.any_collection)
    }

    /// What is allowed on everything there is.
    #[must_use]
    pub fn on_anything(&self) -> Actions {
        self.anything
    }

    /// Whether any action is allowed on something in this database.
    #[must_use]
    pub fn reaches_database(&self, db: &str) -> bool {
        !self.on_database(db).is_empty()
            || self.exact.contains_key(db)
            || self.buckets.iter().any(|(in_db, ..)| in_db.as_deref() == Some(db))
    }

    /// Whether every action of the privilege is allowed on all of its resource.
    #[must_use]
    pub fn cover(&self, privilege: &Privilege) -> bool {
        let allowed = match &privilege.resource {
            Resource::Anything => self.anything,
            Resource::Cluster => self.on_cluster(),
            Resource::AnyCollection => self.on_any_collection(),
            Resource::Database(db) => self.on_database(db),
            Resource::Named(name) => {
                let named = self.named.get(name).copied().unwrap_or_default();
                self.anything.union(named)
            }
            Resource::Exact(db, name) => self.on_collection(db, name),
            Resource::Buckets(db, name) => self
                .buckets
                .iter()
                .filter(|(in_db, of, _)| {
                    (in_db.is_none() || in_db == db) && (of.is_none() || of == name)
                })
                .fold(self.anything, |sum, (.., actions)| sum.union(*actions)),
        };
        allowed.contains(privilege.actions)
    }

    /// Each resource once with all its actions, in a fixed order.
    #[must_use]
    pub fn list(&self) -> Vec<Privilege> {
        let mut list = vec![
            Privilege { resource: Resource::Anything, actions: self.anything },
            Privilege { resource: Resource::Cluster, actions: self.cluster },
            Privilege { resource: Resource::AnyCollection, actions: self.any_collection },
        ];
        let mut push = |resource, actions: &Actions| {
            list.push(Privilege { resource, actions: *actions });
        };
        self.databases.iter().for_each(|(db, set)| push(Resource::Database(db.clone()), set));
        self.named.iter().for_each(|(name, set)| push(Resource::Named(name.clone()), set));
        for (db, names) in &self.exact {
            for (name, set) in names {
                push(Resource::Exact(db.clone(), name.clone()), set);
            }
        }
        for (db, name, set) in &self.buckets {
            push(Resource::Buckets(db.clone(), name.clone()), set);
        }
        list.retain(|privilege| !privilege.actions.is_empty());
        list.sort_by(|one, other| one.resource.cmp(&other.resource));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn privileges(texts: &[&str]) -> Privileges {
        let mut all = Privileges::default();
        for text in texts {
            let doc = ejson::parse_doc(text).expect("test text");
            all.add(&Privilege::parse(doc.as_doc()).expect(text));
        }
        all
    }

    const FIND: Actions = Actions::of(&[Action::Find]);

    #[test]
    fn a_database_is_its_collections_but_not_those_of_the_system() {
        let all = privileges(&["{resource: {db: 'a', collection: ''}, actions: ['find']}"]);
        assert!(all.on_collection("a", "x").contains(FIND));
        assert!(!all.on_collection("a", "system.users").contains(FIND));
        assert!(!all.on_collection("b", "x").contains(FIND));
        assert!(all.reaches_database("a") && !all.reaches_database("b"));
    }

    #[test]
    fn all_databases_are_those_of_users() {
        let all = privileges(&["{resource: {db: '', collection: ''}, actions: ['find']}"]);
        assert!(all.on_collection("a", "x").contains(FIND));
        assert!(!all.on_collection("local", "x").contains(FIND));
        assert!(!all.on_collection("config", "x").contains(FIND));
        assert!(!all.on_collection("a", "system.buckets.x").contains(FIND));
    }

    #[test]
    fn one_covers_what_it_contains() {
        let all = privileges(&[
            "{resource: {db: 'a', collection: ''}, actions: ['find', 'insert']}",
            "{resource: {cluster: true}, actions: ['inprog']}",
            "{resource: {system_buckets: ''}, actions: ['find']}",
        ]);
        let covers = |text: &str| {
            let doc = ejson::parse_doc(text).expect("test text");
            all.cover(&Privilege::parse(doc.as_doc()).expect(text))
        };
        assert!(covers("{resource: {db: 'a', collection: 'b'}, actions: ['find']}"));
        assert!(covers("{resource: {cluster: true}, actions: ['inprog']}"));
        assert!(covers("{resource: {db: 'a', system_buckets: 'x'}, actions: ['find']}"));
        assert!(!covers("{resource: {db: 'a', collection: 'b'}, actions: ['find', 'remove']}"));
        assert!(!covers("{resource: {db: '', collection: ''}, actions: ['find']}"));
        assert!(!covers("{resource: {anyResource: true}, actions: ['find']}"));
    }

    #[test]
    fn the_list_gives_the_same_again() {
        let all = privileges(&[
            "{resource: {db: 'a', collection: 'b'}, actions: ['find']}",
            "{resource: {db: 'a', collection: 'b'}, actions: ['insert']}",
            "{resource: {anyResource: true}, actions: ['anyAction']}",
        ]);
        let list = all.list();
        assert_eq!(list.len(), 2);
        let mut again = Privileges::default();
        list.iter().for_each(|privilege| again.add(privilege));
        assert_eq!(again.list(), list);
    }
}
