//! Projections: the shape of results.

pub(crate) mod field_path;

use crate::ParseContext;
use bumpalo::Bump;
use value::{Error, RawDoc, Result, Val};

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
pub struct Projection {}

impl Projection {
    /// Compiles a projection document.
    ///
    /// # Errors
    /// What MongoDB answers to a projection that it cannot parse.
    pub fn parse(doc: RawDoc<'_>, context: &ParseContext<'_>, mode: Mode) -> Result<Projection> {
        let _ = (doc, context, mode);
        Err(Error::internal("projections are being built"))
    }

    /// Compiles the argument of `$unset`: a field path or an array of them.
    ///
    /// # Errors
    /// What MongoDB answers to an `$unset` that it cannot parse.
    pub fn parse_unset(value: Val<'_>, context: &ParseContext<'_>) -> Result<Projection> {
        let _ = (value, context);
        Err(Error::internal("projections are being built"))
    }

    /// Whether every document stays as it is.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        false
    }

    /// Whether the projection needs the array place that the filter matched.
    #[must_use]
    pub fn needs_position(&self) -> bool {
        false
    }

    /// Appends the projected document to `out`.
    ///
    /// # Errors
    /// What the expressions of the projection give.
    pub fn apply(
        &self,
        doc: RawDoc<'_>,
        position: Option<usize>,
        arena: &Bump,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let _ = (doc, position, arena, out);
        Err(Error::internal("projections are being built"))
    }
}
