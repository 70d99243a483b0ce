//! `extendedReference`: fields of a document that is referred to, copied beside the reference.
//!
//! - `declaration`: reads the options.
//! - `context`: finds the sub-documents that hold a reference, which may stand in arrays.
//! - `copies`: what a target holds; `clear`: a target without it.
//! - `followers`: what a change of a source means for the documents that refer to it.
//! - `rewrite`: the queries that copies answer. `kind` connects all of it with the contract.

mod clear;
mod context;
mod copies;
pub(crate) mod declaration;
mod followers;
mod kind;
mod rewrite;

use crate::documents::{Documents, Find};
use bumpalo::Bump;
use context::ReferencePaths;
use query::expr::{Env, Expr};
use std::collections::BTreeMap;
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val};

/// Copies of fields beside a reference.
#[derive(Debug)]
pub struct Reference {
    /// The collection that is referred to.
    pub source: String,
    /// The field of the source that a reference names.
    pub matched: Path,
    /// Where references stand in the target, and where copies go.
    pub place: ReferencePaths,
    /// What is copied, by the path below `into`.
    pub fields: Vec<(Path, Expr)>,
    /// Whether copies follow their source.
    pub live: bool,
    /// Whether there are no copies: readers resolve them from their source.
    pub pointer: bool,
    /// Whether the database chooses between the two.
    pub automatic: bool,
    /// Whether a reference to nothing is refused.
    pub reject_missing: bool,
    /// What the removal of a source means.
    pub on_delete: SourceDelete,
    /// What is read of the source.
    pub reads: Vec<String>,
}

/// What happens to the documents that refer to a source that goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceDelete {
    /// The copies stay.
    Keep,
    /// The copies go, the reference stays.
    Unset,
    /// The source cannot go.
    Restrict,
    /// They go too; a reference in an array only with its element.
    Cascade,
}

/// The copies of one reference: a value for each field.
type Copies = Vec<Option<OwnedVal>>;

/// Copies that a reader has resolved so far, by the values that name their sources.
#[derive(Debug, Default)]
pub struct ResolvedCopies(BTreeMap<Vec<u8>, Option<Copies>>);

/// The most copies that a reader keeps.
const RESOLVED_MAX: usize = 10_000;

/// The key that is there once copies may have outlived their source.
const LOST: u8 = 6;

impl Reference {
    /// Where references and copies stand.
    ///
    /// # Errors
    /// BadValue when copies would stand inside of the reference.
    pub fn place(reference: &str, into: &str) -> Result<ReferencePaths> {
        ReferencePaths::new(reference, into)
    }

    /// What is read of the targets.
    #[must_use]
    pub(super) fn target_reads(&self) -> Vec<String> {
        vec![self.place.reference.text().to_owned()]
    }

    /// The paths that are maintained.
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

    /// What is copied of a source.
    ///
    /// # Errors
    /// What an expression gives.
    pub(super) fn copies(&self, source: RawDoc<'_>) -> Result<Copies> {
        let arena = Bump::new();
        let env = Env::new(source, &arena);
        self.fields
            .iter()
            .map(|(_, expression)| {
                let value = expression.eval(&env)?;
                Ok((!value.is_nullish()).then(|| OwnedVal::new(value)))
            })
            .collect()
    }

    /// The source that a reference means.
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
