//! Trigonometry. Decimals are computed as doubles and given back as decimals.

use super::Env;
use super::arithmetic::{numeric, pair};
use super::number::{to_decimal, to_double};
use super::operator::Operator;
use super::show::show;
use value::{Code, Decimal128, Error, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::new("$acos", 1, 1, acos),
    Operator::new("$acosh", 1, 1, acosh),
    Operator::new("$asin", 1, 1, asin),
    Operator::new("$asinh", 1, 1, asinh),
    Operator::new("$atan", 1, 1, atan),
    Operator::new("$atan2", 2, 2, atan2),
    Operator::new("$atanh", 1, 1, atanh),
    Operator::new("$cos", 1, 1, cos),
    Operator::new("$cosh", 1, 1, cosh),
    Operator::new("$degreesToRadians", 1, 1, degrees_to_radians),
    Operator::new("$radiansToDegrees", 1, 1, radians_to_degrees),
    Operator::new("$sin", 1, 1, sin),
    Operator::new("$sinh", 1, 1, sinh),
    Operator::new("$tan", 1, 1, tan),
    Operator::new("$tanh", 1, 1, tanh),
];

/// Pi with all digits that a decimal holds.
const PI: &str = "3.141592653589793238462643383279503";

/// Where a function is defined.
#[derive(Clone, Copy)]
enum Domain {
    All,
    Finite,
    Unit,
    FromOne,
}

fn apply<'a>(
    name: &str,
    values: &[Val<'a>],
    domain: Domain,
    function: fn(f64) -> f64,
) -> Result<Val<'a>> {
    let Some(value) = numeric(name, values)? else { return Ok(Val::Null) };
    let n = to_double(value);
    let (inside, range) = match domain {
        Domain::All => (true, ""),
        Domain::Finite => (!n.is_infinite(), "(-inf,inf)"),
        Domain::Unit => ((-1.0..=1.0).contains(&n), "[-1,1]"),
        Domain::FromOne => (n >= 1.0, "[1,inf]"),
    };
    if !inside && !n.is_nan() {
        return Err(Error::new(
            Code(50989),
            format!("cannot apply {name} to {}, value must be in {range}", show(value)),
        ));
    }
    let result = function(n);
    Ok(match value {
        Val::Decimal(_) => Val::Decimal(Decimal128::from_f64_34_digits(result)),
        _ => Val::Double(result),
    })
}

fn sin<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$sin", values, Domain::Finite, f64::sin)
}

fn cos<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$cos", values, Domain::Finite, f64::cos)
}

fn tan<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$tan", values, Domain::Finite, f64::tan)
}

fn asin<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$asin", values, Domain::Unit, f64::asin)
}

fn acos<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$acos", values, Domain::Unit, f64::acos)
}

fn atan<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$atan", values, Domain::All, f64::atan)
}

fn sinh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$sinh", values, Domain::All, f64::sinh)
}

fn cosh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$cosh", values, Domain::All, f64::cosh)
}

fn tanh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$tanh", values, Domain::All, f64::tanh)
}

fn asinh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$asinh", values, Domain::All, f64::asinh)
}

fn acosh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$acosh", values, Domain::FromOne, f64::acosh)
}

fn atanh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$atanh", values, Domain::Unit, f64::atanh)
}

fn atan2<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (y, x) = pair(values);
    if y.is_nullish() || x.is_nullish() {
        return Ok(Val::Null);
    }
    for value in [y, x] {
        if !value.is_number() {
            return Err(Error::new(
                Code(51044),
                format!(
                    "$atan2 only supports numeric types, not {} and {}",
                    y.kind().name(),
                    x.kind().name()
                ),
            ));
        }
    }
    let result = to_double(y).atan2(to_double(x));
    Ok(match (y, x) {
        (Val::Decimal(_), _) | (_, Val::Decimal(_)) => {
            Val::Decimal(Decimal128::from_f64_34_digits(result))
        }
        _ => Val::Double(result),
    })
}

/// Pi / 180 as a decimal, or its inverse.
fn convert<'a>(name: &str, values: &[Val<'a>], to_radians: bool) -> Result<Val<'a>> {
    let Some(value) = numeric(name, values)? else { return Ok(Val::Null) };
    let half_turn = Decimal128::from_i32(180);
    let pi = Decimal128::parse(PI).unwrap_or(Decimal128::NAN);
    Ok(match value {
        Val::Decimal(_) if to_radians => Val::Decimal(to_decimal(value).mul(pi).div(half_turn)),
        Val::Decimal(_) => Val::Decimal(to_decimal(value).mul(half_turn).div(pi)),
        _ if to_radians => Val::Double(to_double(value) * (std::f64::consts::PI / 180.0)),
        _ => Val::Double(to_double(value) * (180.0 / std::f64::consts::PI)),
    })
}

fn degrees_to_radians<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    convert("$degreesToRadians", values, true)
}

fn radians_to_degrees<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    convert("$radiansToDegrees", values, false)
}
