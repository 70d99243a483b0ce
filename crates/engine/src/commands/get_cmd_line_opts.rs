//! `getCmdLineOpts`: the command line and options of the server.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "getCmdLineOpts",
    help: "Returns the command line and options of the server.",
    fields: Some(&["getCmdLineOpts"]),
    admin: true,
    privilege: Required::Cluster(&[Action::GetCmdLineOpts]),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let options = &context.engine.data.options;
    out.array("argv", |words| {
        options.command_line.iter().for_each(|word| words.push(Val::String(word)));
    });
    out.append("parsed", Val::Document(options.config.as_doc()));
    Ok(())
}
