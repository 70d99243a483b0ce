//! Fields with a bounded error: they keep less than one entry for each child or value.
//!
//! - `hyperloglog`: the estimate of a number of distinct values; `distinct`: its entries.
//! - `buckets`: percentiles, from numbers in buckets of a relative width.
//! - `top`: the most frequent values, whose counts are exact.
//! - `bounds`: what is known about a value's error, and how it is shown; `entry`: counts.

mod bounds;
mod buckets;
mod distinct;
mod entry;
mod hyperloglog;
mod top;

pub use bounds::{Bounded, BoundedValue, whole_number};
pub use buckets::fraction_bits_for;
pub use hyperloglog::{Histogram, bits_for};

use super::accumulators::{AccumulatorState, Contribution};
use super::record::{MEMBER, PLACE, entry_prefix};
use crate::documents::Documents;
use crate::pattern::Pattern;
use bounds::PROBABLY;
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
    /// The numbers at some ranks.
    Percentiles {
        /// The number of bits of the fraction that choose a bucket.
        bits: u8,
        /// The ranks, from 0 to 1.
        ranks: Vec<f64>,
    },
    /// The most frequent ones.
    Top {
        /// How many of them.
        limit: usize,
    },
}

impl Sketch {
    /// The contribution of a child.
    pub(super) fn part<'a>(&'a self, env: &Env<'a>) -> Result<Contribution> {
        let value = self.value.eval(env)?;
        if value.is_missing() {
            return Ok(Contribution::Nothing);
        }
        Ok(match &self.form {
            SketchForm::Distinct { .. } => {
                Contribution::Value(Val::Int64(hyperloglog::hash_of(value) as i64).into())
            }
            SketchForm::Percentiles { bits, .. } => match value.as_f64() {
                Some(number) if !number.is_nan() => {
                    let bucket = buckets::bucket_of(number, *bits);
                    Contribution::Value(Val::Int32(bucket as i32).into())
                }
                _ => Contribution::Nothing,
            },
            SketchForm::Top { .. } => Contribution::Value(value.into()),
        })
    }

    /// Applies changes of children to the entries and the state of a group; `field` is the index
    /// of the field, `encoded` the group's key.
    pub(super) fn apply_changes<'c>(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        (field, encoded): (usize, &[u8]),
        state: &mut AccumulatorState,
        changes: impl Iterator<Item = (&'c Contribution, bool)>,
    ) -> Result<()> {
        let prefix = entry_prefix(MEMBER, field, encoded);
        match &self.form {
            SketchForm::Distinct { bits } => {
                distinct::apply_changes(pattern, documents, &prefix, *bits, state, changes)
            }
            SketchForm::Percentiles { ranks, .. } => {
                buckets::apply_changes(pattern, documents, &prefix, ranks, state, changes)
            }
            SketchForm::Top { limit } => {
                let places = entry_prefix(PLACE, field, encoded);
                let prefixes = (prefix.as_slice(), places.as_slice());
                top::apply_changes(pattern, documents, prefixes, *limit, state, changes)
            }
        }
    }

    /// Converts a recomputed state to the form of the stored one, which depends on what the group
    /// once had.
    pub(super) fn align(
        &self,
        pattern: &Pattern,
        recomputed: &mut dyn Documents,
        (field, encoded): (usize, &[u8]),
        state: &mut AccumulatorState,
        stored: &AccumulatorState,
    ) -> Result<()> {
        if let (
            SketchForm::Distinct { bits },
            AccumulatorState::Number(_),
            AccumulatorState::Registers(_),
        ) = (&self.form, &state, stored)
        {
            let prefix = entry_prefix(MEMBER, field, encoded);
            *state = distinct::to_registers(pattern, recomputed, &prefix, *bits)?;
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
                Bounded::One(BoundedValue {
                    value: whole(estimate.round()),
                    low: whole((estimate / (1.0 + error)).floor()),
                    // With few registers the error may be as large as the number.
                    high: whole((estimate / (1.0 - error).max(0.01)).ceil()),
                    confidence: PROBABLY.1,
                })
            }
            (SketchForm::Distinct { .. }, AccumulatorState::Number(number)) => {
                Bounded::One(BoundedValue::exactly(whole_number(*number)))
            }
            (SketchForm::Distinct { .. }, _) => Bounded::One(BoundedValue::exactly(Val::Int32(0))),
            (SketchForm::Percentiles { bits, ranks }, state) => {
                Bounded::Many(buckets::values(*bits, ranks.len(), state))
            }
            (SketchForm::Top { .. }, state) => Bounded::Counted(top::values(state)),
        }
    }
}
