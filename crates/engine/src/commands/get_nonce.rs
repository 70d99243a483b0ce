//! `getnonce`: returns a random number, which very old drivers request first.

use super::row::Required;
use super::{Command, Context};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "getnonce",
    aliases: &["getNonce"],
    help: "Returns a random number, for old drivers.",
    fields: Some(&["getnonce", "getNonce"]),
    privilege: Required::Nothing,
    uncompressed: true,
    run,
    ..Command::BASE
};

fn run(_: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    out.str("nonce", &format!("{:016x}", value::random::u64()));
    Ok(())
}
