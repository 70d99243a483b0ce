//! `dropRole`: removes a role.

use super::roles::{existing, own_role, remove};
use super::row::{NamedIn, Required};
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dropRole",
    help: "Removes a role.",
    fields: Some(&["dropRole"]),
    privilege: Required::Database(&[Action::DropRole]),
    audited: true,
    namespace: NamedIn::None,
    run: drop_role,
    ..Command::BASE
};

fn drop_role(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = own_role(context)?;
    let mut directory = context.client.directory();
    existing(&mut directory, &name)?;
    remove(&mut directory, &[name])?;
    Ok(())
}
