//! `logout`: logs out of a database.

use super::Command;
use super::row::Required;

pub(super) static COMMAND: Command = Command {
    name: "logout",
    help: "Logs out of a database.",
    fields: Some(&["logout"]),
    privilege: Required::Nothing,
    credentials: true,
    run: |context, _| {
        let db = context.db;
        context.client.login.logout(db);
        Ok(())
    },
    ..Command::BASE
};
