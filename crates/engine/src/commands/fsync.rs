//! `fsync`: flushes all data in memory to disk.

use super::row::Required;
use super::{Command, Context};
use crate::store_failed;
use ::access::Action;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "fsync",
    help: "Flushes all data in memory to disk.",
    fields: Some(&["fsync", "lock", "async", "fsyncLockAcquisitionTimeoutMillis"]),
    admin: true,
    privilege: Required::Cluster(&[Action::Fsync]),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    if context.args.bool("lock")? {
        return Err(Error::new(
            Code::NOT_IMPLEMENTED,
            "fsync with lock is not available in this version",
        ));
    }
    context.engine.data.check_writable()?;
    context.engine.data.store.checkpoint().map_err(store_failed)?;
    out.i32("numFiles", 1);
    Ok(())
}
