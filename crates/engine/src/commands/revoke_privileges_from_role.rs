//! `revokePrivilegesFromRole`: revokes privileges from a role.

use super::Command;
use super::roles::change_privileges;
use super::row::{NamedIn, Required};
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "revokePrivilegesFromRole",
    help: "Revokes privileges from a role.",
    fields: Some(&["revokePrivilegesFromRole", "privileges"]),
    privilege: Required::Custom(|auth| auth.on_privileges(Action::RevokeRole)),
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| change_privileges(context, false),
    ..Command::BASE
};
