//! Projections: the shape of results.
//!
//! `parse` compiles what `find`, `$project`, `$addFields` and `$unset` take into the `tree` of
//! fields; `apply` runs it on a document's bytes. Included fields keep the document's order,
//! computed ones follow in the order in which they were named.

mod apply;
pub(crate) mod field_path;
mod parse;
mod tree;

use crate::expr::Env;
use apply::Run;
use bumpalo::Bump;
use tree::{Kind, Tree};
use value::{RawDoc, Result};

/// Whose rules a projection follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `find`: knows `$slice`, `$elemMatch` and the positional `$`.
    Find,
    /// `$project`.
    Aggregate,
    /// `$addFields` and `$set`: every value is an expression, all other fields stay.
    AddFields,
}

/// A compiled projection.
#[derive(Debug)]
pub struct Projection {
    kind: Kind,
    tree: Tree,
    positional: bool,
}

impl Projection {
    /// Whether every document stays as it is.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.tree.fields.is_empty() && self.kind != Kind::Inclusion
    }

    /// Whether the projection needs the array place that the filter matched.
    #[must_use]
    pub fn needs_position(&self) -> bool {
        self.positional
    }

    /// The paths of the result, if it consists of fields of the document as they are: then an
    /// index that has them all can answer without the document.
    #[must_use]
    pub fn included_paths(&self) -> Option<Vec<String>> {
        if self.kind != Kind::Inclusion {
            return None;
        }
        let mut paths = Vec::new();
        self.tree.included("", &mut paths).then_some(paths)
    }

    /// Appends the projected document to `out`.
    ///
    /// # Errors
    /// What the expressions of the projection give; 51246 and 51247 for a positional `$` without
    /// a matched element.
    pub fn apply(
        &self,
        doc: RawDoc<'_>,
        position: Option<usize>,
        arena: &Bump,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.run(&Env::new(doc, arena), position, out)
    }

    /// As `apply`, with the metadata that `$meta` can ask for, by keyword.
    ///
    /// # Errors
    /// As `apply`.
    pub fn apply_with_meta(
        &self,
        doc: RawDoc<'_>,
        meta: RawDoc<'_>,
        position: Option<usize>,
        arena: &Bump,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.run(&Env::new(doc, arena).with_meta(meta), position, out)
    }

    fn run<'a>(&'a self, env: &Env<'a>, position: Option<usize>, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let result = Run { kind: self.kind, env, position }.root(self, env.root(), out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }
}
