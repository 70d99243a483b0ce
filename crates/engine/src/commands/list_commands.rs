//! `listCommands`: lists the commands of this server.

use super::row::{Kind, Required, StableApi};
use super::{ALL, Command, Context};
use value::{Result, Val, Writer};

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
            if !command.is_available(&context.engine.data.options) {
                continue;
            }
            out.doc(command.name, |out| {
                out.str("help", command.help);
                out.bool("requiresAuth", !matches!(command.privilege, Required::Nothing));
                // Reads run there only if the client asks for it.
                out.bool("secondaryOk", command.usage == Kind::Command);
                out.bool("secondaryOverrideOk", command.usage.reads());
                out.bool("adminOnly", command.admin);
                out.array("apiVersions", |list| {
                    if !matches!(command.stable_api, StableApi::Excluded) {
                        list.push(Val::String("1"));
                    }
                });
                out.array("deprecatedApiVersions", |_| {});
            });
        }
    });
    Ok(())
}
