//! The commands about users: `createUser`, `updateUser`, `dropUser`, `dropAllUsersFromDatabase`,
//! `grantRolesToUser`, `revokeRolesFromUser`, `usersInfo`.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::access::Authorization;
use crate::access::directory::{USERS, write_privileges, write_restrictions, write_roles};
use crate::access::{EXTERNAL, RoleName, User};
use ::access::Action;
use ::access::Actions;
use access::Restrictions;
use access::scram::{Credentials, Mechanism};
use access::x509::Name;
use query::ParseContext;
use query::filter::Filter;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static CREATE: Command = Command {
    name: "createUser",
    help: "Makes a user.",
    fields: Some(&[
        "createUser",
        "pwd",
        "customData",
        "roles",
        "digestPassword",
        "authenticationRestrictions",
        "mechanisms",
        "passwordDigestor",
    ]),
    privilege: Required::Custom(may_create),
    first_user: true,
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    uncompressed: true,
    run: create,
    ..Command::BASE
};
pub(super) static UPDATE: Command = Command {
    name: "updateUser",
    help: "Changes a user's password, roles or data.",
    fields: Some(&[
        "updateUser",
        "pwd",
        "customData",
        "roles",
        "digestPassword",
        "authenticationRestrictions",
        "mechanisms",
        "passwordDigestor",
    ]),
    privilege: Required::Custom(may_update),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    uncompressed: true,
    run: update,
    ..Command::BASE
};
pub(super) static DROP: Command = Command {
    name: "dropUser",
    help: "Removes a user.",
    fields: Some(&["dropUser"]),
    privilege: Required::Database(&[Action::DropUser]),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: drop_user,
    ..Command::BASE
};
pub(super) static DROP_ALL: Command = Command {
    name: "dropAllUsersFromDatabase",
    help: "Removes all users of a database.",
    fields: Some(&["dropAllUsersFromDatabase"]),
    privilege: Required::Database(&[Action::DropUser]),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: drop_all,
    ..Command::BASE
};
pub(super) static GRANT: Command = Command {
    name: "grantRolesToUser",
    help: "Gives roles to a user.",
    fields: Some(&["grantRolesToUser", "roles"]),
    privilege: Required::Custom(|auth| auth.on_roles("roles", Action::GrantRole)),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: grant,
    ..Command::BASE
};
pub(super) static REVOKE: Command = Command {
    name: "revokeRolesFromUser",
    help: "Takes roles from a user.",
    fields: Some(&["revokeRolesFromUser", "roles"]),
    privilege: Required::Custom(|auth| auth.on_roles("roles", Action::RevokeRole)),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: revoke,
    ..Command::BASE
};
pub(super) static INFO: Command = Command {
    name: "usersInfo",
    help: "Tells about users.",
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

/// What a command says a user shall be; what is missing stays as it is.
struct Wanted<'a> {
    name: &'a str,
    password: Option<&'a str>,
    digested: bool,
    mechanisms: Option<Vec<Mechanism>>,
    custom: Option<RawDoc<'a>>,
    roles: Option<Vec<RoleName>>,
    restrictions: Option<Restrictions>,
}

