//! `getCmdLineOpts`: how the server was started.

use super::{Command, Context};
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "getCmdLineOpts",
    aliases: &[],
    help: "Tells how the server was started.",
    fields: Some(&["getCmdLineOpts"]),
    admin: true,
    test: false,
    run,
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let options = &context.engine.data.options;
    out.array("argv", |words| {
        options.command_line.iter().for_each(|word| words.push(Val::String(word)));
    });
    out.append("parsed", Val::Document(options.config.as_doc()));
    Ok(())
}
