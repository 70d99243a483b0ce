//! Documents of several types in one collection: a discriminator names the type of each, and every
//! type has its own schema. Several kinds consist of it.
//!
//! - `options` reads what is declared about a type, `frame` what is declared about all; `inference` finds the types of documents without one.
//! - `schema` checks documents, `transitions` changes of the type.
//! - `implied`: queries that are about one type; `views`: the view of each type.
//! - `tallies` counts documents by type, and lists those without a valid one.
//! - `kind` implements the trait of a kind.

pub(crate) mod frame;
mod implied;
mod inference;
mod kind;
pub(crate) mod options;
mod schema;
mod tallies;
mod transitions;
mod views;

pub(crate) use inference::Inference;
pub(crate) use transitions::{Foreign, Transitions};

use crate::edit;
use query::filter::Filter;
use std::collections::HashMap;
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val};

/// The types of one collection, as declared.
#[derive(Debug)]
pub struct Types {
    /// The collection.
    pub(crate) collection: String,
    /// The field that names the type.
    pub(crate) discriminator: Path,
    /// The field with the names of the types from the root to that of the document, if there is a
    /// hierarchy. The pattern maintains it.
    pub(crate) path_field: Option<Path>,
    /// The declared types, in the order of the declaration.
    pub(crate) all: Vec<Type>,
    /// Their positions, by name.
    pub(crate) by_name: HashMap<String, usize>,
    /// What holds for every document.
    pub(crate) common: Schema,
    /// Whether documents may have a type that is not declared.
    pub(crate) allows_unknown: bool,
    /// How the types of existing documents are found.
    pub(crate) inference: Vec<Inference>,
    /// How a document may change its type.
    pub(crate) transitions: Transitions,
    /// The indexes of all documents.
    pub(crate) common_indexes: Vec<options::Indexed>,
    /// Whether each type has a view.
    pub(crate) has_views: bool,
    /// The types whose documents have a field, for the fields that not all of them have.
    pub(crate) owners: HashMap<String, Vec<usize>>,
}

/// A declared type.
#[derive(Debug)]
pub(crate) struct Type {
    /// The value of the discriminator.
    pub(crate) name: String,
    /// What its documents must be like, with what is common.
    pub(crate) schema: Schema,
    /// The fields that belong to it, with those that are common.
    pub(crate) fields: Vec<String>,
    /// The indexes of its documents.
    pub(crate) indexes: Vec<options::Indexed>,
    /// The filter that its documents match, and those of the types below it.
    pub(crate) condition: DocBuf,
    /// The names of the types from the root to this one; empty without a hierarchy.
    pub(crate) path: Vec<String>,
    /// Whether it has no documents of its own, only those of the types below it.
    pub(crate) is_abstract: bool,
    /// The positions of these types, itself first.
    pub(crate) members: Vec<usize>,
}

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The filter `{$jsonSchema: ..}`.
    pub(crate) source: DocBuf,
    /// The same, compiled.
    pub(crate) filter: Filter,
}

/// The type that a document has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Found<'d> {
    /// None: the discriminator is missing or null.
    Nothing,
    /// One that is not declared.
    Unknown(Val<'d>),
    /// The declared type at this position.
    Known(usize),
}

impl Types {
    /// The type that a document has.
    pub(crate) fn found<'d>(&self, doc: RawDoc<'d>) -> Found<'d> {
        match self.discriminator.get(doc) {
            Val::Missing | Val::Null => Found::Nothing,
            Val::String(name) => match self.by_name.get(name) {
                Some(at) => Found::Known(*at),
                None => Found::Unknown(Val::String(name)),
            },
            other => Found::Unknown(other),
        }
    }

    /// Returns a document with the path of its type; `None` if it has the right one.
    ///
    /// # Errors
    /// PatternViolation if a value is in the way.
    pub(crate) fn with_path(&self, doc: RawDoc<'_>) -> Result<Option<DocBuf>> {
        let Some(field) = &self.path_field else { return Ok(None) };
        let path = match self.found(doc) {
            Found::Known(at) => self.at(at).map(|of| &of.path),
            Found::Unknown(_) | Found::Nothing => None,
        };
        let path = path.map(|names| {
            let mut bytes = Vec::new();
            value::writer::write_array(&mut bytes, |out| {
                names.iter().for_each(|name| out.push(Val::String(name)));
            });
            OwnedVal::new(Val::Array(RawDoc::new(&bytes)))
        });
        let known = field.find(doc).map(|value| value.get());
        if known == path.as_ref().map(OwnedVal::get) {
            return Ok(None);
        }
        edit::assign(doc, &[(field.clone(), path)]).map(Some)
    }

    /// The type at a position.
    pub(crate) fn at(&self, at: usize) -> Option<&Type> {
        self.all.get(at)
    }

    /// For each field that not all types have, the types that have it.
    pub(crate) fn owners_of(all: &[Type]) -> HashMap<String, Vec<usize>> {
        let mut owners: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, of) in all.iter().enumerate() {
            for field in &of.fields {
                owners.entry(field.clone()).or_default().push(at);
            }
        }
        owners.retain(|_, types| types.len() < all.len());
        owners
    }
}
