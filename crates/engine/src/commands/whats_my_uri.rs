//! `whatsmyuri`: returns the client's address.

use super::row::Required;
use super::{Command, Context};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "whatsmyuri",
    help: "Returns the client's address.",
    fields: Some(&["whatsmyuri"]),
    privilege: Required::Nothing,
    run: whats_my_uri,
    ..Command::BASE
};

fn whats_my_uri(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    out.str("you", &context.op.slot().remote);
    Ok(())
}
