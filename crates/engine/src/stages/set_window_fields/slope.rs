//! `$derivative` and `$integral`: the slope between the ends of a window, and the area under it.

use super::column::Column;
use super::exact::ExactSum;
use super::output::Output;
use super::sliding::{Sliding, slide};
use super::spans::Spans;
use super::{Partition, refuse};
use crate::operation::Operation;
use crate::stages::StageContext;
use query::expr::Expr;
use value::{Error, OwnedVal, Result, Val, number};

/// Reads `{input: .., unit: ..}`.
pub(super) fn parse(
    name: &str,
    argument: Val<'_>,
    context: &StageContext<'_>,
) -> Result<(Expr, Option<i64>)> {
    let Val::Document(doc) = argument else {
        return Err(Error::failed_to_parse(format!("{name} expects an object")));
    };
    let (mut input, mut unit_ms) = (None, None);
    for (field, value) in doc {
        match field {
            "input" => input = Some(Expr::parse(value.get(), context)?),
            "unit" => {
                let Val::String(unit) = value.get() else {
                    return Err(Error::failed_to_parse("'unit' must be a string"));
                };
                let length = match unit {
                    "week" => 7 * 24 * 3_600_000,
                    "day" => 24 * 3_600_000,
                    "hour" => 3_600_000,
                    "minute" => 60_000,
                    "second" => 1000,
                    "millisecond" => 1,
                    "year" | "quarter" | "month" => {
                        return refuse(5490710, "unit must be 'week' or smaller");
                    }
                    _ => {
                        return Err(Error::failed_to_parse(format!(
                            "unknown time unit value: {unit}"
                        )));
                    }
                };
                unit_ms = Some(length);
            }
            _ => {
                return Err(Error::failed_to_parse(format!(
                    "{name} got unexpected argument: {field}"
                )));
            }
        }
    }
    let Some(input) = input else {
        return Err(Error::failed_to_parse(format!("{name} requires an 'input' expression")));
    };
    Ok((input, unit_ms))
}

/// The difference of the sort values of two documents; dates in milliseconds.
fn distance(
    name: &str,
    partition: &Partition,
    unit_ms: Option<i64>,
    from: usize,
    to: usize,
) -> Result<Val<'static>> {
    let key = |at: usize| partition.keys.get(at);
    match (key(from), key(to), unit_ms) {
        (Val::DateTime(a), Val::DateTime(b), Some(_)) => Ok(Val::Int64(b.saturating_sub(a))),
        (Val::DateTime(_), _, None) => {
            let code = if name == "$integral" { 5423902 } else { 5624901 };
            refuse(code, format!("{name} where the sortBy is a Date requires a 'unit'"))
        }
        (a, b, Some(_)) if !matches!((a, b), (Val::DateTime(_), Val::DateTime(_))) => {
            let code = if name == "$integral" { 5423901 } else { 5624900 };
            refuse(code, format!("{name} with 'unit' expects the sortBy field to be a Date"))
        }
        (a, b, _) if a.is_number() && b.is_number() => {
            Ok(number::subtract(b, a).unwrap_or(Val::Double(f64::NAN)))
        }
        _ => {
            let code = if name == "$integral" { 5423900 } else { 5624902 };
            refuse(code, format!("{name} expects the sortBy field to be numeric"))
        }
    }
}

/// The slope between the ends of a window.
pub(super) fn derivative(
    partition: &Partition,
    values: &Column,
    unit_ms: Option<i64>,
    from: usize,
    to: usize,
) -> Result<OwnedVal> {
    if to <= from {
        return Ok(OwnedVal::new(Val::Null));
    }
    let run = distance("$derivative", partition, unit_ms, from, to - 1)?;
    if to < from + 2 {
        return Ok(OwnedVal::new(Val::Null));
    }
    let (first, last) = (values.get(from), values.get(to - 1));
    if first.is_nullish() || last.is_nullish() {
        return refuse(5624903, "$derivative input must not be null");
    }
    let (first, last) = match (first, last) {
        (Val::DateTime(first), Val::DateTime(last)) => (Val::Int64(first), Val::Int64(last)),
        (first, last) if first.is_number() && last.is_number() => (first, last),
        (first, last) => {
            return Err(Error::type_mismatch(format!(
                "can't $subtract {} from {}",
                first.kind().name(),
                last.kind().name()
            )));
        }
    };
    if number::is_zero(run) {
        return Ok(OwnedVal::new(Val::Null));
    }
    let rise = number::subtract(last, first).unwrap_or(Val::Double(f64::NAN));
    let slope = number::divide(rise, run).unwrap_or(Val::Null);
    let slope = match unit_ms {
        Some(unit) => number::multiply(slope, Val::Int64(unit)).unwrap_or(Val::Null),
        None => slope,
    };
    Ok(OwnedVal::new(slope))
}

