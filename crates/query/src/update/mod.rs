//! Updates: from what the client wrote to the next version of a document.
//!
//! An update is a set of modifiers (`$set`, `$push`, ...), a replacement document or a pipeline.
//! `tree` orders modifiers by path and finds conflicts, `walk` rewrites a document along the tree
//! and copies everything else as bytes, `modifier` and `array` compute single values,
//! `array_filter` chooses elements for `$[name]`, `rename` finds what moves, `upsert` makes the
//! document that an upsert starts from, `delta` describes what an update changed, `series` applies
//! one update to many documents.

mod array;
mod array_filter;
pub mod delta;
mod modifier;
mod pipeline;
mod rename;
mod series;
mod tree;
mod upsert;
mod walk;

pub use modifier::operators;
pub use series::{Edit, Series};
pub use tree::part_order as field_order;

use crate::ParseContext;
use crate::show::show;
use array_filter::ArrayFilters;
use bumpalo::Bump;
use modifier::Modifiers;
use pipeline::Pipeline;
use std::sync::atomic::{AtomicBool, Ordering};
use value::{Code, DocBuf, Error, RawDoc, RawVal, Result, Val, Writer, compare, limits};

/// A compiled update.
#[derive(Debug)]
pub struct Update {
    kind: Kind,
    keeps_empty_timestamps: bool,
    /// Whether the documents that it makes may be larger than documents are.
    allows_large: AtomicBool,
}

#[derive(Debug)]
enum Kind {
    Modifiers(Box<Modifiers>),
    Replacement(DocBuf),
    Pipeline(Pipeline),
}

/// MongoDB builds documents that are larger by so much, and refuses them with another code.
const LARGER_BYTES: usize = 16 * 1024;

