//! `planCacheSetFilter`: sets which indexes queries of a shape may use.

use super::plan_cache::shape_of;
use super::row::Required;
use super::{Command, Context};
use crate::plan_cache::IndexFilter;
use ::access::Action;
use value::collation::CollationSource;
use value::{Code, Collation, DocBuf, Error, OwnedVal, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "planCacheSetFilter",
    help: "Sets which indexes queries of a shape may use.",
    fields: Some(&["planCacheSetFilter", "query", "sort", "projection", "collation", "indexes"]),
    privilege: Required::Collection(&[Action::PlanCacheIndexFilter]),
    run: set_filter,
    ..Command::BASE
};

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
    let Some(shape) = shape_of(context)? else {
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
        collation: match args.optional_doc("collation")?.filter(|doc| !doc.is_empty()) {
            Some(doc) => Collation::parse(doc, CollationSource::Command)?
                .map_or_else(DocBuf::new, |known| DocBuf::from(known.document())),
            None => DocBuf::new(),
        },
        indexes,
    });
    Ok(())
}
