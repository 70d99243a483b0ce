//! Users and roles: documents of `admin.system.users` and `admin.system.roles` in MongoDB's form,
//! so that its tools can read, dump and restore them.

pub(crate) use crate::catalog::{ROLES, USERS};
use crate::txn::Data;
use ::access::restriction::ConnectionAddresses;
use ::access::scram::{Credentials, Mechanism};
use ::access::{Privilege, Privileges, Restrictions, builtin};
use std::collections::BTreeSet;
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

/// The version of the form of users and roles, as MongoDB counts.
pub(crate) const SCHEMA_VERSION: i32 = 5;

/// The collection of `admin` with the version.
const VERSION: &str = "system.version";

/// A role, identified by its name and its database.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RoleName {
    pub(crate) role: String,
    pub(crate) db: String,
}

impl RoleName {
    pub(crate) fn new(role: &str, db: &str) -> RoleName {
        RoleName { role: role.to_owned(), db: db.to_owned() }
    }

    /// Parses a name or `{role, db}`; a name alone refers to a role of `db`.
    pub(crate) fn parse(value: Val<'_>, db: &str) -> Result<RoleName> {
        match value {
            Val::String(role) => Ok(RoleName::new(role, db)),
            Val::Document(doc) => {
                let part = |name: &str| {
                    doc.get(name).and_then(Val::as_str).ok_or_else(|| {
                        Error::bad_value(format!("RoleName must contain a field named: {name}"))
                    })
                };
                Ok(RoleName::new(part("role")?, part("db")?))
            }
            _ => Err(Error::bad_value("Role name must be either a document or string")),
        }
    }

    /// Parses an array of roles, removing duplicates.
    pub(crate) fn parse_all(array: RawDoc<'_>, db: &str) -> Result<Vec<RoleName>> {
        let mut names = Vec::new();
        for (_, value) in array {
            let name = RoleName::parse(value.get(), db)?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.str("role", &self.role).str("db", &self.db);
    }

    pub(crate) fn not_found(&self) -> Error {
        Error::new(Code::ROLE_NOT_FOUND, format!("Could not find role: {self}"))
    }

    pub(crate) fn is_builtin(&self) -> bool {
        builtin::find(&self.db, &self.role).is_some()
    }

    /// The `_id` of its document.
    pub(crate) fn id(&self) -> String {
        format!("{}.{}", self.db, self.role)
    }
}

impl std::fmt::Display for RoleName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.role, self.db)
    }
}

/// Writes an array of roles.
pub(crate) fn write_roles<'r>(
    out: &mut Writer<'_>,
    field: &str,
    roles: impl IntoIterator<Item = &'r RoleName>,
) {
    out.array(field, |array| {
        roles.into_iter().for_each(|role| array.push_doc(|out| role.write(out)));
    });
}

/// Writes an array of privileges.
pub(crate) fn write_privileges(out: &mut Writer<'_>, field: &str, privileges: &[Privilege]) {
    out.array(field, |array| {
        privileges.iter().for_each(|privilege| array.push_doc(|out| privilege.write(out)));
    });
}

/// Writes the restrictions inherited from roles.
pub(crate) fn write_restrictions(out: &mut Writer<'_>, lists: &[Restrictions]) {
    out.array("inheritedAuthenticationRestrictions", |array| {
        lists.iter().for_each(|list| list.push(array, false));
    });
}

/// A role with its own privileges and roles.
pub(crate) struct Role {
    pub(crate) name: RoleName,
    pub(crate) privileges: Vec<Privilege>,
    pub(crate) roles: Vec<RoleName>,
    /// The addresses from which a user with the role may log in.
    pub(crate) restrictions: Restrictions,
    pub(crate) builtin: bool,
}

impl Role {
    fn parse(name: RoleName, doc: RawDoc<'_>) -> Result<Role> {
        let array = |field| doc.get(field).and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let privileges = array("privileges").into_iter().filter_map(|(_, value)| value.as_doc());
        // Actions of another version of the server are ignored; the rest of the role is valid.
        let privileges = privileges.filter_map(|doc| Privilege::parse(doc).ok()).collect();
        let roles = RoleName::parse_all(array("roles"), &name.db)?;
        let restrictions = restrictions(doc)?;
        Ok(Role { name, privileges, roles, restrictions, builtin: false })
    }
}

/// Reads the restrictions of a user's or a role's document.
fn restrictions(doc: RawDoc<'_>) -> Result<Restrictions> {
    let list = doc.get("authenticationRestrictions").and_then(Val::as_array);
    Restrictions::parse(list.unwrap_or(RawDoc::empty()), "authenticationRestrictions")
}

