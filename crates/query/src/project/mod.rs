//! Projections: the shape of results.
//!
//! `parse` compiles what `find`, `$project`, `$addFields` and `$unset` take into the `tree` of
//! fields; `apply` runs it on a document's bytes. Included fields keep the document's order,
//! computed ones follow in the order in which they were named.

mod apply;
mod parse;
mod tree;

use crate::expr::{Env, Expr};
use apply::Run;
use bumpalo::Bump;
use tree::{Action, Kind, Tree};
use value::{RawDoc, Result};

/// The syntax of a projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `find`: with `$slice`, `$elemMatch` and the positional `$`.
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

/// What a projection reads of a document.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// The paths that it includes or computes with.
    pub paths: Vec<String>,
    /// The paths that it excludes.
    pub excluded: Vec<String>,
    /// Whether fields that it does not name are part of the result.
    pub passes: bool,
}

impl Projection {
    /// Whether every document stays as it is.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.tree.fields.is_empty() && self.kind != Kind::Inclusion
    }

    /// Whether the projection needs the array position that the filter matched.
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

    /// What the projection reads of a document; `None` if that is not known, or all of it.
    #[must_use]
    pub fn reads(&self) -> Option<Reads> {
        let mut reads = Reads { passes: self.kind != Kind::Inclusion, ..Reads::default() };
        (!self.positional && self.tree.reads("", &mut reads)).then_some(reads)
    }

    /// The fields of the result as expressions over the document, if the projection drops all
    /// others and names no field inside of another.
    #[must_use]
    pub fn computed_fields(&self) -> Option<Vec<(String, Expr)>> {
        if self.kind != Kind::Inclusion || self.positional {
            return None;
        }
        let mut fields = Vec::with_capacity(self.tree.fields.len());
        for field in &self.tree.fields {
            let expr = match &field.action {
                Action::Include => Expr::field(&field.name),
                Action::Compute(expr) => expr.clone(),
                // Only the `_id` can be excluded from an inclusion.
                Action::Exclude => continue,
                _ => return None,
            };
            fields.push((field.name.to_string(), expr));
        }
        Some(fields)
    }

    /// The same projection of documents in which these top-level fields hold their length instead
    /// of an array. `None` if the arrays themselves are asked for.
    #[must_use]
    pub fn over_lengths(&self, names: &[&str]) -> Option<Projection> {
        let computed = |name: &&str| {
            let found = self.tree.fields.iter().find(|field| &*field.name == *name);
            match (&self.kind, found) {
                (Kind::Inclusion, None) => true,
                (_, Some(field)) => matches!(field.action, Action::Compute(_)),
                _ => false,
            }
        };
        if self.positional || self.kind == Kind::Exclusion || !names.iter().all(computed) {
            return None;
        }
        Some(Projection {
            kind: self.kind,
            tree: self.tree.over_lengths(names)?,
            positional: false,
        })
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
