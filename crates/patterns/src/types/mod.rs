//! Documents of several types in one collection: a discriminator names the type of each, and every
//! type has its own schema. Several kinds consist of it.
//!
//! - `options` reads what is declared about a type; `inference` finds the types of documents without one.
//! - `schema` checks documents, `transitions` changes of the type.
//! - `tallies` counts documents by type, and lists those without a valid one.
//! - `kind` implements the trait of a kind.

mod inference;
mod kind;
pub(crate) mod options;
mod schema;
mod tallies;
mod transitions;

pub(crate) use inference::Inference;
pub(crate) use transitions::{Foreign, Transitions};

use query::filter::Filter;
use std::collections::HashMap;
use value::path::Path;
use value::{DocBuf, RawDoc, Val};

/// The types of one collection, as declared.
#[derive(Debug)]
pub struct Types {
    /// The collection.
    pub(crate) collection: String,
    /// The field that names the type.
    pub(crate) discriminator: Path,
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

    /// The type at a position.
    pub(crate) fn at(&self, at: usize) -> Option<&Type> {
        self.all.get(at)
    }

    /// The names of all types.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.all.iter().map(|of| &*of.name).collect()
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
