//! `endSessions`: ends sessions.

use super::row::{Required, StableApi};
use super::sessions::{close_cursors, named, own};
use super::{Command, Context};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "endSessions",
    help: "Ends sessions.",
    fields: Some(&["endSessions"]),
    privilege: Required::Login,
    stable_api: StableApi::Included,
    run: end,
    ..Command::BASE
};

fn end(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let ids = own(context, named(context)?);
    ids.iter().for_each(|id| context.engine.service.sessions.end(*id));
    context.engine.service.sessions.transactions.kill(&context.engine.data, |id| ids.contains(id));
    close_cursors(context.engine, |id| ids.contains(id));
    Ok(())
}
