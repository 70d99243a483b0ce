//! `$linearFill` and `$locf`: fill null and missing values.

use super::column::evaluate;
use super::output::Output;
use super::{Partition, refuse};
use crate::operation::Operation;
use query::expr::Expr;
use std::cmp::Ordering;
use value::{Code, Error, Result, Val, compare, number};

/// Fills with the last value before.
pub(super) fn carried(
    input: &Expr,
    partition: &Partition,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<()> {
    let values = evaluate(input, partition, op)?;
    let mut last = Val::Null;
    values.iter().try_for_each(|value| {
        if !value.is_nullish() {
            last = value;
        }
        out.push(last)
    })
}

/// Fills by linear interpolation between neighbours.
pub(super) fn linear_fill(
    input: &Expr,
    partition: &Partition,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<()> {
    let values = evaluate(input, partition, op)?;
    for at in 1..partition.keys.len() {
        let (a, b) = (partition.keys.get(at - 1), partition.keys.get(at));
        if compare::compare(a, b) == Ordering::Equal {
            return refuse(6050106, "There can be no repeated values in the sort field");
        }
    }
    let position = |at: usize| match partition.keys.get(at) {
        Val::DateTime(ms) => Ok(Val::Int64(ms)),
        key if key.is_number() => match key {
            Val::Int32(n) => Ok(Val::Int32(n)),
            Val::Int64(n) => Ok(Val::Int64(n)),
            Val::Double(n) => Ok(Val::Double(n)),
            Val::Decimal(n) => Ok(Val::Decimal(n)),
            _ => Ok(Val::Null),
        },
        other => Err(Error::new(
            Code::TYPE_MISMATCH,
            format!("Expected numeric or Date sort value, but was {}", other.kind().name()),
        )),
    };
    let mut left: Option<usize> = None;
    let mut right: Option<usize> = None;
    for (at, value) in values.iter().enumerate() {
        position(at)?;
        if !value.is_nullish() {
            if !value.is_number() {
                return Err(Error::type_mismatch("Value to be filled must be numeric or nullish"));
            }
            left = Some(at);
            out.push(value)?;
            continue;
        }
        if right.is_none_or(|right| right <= at) {
            right = (at..values.len()).find(|next| !values.get(*next).is_nullish());
            if right.is_none() {
                right = Some(values.len());
            }
        }
        let ends = left.zip(right.filter(|right| *right < values.len()));
        let Some((from, to)) = ends else {
            out.push(Val::Null)?;
            continue;
        };
        let nan = Val::Double(f64::NAN);
        let (y0, y1) = (values.get(from), values.get(to));
        if !y1.is_number() {
            return Err(Error::type_mismatch("Value to be filled must be numeric or nullish"));
        }
        let (x0, x1, x) = (position(from)?, position(to)?, position(at)?);
        let run = number::subtract(x1, x0).unwrap_or(nan);
        let rise = number::subtract(y1, y0).unwrap_or(nan);
        let slope = number::divide(rise, run).unwrap_or(nan);
        let step = number::subtract(x, x0).unwrap_or(nan);
        let filled = number::multiply(slope, step).and_then(|up| number::add(y0, up));
        out.push(filled.unwrap_or(nan))?;
    }
    Ok(())
}
