//! `configureFailPoint`: switches failures on and off, with `--test-commands` only.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "configureFailPoint",
    help: "Makes commands fail on demand, for tests.",
    fields: Some(&["configureFailPoint", "mode", "data"]),
    admin: true,
    test: true,
    privilege: Required::Login,
    namespace: NamedIn::None,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = context.args;
    let name = args.string("configureFailPoint")?;
    let mode = args.get("mode").ok_or_else(|| {
        Error::new(Code::ILLEGAL_OPERATION, "When setting a failpoint, you must supply a 'mode'")
    })?;
    let data = args.optional_doc("data")?;
    let entered = context.engine.observed.fail_points.configure(name, mode, data)?;
    out.i64("count", entered);
    Ok(())
}
