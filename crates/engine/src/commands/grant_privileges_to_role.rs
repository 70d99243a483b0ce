//! `grantPrivilegesToRole`: grants privileges to a role.

use super::Command;
use super::roles::change_privileges;
use super::row::{NamedIn, Required};
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "grantPrivilegesToRole",
    help: "Grants privileges to a role.",
    fields: Some(&["grantPrivilegesToRole", "privileges"]),
    privilege: Required::Custom(|auth| auth.on_privileges(Action::GrantRole)),
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| change_privileges(context, true),
    ..Command::BASE
};
