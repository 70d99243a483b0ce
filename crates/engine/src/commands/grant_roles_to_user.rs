//! `grantRolesToUser`: grants roles to a user.

use super::row::{NamedIn, Required};
use super::users::change_roles;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "grantRolesToUser",
    help: "Grants roles to a user.",
    fields: Some(&["grantRolesToUser", "roles"]),
    privilege: Required::Custom(|auth| auth.on_roles("roles", Action::GrantRole)),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: grant,
    ..Command::BASE
};

fn grant(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    change_roles(context, true)
}
