//! `getLog`: the last lines of the server's log.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use ::access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "getLog",
    help: "Returns the last lines of the log.",
    fields: Some(&["getLog"]),
    admin: true,
    privilege: Required::Cluster(&[Action::GetLog]),
    namespace: NamedIn::None,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    match context.args.string("getLog")? {
        "*" => {
            out.array("names", |names| {
                names.push(Val::String("global"));
                names.push(Val::String("startupWarnings"));
            });
        }
        "global" => {
            let lines = context.engine.observed.log.lock().clone();
            out.count("totalLinesWritten", lines.len() as u64);
            out.array("log", |log| lines.iter().for_each(|line| log.push(Val::String(line))));
        }
        // There are no startup warnings.
        "startupWarnings" => {
            out.i32("totalLinesWritten", 0).array("log", |_| {});
        }
        other => {
            return Err(Error::new(Code::OPERATION_FAILED, format!("No log named '{other}'")));
        }
    }
    Ok(())
}
