//! `features`: returns the part of made-up ObjectIds that stands for this process.

use super::row::Required;
use super::{Command, Context};
use value::{ObjectId, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "features",
    help: "Returns the part of made-up ObjectIds that stands for this process.",
    fields: Some(&["features", "oidReset"]),
    privilege: Required::Login,
    run: features,
    ..Command::BASE
};

fn features(_: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    // After the time come five bytes that are the same in all of a process; MongoDB shows three.
    let id = ObjectId::generate().0;
    let machine = id.iter().skip(4).take(3).fold(0_i32, |n, byte| n << 8 | i32::from(*byte));
    out.i32("oidMachine", machine);
    Ok(())
}
