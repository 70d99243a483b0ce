//! `createRole`: creates a role.

use super::roles::{check_inner, document, privileges, restrictions};
use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::access::Authorization;
use crate::access::RoleName;
use crate::access::directory::{ROLES, Role};
use ::access::Action;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "createRole",
    help: "Creates a role.",
    fields: Some(&["createRole", "privileges", "roles", "authenticationRestrictions"]),
    privilege: Required::Custom(may_create),
    first_user: true,
    audited: true,
    namespace: NamedIn::None,
    run: create,
    ..Command::BASE
};

fn create(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let name = RoleName::new(args.string("createRole")?, context.db);
    if name.role.is_empty() {
        return Err(Error::bad_value("Role name must be non-empty"));
    }
    if name.db == "local" || name.db == crate::access::EXTERNAL {
        return Err(Error::bad_value(format!("Cannot create roles in the {} database", name.db)));
    }
    let restrictions = restrictions(context)?.unwrap_or_default();
    let privileges = privileges(context)?.ok_or_else(|| args.missing("privileges"))?;
    let roles = args.optional_array("roles")?.ok_or_else(|| args.missing("roles"))?;
    let roles = RoleName::parse_all(roles, context.db)?;
    if name.is_builtin() {
        return Err(Error::bad_value("Cannot create roles with the same name as a built-in role"));
    }
    let mut directory = context.client.directory();
    check_inner(&mut directory, &name, &roles)?;
    let role = Role { name, privileges, roles, restrictions, builtin: false };
    if !directory.insert(ROLES, &document(&role))? {
        let name = &role.name;
        return Err(Error::new(Code(51002), format!("Role \"{name}\" already exists")));
    }
    Ok(())
}

fn may_create(auth: &Authorization<'_>) -> bool {
    auth.on_database(&[Action::CreateRole])
        && auth.on_roles("roles", Action::GrantRole)
        && auth.on_privileges(Action::GrantRole)
        && auth.may_restrict()
}
