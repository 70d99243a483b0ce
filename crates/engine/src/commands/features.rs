//! `features`: returns the process part of generated ObjectIds.

use super::row::Required;
use super::{Command, Context};
use value::{ObjectId, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "features",
    help: "Returns the process part of generated ObjectIds.",
    fields: Some(&["features", "oidReset"]),
    privilege: Required::Login,
    run: features,
    ..Command::BASE
};

fn features(_: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    // The timestamp is followed by five bytes that are constant in a process; MongoDB shows three.
    let id = ObjectId::generate().0;
    let machine = id.iter().skip(4).take(3).fold(0_i32, |n, byte| n << 8 | i32::from(*byte));
    out.i32("oidMachine", machine);
    Ok(())
}
