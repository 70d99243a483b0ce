//! Which index of a collection is the one that a specification asks for, and which conflict with it.

use super::spec::{IndexSpec, in_specification, same_key};
use crate::catalog::{Collection, Index};
use crate::index_keys::{doc_text, text};
use std::sync::Arc;
use value::{Code, Error, RawDoc, Result, Val, compare};

/// Returns the index with this specification, if it exists already.
///
/// # Errors
/// IndexOptionsConflict or IndexKeySpecsConflict if a different index conflicts with it.
pub fn existing<'c>(
    collection: &'c Collection,
    spec: &IndexSpec,
) -> Result<Option<&'c Arc<Index>>> {
    let doc = spec.doc.as_doc();
    if spec.is_clustered() {
        return super::clustered::existing(collection, spec).map_err(|e| in_specification(doc, e));
    }
    if spec.is_id() {
        return Ok(collection.indexes.iter().find(|index| index.is_id()));
    }
    if let Some(named) = collection.index(&spec.name) {
        if named.is_named_clustered() {
            return Err(Error::new(
                Code(6100906),
                format!(
                    "Cannot create an index where the name matches the clusteredIndex but the key \
                     does not - indexSpec: {}",
                    doc_text(doc)
                ),
            ));
        }
        if !same_signature(named, doc) {
            return Err(Error::new(
                Code::INDEX_KEY_SPECS_CONFLICT,
                format!(
                    "An existing index has the same name as the requested index. When index \
                     names are not specified, they are auto generated and can cause conflicts. \
                     Please refer to our documentation. Requested index: {}, existing index: {}",
                    doc_text(doc),
                    doc_text(named.spec.as_doc())
                ),
            ));
        }
        if !same_options(named.spec.as_doc(), doc) {
            return Err(Error::new(
                Code::INDEX_OPTIONS_CONFLICT,
                format!(
                    "An equivalent index already exists with the same name but different \
                     options. Requested index: {}, existing index: {}",
                    doc_text(doc),
                    doc_text(named.spec.as_doc())
                ),
            ));
        }
        return Ok(Some(named));
    }
    match collection.indexes.iter().find(|index| same_signature(index, doc)) {
        None => check_only_text_index(collection, doc).map(|()| None),
        Some(other) if same_options(other.spec.as_doc(), doc) => Err(Error::new(
            Code::INDEX_OPTIONS_CONFLICT,
            format!("Index already exists with a different name: {}", other.name),
        )),
        Some(other) => Err(Error::new(
            Code::INDEX_OPTIONS_CONFLICT,
            format!(
                "An equivalent index already exists with a different name and options. \
                 Requested index: {}, existing index: {}",
                doc_text(doc),
                doc_text(other.spec.as_doc())
            ),
        )),
    }
}

/// Returns whether the options that distinguish two indexes with the same key are equal. Two such
/// indexes can coexist if they differ.
fn same_signature(index: &Index, spec: RawDoc<'_>) -> bool {
    let key = spec.get("key").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    let set = |name| spec.get(name).is_some_and(Val::truthy);
    same_key(index.key.as_doc(), key)
        && index.unique == set("unique")
        && index.sparse == set("sparse")
        && ["collation", "partialFilterExpression", "wildcardProjection"].iter().all(|name| {
            let same = |a, b| compare::equal(a, b);
            match (index.spec.as_doc().get(name), spec.get(name)) {
                (None, None) => true,
                (Some(Val::Document(a)), Some(Val::Document(b)))
                    if *name == "partialFilterExpression" =>
                {
                    super::partial::same_filter(a, b)
                }
                (Some(a), Some(b)) => same(a, b),
                _ => false,
            }
        })
}

fn same_options(a: RawDoc<'_>, b: RawDoc<'_>) -> bool {
    let number = |doc: RawDoc<'_>| doc.get("expireAfterSeconds").and_then(Val::as_f64);
    let same = |name: &&str| match (a.get(name), b.get(name)) {
        (None, None) => true,
        (Some(a), Some(b)) => compare::equal(a, b),
        _ => false,
    };
    let special = ["weights", "default_language", "language_override", "bits", "min", "max"];
    number(a) == number(b) && special.iter().all(same)
}

/// Refuses a second text index.
///
/// # Errors
/// CannotCreateIndex.
fn check_only_text_index(collection: &Collection, spec: RawDoc<'_>) -> Result<()> {
    let key = spec.get("key").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    let other = collection
        .indexes
        .iter()
        .find(|index| matches!(index.kind, crate::catalog::IndexKind::Text(_)));
    match other {
        Some(other) if text::is_text(key) => Err(Error::new(
            Code::CANNOT_CREATE_INDEX,
            format!(
                "only one text index per collection allowed, found existing text index \"{}\"",
                other.name
            ),
        )),
        _ => Ok(()),
    }
}