/// The area under the values of one window.
fn integral(
    partition: &Partition,
    values: &Column,
    unit_ms: Option<i64>,
    from: usize,
    to: usize,
) -> Result<OwnedVal> {
    if to <= from {
        return Ok(OwnedVal::new(Val::Null));
    }
    let mut total = number::Sum::default();
    for at in from..to {
        let value = values.get(at);
        if !value.is_number() {
            return refuse(
                5423900,
                "The input value of the $integral window function must be numeric",
            );
        }
        if at == from {
            distance("$integral", partition, unit_ms, at, at)?;
            continue;
        }
        let before = values.get(at - 1);
        let width = distance("$integral", partition, unit_ms, at - 1, at)?;
        let both = number::add(before, value).unwrap_or(Val::Double(f64::NAN));
        let area = number::multiply(both, width).unwrap_or(Val::Double(f64::NAN));
        let area = number::divide(area, Val::Double(2.0)).unwrap_or(Val::Double(f64::NAN));
        total.add(area);
    }
    let mut total = total.total();
    if let Some(unit) = unit_ms {
        total = number::divide(total, Val::Int64(unit)).unwrap_or(Val::Double(f64::NAN));
    }
    Ok(OwnedVal::new(total))
}

/// The areas of all windows.
pub(super) fn integrals(
    partition: &Partition,
    values: &Column,
    unit_ms: Option<i64>,
    spans: &Spans<'_>,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<()> {
    if spans.are_wide()
        && let Some(areas) = areas(partition, values, unit_ms)
    {
        partition.memory.take(areas.len() * size_of::<f64>())?;
        let mut sum = Areas { areas, sum: ExactSum::default(), held: 0, unit_ms };
        return slide(spans, op, &mut sum, out);
    }
    spans.each(op, out, |from, to| integral(partition, values, unit_ms, from, to))
}

/// The area between each document and the previous one, if all are doubles.
fn areas(partition: &Partition, values: &Column, unit_ms: Option<i64>) -> Option<Vec<f64>> {
    let mut areas = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        let binary = |value: Val<'_>| value.is_number() && !matches!(value, Val::Decimal(_));
        let before = at.saturating_sub(1);
        let width = distance("$integral", partition, unit_ms, before, at).ok()?;
        if !binary(value) || !binary(width) {
            return None;
        }
        let both = number::add(values.get(before), value)?;
        let area = number::multiply(both, width)?.as_f64()? / 2.0;
        areas.push(if at == 0 { 0.0 } else { area });
    }
    Some(areas)
}

/// The sum of the areas of a window.
struct Areas {
    areas: Vec<f64>,
    sum: ExactSum,
    /// Documents in the window; there is one area less between them.
    held: usize,
    unit_ms: Option<i64>,
}

impl Areas {
    fn area(&self, at: usize) -> f64 {
        self.areas.get(at).copied().unwrap_or(0.0)
    }
}

impl Sliding for Areas {
    fn clear(&mut self) {
        self.sum = ExactSum::default();
        self.held = 0;
    }

    fn push(&mut self, at: usize) {
        if self.held > 0 {
            self.sum.add(self.area(at));
        }
        self.held += 1;
    }

    fn pop(&mut self, at: usize) {
        self.held = self.held.saturating_sub(1);
        if self.held > 0 {
            self.sum.subtract(self.area(at + 1));
        }
    }

    fn result(&self, _: usize) -> OwnedVal {
        OwnedVal::new(match (self.held, self.unit_ms) {
            (0, _) => Val::Null,
            // One document has no area: the result is an integer zero, as no division made it a
            // double.
            (1, None) => Val::Int32(0),
            (_, None) => Val::Double(self.sum.value()),
            (_, Some(unit)) => Val::Double(self.sum.value() / unit as f64),
        })
    }
}
