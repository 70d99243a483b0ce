//! The kind `computed`: values computed from other values, in the same document (`same`) or by a
//! fold over documents of another collection (`crate::fold`).

pub(crate) mod declaration;
mod same;

pub use same::Same;

use crate::fold::Form;
use crate::labels::{self, Label};
use crate::pattern::Pattern;

/// A fold whose option `fields` has an accumulator for each field.
#[derive(Debug)]
pub struct Accumulators;

impl Form for Accumulators {
    fn labels(&self, pattern: &Pattern) -> Vec<Label> {
        labels::of_expressions(pattern)
    }
}
