//! `fsync`: writes everything held in memory to its files.

use super::{Command, Context};
use crate::store_failed;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "fsync",
    aliases: &[],
    help: "Writes everything held in memory to its files.",
    fields: Some(&["fsync", "lock", "async", "fsyncLockAcquisitionTimeoutMillis"]),
    admin: true,
    test: false,
    run,
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
