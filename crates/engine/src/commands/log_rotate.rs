//! `logRotate`: does nothing. The server writes its log to the configured output, usually standard
//! error, and the program that reads it there rotates it.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "logRotate",
    help: "Starts a new log file, if the server writes one.",
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
