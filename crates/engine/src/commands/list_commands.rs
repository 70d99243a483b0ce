//! `listCommands`: lists the commands of this server.

use super::row::Required;
use super::{ALL, Command, Context};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "listCommands",
    help: "Lists the commands.",
    fields: Some(&["listCommands"]),
    privilege: Required::Nothing,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    out.doc("commands", |out| {
        for command in ALL {
            if command.test && !context.engine.data.options.test_commands {
                continue;
            }
            out.doc(command.name, |out| {
                out.str("help", command.help);
                out.bool("requiresAuth", false);
                out.bool("secondaryOk", true);
                out.bool("adminOnly", command.admin);
            });
        }
    });
    Ok(())
}
