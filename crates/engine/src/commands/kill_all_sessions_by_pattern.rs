//! `killAllSessionsByPattern`: stops the operations of the sessions that match a pattern.

use super::row::Required;
use super::sessions::stop;
use super::{Command, Context};
use crate::session;
use ::access::Action;
use std::collections::HashSet;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "killAllSessionsByPattern",
    help: "Stops the operations of the sessions that match a pattern.",
    fields: Some(&["killAllSessionsByPattern"]),
    privilege: Required::Cluster(&[Action::KillAnySession]),
    run: kill_by_pattern,
    ..Command::BASE
};

fn kill_by_pattern(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let list = args.optional_array(context.name)?.ok_or_else(|| args.missing(context.name))?;
    let mut ids = HashSet::new();
    // Without users, a pattern that names no session means all sessions.
    let mut all = list.is_empty();
    for (at, pattern) in list {
        let Some(pattern) = pattern.as_doc() else {
            let name = format!("{}.{at}", context.name);
            return Err(args.wrong_type(&name, pattern.get(), "object"));
        };
        match session::session_of(pattern)? {
            Some(id) => _ = ids.insert(id),
            None => all = true,
        }
    }
    stop(context, |id| all || ids.contains(id));
    Ok(())
}
