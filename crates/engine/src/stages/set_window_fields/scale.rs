//! `$minMaxScaler`: scales a value between the minimum and maximum of its window.

use super::column::evaluate;
use super::function::Function;
use super::output::Output;
use super::sliding::{Extremes, Sliding, slide};
use super::spans::Spans;
use super::{Frame, Partition};
use crate::operation::Operation;
use crate::stages::StageContext;
use query::expr::Expr;
use value::{Error, OwnedVal, Result, Val};

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

fn scaled<'v>(
    value: Val<'_>,
    window: impl Iterator<Item = Val<'v>>,
    low: f64,
    high: f64,
) -> Result<Val<'static>> {
    let number = |value: Val<'_>| {
        value.as_f64().ok_or_else(|| {
            Error::type_mismatch("'input' of $minMaxScaler must evaluate to a number")
        })
    };
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in window {
        let value = number(value)?;
        least = least.min(value);
        most = most.max(value);
    }
    Ok(between(number(value)?, (least, most), (low, high)))
}

/// Maps a number from one range to another.
fn between(number: f64, (least, most): (f64, f64), (low, high): (f64, f64)) -> Val<'static> {
    if least >= most {
        return Val::Double(low);
    }
    Val::Double((number - least) / (most - least) * (high - low) + low)
}

/// The minimum and maximum of a window.
struct Ends<N, L, M> {
    number: N,
    least: Extremes<L>,
    most: Extremes<M>,
    scale: (f64, f64),
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

    fn result(&self, at: usize) -> OwnedVal {
        let least = self.least.best().map_or(f64::INFINITY, &self.number);
        let most = self.most.best().map_or(f64::NEG_INFINITY, &self.number);
        OwnedVal::new(between((self.number)(at), (least, most), self.scale))
    }

    fn is_of_window(&self) -> bool {
        false
    }
}

/// Scales each value in its window.
pub(super) fn all_scaled(
    input: &Expr,
    (low, high): (f64, f64),
    spans: &Spans<'_>,
    partition: &Partition,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<()> {
    let values = evaluate(input, partition, op)?;
    partition.memory.take(values.len() * size_of::<f64>())?;
    let numbers: Option<Vec<f64>> =
        values.iter().map(|value| value.as_f64().filter(|n| !n.is_nan())).collect();
    if let Some(numbers) = numbers.filter(|_| spans.are_wide()) {
        let number = |at: usize| numbers.get(at).copied().unwrap_or(f64::NAN);
        let least = Extremes::new(|a, b| number(a) < number(b));
        let most = Extremes::new(|a, b| number(a) > number(b));
        let mut ends = Ends { number, least, most, scale: (low, high) };
        return slide(spans, op, &mut ends, out);
    }
    for (value, (from, to)) in values.iter().zip(spans.iter()) {
        op.check()?;
        let window = (from..to).map(|at| values.get(at));
        out.push(scaled(value, window, low, high)?)?;
    }
    Ok(())
}
