//! `planCacheClear`: removes cached plans of a collection.

use super::plan_cache::shape_of;
use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Code, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "planCacheClear",
    help: "Removes cached plans of a collection.",
    fields: Some(&["planCacheClear", "query", "sort", "projection", "collation"]),
    privilege: Required::Collection(&[Action::PlanCacheWrite]),
    mistyped_name: Code::INVALID_NAMESPACE,
    run: clear,
    ..Command::BASE
};

fn clear(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let shape = shape_of(context)?;
    if let Some(collection) = context.engine.data.collection(context.db, name) {
        match shape {
            None => collection.counters.plans.clear(),
            Some(shape) => collection.counters.plans.forget(shape),
        }
    }
    Ok(())
}
