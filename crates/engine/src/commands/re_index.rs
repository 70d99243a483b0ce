//! `reIndex`: refused, as by every member of a replica set.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "reIndex",
    help: "Not supported by members of a replica set: drop and create the index instead.",
    fields: Some(&["reIndex"]),
    privilege: Required::Collection(&[Action::ReIndex]),
    mistyped_name: Code::INVALID_NAMESPACE,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    Err(Error::new(
        Code::ILLEGAL_OPERATION,
        format!(
            "reIndex is only allowed on a standalone mongod instance. Cannot reIndex '{}.{name}' \
             while replication is active",
            context.db
        ),
    ))
}
