//! `planCacheClear`: forgets the plans that are kept for queries of a collection. And index filters,
//! which say what indexes queries of a shape may use: `planCacheSetFilter`, `planCacheClearFilters`,
//! `planCacheListFilters`. Filters live in memory only, as MongoDB's do; a `hint` beside one is not
//! heeded.

use super::query::parse_sort;
use super::row::Required;
use super::{Command, Context};
use crate::args::Args;
use crate::plan_cache::IndexFilter;
use crate::plan_cache::shape;
use ::access::Action;
use query::ParseContext;
use query::filter::Filter;
use value::collation::CollationSource;
use value::{Code, Collation, DocBuf, Error, OwnedVal, Result, Val, Writer};

pub(super) static CLEAR: Command = Command {
    name: "planCacheClear",
    help: "Forgets the plans that are kept for queries of a collection.",
    fields: Some(&["planCacheClear", "query", "sort", "projection", "collation"]),
    privilege: Required::Collection(&[Action::PlanCacheWrite]),
    run: clear,
    ..Command::BASE
};

pub(super) static CLEAR_FILTERS: Command = Command {
    name: "planCacheClearFilters",
    help: "Removes one index filter of a collection, or all.",
    fields: Some(&["planCacheClearFilters", "query", "sort", "projection", "collation"]),
    privilege: Required::Collection(&[Action::PlanCacheIndexFilter]),
    run: clear_filters,
    ..Command::BASE
};

pub(super) static LIST_FILTERS: Command = Command {
    name: "planCacheListFilters",
    help: "Lists the index filters of a collection.",
    fields: Some(&["planCacheListFilters"]),
    privilege: Required::Collection(&[Action::PlanCacheIndexFilter]),
    run: list_filters,
    ..Command::BASE
};

pub(super) static SET_FILTER: Command = Command {
    name: "planCacheSetFilter",
    help: "Says which indexes queries of a shape may use.",
    fields: Some(&["planCacheSetFilter", "query", "sort", "projection", "collation", "indexes"]),
    privilege: Required::Collection(&[Action::PlanCacheIndexFilter]),
    run: set_filter,
    ..Command::BASE
};

/// The shape of the query that a command names; nothing if it names none.
fn shape_of(args: &Args<'_>) -> Result<Option<u64>> {
    let query = args.optional_doc("query")?;
    let sort = args.optional_doc("sort")?;
    let projection = args.optional_doc("projection")?;
    let collation = args.optional_doc("collation")?;
    let Some(query) = query else {
        if sort.is_some() || projection.is_some() || collation.is_some() {
            return Err(Error::bad_value("sort, projection, or collation provided without query"));
        }
        return Ok(None);
    };
    let collation = match collation {
        Some(doc) if !doc.is_empty() => Collation::parse(doc, CollationSource::Command)?,
        _ => None,
    };
    let mut context = ParseContext::new(crate::clock::now_ms());
    context.collation = collation.as_ref();
    let filter = Filter::parse(query, &context)?;
    let (sort, _) = parse_sort(sort, collation.as_ref())?;
    Ok(Some(shape::of(filter.root(), sort.as_ref())))
}

fn clear(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let shape = shape_of(&context.args)?;
    if let Some(collection) = context.engine.data.collection(context.db, name) {
        match shape {
            None => collection.counters.plans.clear(),
            Some(shape) => collection.counters.plans.forget(shape),
        }
    }
    Ok(())
}

fn clear_filters(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let shape = shape_of(&context.args)?;
    if let Some(collection) = context.engine.data.collection(context.db, name) {
        collection.counters.plans.clear_filters(shape);
    }
    Ok(())
}

fn set_filter(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let args = &context.args;
    let Some(indexes) = args.get("indexes") else {
        return Err(Error::bad_value("required field indexes missing"));
    };
    let Val::Array(list) = indexes else {
        return Err(Error::bad_value("required field indexes must be an array"));
    };
    if list.is_empty() {
        return Err(Error::bad_value("required field indexes must contain at least one index"));
    }
    let mut indexes = Vec::new();
    for (_, index) in list {
        match index.get() {
            Val::Document(key) if key.is_empty() => {
                return Err(Error::bad_value("index specification cannot be empty"));
            }
            value @ (Val::Document(_) | Val::String(_)) => indexes.push(OwnedVal::new(value)),
            _ => {
                return Err(Error::bad_value("each item in indexes must be an object or string"));
            }
        }
    }
    let Some(shape) = shape_of(args)? else {
        return Err(Error::bad_value("required field query missing"));
    };
    let Some(collection) = context.engine.data.collection(context.db, name) else {
        return Err(Error::new(Code::BAD_VALUE, "no such collection"));
    };
    let kept = |name| -> Result<DocBuf> {
        Ok(args.optional_doc(name)?.map_or_else(DocBuf::new, DocBuf::from))
    };
    collection.counters.plans.set_filter(IndexFilter {
        shape,
        query: kept("query")?,
        sort: kept("sort")?,
        projection: kept("projection")?,
        collation: kept("collation")?,
        indexes,
    });
    Ok(())
}

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
