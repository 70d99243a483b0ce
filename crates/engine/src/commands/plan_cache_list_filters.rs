//! `planCacheListFilters`: lists the index filters of a collection.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "planCacheListFilters",
    help: "Lists the index filters of a collection.",
    fields: Some(&["planCacheListFilters"]),
    privilege: Required::Collection(&[Action::PlanCacheIndexFilter]),
    run: list_filters,
    ..Command::BASE
};

fn list_filters(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let collection = context.engine.data.collection(context.db, name);
    out.array("filters", |list| {
        let Some(collection) = collection else { return };
        collection.counters.plans.each_filter(|filter| {
            list.push_doc(|out| {
                out.append("query", Val::Document(filter.query.as_doc()));
                out.append("sort", Val::Document(filter.sort.as_doc()));
                out.append("projection", Val::Document(filter.projection.as_doc()));
                if !filter.collation.as_doc().is_empty() {
                    out.append("collation", Val::Document(filter.collation.as_doc()));
                }
                out.array("indexes", |indexes| {
                    filter.indexes.iter().for_each(|index| indexes.push_raw(index.raw()));
                });
            });
        });
    });
    Ok(())
}
