//! `suspendPatterns`: stops the maintenance of patterns.

use super::patterns::{named, refuse_in_transaction};
use super::row::Required;
use super::{Command, Context};
use crate::upkeep::declare;
use ::access::Action;
use ::patterns::Phase;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "suspendPatterns",
    help: "Stops the maintenance of patterns.",
    fields: Some(&["suspendPatterns", "names"]),
    hints: true,
    privilege: Required::Collection(&[Action::CreatePattern]),
    run: suspend,
    ..Command::BASE
};

fn suspend(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    refuse_in_transaction(context)?;
    let name = context.collection_name()?;
    for pattern in named(context, name)? {
        if pattern.phase != Phase::Suspended {
            declare::set_phase(&context.engine.data, context.db, pattern.id, Phase::Suspended, "")?;
        }
    }
    context.write_concern()?.write_error(out);
    Ok(())
}
