//! The option `clustered` of `createIndexes`: names the clustered index that a collection was created
//! with.

use super::spec::{IndexSpec, same_key};
use crate::catalog::{Collection, Index};
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Reads the option, which is true or absent.
pub(super) fn read(value: Val<'_>, set: bool) -> Result<bool> {
    if set {
        return Ok(true);
    }
    let shown = value::ejson::print_value(value, value::ejson::Format::Shell);
    Err(Error::new(Code(6_492_800), format!("Value '{shown}' for field 'clustered' is invalid")))
}

/// Checks the other options.
pub(super) fn check(spec: RawDoc<'_>, unique: Option<bool>) -> Result<()> {
    if unique != Some(true) {
        return Err(Error::new(
            Code::CANNOT_CREATE_INDEX,
            "The 'unique' field is required when 'clustered' is specified",
        ));
    }
    let allowed = |name: &str| matches!(name, "key" | "name" | "unique" | "v" | "ns" | "clustered");
    match spec.iter().find(|(name, _)| !allowed(name)) {
        Some((name, _)) => Err(Error::new(
            Code::INVALID_INDEX_SPECIFICATION_OPTION,
            format!("The field '{name}' is not valid for a clusteredIndex specification"),
        )),
        None => Ok(()),
    }
}

/// The specification as `listIndexes` would show it.
pub(super) fn stored(key: RawDoc<'_>, name: &str, version: i32) -> DocBuf {
    DocBuf::build(|out| {
        out.i32("v", version).append("key", Val::Document(key));
        out.str("name", name).bool("unique", true).bool("clustered", true);
    })
}

/// The clustered index of a collection, if it is the one that is specified.
///
/// # Errors
/// MongoDB's codes for another key or version, and for a collection that has none.
pub(super) fn existing<'c>(
    collection: &'c Collection,
    spec: &IndexSpec,
) -> Result<Option<&'c Arc<Index>>> {
    let own = collection.indexes.iter().find(|index| index.is_named_clustered());
    let Some(index) = own.filter(|index| same_key(index.key.as_doc(), spec.key())) else {
        return Err(Error::new(
            Code(6_243_700),
            "the option 'clustered' names another index than the clustered one of the collection",
        ));
    };
    let version = |doc: RawDoc<'_>| doc.get("v").and_then(Val::as_i64_exact);
    if version(spec.doc.as_doc()) != version(index.spec.as_doc()) {
        return Err(Error::new(
            Code(6_100_908),
            "the clustered index of the collection has another version",
        ));
    }
    Ok(Some(index))
}
