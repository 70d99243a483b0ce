//! `dropAllRolesFromDatabase`: removes all roles of a database.

use super::roles::{own_roles, remove};
use super::row::{NamedIn, Required};
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dropAllRolesFromDatabase",
    help: "Removes all roles of a database.",
    fields: Some(&["dropAllRolesFromDatabase"]),
    privilege: Required::Database(&[Action::DropRole]),
    audited: true,
    namespace: NamedIn::None,
    run: drop_all,
    ..Command::BASE
};

fn drop_all(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let mut directory = context.client.directory();
    let names = own_roles(&mut directory, context.db)?;
    let removed = remove(&mut directory, &names)?;
    out.i32("n", i32::try_from(removed).unwrap_or(i32::MAX));
    Ok(())
}