/// The combined content of roles and all roles that they contain.
#[derive(Default)]
pub(crate) struct Inherited {
    /// All the roles.
    pub(crate) roles: Vec<RoleName>,
    /// Their privileges.
    pub(crate) privileges: Privileges,
    /// The restrictions on addresses; a login must satisfy each of these lists.
    pub(crate) restrictions: Vec<Restrictions>,
}

/// A user with its resolved roles.
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) db: String,
    /// Its direct and inherited roles, and their privileges.
    pub(crate) inherited: Inherited,
    /// The addresses from which it may log in.
    pub(crate) restrictions: Restrictions,
    /// The document.
    pub(crate) doc: DocBuf,
}

impl User {
    /// The stored credentials for a mechanism.
    pub(crate) fn credentials(&self, mechanism: Mechanism) -> Option<Credentials> {
        let all = self.doc.as_doc().get("credentials").and_then(Val::as_doc)?;
        Credentials::parse(all.get(mechanism.name()).and_then(Val::as_doc)?)
    }

    /// Whether it may use a connection with these addresses.
    pub(crate) fn may_come_from(&self, ends: ConnectionAddresses) -> bool {
        self.restrictions.allow(ends)
            && self.inherited.restrictions.iter().all(|restrictions| restrictions.allow(ends))
    }
}

/// Reads and writes the documents, with the rights of the server itself.
pub(crate) struct Directory {
    data: Arc<Data>,
}

impl Directory {
    pub(crate) fn open(data: Arc<Data>) -> Directory {
        Directory { data }
    }

    /// All documents in a collection of `admin` that match a filter, ordered by `_id`.
    pub(crate) fn find(&mut self, collection: &str, filter: RawDoc<'_>) -> Result<Vec<DocBuf>> {
        self.find_in("admin", collection, filter)
    }

    /// As `find`, in a collection of any database.
    pub(crate) fn find_in(
        &mut self,
        db: &str,
        collection: &str,
        filter: RawDoc<'_>,
    ) -> Result<Vec<DocBuf>> {
        let command = DocBuf::build(|out| {
            out.str("find", collection).append("filter", Val::Document(filter));
            out.doc("sort", |out| {
                out.i32("_id", 1);
            });
        });
        let mut reply = self.data.run_command(db, command.as_doc())?;
        let mut found = Vec::new();
        loop {
            let cursor =
                reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
            for batch in ["firstBatch", "nextBatch"] {
                let documents = cursor.get(batch).and_then(Val::as_array).into_iter().flatten();
                found.extend(documents.filter_map(|(_, doc)| doc.as_doc()).map(DocBuf::from));
            }
            let id = cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(0);
            if id == 0 {
                return Ok(found);
            }
            let more = DocBuf::build(|out| {
                out.i64("getMore", id).str("collection", collection);
            });
            reply = self.data.run_command(db, more.as_doc())?;
        }
    }

    /// The document with this `_id`.
    pub(crate) fn get(&mut self, collection: &str, id: &str) -> Result<Option<DocBuf>> {
        let filter = DocBuf::build(|out| {
            out.str("_id", id);
        });
        Ok(self.find(collection, filter.as_doc())?.pop())
    }

    /// Whether there is any user.
    pub(crate) fn has_users(&mut self) -> Result<bool> {
        let command = DocBuf::build(|out| {
            out.str("count", USERS).i32("limit", 1);
        });
        let reply = self.data.run_command("admin", command.as_doc())?;
        Ok(reply.as_doc().get("n").and_then(Val::as_i64_exact) != Some(0))
    }

    /// Runs a write on `admin` and returns the number of affected documents. Users and roles are
    /// then reloaded.
    ///
    /// # Errors
    /// The error of the command, or of its first failed statement.
    pub(crate) fn write(&mut self, command: &DocBuf) -> Result<i64> {
        let reply = self.data.run_command("admin", command.as_doc())?;
        let reply = reply.as_doc();
        let errors = reply.get("writeErrors").and_then(Val::as_array);
        if let Some(error) = errors.and_then(|errors| errors.first()?.1.as_doc()) {
            let code = error.get("code").and_then(Val::as_i64_exact).unwrap_or(1);
            let message = error.get("errmsg").and_then(Val::as_str).unwrap_or("");
            return Err(Error::new(Code(i32::try_from(code).unwrap_or(1)), message));
        }
        Ok(reply.get("n").and_then(Val::as_i64_exact).unwrap_or(0))
    }

