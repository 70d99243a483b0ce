//! `whatsmysni`: returns the TLS server name that the client sent. There is none.

use super::row::Required;
use super::{Command, Context};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "whatsmysni",
    help: "Returns the TLS server name that the client sent. There is none.",
    fields: Some(&["whatsmysni"]),
    admin: true,
    privilege: Required::Nothing,
    run: whats_my_sni,
    ..Command::BASE
};

fn whats_my_sni(_: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    out.bool("sni", false);
    Ok(())
}
