//! `updateRole`: changes the privileges, roles or restrictions of a role.

use super::roles::{check_inner, document, existing, own_role, privileges, restrictions};
use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::access::Authorization;
use crate::access::RoleName;
use crate::access::directory::{ROLES, Role};
use ::access::Action;
use value::{Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "updateRole",
    help: "Changes the privileges, roles or restrictions of a role.",
    fields: Some(&["updateRole", "privileges", "roles", "authenticationRestrictions"]),
    privilege: Required::Custom(may_update),
    audited: true,
    namespace: NamedIn::None,
    run: update,
    ..Command::BASE
};

fn update(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = own_role(context)?;
    let restrictions = restrictions(context)?;
    let privileges = privileges(context)?;
    let roles = match context.args.optional_array("roles")? {
        None => None,
        Some(roles) => Some(RoleName::parse_all(roles, context.db)?),
    };
    if privileges.is_none() && roles.is_none() && restrictions.is_none() {
        return Err(Error::bad_value("Must specify at least one field to update in updateRole"));
    }
    let mut directory = context.client.directory();
    let old = existing(&mut directory, &name)?;
    if let Some(roles) = &roles {
        check_inner(&mut directory, &name, roles)?;
    }
    let role = Role {
        privileges: privileges.unwrap_or(old.privileges),
        roles: roles.unwrap_or(old.roles),
        restrictions: restrictions.unwrap_or(old.restrictions),
        ..old
    };
    directory.replace(ROLES, &document(&role))?;
    Ok(())
}

fn may_update(auth: &Authorization<'_>) -> bool {
    auth.on_all_databases(Action::RevokeRole)
        && auth.on_roles("roles", Action::GrantRole)
        && auth.on_privileges(Action::GrantRole)
        && auth.may_restrict()
}
