//! `shutdown`: stops the server. The reply is sent before connections close.

use super::row::Required;
use super::{Command, Context};
use crate::request::Flow;
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "shutdown",
    help: "Stops the server.",
    fields: Some(&["shutdown", "force", "timeoutSecs"]),
    admin: true,
    privilege: Required::Cluster(&[Action::Shutdown]),
    audited: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    context.args.bool("force")?;
    context.flow = Flow::Close;
    context.engine.service.request_shutdown();
    Ok(())
}
