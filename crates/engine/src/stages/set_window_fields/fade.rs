//! `$expMovingAvg`: exponential moving averages.

use super::Partition;
use super::column::evaluate;
use super::function::Function;
use super::output::Output;
use crate::operation::Operation;
use crate::stages::StageContext;
use query::expr::Expr;
use value::{Decimal128, Error, OwnedVal, Result, Val, number};

/// The weight of the newest value.
#[derive(Clone, Copy)]
pub(super) struct Alpha {
    decimal: Decimal128,
}

/// Reads `{input: .., N: ..}` or `{input: .., alpha: ..}`.
pub(super) fn parse(argument: Val<'_>, context: &StageContext<'_>) -> Result<Function> {
    let bad = |message: &str| Err(Error::failed_to_parse(message.to_owned()));
    let Val::Document(doc) = argument else {
        return bad("$expMovingAvg must have exactly one argument that is an object");
    };
    let (mut input, mut alpha) = (None, None);
    for (name, value) in doc {
        let value = value.get();
        match name {
            "input" => input = Some(Expr::parse(value, context)?),
            "N" if alpha.is_none() => {
                let count = value
                    .as_i64_exact()
                    .filter(|_| matches!(value, Val::Int32(_) | Val::Int64(_) | Val::Double(_)));
                let Some(count) = count else { return bad("'N' field must be an integer") };
                if count <= 0 {
                    return bad("'N' must be greater than zero");
                }
                let decimal =
                    Decimal128::from_i64(2).div(Decimal128::from_i64(count.saturating_add(1)));
                alpha = Some(Alpha { decimal });
            }
            "alpha" if alpha.is_none() => {
                let Some(double) = value.as_f64() else { return bad("'alpha' must be a number") };
                if !(double > 0.0 && double < 1.0) {
                    return bad("'alpha' must be between 0 and 1 (exclusive)");
                }
                let decimal = number::to_decimal(value).unwrap_or(Decimal128::NAN);
                alpha = Some(Alpha { decimal });
            }
            _ => {
                return bad(
                    "$expMovingAvg sub object must have exactly two fields: An 'input' field, and \
                     either an 'N' field or an 'alpha' field",
                );
            }
        }
    }
    let (Some(input), Some(alpha)) = (input, alpha) else {
        return bad(
            "$expMovingAvg sub object must have exactly two fields: An 'input' field, and either an \
             'N' field or an 'alpha' field",
        );
    };
    Ok(Function::MovingAverage { input, alpha })
}

/// The average at each document.
pub(super) fn moving_average(
    input: &Expr,
    alpha: Alpha,
    partition: &Partition,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<()> {
    let mut last = OwnedVal::new(Val::Null);
    let mut exact = Decimal128::ZERO;
    for now in evaluate(input, partition, op)?.iter() {
        if now.is_number() {
            let before = last.get();
            let next = if before.is_nullish() {
                exact = number::to_decimal(now).unwrap_or(Decimal128::NAN);
                match now {
                    Val::Decimal(_) => OwnedVal::new(now),
                    _ => OwnedVal::new(Val::Double(now.as_f64().unwrap_or(f64::NAN))),
                }
            } else if matches!(now, Val::Decimal(_)) || matches!(before, Val::Decimal(_)) {
                let decimal = |value| number::to_decimal(value).unwrap_or(Decimal128::NAN);
                let rest = Decimal128::from_i32(1).sub(alpha.decimal);
                let mixed = decimal(now).mul(alpha.decimal).add(decimal(before).mul(rest));
                OwnedVal::new(Val::Decimal(mixed))
            } else {
                // Also computed as decimals, so that no digits are lost.
                let decimal = |value: Val<'_>| number::to_decimal(value).unwrap_or(Decimal128::NAN);
                let rest = Decimal128::from_i32(1).sub(alpha.decimal);
                let mixed = decimal(now).mul(alpha.decimal).add(exact.mul(rest));
                exact = mixed;
                OwnedVal::new(Val::Double(mixed.to_f64()))
            };
            last = next;
        }
        out.push(last.get())?;
    }
    Ok(())
}
