//! `_mergeAuthzCollections`: takes over users and roles that a tool restored into collections of its
//! own, as `mongorestore` does.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::access::directory::{ROLES, USERS};
use crate::access::{Authorization, Directory, RoleName};
use crate::namespace::Namespace;
use ::access::{Action, Actions, Privilege};
use std::collections::BTreeSet;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "_mergeAuthzCollections",
    help: "Takes over restored users and roles.",
    fields: Some(&[
        "_mergeAuthzCollections",
        "tempUsersCollection",
        "tempRolesCollection",
        "db",
        "drop",
    ]),
    admin: true,
    privilege: Required::Custom(may_merge),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: merge,
    ..Command::BASE
};

fn merge(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let users = named(context, "tempUsersCollection")?;
    let roles = named(context, "tempRolesCollection")?;
    let db = args.string("db")?;
    let drop = args.bool("drop")?;
    if users.is_none() && roles.is_none() {
        return Err(Error::bad_value(
            "Must provide at least one of \"tempUsersCollection\" and \"tempRolesCollection\"",
        ));
    }
    let mut directory = context.client.directory();
    for (from, kind) in [(users, &OF_USERS), (roles, &OF_ROLES)] {
        if let Some(from) = from {
            kind.merge(&mut directory, &from, db, drop)?;
        }
    }
    Ok(())
}

/// The collection that a field names; none if it is missing or empty.
fn named(context: &Context<'_>, field: &str) -> Result<Option<Namespace>> {
    let text = context.args.optional_string(field)?.filter(|text| !text.is_empty());
    text.map(Namespace::parse).transpose()
}

/// What differs between users and roles.
struct Merged {
    /// The collection that they are kept in.
    collection: &'static str,
    /// The field with the name.
    name: &'static str,
    /// Refuses a malformed document.
    check: fn(RawDoc<'_>, &str) -> Result<()>,
}

static OF_USERS: Merged = Merged { collection: USERS, name: "user", check: check_user };
static OF_ROLES: Merged = Merged { collection: ROLES, name: "role", check: check_role };

impl Merged {
    /// Takes over the documents of a collection. With `drop` they replace those that are there, and
    /// what is not among them is removed; otherwise those that are there stay.
    fn merge(
        &self,
        directory: &mut Directory,
        from: &Namespace,
        db: &str,
        drop: bool,
    ) -> Result<()> {
        let of_db = DocBuf::build(|out| {
            if !db.is_empty() {
                out.str("db", db);
            }
        });
        let restored = directory.find_in(&from.db, &from.collection, of_db.as_doc())?;
        // Nothing changes if one of them is malformed.
        let ids: Vec<String> =
            restored.iter().map(|doc| self.id(doc.as_doc())).collect::<Result<_>>()?;
        let mut old: BTreeSet<String> = BTreeSet::new();
        if drop {
            let found = directory.find(self.collection, of_db.as_doc())?;
            let id = |doc: &DocBuf| Some(doc.as_doc().get("_id")?.as_str()?.to_owned());
            old.extend(found.iter().filter_map(id));
        }
        for (doc, id) in restored.iter().zip(&ids) {
            if old.remove(id) {
                directory.replace(self.collection, doc)?;
            } else if !directory.insert(self.collection, doc)? {
                tracing::warn!(
                    kind = self.name,
                    "a restored {} exists already; it stays",
                    self.name
                );
            }
        }
        for id in old {
            directory.remove(self.collection, super::users::id_filter(&id).as_doc())?;
        }
        Ok(())
    }

    /// The `_id` of a document that is complete.
    fn id(&self, doc: RawDoc<'_>) -> Result<String> {
        let text = |field: &str| {
            let found = doc.get(field).and_then(Val::as_str).filter(|text| !text.is_empty());
            found.ok_or_else(|| self.malformed(field))
        };
        let (name, db) = (text(self.name)?, text("db")?);
        let id = format!("{db}.{name}");
        if text("_id")? != id {
            return Err(self.malformed("_id"));
        }
        (self.check)(doc, db)?;
        Ok(id)
    }

    fn malformed(&self, field: &str) -> Error {
        Error::new(
            Code::BAD_VALUE,
            format!("the document of a restored {} has no valid field '{field}'", self.name),
        )
    }
}

fn roles_of(doc: RawDoc<'_>, db: &str) -> Result<()> {
    let roles = doc.get("roles").and_then(Val::as_array);
    let roles = roles.ok_or_else(|| Error::bad_value("'roles' must be an array"))?;
    RoleName::parse_all(roles, db).map(drop)
}

fn check_user(doc: RawDoc<'_>, db: &str) -> Result<()> {
    if !matches!(doc.get("credentials"), Some(Val::Document(_))) {
        return Err(Error::bad_value("'credentials' must be an object"));
    }
    roles_of(doc, db)
}

fn check_role(doc: RawDoc<'_>, db: &str) -> Result<()> {
    let privileges = doc.get("privileges").and_then(Val::as_array);
    let privileges = privileges.ok_or_else(|| Error::bad_value("'privileges' must be an array"))?;
    for (_, privilege) in privileges {
        let privilege = privilege.as_doc();
        let privilege = privilege.ok_or_else(|| Error::bad_value("a privilege is an object"))?;
        // Actions of another version of the server are kept, and have no effect.
        if let Err(error) = Privilege::parse(privilege)
            && privilege.find("resource").is_none()
        {
            return Err(error);
        }
    }
    roles_of(doc, db)
}

fn may_merge(auth: &Authorization<'_>) -> bool {
    let needed = Actions::of(&[
        Action::CreateUser,
        Action::DropUser,
        Action::CreateRole,
        Action::DropRole,
        Action::GrantRole,
        Action::RevokeRole,
    ]);
    let db = auth.body.get("db").and_then(Val::as_str).unwrap_or("");
    let allowed = match db {
        "" => auth.privileges.on_any_collection(),
        db => auth.privileges.on_database(db),
    };
    let reads = |field: &str| {
        let name = auth.body.get(field).and_then(Val::as_str).unwrap_or("");
        name.is_empty() || auth.on_namespace(name, &[Action::Find])
    };
    allowed.contains(needed) && reads("tempUsersCollection") && reads("tempRolesCollection")
}
