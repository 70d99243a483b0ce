//! `startSession`: starts a session.

use super::row::Required;
use super::{Command, Context};
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "startSession",
    help: "Starts a session.",
    fields: Some(&["startSession"]),
    privilege: Required::Login,
    run: start,
    ..Command::BASE
};

fn start(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let id = value::random::uuid();
    context.engine.service.sessions.touch(id, context.client.login.owner().as_deref())?;
    out.doc("id", |out| {
        out.append("id", Val::Binary(4, &id));
    });
    out.i32("timeoutMinutes", 30);
    Ok(())
}
