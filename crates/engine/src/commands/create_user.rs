//! `createUser`: creates a user.

use super::row::{NamedIn, Required};
use super::users::UserOptions;
use super::{Command, Context};
use crate::access::Authorization;
use crate::access::EXTERNAL;
use crate::access::directory::{USERS, write_roles};
use ::access::Action;
use access::x509::Name;
use value::{Code, DocBuf, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "createUser",
    help: "Creates a user.",
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

/// Whether a certificate of this name belongs to a server of the same cluster.
fn is_member(context: &Context<'_>, name: &str) -> bool {
    let certificate = context.engine.observed.network.certificate.lock();
    let own = certificate.as_ref().and_then(|certificate| Name::read(&certificate.subject));
    own.zip(Name::read(name)).is_some_and(|(own, name)| name.is_member_with(&own))
}

fn create(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let options = UserOptions::parse(context)?;
    let (name, db) = (options.name, context.db);
    if name.is_empty() {
        return Err(Error::bad_value("User document needs 'user' field to be non-empty"));
    }
    if db == "local" {
        return Err(Error::bad_value("Cannot create users in the local database"));
    }
    let roles = options.roles.as_deref().ok_or_else(|| context.args.missing("roles"))?;
    if db == EXTERNAL && options.password.is_some() {
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
    if db != EXTERNAL && options.password.is_none() {
        return Err(Error::bad_value(
            "Must provide a 'pwd' field for all user documents, except those with '$external' as \
             the user's source db",
        ));
    }
    let mut directory = context.client.directory();
    directory.check_roles(roles)?;
    let credentials = options.credentials(context)?;
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
        if let Some(custom) = options.custom {
            out.append("customData", Val::Document(custom));
        }
        write_roles(out, "roles", roles);
        if let Some(restrictions) = options.restrictions.as_ref().filter(|list| !list.is_empty()) {
            restrictions.write(out, "authenticationRestrictions");
        }
    });
    if !directory.insert(USERS, &doc)? {
        return Err(Error::new(Code(51003), format!("User \"{name}@{db}\" already exists")));
    }
    Ok(())
}

fn may_create(auth: &Authorization<'_>) -> bool {
    auth.on_database(&[Action::CreateUser])
        && auth.on_roles("roles", Action::GrantRole)
        && auth.may_restrict()
}
