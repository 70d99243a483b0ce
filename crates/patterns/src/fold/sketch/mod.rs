//! Fields with a bounded error: they keep less than one entry for each child or value.
//!
//! - `hyperloglog`: the estimate of a number of distinct values; `distinct`: its entries.
//! - `bounds`: what is known about a value's error, and how it is shown.

mod bounds;
mod distinct;
mod hyperloglog;

pub use bounds::Bounded;
pub use hyperloglog::{Histogram, bits_for};

use super::accumulators::{AccumulatorState, Contribution};
use crate::documents::Documents;
use crate::pattern::Pattern;
use bounds::{EXACTLY, PROBABLY};
use query::expr::{Env, Expr};
use value::{OwnedVal, Result, Val};

/// The version of the stored forms. A change of hashes, registers or buckets needs another one.
pub(super) const FORMAT: i32 = 1;

/// A field with a bounded error.
#[derive(Debug)]
pub struct Sketch {
    /// The expression over a child.
    pub value: Expr,
    /// What is known of its values.
    pub form: SketchForm,
}

/// What a sketch tells of values.
#[derive(Debug)]
pub enum SketchForm {
    /// How many distinct ones there are.
    Distinct {
        /// The number of bits that choose a register.
        bits: u8,
    },
}

impl Sketch {
    /// The contribution of a child.
    pub(super) fn part<'a>(&'a self, env: &Env<'a>) -> Result<Contribution> {
        let value = self.value.eval(env)?;
        if value.is_missing() {
            return Ok(Contribution::Nothing);
        }
        Ok(match self.form {
            SketchForm::Distinct { .. } => {
                Contribution::Value(Val::Int64(hyperloglog::hash_of(value) as i64).into())
            }
        })
    }

    /// Applies changes of children to the entries and the state of a group.
    pub(super) fn apply_changes<'c>(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        prefix: &[u8],
        state: &mut AccumulatorState,
        changes: impl Iterator<Item = (&'c Contribution, bool)>,
    ) -> Result<()> {
        match self.form {
            SketchForm::Distinct { bits } => {
                distinct::apply_changes(pattern, documents, prefix, bits, state, changes)
            }
        }
    }

    /// Converts a recomputed state to the form of the stored one, which depends on what the group
    /// once had.
    pub(super) fn align(
        &self,
        pattern: &Pattern,
        recomputed: &mut dyn Documents,
        prefix: &[u8],
        state: &mut AccumulatorState,
        stored: &AccumulatorState,
    ) -> Result<()> {
        let SketchForm::Distinct { bits } = self.form;
        if let (AccumulatorState::Number(_), AccumulatorState::Registers(_)) = (&state, stored) {
            *state = distinct::to_registers(pattern, recomputed, prefix, bits)?;
        }
        Ok(())
    }

    /// The value, and between what bounds the true one is.
    pub(super) fn bounded(&self, state: &AccumulatorState) -> Bounded {
        match (&self.form, state) {
            (SketchForm::Distinct { bits }, AccumulatorState::Registers(histogram)) => {
                let estimate = histogram.estimate();
                let error = PROBABLY.0 * hyperloglog::standard_error(*bits);
                let whole = |number: f64| OwnedVal::new(whole_number(number as i64));
                Bounded::One {
                    value: whole(estimate.round()),
                    low: whole((estimate / (1.0 + error)).floor()),
                    // With few registers the error may be as large as the number.
                    high: whole((estimate / (1.0 - error).max(0.01)).ceil()),
                    confidence: PROBABLY.1,
                }
            }
            (SketchForm::Distinct { .. }, AccumulatorState::Number(number)) => {
                exactly(whole_number(*number))
            }
            (SketchForm::Distinct { .. }, _) => exactly(Val::Int32(0)),
        }
    }
}

/// A value without an error.
pub(super) fn exactly(value: Val<'_>) -> Bounded {
    let value = OwnedVal::new(value);
    Bounded::One { low: value.clone(), high: value.clone(), value, confidence: EXACTLY }
}

/// A count in the type that `$count` returns.
pub(super) fn whole_number(number: i64) -> Val<'static> {
    i32::try_from(number).map_or(Val::Int64(number), Val::Int32)
}
