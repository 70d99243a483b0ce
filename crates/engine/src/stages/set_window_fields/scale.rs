//! `$minMaxScaler`: where a value lies between the least and the greatest of its window.

use super::column::evaluate;
use super::function::Function;
use super::sliding::{Extremes, Sliding, is_wide, slide};
use super::{Frame, Partition};
use crate::operation::Operation;
use crate::stages::StageContext;
use query::expr::Expr;
use value::{DocBuf, Error, OwnedVal, Result, Val};

/// Reads `{input: .., min: .., max: ..}`.
pub(super) fn parse(
    argument: Val<'_>,
    frame: Frame,
    context: &StageContext<'_>,
) -> Result<Function> {
    let Val::Document(doc) = argument else {
        return Err(Error::failed_to_parse("$minMaxScaler expects an object"));
    };
    let (mut input, mut low, mut high) = (None, 0.0, 1.0);
    for (name, value) in doc {
        match name {
            "input" => input = Some(Expr::parse(value.get(), context)?),
            "min" | "max" => {
                let expr = Expr::parse(value.get(), context)?;
                let Some(number) = expr.as_constant().and_then(Val::as_f64) else {
                    return Err(Error::failed_to_parse(format!(
                        "'{name}' of $minMaxScaler must be a constant number"
                    )));
                };
                if name == "min" { low = number } else { high = number }
            }
            _ => {
                return Err(Error::failed_to_parse(format!(
                    "$minMaxScaler got unexpected argument: {name}"
                )));
            }
        }
    }
    if low >= high {
        return Err(Error::failed_to_parse("'min' of $minMaxScaler must be below 'max'"));
    }
    match input {
        Some(input) => Ok(Function::MinMaxScaler { input, low, high, frame }),
        None => Err(Error::failed_to_parse("$minMaxScaler requires an 'input' expression")),
    }
}

fn scaled(
    value: Val<'_>,
    window: Option<&[OwnedVal]>,
    low: f64,
    high: f64,
) -> Result<Val<'static>> {
    let number = |value: Val<'_>| {
        value.as_f64().ok_or_else(|| {
            Error::type_mismatch("'input' of $minMaxScaler must evaluate to a number")
        })
    };
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in window.unwrap_or(&[]) {
        let value = number(value.get())?;
        least = least.min(value);
        most = most.max(value);
    }
    Ok(between(number(value)?, (least, most), (low, high)))
}

/// Where a number lies between two ends, in the scale of two others.
fn between(number: f64, (least, most): (f64, f64), (low, high): (f64, f64)) -> Val<'static> {
    if least >= most {
        return Val::Double(low);
    }
    Val::Double((number - least) / (most - least) * (high - low) + low)
}

/// The least and the greatest number of a window.
struct Ends<N, L, M> {
    number: N,
    least: Extremes<L>,
    most: Extremes<M>,
}

impl<N, L, M> Sliding for Ends<N, L, M>
where
    N: Fn(usize) -> f64,
    L: Fn(usize, usize) -> bool,
    M: Fn(usize, usize) -> bool,
{
    fn clear(&mut self) {
        self.least.clear();
        self.most.clear();
    }

    fn push(&mut self, at: usize) {
        self.least.push(at);
        self.most.push(at);
    }

    fn pop(&mut self, at: usize) {
        self.least.pop(at);
        self.most.pop(at);
    }

    fn result(&self) -> OwnedVal {
        let ends = DocBuf::build(|out| {
            out.f64("l", self.least.best().map_or(f64::INFINITY, &self.number));
            out.f64("m", self.most.best().map_or(f64::NEG_INFINITY, &self.number));
        });
        OwnedVal::new(Val::Document(ends.as_doc()))
    }
}

/// The place of each value in its window.
pub(super) fn all_scaled(
    input: &Expr,
    (low, high): (f64, f64),
    windows: &[(usize, usize)],
    partition: &Partition,
    op: &Operation,
) -> Result<Vec<OwnedVal>> {
    let values = evaluate(input, partition)?;
    let numbers: Option<Vec<f64>> =
        values.iter().map(|value| value.get().as_f64().filter(|n| !n.is_nan())).collect();
    if let Some(numbers) = numbers.filter(|_| is_wide(windows)) {
        let number = |at: usize| numbers.get(at).copied().unwrap_or(f64::NAN);
        let least = Extremes::new(|a, b| number(a) < number(b));
        let most = Extremes::new(|a, b| number(a) > number(b));
        let mut ends = Ends { number, least, most };
        let ends = slide(windows, op, &mut ends)?;
        let scaled = numbers.iter().zip(&ends).map(|(number, ends)| {
            let end = |name| ends.get().as_doc().and_then(|doc| doc.get(name)?.as_f64());
            let (least, most) = (end("l").unwrap_or(0.0), end("m").unwrap_or(0.0));
            OwnedVal::new(between(*number, (least, most), (low, high)))
        });
        return Ok(scaled.collect());
    }
    let mut column = Vec::with_capacity(values.len());
    for (value, (from, to)) in values.iter().zip(windows) {
        op.check()?;
        let window = values.get(*from..*to);
        column.push(OwnedVal::new(scaled(value.get(), window, low, high)?));
    }
    Ok(column)
}
