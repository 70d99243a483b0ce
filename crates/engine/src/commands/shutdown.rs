//! `shutdown`: ends the server. The reply is sent before connections close.

use super::{Command, Context};
use crate::request::Flow;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "shutdown",
    aliases: &[],
    help: "Ends the server.",
    fields: Some(&["shutdown", "force", "timeoutSecs"]),
    admin: true,
    test: false,
    run,
};

fn run(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    context.args.bool("force")?;
    context.flow = Flow::Close;
    context.engine.service.request_shutdown();
    Ok(())
}
