//! Shared code of the commands about users.

use super::Context;
use crate::access::directory::{USERS, write_roles};
use crate::access::{EXTERNAL, RoleName};
use access::Restrictions;
use access::scram::{Credentials, Mechanism};
use value::{Code, DocBuf, Error, RawDoc, Result};

/// The options of `createUser` and `updateUser`. An update changes only the given ones.
pub(super) struct UserOptions<'a> {
    pub(super) name: &'a str,
    pub(super) password: Option<&'a str>,
    pub(super) digested: bool,
    pub(super) mechanisms: Option<Vec<Mechanism>>,
    pub(super) custom: Option<RawDoc<'a>>,
    pub(super) roles: Option<Vec<RoleName>>,
    pub(super) restrictions: Option<Restrictions>,
}

impl<'a> UserOptions<'a> {
    pub(super) fn parse(context: &Context<'a>) -> Result<UserOptions<'a>> {
        let args = &context.args;
        let mechanisms = match args.optional_array("mechanisms")? {
            None => None,
            // Users of `$external` have no password here, whatever mechanisms they have.
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
        Ok(UserOptions {
            name: args.string(context.name)?,
            password: args.optional_string("pwd")?,
            digested: !args.bool_or_true("digestPassword")?,
            mechanisms,
            custom: args.optional_doc("customData")?,
            roles,
            restrictions,
        })
    }

    /// The stored credentials for the password.
    pub(super) fn credentials(&self, context: &Context<'_>) -> Result<Option<DocBuf>> {
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

pub(super) fn not_found(name: &str, db: &str) -> Error {
    Error::new(Code::USER_NOT_FOUND, format!("User '{name}@{db}' not found"))
}

pub(super) fn id_filter(id: &str) -> DocBuf {
    DocBuf::build(|out| {
        out.str("_id", id);
    })
}

/// Reads the roles in the command: at least one.
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

/// The change that adds roles to a document, or removes them.
pub(super) fn change_of_roles(roles: &[RoleName], add: bool) -> DocBuf {
    DocBuf::build(|out| {
        out.doc(if add { "$addToSet" } else { "$pull" }, |out| {
            out.doc("roles", |out| write_roles(out, if add { "$each" } else { "$in" }, roles));
        });
    })
}

pub(super) fn change_roles(context: &mut Context<'_>, add: bool) -> Result<()> {
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
