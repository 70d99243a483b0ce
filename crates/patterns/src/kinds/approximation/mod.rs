//! The kind `approximation`: a fold over documents of another collection whose fields have a
//! bounded error and keep less than one entry for each child or value (`crate::fold::sketch`).

pub(crate) mod declaration;

use crate::fold::Form;
use crate::labels::{self, Label};
use crate::pattern::Pattern;

/// A fold whose option `fields` has a form and an expression for each field.
#[derive(Debug)]
pub struct Approximations;

impl Form for Approximations {
    fn labels(&self, pattern: &Pattern) -> Vec<Label> {
        labels::of_expressions(pattern)
    }
}
