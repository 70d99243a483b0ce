//! `planCacheClearFilters`: removes one or all index filters of a collection.

use super::plan_cache::shape_of;
use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "planCacheClearFilters",
    help: "Removes one or all index filters of a collection.",
    fields: Some(&["planCacheClearFilters", "query", "sort", "projection", "collation"]),
    privilege: Required::Collection(&[Action::PlanCacheIndexFilter]),
    run: clear_filters,
    ..Command::BASE
};

fn clear_filters(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let shape = shape_of(context)?;
    if let Some(collection) = context.engine.data.collection(context.db, name) {
        collection.counters.plans.clear_filters(shape);
    }
    Ok(())
}
