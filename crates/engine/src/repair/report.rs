//! The result of a repair.

use super::catalog::Source;
use super::copy::CopiedDocuments;
use crate::damage::Damage;
use std::path::{Path, PathBuf};
use value::DocBuf;

/// What was copied of one collection.
#[derive(Clone, Debug)]
pub struct Copied {
    /// `db.collection`.
    pub namespace: String,
    /// Documents.
    pub documents: u64,
    /// Bytes of the documents.
    pub bytes: u64,
    /// The number of indexes that were built, without that of `_id`.
    pub indexes: u64,
    /// Records that are no documents and were left out.
    pub invalid: u64,
}

/// The result of a repair.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The new folder.
    pub folder: PathBuf,
    /// The collections, by name.
    pub collections: Vec<Copied>,
    /// The number of patterns that were built.
    pub patterns: u64,
    /// What is damaged in the old folder.
    pub damage: Vec<Damage>,
    /// Further things to know.
    pub notes: Vec<String>,
    /// Whether something was lost, or completeness could not be proven.
    pub is_lost: bool,
}

pub(super) fn make(
    folder: &Path,
    source: &Source,
    copied: CopiedDocuments,
    damage: Vec<Damage>,
    notes: Vec<String>,
    is_lost: bool,
) -> Repaired {
    let documents = source.collections.values().filter(|collection| collection.view().is_none());
    let mut collections: Vec<Copied> = documents
        .map(|collection| {
            let count = copied.of(collection.id);
            let indexes = collection.indexes.iter().filter(|index| !index.is_id()).count();
            Copied {
                namespace: collection.namespace(),
                documents: count.documents,
                bytes: count.bytes,
                indexes: indexes as u64,
                invalid: count.invalid,
            }
        })
        .collect();
    collections.sort_by(|a, b| a.namespace.cmp(&b.namespace));
    Repaired {
        folder: folder.to_path_buf(),
        collections,
        patterns: source.patterns.len() as u64,
        damage,
        notes,
        is_lost,
    }
}

impl Repaired {
    /// The result as a document, for programs.
    #[must_use]
    pub fn document(&self) -> DocBuf {
        DocBuf::build(|out| {
            out.str("folder", &self.folder.to_string_lossy());
            out.bool("lost", self.is_lost);
            out.array("collections", |list| {
                for collection in &self.collections {
                    list.push_doc(|out| {
                        out.str("ns", &collection.namespace);
                        out.count("documents", collection.documents);
                        out.count("bytes", collection.bytes);
                        out.count("indexes", collection.indexes);
                        out.count("invalid", collection.invalid);
                    });
                }
            });
            out.count("patterns", self.patterns);
            out.array("damage", |list| {
                for damage in &self.damage {
                    list.push_doc(|out| damage.write(out));
                }
            });
            out.array("notes", |list| {
                for note in &self.notes {
                    list.push(value::Val::String(note));
                }
            });
        })
    }
}
