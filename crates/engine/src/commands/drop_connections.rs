//! `dropConnections`: closes connections of the server to others. It has none.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use ::access::Action;
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dropConnections",
    help: "Closes the connections of this server to others, of which there are none.",
    fields: Some(&["dropConnections", "hostAndPort"]),
    admin: true,
    privilege: Required::Cluster(&[Action::DropConnections]),
    namespace: NamedIn::None,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let hosts = args.optional_array("hostAndPort")?.ok_or_else(|| args.missing("hostAndPort"))?;
    for (at, host) in hosts {
        if !matches!(host.get(), Val::String(_)) {
            return Err(args.wrong_type(&format!("hostAndPort.{at}"), host.get(), "string"));
        }
    }
    Ok(())
}
