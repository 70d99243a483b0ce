//! `compact`: compacts a collection. Compaction is automatic, so nothing is freed.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "compact",
    help: "Compacts a collection. Compaction is automatic, so nothing is freed.",
    fields: Some(&["compact", "force", "dryRun", "freeSpaceTargetMB"]),
    privilege: Required::Collection(&[Action::Compact]),
    run: compact,
    ..Command::BASE
};

fn compact(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    if !context.args.bool("force")? {
        return Err(Error::bad_value(
            "will not run compact on an active replica set primary as this is a slow blocking \
             operation. use force:true to force",
        ));
    }
    match context.engine.data.collection(context.db, name) {
        None => Err(Error::new(Code::NAMESPACE_NOT_FOUND, "collection does not exist")),
        Some(view) if view.view().is_some() => {
            Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "can't compact a view"))
        }
        Some(_) => {
            out.i32("bytesFreed", 0);
            Ok(())
        }
    }
}
