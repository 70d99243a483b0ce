//! `isdbgrid`: answers that this is a router, where the server presents itself as one.

use super::row::Required;
use super::{Command, Context};
use crate::host;
use crate::options::Topology;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "isdbgrid",
    help: "Answers that this is a router, if the server presents itself as one.",
    fields: Some(&["isdbgrid"]),
    privilege: Required::Nothing,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    if context.engine.data.options.topology != Topology::Router {
        return Err(Error::new(Code::COMMAND_NOT_FOUND, "no such command: 'isdbgrid'"));
    }
    out.f64("isdbgrid", 1.0).str("hostname", &host::name());
    Ok(())
}
