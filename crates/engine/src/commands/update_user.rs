//! `updateUser`: changes a user's password, roles or data.

use super::row::{NamedIn, Required};
use super::users::{UserOptions, id_filter, not_found};
use super::{Command, Context};
use crate::access::Authorization;
use crate::access::EXTERNAL;
use crate::access::directory::{USERS, write_roles};
use ::access::Action;
use access::Restrictions;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
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

fn update(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let options = UserOptions::parse(context)?;
    let (name, db) = (options.name, context.db);
    let nothing = options.password.is_none()
        && options.custom.is_none()
        && options.roles.is_none()
        && options.mechanisms.is_none()
        && options.restrictions.is_none();
    if nothing {
        return Err(Error::bad_value("Must specify at least one field to update in updateUser"));
    }
    if db == EXTERNAL && options.password.is_some() {
        return Err(Error::bad_value(
            "Cannot set the password for users defined on the '$external' database",
        ));
    }
    let mut directory = context.client.directory();
    let id = format!("{db}.{name}");
    let known = directory
        .get(USERS, &id)?
        .ok_or_else(|| Error::new(Code::USER_NOT_FOUND, format!("User {name}@{db} not found")))?;
    if let Some(roles) = &options.roles {
        directory.check_roles(roles)?;
    }
    let mut credentials = options.credentials(context)?;
    if credentials.is_none()
        && let Some(kept) = &options.mechanisms
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
            if let Some(custom) = options.custom {
                out.append("customData", Val::Document(custom));
            }
            if let Some(roles) = &options.roles {
                write_roles(out, "roles", roles);
            }
            if let Some(restrictions) =
                options.restrictions.as_ref().filter(|list| !list.is_empty())
            {
                restrictions.write(out, "authenticationRestrictions");
            }
        });
        if options.restrictions.as_ref().is_some_and(Restrictions::is_empty) {
            out.doc("$unset", |out| {
                out.str("authenticationRestrictions", "");
            });
        }
    });
    let changed = directory.update(USERS, id_filter(&id).as_doc(), change.as_doc())?;
    if changed == 0 { Err(not_found(name, db)) } else { Ok(()) }
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
