//! `grantPrivilegesToRole`: lets a role do more.

use super::Command;
use super::roles::change_privileges;
use super::row::{NamedIn, Required};
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "grantPrivilegesToRole",
    help: "Lets a role do more.",
    fields: Some(&["grantPrivilegesToRole", "privileges"]),
    privilege: Required::Custom(|auth| auth.on_privileges(Action::GrantRole)),
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| change_privileges(context, true),
    ..Command::BASE
};
