//! `planCacheClear` and `planCacheListFilters`: the plans that are kept for queries of a
//! collection. There are no index filters: a `hint` says which index to use.

use super::query::parse_sort;
use super::{Command, Context};
use crate::planner::shape;
use query::ParseContext;
use query::filter::Filter;
use value::{Code, Error, Result, Writer};

pub(super) static CLEAR: Command = Command {
    name: "planCacheClear",
    aliases: &[],
    help: "Forgets the plans that are kept for queries of a collection.",
    fields: Some(&["planCacheClear", "query", "sort", "projection", "collation"]),
    admin: false,
    test: false,
    run: clear,
};

pub(super) static LIST_FILTERS: Command = Command {
    name: "planCacheListFilters",
    aliases: &[],
    help: "Lists index filters, of which there are none.",
    fields: Some(&["planCacheListFilters"]),
    admin: false,
    test: false,
    run: list_filters,
};

fn clear(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let args = &context.args;
    let query = args.optional_doc("query")?;
    let sort = args.optional_doc("sort")?;
    let others = args.optional_doc("projection")?.or(args.optional_doc("collation")?);
    if query.is_none() && (sort.is_some() || others.is_some()) {
        return Err(Error::new(
            Code::BAD_VALUE,
            "sort, projection, or collation provided without query",
        ));
    }
    let filter = match query {
        Some(query) => Some(Filter::parse(query, &ParseContext::new(crate::clock::now_ms()))?),
        None => None,
    };
    let (sort, _) = parse_sort(sort, None)?;
    if let Some(collection) = context.engine.collection(context.db, name) {
        match filter {
            None => collection.counters.plans.clear(),
            Some(filter) => {
                collection.counters.plans.forget(shape::of(filter.root(), sort.as_ref()));
            }
        }
    }
    Ok(())
}

fn list_filters(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    context.collection_name()?;
    out.array("filters", |_| {});
    Ok(())
}