impl<'a> Wanted<'a> {
    fn parse(context: &Context<'a>) -> Result<Wanted<'a>> {
        let args = &context.args;
        let mechanisms = match args.optional_array("mechanisms")? {
            None => None,
            // Users of others have no password here, whatever mechanisms they have.
            Some(_) if context.db == EXTERNAL => None,
            Some(names) => {
                let mut known = Vec::new();
                for (_, name) in names {
                    let name = name.get().as_str().unwrap_or("");
                    known.push(Mechanism::named(name).ok_or_else(|| {
                        Error::bad_value(format!("Unknown auth mechanism '{name}'"))
                    })?);
                }
                if known.is_empty() {
                    return Err(Error::bad_value("mechanisms field must not be empty"));
                }
                Some(known)
            }
        };
        let restrictions = args.optional_array("authenticationRestrictions")?;
        let place = format!("{}.authenticationRestrictions", args.place);
        let restrictions =
            restrictions.map(|list| Restrictions::parse(list, &place)).transpose()?;
        let roles = match args.optional_array("roles")? {
            None => None,
            Some(roles) => Some(RoleName::parse_all(roles, context.db)?),
        };
        Ok(Wanted {
            name: args.string(context.name)?,
            password: args.optional_string("pwd")?,
            digested: !args.bool_or_true("digestPassword")?,
            mechanisms,
            custom: args.optional_doc("customData")?,
            roles,
            restrictions,
        })
    }

    /// What is kept of the password.
    fn credentials(&self, context: &Context<'_>) -> Result<Option<DocBuf>> {
        let Some(password) = self.password else { return Ok(None) };
        if password.is_empty() {
            return Err(Error::bad_value("Password cannot be empty"));
        }
        let all = self.mechanisms.as_deref().unwrap_or(&Mechanism::ALL);
        if self.digested && all.contains(&Mechanism::Sha256) {
            return Err(Error::bad_value("Use of SCRAM-SHA-256 requires undigested passwords"));
        }
        let access = &context.engine.service.access;
        let mut kept = Vec::new();
        for mechanism in all {
            let iterations = access.iterations(*mechanism);
            let credentials = if self.digested {
                Credentials::of_digested(password, iterations)
            } else {
                Credentials::new(*mechanism, self.name, password, iterations)?
            };
            kept.push((mechanism.name(), credentials));
        }
        kept.sort_by_key(|(name, _)| *name);
        Ok(Some(DocBuf::build(|out| {
            for (name, credentials) in &kept {
                out.doc(name, |out| credentials.write(out));
            }
        })))
    }
}

fn not_found(name: &str, db: &str) -> Error {
    Error::new(Code::USER_NOT_FOUND, format!("User '{name}@{db}' not found"))
}

fn id_filter(id: &str) -> DocBuf {
    DocBuf::build(|out| {
        out.str("_id", id);
    })
}

/// Whether a certificate of this name would be that of a server of the same cluster.
fn is_member(context: &Context<'_>, name: &str) -> bool {
    let certificate = context.engine.observed.network.certificate.lock();
    let own = certificate.as_ref().and_then(|certificate| Name::read(&certificate.subject));
    own.zip(Name::read(name)).is_some_and(|(own, name)| name.is_member_with(&own))
}

fn create(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let wanted = Wanted::parse(context)?;
    let (name, db) = (wanted.name, context.db);
    if name.is_empty() {
        return Err(Error::bad_value("User document needs 'user' field to be non-empty"));
    }
    if db == "local" {
        return Err(Error::bad_value("Cannot create users in the local database"));
    }
    let roles = wanted.roles.as_deref().ok_or_else(|| context.args.missing("roles"))?;
    if db == EXTERNAL && wanted.password.is_some() {
        return Err(Error::bad_value(
            "Cannot set the password for users defined on the '$external' database",
        ));
    }
    if db == EXTERNAL && is_member(context, name) {
        return Err(Error::bad_value(
            "Cannot create an x.509 user with a subjectname that would be recognized as an \
             internal cluster member",
        ));
    }
    if db != EXTERNAL && wanted.password.is_none() {
        return Err(Error::bad_value(
            "Must provide a 'pwd' field for all user documents, except those with '$external' as \
             the user's source db",
        ));
    }
    let mut directory = context.client.directory();
    directory.check_roles(roles)?;
    let credentials = wanted.credentials(context)?;
    let doc = DocBuf::build(|out| {
        out.str("_id", &format!("{db}.{name}"));
        out.append("userId", Val::Binary(4, &value::random::uuid()));
        out.str("user", name).str("db", db);
        match &credentials {
            Some(credentials) => {
                out.append("credentials", Val::Document(credentials.as_doc()));
            }
            None => {
                out.doc("credentials", |out| {
                    out.bool("external", true);
                });
            }
        }
        if let Some(custom) = wanted.custom {
            out.append("customData", Val::Document(custom));
        }
        write_roles(out, "roles", roles);
        if let Some(restrictions) = wanted.restrictions.as_ref().filter(|list| !list.is_empty()) {
            restrictions.write(out, "authenticationRestrictions");
        }
    });
    if !directory.insert(USERS, &doc)? {
        return Err(Error::new(Code(51003), format!("User \"{name}@{db}\" already exists")));
    }
    Ok(())
}

fn update(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let wanted = Wanted::parse(context)?;
    let (name, db) = (wanted.name, context.db);
    let nothing = wanted.password.is_none()
        && wanted.custom.is_none()
        && wanted.roles.is_none()
        && wanted.mechanisms.is_none()
        && wanted.restrictions.is_none();
    if nothing {
        return Err(Error::bad_value("Must specify at least one field to update in updateUser"));
    }
    if db == EXTERNAL && wanted.password.is_some() {
        return Err(Error::bad_value(
            "Cannot set the password for users defined on the '$external' database",
        ));
    }
    let mut directory = context.client.directory();
    let id = format!("{db}.{name}");
    let known = directory
        .get(USERS, &id)?
        .ok_or_else(|| Error::new(Code::USER_NOT_FOUND, format!("User {name}@{db} not found")))?;
    if let Some(roles) = &wanted.roles {
        directory.check_roles(roles)?;
    }
    let mut credentials = wanted.credentials(context)?;
    if credentials.is_none()
        && let Some(kept) = &wanted.mechanisms
    {
        let old = known.as_doc().get("credentials").and_then(Val::as_doc);
        let old = old.unwrap_or(RawDoc::empty());
        if kept.iter().any(|mechanism| old.find(mechanism.name()).is_none()) {
            return Err(Error::bad_value(
                "mechanisms field must be a subset of previously set mechanisms",
            ));
        }
        credentials = Some(DocBuf::build(|out| {
            for (name, value) in old {
                if kept.iter().any(|mechanism| mechanism.name() == name) {
                    out.raw(name, value);
                }
            }
        }));
    }
    let change = DocBuf::build(|out| {
        out.doc("$set", |out| {
            if let Some(credentials) = &credentials {
                out.append("credentials", Val::Document(credentials.as_doc()));
            }
            if let Some(custom) = wanted.custom {
                out.append("customData", Val::Document(custom));
            }
            if let Some(roles) = &wanted.roles {
                write_roles(out, "roles", roles);
            }
            if let Some(restrictions) = wanted.restrictions.as_ref().filter(|list| !list.is_empty())
            {
                restrictions.write(out, "authenticationRestrictions");
            }
        });
        if wanted.restrictions.as_ref().is_some_and(Restrictions::is_empty) {
            out.doc("$unset", |out| {
                out.str("authenticationRestrictions", "");
            });
        }
    });
    let changed = directory.update(USERS, id_filter(&id).as_doc(), change.as_doc())?;
    if changed == 0 { Err(not_found(name, db)) } else { Ok(()) }
}

fn drop_user(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let (name, db) = (context.args.string("dropUser")?, context.db);
    let filter = id_filter(&format!("{db}.{name}"));
    let removed = context.client.directory().remove(USERS, filter.as_doc())?;
    if removed == 0 { Err(not_found(name, db)) } else { Ok(()) }
}

fn drop_all(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let filter = DocBuf::build(|out| {
        out.str("db", context.db);
    });
    let removed = context.client.directory().remove(USERS, filter.as_doc())?;
    out.i32("n", i32::try_from(removed).unwrap_or(i32::MAX));
    Ok(())
}

/// The roles in the command: at least one.
pub(super) fn named_roles(context: &Context<'_>) -> Result<Vec<RoleName>> {
    let args = &context.args;
    let roles = args.optional_array("roles")?.ok_or_else(|| args.missing("roles"))?;
    let roles = RoleName::parse_all(roles, context.db)?;
    if roles.is_empty() {
        return Err(Error::bad_value(format!(
            "{} command requires a non-empty \"roles\" array",
            context.name
        )));
    }
    Ok(roles)
}

/// The change that adds roles to a document, or takes them away.
pub(super) fn change_of_roles(roles: &[RoleName], add: bool) -> DocBuf {
    DocBuf::build(|out| {
        out.doc(if add { "$addToSet" } else { "$pull" }, |out| {
            out.doc("roles", |out| write_roles(out, if add { "$each" } else { "$in" }, roles));
        });
    })
}

fn grant(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    change_roles(context, true)
}

fn revoke(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    change_roles(context, false)
}

fn change_roles(context: &mut Context<'_>, add: bool) -> Result<()> {
    let (name, db) = (context.args.string(context.name)?, context.db);
    let not_found = || {
        let message = format!("Could not find user \"{name}\" for db \"{db}\"");
        Error::new(Code::USER_NOT_FOUND, message)
    };
    let id = format!("{db}.{name}");
    let mut directory = context.client.directory();
    let roles = named_roles(context)?;
    directory.get(USERS, &id)?.ok_or_else(not_found)?;
    directory.check_roles(&roles)?;
    let change = change_of_roles(&roles, add);
    let changed = directory.update(USERS, id_filter(&id).as_doc(), change.as_doc())?;
    if changed == 0 { Err(not_found()) } else { Ok(()) }
}

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
    let mut shown = Vec::new();
    for doc in directory.find(USERS, named_users(value, context.db)?.as_doc())? {
        if !filter.matches(doc.as_doc())? {
            continue;
        }
        let inherited =
            if privileges || restrictions { Some(directory.resolve(doc.clone())?) } else { None };
        shown.push(DocBuf::build(|out| {
            let doc = doc.as_doc();
            for (name, value) in doc {
                let wanted = match name {
                    "credentials" => credentials,
                    "customData" => custom,
                    // These come last, with what is inherited.
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
        shown.iter().for_each(|user| users.push(Val::Document(user.as_doc())));
    });
    Ok(())
}

/// Writes the roles of a user and all that they come to, in MongoDB's order.
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

fn may_create(auth: &Authorization<'_>) -> bool {
    auth.on_database(&[Action::CreateUser])
        && auth.on_roles("roles", Action::GrantRole)
        && auth.may_restrict()
}

fn may_update(auth: &Authorization<'_>) -> bool {
    let own =
        auth.login.users().iter().any(|user| user.db == auth.db && user.name == auth.collection());
    let may = |field: &str, action: Action, own_action: Action| {
        auth.body.find(field).is_none()
            || auth.on_database(&[action])
            || (own && auth.on_database(&[own_action]))
    };
    may("pwd", Action::ChangePassword, Action::ChangeOwnPassword)
        && may("mechanisms", Action::ChangePassword, Action::ChangeOwnPassword)
        && may("customData", Action::ChangeCustomData, Action::ChangeOwnCustomData)
        && auth.may_restrict()
        && (auth.body.find("roles").is_none()
            || (auth.on_all_databases(Action::RevokeRole)
                && auth.on_roles("roles", Action::GrantRole)))
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
