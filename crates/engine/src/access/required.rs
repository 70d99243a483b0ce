//! The privileges that commands require. The row of a command says which.

use super::login::Login;
use super::{Directory, RoleName};
use crate::request::Request;
use crate::txn::Data;
use ::access::{Action, Actions, Privilege, Privileges, Resource};
use std::sync::Arc;
use value::{Code, Error, RawDoc, Result, Val};

/// The privileges that a command requires. Set in the command's row.
#[derive(Clone, Copy)]
pub(crate) enum Required {
    /// None: a client may send it without a login.
    Nothing,
    /// A login.
    Login,
    /// Actions on the collection that its first field names.
    Collection(&'static [Action]),
    /// Actions on its database.
    Database(&'static [Action]),
    /// Actions on the server.
    Cluster(&'static [Action]),
    /// This function decides; the privileges depend on the command's fields.
    Custom(fn(&Authorization<'_>) -> bool),
    /// All actions on everything.
    Everything,
}

/// A command that a client wants to run.
pub(crate) struct Requirement {
    /// Its name.
    pub(crate) command: &'static str,
    /// The required privileges.
    pub(crate) required: Required,
    /// Whether it may be run without a login while there are no users.
    pub(crate) first_user: bool,
}

/// The rights of a client, and the command to check.
pub(crate) struct Authorization<'a> {
    /// The client's login.
    pub(crate) login: &'a Login,
    /// The client's privileges.
    pub(crate) privileges: &'a Privileges,
    /// The database of the command.
    pub(crate) db: &'a str,
    /// The fields of the command.
    pub(crate) body: RawDoc<'a>,
    /// The request that the command came with.
    pub(crate) request: &'a Request<'a>,
}

/// Refuses a command that the client may not run.
///
/// # Errors
/// Unauthorized.
pub(crate) fn check(
    data: &Arc<Data>,
    login: &mut Login,
    requirement: &Requirement,
    db: &str,
    request: &Request<'_>,
) -> Result<()> {
    if matches!(requirement.required, Required::Nothing) {
        return Ok(());
    }
    login.refresh(data)?;
    if login.users().is_empty() {
        if is_first_user(data, login, requirement, db)? {
            return Ok(());
        }
        return Err(Error::new(
            Code::UNAUTHORIZED,
            format!("command {} requires authentication", requirement.command),
        ));
    }
    let (login, privileges) = (&*login, &**login.privileges());
    let auth = Authorization { login, privileges, db, body: request.body, request };
    if auth.has(requirement.required) { Ok(()) } else { Err(auth.refuse(requirement.command)) }
}

/// While there are no users, a client on this machine may create the first one.
fn is_first_user(
    data: &Arc<Data>,
    login: &Login,
    requirement: &Requirement,
    db: &str,
) -> Result<bool> {
    if db != "admin" || !requirement.first_user || !login.local {
        return Ok(false);
    }
    Ok(!Directory::open(Arc::clone(data)).has_users()?)
}

impl<'a> Authorization<'a> {
    /// Whether the client has the required privileges.
    pub(crate) fn has(&self, required: Required) -> bool {
        match required {
            Required::Nothing | Required::Login => true,
            Required::Collection(actions) => self.on_collection(self.collection(), actions),
            Required::Database(actions) => self.on_database(actions),
            Required::Cluster(actions) => self.on_cluster(actions),
            Required::Custom(allows) => allows(self),
            Required::Everything => self.privileges.on_anything() == Actions::EVERY,
        }
    }

    fn refuse(&self, command: &str) -> Error {
        // Only the collection's name is included; other values may be anything.
        let collection = self.collection();
        let what = if collection.is_empty() { "1".to_owned() } else { format!("\"{collection}\"") };
        Error::new(
            Code::UNAUTHORIZED,
            format!("not authorized on {} to execute command {{ {command}: {what} }}", self.db),
        )
    }

    /// The collection in the first field; empty when there is none.
    pub(crate) fn collection(&self) -> &'a str {
        self.body.first().and_then(|(_, value)| value.get().as_str()).unwrap_or("")
    }

    /// Whether the client may do these actions on a collection of the database.
    pub(crate) fn on_collection(&self, name: &str, actions: &[Action]) -> bool {
        self.privileges.on_collection(self.db, name).contains(Actions::of(actions))
    }

    /// Whether the client may do these actions on the database.
    pub(crate) fn on_database(&self, actions: &[Action]) -> bool {
        self.privileges.on_database(self.db).contains(Actions::of(actions))
    }

    /// Whether the client may do these actions on the server.
    pub(crate) fn on_cluster(&self, actions: &[Action]) -> bool {
        self.privileges.on_cluster().contains(Actions::of(actions))
    }

    /// Actions on a `db.collection`.
    pub(crate) fn on_namespace(&self, namespace: &str, actions: &[Action]) -> bool {
        let (db, name) = namespace.split_once('.').unwrap_or((namespace, ""));
        self.privileges.on_collection(db, name).contains(Actions::of(actions))
    }

    /// Whether a field of the command is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.body.get(name).is_some_and(Val::truthy)
    }

    /// The additional actions for the checks that a write bypasses: validators, patterns.
    pub(crate) fn skips(&self) -> Actions {
        let mut needed = Actions::default();
        if self.flag("bypassDocumentValidation") {
            needed.add(Action::BypassDocumentValidation);
        }
        if self.flag("bypassPatterns") {
            needed.add(Action::BypassPatterns);
        }
        needed
    }

    /// Whether the client may do these actions on the collection, and bypass the checks that the
    /// command bypasses.
    pub(crate) fn writes(&self, needed: Actions) -> bool {
        let needed = needed.union(self.skips());
        self.privileges.on_collection(self.db, self.collection()).contains(needed)
    }

    /// The statements of a write, from its array or its document sequence.
    pub(crate) fn statements(&self, name: &'a str) -> impl Iterator<Item = RawDoc<'a>> {
        let inside = self.body.get(name).and_then(Val::as_array).into_iter().flatten();
        let inside = inside.filter_map(|(_, statement)| statement.as_doc());
        let beside = self.request.sequences.iter().filter(move |sequence| sequence.name == name);
        inside.chain(beside.flat_map(crate::request::Sequence::iter))
    }

    /// Whether the user may grant or revoke these roles.
    pub(crate) fn on_roles(&self, field: &str, action: Action) -> bool {
        let roles = self.body.get(field).and_then(Val::as_array).unwrap_or(RawDoc::empty());
        // Invalid roles are refused when the command parses them.
        let roles = RoleName::parse_all(roles, self.db).unwrap_or_default();
        roles
            .iter()
            .all(|role| self.privileges.on_database(&role.db).contains(Actions::of(&[action])))
    }

    /// Whether the user may grant or revoke these privileges.
    pub(crate) fn on_privileges(&self, action: Action) -> bool {
        let list = self.body.get("privileges").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let mut list = list.into_iter().filter_map(|(_, value)| value.as_doc());
        list.all(|doc| match Privilege::parse(doc) {
            Err(_) => true,
            Ok(privilege) => {
                let db = match &privilege.resource {
                    Resource::Database(db) | Resource::Exact(db, _) => db,
                    _ => "admin",
                };
                self.privileges.on_database(db).contains(Actions::of(&[action]))
            }
        })
    }

    /// Whether the client may do this action on all databases.
    pub(crate) fn on_all_databases(&self, action: Action) -> bool {
        self.privileges.on_any_collection().contains(Actions::of(&[action]))
    }

    /// Whether the client may set authentication restrictions, if the command sets them.
    pub(crate) fn may_restrict(&self) -> bool {
        self.body.find("authenticationRestrictions").is_none()
            || self.on_database(&[Action::SetAuthenticationRestriction])
    }
}
