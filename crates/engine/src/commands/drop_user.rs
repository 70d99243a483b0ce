//! `dropUser`: removes a user.

use super::row::{NamedIn, Required};
use super::users::{id_filter, not_found};
use super::{Command, Context};
use crate::access::directory::USERS;
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dropUser",
    help: "Removes a user.",
    fields: Some(&["dropUser"]),
    privilege: Required::Database(&[Action::DropUser]),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: drop_user,
    ..Command::BASE
};

fn drop_user(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let (name, db) = (context.args.string("dropUser")?, context.db);
    let filter = id_filter(&format!("{db}.{name}"));
    let removed = context.client.directory().remove(USERS, filter.as_doc())?;
    if removed == 0 { Err(not_found(name, db)) } else { Ok(()) }
}
