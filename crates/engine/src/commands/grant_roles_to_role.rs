//! `grantRolesToRole`: grants roles to a role.

use super::Command;
use super::roles::change_roles;
use super::row::{NamedIn, Required};
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "grantRolesToRole",
    help: "Grants roles to a role.",
    fields: Some(&["grantRolesToRole", "roles"]),
    privilege: Required::Custom(|auth| auth.on_roles("roles", Action::GrantRole)),
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| change_roles(context, true),
    ..Command::BASE
};
