//! `dropAllUsersFromDatabase`: removes all users of a database.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::access::directory::USERS;
use ::access::Action;
use value::{DocBuf, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dropAllUsersFromDatabase",
    help: "Removes all users of a database.",
    fields: Some(&["dropAllUsersFromDatabase"]),
    privilege: Required::Database(&[Action::DropUser]),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: drop_all,
    ..Command::BASE
};

fn drop_all(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let filter = DocBuf::build(|out| {
        out.str("db", context.db);
    });
    let removed = context.client.directory().remove(USERS, filter.as_doc())?;
    out.i32("n", i32::try_from(removed).unwrap_or(i32::MAX));
    Ok(())
}
