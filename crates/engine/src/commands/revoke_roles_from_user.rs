//! `revokeRolesFromUser`: revokes roles from a user.

use super::row::{NamedIn, Required};
use super::users::change_roles;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "revokeRolesFromUser",
    help: "Revokes roles from a user.",
    fields: Some(&["revokeRolesFromUser", "roles"]),
    privilege: Required::Custom(|auth| auth.on_roles("roles", Action::RevokeRole)),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: revoke,
    ..Command::BASE
};

fn revoke(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    change_roles(context, false)
}