impl Update {
    /// Compiles an update: a document of modifiers, a replacement document, or a pipeline array.
    pub fn parse(
        update: Val<'_>,
        ctx: &ParseContext<'_>,
        array_filters: &[RawDoc<'_>],
    ) -> Result<Update> {
        let kind = match update {
            Val::Array(stages) => {
                if !array_filters.is_empty() {
                    return Err(Error::failed_to_parse(
                        "arrayFilters may not be specified for pipeline-style updates",
                    ));
                }
                let ctx = ParseContext { lenient: true, ..*ctx };
                Kind::Pipeline(Pipeline::parse(stages, &ctx)?)
            }
            Val::Document(doc) if doc.first().is_some_and(|(name, _)| name.starts_with('$')) => {
                Kind::Modifiers(Box::new(Modifiers::parse(doc, ctx, array_filters)?))
            }
            Val::Document(doc) => {
                // They are checked, and have no effect.
                ArrayFilters::parse(array_filters, ctx)?;
                Kind::Replacement(parse_replacement(doc, ctx)?)
            }
            other => {
                return Err(Error::failed_to_parse(format!(
                    "Update argument must be either an object or an array, found {}",
                    other.kind().name()
                )));
            }
        };
        Ok(Update {
            kind,
            keeps_empty_timestamps: ctx.keeps_empty_timestamps,
            allows_large: AtomicBool::new(false),
        })
    }

    /// Whether this is a replacement document.
    #[must_use]
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replacement(_))
    }

    /// Whether empty timestamps at the top level of the document that it inserts become the current
    /// time.
    #[must_use]
    pub fn sets_empty_timestamps(&self) -> bool {
        self.is_replacement() && !self.keeps_empty_timestamps
    }

    /// From now on the update does not refuse to make a large document: whoever stores it does.
    pub fn allow_large(&self) {
        self.allows_large.store(true, Ordering::Relaxed);
    }

    /// Whether this is a pipeline.
    #[must_use]
    pub fn is_pipeline(&self) -> bool {
        matches!(self.kind, Kind::Pipeline(_))
    }

    /// The paths that operators name, as they were written; `$setOnInsert` and replacements name
    /// none. Of pipelines those that `$set`, `$addFields` and `$unset` name.
    #[must_use]
    pub fn named_paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        match &self.kind {
            Kind::Modifiers(modifiers) => modifiers.named_paths(&mut paths),
            Kind::Replacement(_) => {}
            Kind::Pipeline(pipeline) => paths.extend(pipeline.named.iter().cloned()),
        }
        paths
    }

    /// The paths that the update reads and changes, without positions in arrays. `None` if it may
    /// read or move any field.
    #[must_use]
    pub fn touched_paths(&self) -> Option<Vec<String>> {
        let Kind::Modifiers(_) = &self.kind else { return None };
        let plain = |path: String| match path.find(".$") {
            Some(at) => path.get(..at).unwrap_or("").to_owned(),
            None => path,
        };
        Some(self.named_paths().into_iter().map(plain).collect())
    }

    /// The arrays to whose end the update only adds elements.
    #[must_use]
    pub fn appended_paths(&self) -> Vec<String> {
        let Kind::Modifiers(modifiers) = &self.kind else { return Vec::new() };
        let mut paths = Vec::new();
        modifiers.tree.walk("", &mut |path, leaf| {
            let modifier = modifiers.modifiers.get(leaf);
            if matches!(modifier, Some(modifier::Modifier::Push(push)) if push.appends()) {
                paths.push(path.to_owned());
            }
        });
        paths
    }

    /// Whether the update has a positional `$`, so that `apply` needs the place that the filter
    /// matched.
    #[must_use]
    pub fn needs_position(&self) -> bool {
        matches!(&self.kind, Kind::Modifiers(modifiers) if modifiers.positional)
    }

    /// The next version of a document; `None` if the update changes nothing.
    ///
    /// `matched_position` is the array place that the filter matched. With `is_upsert_insert` the
    /// document comes from `upsert_document`, `$setOnInsert` acts, and the result is always given.
    pub fn apply(
        &self,
        doc: RawDoc<'_>,
        matched_position: Option<usize>,
        is_upsert_insert: bool,
        arena: &Bump,
    ) -> Result<Option<DocBuf>> {
        // What is compared is what the update itself gives: a replacement without the `_id` counts
        // as a change even if the document comes out the same, as in MongoDB.
        let (bytes, same) = match &self.kind {
            Kind::Modifiers(modifiers) => {
                let (bytes, touched) =
                    walk::apply(modifiers, doc, matched_position, is_upsert_insert)?;
                let new = RawDoc::new(&bytes);
                let unchanged = match (doc.find("_id"), new.find("_id")) {
                    (Some(old), Some(new)) => old == new,
                    (Some(_), None) => false,
                    (None, _) => true,
                };
                if !unchanged {
                    return Err(immutable_id());
                }
                let same = !touched && bytes == doc.bytes();
                if let Some(name) = modifiers.dollar_name.as_deref()
                    && !same
                    && !is_upsert_insert
                {
                    return Err(modifier::dollar_name_error(name));
                }
                (if doc.find("_id").is_none() { id_first(new, None) } else { bytes }, same)
            }
            Kind::Replacement(new) => {
                let mut names = new.as_doc().iter().map(|(name, _)| name);
                if !is_upsert_insert && let Some(name) = names.find(|name| name.starts_with('$')) {
                    return Err(modifier::dollar_name_error(name));
                }
                (replace(doc, new.as_doc())?, new.bytes() == doc.bytes())
            }
            Kind::Pipeline(pipeline) => {
                let new = pipeline.apply(doc, arena)?;
                (replace(doc, RawDoc::new(&new))?, new == doc.bytes())
            }
        };
        if same && !is_upsert_insert {
            return Ok(None);
        }
        self.check_result(doc, &bytes, is_upsert_insert)?;
        Ok(Some(DocBuf::from_bytes(bytes)))
    }

    fn check_result(&self, old: RawDoc<'_>, bytes: &[u8], inserts: bool) -> Result<()> {
        let is_limited = inserts || !self.allows_large.load(Ordering::Relaxed);
        if is_limited && bytes.len() > limits::DOCUMENT_BYTES_MAX {
            let (code, what) = match inserts {
                _ if bytes.len() > limits::DOCUMENT_BYTES_MAX + LARGER_BYTES => {
                    (Code::BSON_OBJECT_TOO_LARGE.0, "The updated document")
                }
                true => (17420, "Document to upsert"),
                false => (17419, "Resulting document after update"),
            };
            return Err(Error::new(
                Code(code),
                format!("{what} is larger than {}", limits::DOCUMENT_BYTES_MAX),
            ));
        }
        let new = RawDoc::new(bytes);
        if let Some(id) = new.find("_id")
            && old.find("_id") != Some(id)
        {
            check_id(id)?;
        }
        let deep = match &self.kind {
            Kind::Modifiers(modifiers) => modifiers.deepest > limits::DEPTH_MAX,
            _ => true,
        };
        if deep && depth(new, 1) > limits::DEPTH_MAX {
            return Err(Error::new(
                Code::OVERFLOW,
                format!("Document exceeds maximum nesting depth of {}", limits::DEPTH_MAX),
            ));
        }
        Ok(())
    }

    /// The document that an upsert starts from: the equalities of the query, `_id` first. Apply the
    /// update to it with `is_upsert_insert`; an `_id` that is still missing then is to be added.
    pub fn upsert_document(&self, filter: RawDoc<'_>) -> Result<DocBuf> {
        upsert::start_document(filter, self.is_replacement())
    }
}

