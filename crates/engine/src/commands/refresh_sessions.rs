//! `refreshSessions`: keeps sessions alive.

use super::row::{Required, StableApi};
use super::sessions::named;
use super::{Command, Context};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "refreshSessions",
    help: "Keeps sessions alive.",
    fields: Some(&["refreshSessions"]),
    privilege: Required::Login,
    stable_api: StableApi::Included,
    run: refresh,
    ..Command::BASE
};

fn refresh(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let (ids, owner) = (named(context)?, context.client.login.owner());
    ids.into_iter().try_for_each(|id| context.engine.service.sessions.touch(id, owner.as_deref()))
}
