//! Shared code of the commands about cached plans and index filters. An index filter limits the
//! indexes that queries of a shape may use. As in MongoDB, filters are in memory only, and a filter
//! overrides a `hint`.

use super::Context;
use super::query::parse_sort;
use crate::plan_cache::shape::{self, Rest};
use query::ParseContext;
use query::filter::Filter;
use value::collation::CollationSource;
use value::{Collation, Error, Result};

/// The shape of the query that a command names, if any.
pub(super) fn shape_of(context: &Context<'_>) -> Result<Option<u64>> {
    let args = &context.args;
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
        _ => {
            let collection = context.engine.data.collection(context.db, context.collection_name()?);
            collection.and_then(|collection| collection.collation.clone())
        }
    };
    let mut parsing = ParseContext::new(crate::clock::now_ms());
    parsing.collation = collation.as_ref();
    let filter = Filter::parse(query, &parsing)?;
    let (sort, _) = parse_sort(sort, collation.as_ref())?;
    let collation = filter.collation().map(|collation| &**collation);
    let rest = Rest { sort: sort.as_ref(), projection, collation };
    Ok(Some(shape::of(filter.root(), &rest)))
}
