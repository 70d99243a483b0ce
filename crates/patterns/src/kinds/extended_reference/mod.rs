//! `extendedReference`: fields of a referenced document, copied beside the reference.
//!
//! - `declaration`: reads the options.
//! - `context`: finds the sub-documents that hold a reference, which may be in arrays.
//! - `values`: the copied values, which may be arrays on the way to a field.
//! - `copies`: the copies in a target; `clear`: removes them.
//! - `followers`: updates the documents that refer to a changed source.
//! - `rewrite`: the queries that copies answer. `kind` implements the trait `Kind`.

mod clear;
mod context;
mod copies;
pub(crate) mod declaration;
mod followers;
mod kind;
mod rewrite;
mod values;

use crate::documents::{Documents, Find};
use context::ReferencePaths;
use query::expr::Expr;
use std::collections::BTreeMap;
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val};
use values::{CopiedValue, NestedFields};

/// Copies of fields beside a reference.
#[derive(Debug)]
pub struct Reference {
    /// The collection that is referenced.
    pub source: String,
    /// The field of the source whose value a reference holds.
    pub matched: Path,
    /// The paths of references and copies in the target.
    pub place: ReferencePaths,
    /// The copied expressions, by their path below `into`.
    pub fields: Vec<(Path, Expr)>,
    /// The fields that may be inside of arrays of the source, if there are any.
    pub nested: Option<NestedFields>,
    /// Whether copies are updated with their source.
    pub live: bool,
    /// Whether copies are not stored: readers resolve them from their source.
    pub pointer: bool,
    /// Whether the database chooses between the two.
    pub automatic: bool,
    /// Whether a reference to a missing source is refused.
    pub reject_missing: bool,
    /// What happens when a source is deleted.
    pub on_delete: SourceDelete,
    /// The paths that are read of the source.
    pub reads: Vec<String>,
}

/// What happens to the documents that refer to a deleted source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceDelete {
    /// The copies are kept.
    Keep,
    /// The copies are removed, the reference is kept.
    Unset,
    /// The source cannot be deleted.
    Restrict,
    /// They are deleted too; if the reference is in an array, only its element is removed.
    Cascade,
}

/// The copies of one reference: a value for each field.
type Copies = Vec<Option<CopiedValue>>;

/// Copies that a reader has resolved so far, by the values of their references.
#[derive(Debug, Default)]
pub struct ResolvedCopies(BTreeMap<Vec<u8>, Option<Copies>>);

/// The most resolved copies that a reader caches.
const RESOLVED_MAX: usize = 10_000;

/// The key of a record that exists once copies may have outlived their source.
const LOST: u8 = 6;

impl Reference {
    /// Compiles the paths of references and copies.
    ///
    /// # Errors
    /// BadValue if copies would be inside the reference.
    pub fn compile_paths(reference: &str, into: &str) -> Result<ReferencePaths> {
        ReferencePaths::new(reference, into)
    }

    /// The paths that are read of the targets.
    #[must_use]
    pub(super) fn target_reads(&self) -> Vec<String> {
        vec![self.place.reference.text().to_owned()]
    }

    /// The maintained paths.
    #[must_use]
    pub(super) fn maintained_paths(&self) -> Vec<String> {
        self.fields
            .iter()
            .map(|(path, _)| format!("{}.{}", self.place.into.text(), path.text()))
            .collect()
    }

    /// The indexes that it needs: the followers of a source are found by one.
    #[must_use]
    pub(super) fn needed_indexes(&self, target: &str) -> Vec<(String, DocBuf)> {
        let reference = self.place.reference.text();
        if reference == "_id" {
            return Vec::new();
        }
        let key = DocBuf::build(|out| {
            out.i32(reference, 1);
        });
        vec![(target.to_owned(), key)]
    }

    /// The source of a reference.
    pub(super) fn find_source(
        &self,
        documents: &mut dyn Documents,
        key: Val<'_>,
    ) -> Result<Option<DocBuf>> {
        if self.matched.text() == "_id" {
            return documents.get(&self.source, key);
        }
        let mut found = None;
        let find = Find { collection: &self.source, path: &self.matched, value: key, after: &[] };
        documents.find(&find, &mut |doc| {
            found = Some(DocBuf::from(doc));
            Ok(false)
        })?;
        Ok(found)
    }

    /// The encoded references of a document.
    #[must_use]
    pub(super) fn references(&self, doc: RawDoc<'_>) -> Vec<Vec<u8>> {
        let found = crate::paths::values_at(doc, &self.place.reference);
        found.into_iter().map(|(key, _)| key).collect()
    }
}
