//! `revokeRolesFromRole`: revokes roles from a role.

use super::Command;
use super::roles::change_roles;
use super::row::{NamedIn, Required};
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "revokeRolesFromRole",
    help: "Revokes roles from a role.",
    fields: Some(&["revokeRolesFromRole", "roles"]),
    privilege: Required::Custom(|auth| auth.on_roles("roles", Action::RevokeRole)),
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| change_roles(context, false),
    ..Command::BASE
};