    /// Inserts a user or a role. Returns `false` if there is one with the same `_id`.
    pub(crate) fn insert(&mut self, collection: &str, doc: &DocBuf) -> Result<bool> {
        let command = DocBuf::build(|out| {
            out.str("insert", collection);
            out.array("documents", |array| array.push(Val::Document(doc.as_doc())));
        });
        match self.write(&command) {
            Ok(_) => self.note_version().map(|()| true),
            Err(error) if error.code() == Code::DUPLICATE_KEY => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes the form of users and roles in `admin.system.version`, where tools that copy them look
    /// for it.
    pub(crate) fn note_version(&mut self) -> Result<()> {
        if self.data.collection("admin", VERSION).is_some()
            && self.get(VERSION, "authSchema")?.is_some()
        {
            return Ok(());
        }
        let command = DocBuf::build(|out| {
            out.str("update", VERSION);
            out.array("updates", |array| {
                array.push_doc(|out| {
                    out.doc("q", |out| {
                        out.str("_id", "authSchema");
                    });
                    out.doc("u", |out| {
                        out.i32("currentVersion", SCHEMA_VERSION);
                    });
                    out.bool("upsert", true);
                });
            });
        });
        self.write(&command).map(drop)
    }

    /// Updates the documents that match a filter. Returns their number.
    pub(crate) fn update(
        &mut self,
        collection: &str,
        filter: RawDoc<'_>,
        change: RawDoc<'_>,
    ) -> Result<i64> {
        let command = DocBuf::build(|out| {
            out.str("update", collection);
            out.array("updates", |array| {
                array.push_doc(|out| {
                    out.append("q", Val::Document(filter)).append("u", Val::Document(change));
                    out.bool("multi", !is_replacement(change));
                });
            });
        });
        self.write(&command)
    }

    /// Replaces the document with the same `_id`.
    pub(crate) fn replace(&mut self, collection: &str, doc: &DocBuf) -> Result<i64> {
        let id = doc.as_doc().get("_id").and_then(Val::as_str).unwrap_or("");
        let filter = DocBuf::build(|out| {
            out.str("_id", id);
        });
        self.update(collection, filter.as_doc(), doc.as_doc())
    }

    /// Deletes the documents that match a filter. Returns their number.
    pub(crate) fn remove(&mut self, collection: &str, filter: RawDoc<'_>) -> Result<i64> {
        let command = DocBuf::build(|out| {
            out.str("delete", collection);
            out.array("deletes", |array| {
                array.push_doc(|out| {
                    out.append("q", Val::Document(filter)).i32("limit", 0);
                });
            });
        });
        self.write(&command)
    }

    /// The user with this name, with its privileges.
    pub(crate) fn user(&mut self, db: &str, name: &str) -> Result<Option<User>> {
        let Some(doc) = self.get(USERS, &format!("{db}.{name}"))? else { return Ok(None) };
        self.resolve(doc).map(Some)
    }

    /// Resolves the roles of a user's document.
    pub(crate) fn resolve(&mut self, doc: DocBuf) -> Result<User> {
        let fields = doc.as_doc();
        let text = |name| fields.get(name).and_then(Val::as_str).unwrap_or("").to_owned();
        let (name, db) = (text("user"), text("db"));
        let roles = fields.get("roles").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let roles = RoleName::parse_all(roles, &db)?;
        let inherited = self.inherited(&roles)?;
        let restrictions = restrictions(fields)?;
        Ok(User { name, db, inherited, restrictions, doc })
    }

    /// The role with this name; built-in roles have no document.
    pub(crate) fn role(&mut self, name: &RoleName) -> Result<Option<Role>> {
        if let Some(role) = builtin::find(&name.db, &name.role) {
            let privileges = role.privileges(&name.db);
            let name = name.clone();
            return Ok(Some(Role {
                name,
                privileges,
                roles: Vec::new(),
                restrictions: Restrictions::default(),
                builtin: true,
            }));
        }
        match self.get(ROLES, &name.id())? {
            None => Ok(None),
            Some(doc) => Role::parse(name.clone(), doc.as_doc()).map(Some),
        }
    }

    /// Refuses roles that do not exist.
    pub(crate) fn check_roles(&mut self, roles: &[RoleName]) -> Result<()> {
        for role in roles {
            self.role(role)?.ok_or_else(|| role.not_found())?;
        }
        Ok(())
    }

    /// Resolves these roles: all roles that they contain, and their privileges.
    pub(crate) fn inherited(&mut self, roles: &[RoleName]) -> Result<Inherited> {
        let mut seen = BTreeSet::new();
        let mut found = Inherited::default();
        let mut open = roles.to_vec();
        while let Some(name) = open.pop() {
            if seen.contains(&name) {
                continue;
            }
            // A role that was dropped meanwhile grants nothing.
            if let Some(role) = self.role(&name)? {
                role.privileges.iter().for_each(|privilege| found.privileges.add(privilege));
                open.extend(role.roles);
                if !role.restrictions.is_empty() {
                    found.restrictions.push(role.restrictions);
                }
                seen.insert(name);
            }
        }
        found.roles = seen.into_iter().collect();
        Ok(found)
    }
}

fn is_replacement(change: RawDoc<'_>) -> bool {
    !change.first().is_some_and(|(name, _)| name.starts_with('$'))
}