fn parse_replacement(doc: RawDoc<'_>, ctx: &ParseContext<'_>) -> Result<DocBuf> {
    let mut bytes = Vec::with_capacity(doc.bytes().len());
    let mut writer = Writer::start(&mut bytes);
    for (name, value) in doc {
        // A zero timestamp at the top level means «now»; the clock is the only source for it.
        let is_empty = !ctx.keeps_empty_timestamps && value.get() == Val::Timestamp(0);
        if is_empty && name != "_id" {
            writer.append(name, Val::Timestamp(modifier::now_timestamp(ctx)));
        } else {
            writer.raw(name, value);
        }
    }
    writer.finish();
    Ok(DocBuf::from_bytes(bytes))
}

fn immutable_id() -> Error {
    Error::new(
        Code::IMMUTABLE_FIELD,
        "Performing an update on the path '_id' would modify the immutable field '_id'",
    )
}

/// A whole new document in place of an old one, whose `_id` stays.
fn replace(old: RawDoc<'_>, new: RawDoc<'_>) -> Result<Vec<u8>> {
    let old_id = old.find("_id");
    let new_id = new.find("_id");
    if let (Some(old), Some(new)) = (old_id, new_id)
        && !compare::equal(old.get(), new.get())
    {
        return Err(Error::new(
            Code::IMMUTABLE_FIELD,
            format!(
                "After applying the update, the (immutable) field '_id' was found to have been \
                 altered to _id: {}",
                show(new.get())
            ),
        ));
    }
    Ok(id_first(new, new_id.or(old_id)))
}

/// The document with its `_id` (or the given one) as first field.
fn id_first(doc: RawDoc<'_>, id: Option<RawVal<'_>>) -> Vec<u8> {
    if id.is_none() && doc.first().is_none_or(|(name, _)| name == "_id") {
        return doc.bytes().to_vec();
    }
    let mut bytes = Vec::with_capacity(doc.bytes().len() + 32);
    let mut writer = Writer::start(&mut bytes);
    if let Some(id) = id.or_else(|| doc.find("_id")) {
        writer.raw("_id", id);
    }
    for (name, value) in doc {
        if name != "_id" {
            writer.raw(name, value);
        }
    }
    writer.finish();
    bytes
}

/// Refuses values that cannot identify a document.
fn check_id(id: RawVal<'_>) -> Result<()> {
    let kind = id.kind();
    if matches!(kind, value::Type::Array | value::Type::Regex | value::Type::Undefined) {
        return Err(Error::new(
            Code::INVALID_ID_FIELD,
            format!("The '_id' value cannot be of type {}", kind.name()),
        ));
    }
    let dollar = id.as_doc().and_then(|doc| doc.iter().find(|(name, _)| name.starts_with('$')));
    if let Some((name, _)) = dollar {
        return Err(Error::new(
            Code::DOLLAR_PREFIXED_FIELD_NAME,
            format!(
                "The dollar ($) prefixed field '{name}' in '_id.{name}' is not valid for storage."
            ),
        ));
    }
    Ok(())
}

/// How deep documents and arrays are nested; scans no further than the limit.
pub(crate) fn depth(doc: RawDoc<'_>, level: usize) -> usize {
    if level > limits::DEPTH_MAX {
        return level;
    }
    doc.iter()
        .filter_map(|(_, value)| value.as_doc().or_else(|| value.as_array()))
        .map(|inner| depth(inner, level + 1))
        .max()
        .unwrap_or(level)
}
