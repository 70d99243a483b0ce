//! `usersInfo`: returns information about users.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::access::Authorization;
use crate::access::User;
use crate::access::directory::{USERS, write_privileges, write_restrictions, write_roles};
use ::access::Action;
use ::access::Actions;
use query::ParseContext;
use query::filter::Filter;
use value::{DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "usersInfo",
    help: "Returns information about users.",
    fields: Some(&[
        "usersInfo",
        "showCredentials",
        "showCustomData",
        "showPrivileges",
        "showAuthenticationRestrictions",
        "filter",
    ]),
    privilege: Required::Custom(may_see),
    credentials: true,
    namespace: NamedIn::None,
    run: info,
    ..Command::BASE
};

/// The filter for the users that `usersInfo` names.
fn named_users(value: Val<'_>, db: &str) -> Result<DocBuf> {
    let one = |value: Val<'_>| match value {
        Val::String(name) => Ok((name.to_owned(), db.to_owned())),
        Val::Document(doc) => {
            let part = |name: &str| {
                doc.get(name).and_then(Val::as_str).map(str::to_owned).ok_or_else(|| {
                    Error::bad_value(format!("UserName must contain a field named: {name}"))
                })
            };
            Ok((part("user")?, part("db")?))
        }
        _ => Err(Error::bad_value("User name must be either a document or string")),
    };
    let names = match value {
        Val::Document(doc) if doc.find("forAllDBs").is_some() => return Ok(DocBuf::new()),
        Val::Array(list) if list.is_empty() => {
            return Err(Error::bad_value("$and/$or/$nor must be a nonempty array"));
        }
        Val::Array(list) => {
            list.iter().map(|(_, value)| one(value.get())).collect::<Result<Vec<_>>>()?
        }
        Val::String(_) | Val::Document(_) => vec![one(value)?],
        _ => {
            return Ok(DocBuf::build(|out| {
                out.str("db", db);
            }));
        }
    };
    Ok(DocBuf::build(|out| {
        out.doc("_id", |out| {
            out.array("$in", |array| {
                for (name, db) in &names {
                    array.push(Val::String(&format!("{db}.{name}")));
                }
            });
        });
    }))
}

fn info(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let credentials = args.bool("showCredentials")?;
    let custom = args.bool_or_true("showCustomData")?;
    let privileges = args.bool("showPrivileges")?;
    let restrictions = args.bool("showAuthenticationRestrictions")?;
    let filter = args.optional_doc("filter")?.unwrap_or(RawDoc::empty());
    let filter = Filter::parse(filter, &ParseContext::new(crate::clock::now_ms()))?;
    let value = args.doc.get("usersInfo").unwrap_or(Val::Int32(1));
    let mut directory = context.client.directory();
    let mut found = Vec::new();
    for doc in directory.find(USERS, named_users(value, context.db)?.as_doc())? {
        if !filter.matches(doc.as_doc())? {
            continue;
        }
        let inherited =
            if privileges || restrictions { Some(directory.resolve(doc.clone())?) } else { None };
        found.push(DocBuf::build(|out| {
            let doc = doc.as_doc();
            for (name, value) in doc {
                let wanted = match name {
                    "credentials" => credentials,
                    "customData" => custom,
                    // These fields come last, together with the inherited ones.
                    "authenticationRestrictions" => false,
                    "roles" => inherited.is_none(),
                    _ => true,
                };
                if wanted {
                    out.raw(name, value);
                }
                if name == "db" && inherited.is_some() {
                    write_mechanisms(out, doc);
                }
            }
            match &inherited {
                None => write_mechanisms(out, doc),
                Some(user) => write_inherited(out, doc, user, restrictions),
            }
        }));
    }
    out.array("users", |users| {
        found.iter().for_each(|user| users.push(Val::Document(user.as_doc())));
    });
    Ok(())
}

/// Writes the roles of a user and all inherited roles and privileges, in MongoDB's order.
fn write_inherited(out: &mut Writer<'_>, doc: RawDoc<'_>, user: &User, restrictions: bool) {
    let roles = |out: &mut Writer<'_>| {
        if let Some(roles) = doc.find("roles") {
            out.raw("roles", roles);
        }
    };
    match doc.find("authenticationRestrictions").filter(|_| restrictions) {
        Some(list) => {
            out.raw("authenticationRestrictions", list);
            roles(out);
        }
        None => {
            roles(out);
            if restrictions {
                out.array("authenticationRestrictions", |_| {});
            }
        }
    }
    write_roles(out, "inheritedRoles", &user.inherited.roles);
    write_privileges(out, "inheritedPrivileges", &user.inherited.privileges.list());
    write_restrictions(out, &user.inherited.restrictions);
}

fn write_mechanisms(out: &mut Writer<'_>, user: RawDoc<'_>) {
    let credentials = user.get("credentials").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    out.array("mechanisms", |names| {
        credentials.iter().for_each(|(name, _)| names.push(Val::String(name)));
    });
}

fn may_see(auth: &Authorization<'_>) -> bool {
    let Some((_, value)) = auth.body.first() else { return true };
    let own = |name: &str, db: &str| {
        auth.login.users().iter().any(|user| user.name == name && user.db == db)
    };
    let view =
        |db: &str| auth.privileges.on_database(db).contains(Actions::of(&[Action::ViewUser]));
    let one = |value: Val<'_>| match value {
        Val::String(name) => view(auth.db) || own(name, auth.db),
        Val::Document(doc) => {
            let part = |name| doc.get(name).and_then(Val::as_str).unwrap_or("");
            view(part("db")) || own(part("user"), part("db"))
        }
        _ => true,
    };
    match value.get() {
        Val::Document(doc) if doc.find("forAllDBs").is_some() => {
            auth.on_cluster(&[Action::ViewUser])
        }
        Val::Array(users) => users.into_iter().all(|(_, user)| one(user.get())),
        value @ (Val::String(_) | Val::Document(_)) => one(value),
        _ => view(auth.db),
    }
}
