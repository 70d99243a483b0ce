//! `killAllSessions`: stops the operations of all sessions.

use super::row::Required;
use super::sessions::stop;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "killAllSessions",
    help: "Stops the operations of all sessions.",
    fields: Some(&["killAllSessions"]),
    privilege: Required::Cluster(&[Action::KillAnySession]),
    audited: true,
    run: kill_all,
    ..Command::BASE
};

fn kill_all(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    // The list names users. Without users it means all sessions.
    args.optional_array("killAllSessions")?.ok_or_else(|| args.missing("killAllSessions"))?;
    stop(context, |_| true);
    Ok(())
}
