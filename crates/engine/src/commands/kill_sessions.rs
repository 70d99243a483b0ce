//! `killSessions`: stops the operations of sessions.

use super::row::Required;
use super::sessions::{named, own, stop};
use super::{Command, Context};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "killSessions",
    help: "Stops the operations of sessions.",
    fields: Some(&["killSessions"]),
    privilege: Required::Login,
    run: kill,
    ..Command::BASE
};

fn kill(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let named = named(context)?;
    let login = &context.client.login;
    // An empty list means all sessions of the user.
    if named.is_empty() && !login.required {
        stop(context, |_| true);
        return Ok(());
    }
    let ids = match named.is_empty() {
        true => context.engine.service.sessions.of(login.owner().as_deref()),
        false => own(context, named),
    };
    stop(context, |id| ids.contains(id));
    Ok(())
}
