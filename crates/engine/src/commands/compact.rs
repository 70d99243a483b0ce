//! `compact`: frees the space of deleted and replaced documents. Background merging does so over
//! time; this command does it at once. Collections share files, so it rewrites those of all
//! collections.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use store::Space;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "compact",
    help: "Frees the space of deleted documents at once.",
    fields: Some(&["compact", "force", "dryRun", "freeSpaceTargetMB"]),
    privilege: Required::Collection(&[Action::Compact]),
    mistyped_name: Code::INVALID_NAMESPACE,
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
            let mut freed = 0;
            for space in [Space::Documents, Space::Indexes] {
                freed += context.engine.data.compact(space)?;
            }
            out.i64("bytesFreed", i64::try_from(freed).unwrap_or(i64::MAX));
            Ok(())
        }
    }
}
