//! `fsyncUnlock`: allows writes again after `fsync` with `lock`.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "fsyncUnlock",
    help: "Allows writes again after fsync with lock.",
    fields: Some(&["fsyncUnlock"]),
    admin: true,
    privilege: Required::Cluster(&[Action::Unlock]),
    audited: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let count = context.engine.data.give_fsync_lock_back()?;
    out.str("info", "fsyncUnlock completed");
    out.i64("lockCount", i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}
