//! `logRotate`: begins a new log file. The server writes its log to where it was told to (standard
//! error, mostly), and whoever reads it there rotates it: nothing is left to do.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "logRotate",
    help: "Begins a new log file, where the server has one of its own.",
    fields: Some(&["logRotate", "comment"]),
    admin: true,
    privilege: Required::Cluster(&[Action::LogRotate]),
    audited: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    match context.args.get("logRotate") {
        Some(Val::String("server")) => {}
        Some(Val::String(_)) => {
            return Err(Error::new(
                Code::NO_SUCH_KEY,
                "Log rotation failed due to one or more errors",
            ));
        }
        _ => {}
    }
    tracing::info!("log rotation requested");
    Ok(())
}
