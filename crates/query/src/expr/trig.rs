//! Trigonometry of doubles and decimals.

use super::Env;
use super::arithmetic::{numeric, pair};
use super::number::{to_decimal, to_double};
use super::operator::Operator;
use crate::show::show;
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

/// Pi / 180 and 180 / pi, with all digits that a decimal holds.
const RADIANS: &str = "0.01745329251994329576923690768488613";
const DEGREES: &str = "57.29577951308232087679815481410517";

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
    double: fn(f64) -> f64,
    decimal: fn(Decimal128) -> Decimal128,
) -> Result<Val<'a>> {
    let Some(value) = numeric(name, values)? else { return Ok(Val::Null) };
    // Decimals beyond the range of doubles are still finite.
    let n = match value {
        Val::Decimal(n) if n.is_finite() => n.to_f64().clamp(f64::MIN, f64::MAX),
        value => to_double(value),
    };
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
    Ok(match value {
        Val::Decimal(n) => Val::Decimal(decimal(n)),
        _ => Val::Double(double(n)),
    })
}

/// Above this, adding 1 to the square does not change a double.
const LARGE: f64 = 268_435_456.0;

/// The inverse hyperbolic functions of the standard library round differently from the C library,
/// whose results MongoDB returns. These use the same logarithms as the C library.
fn asinh_double(x: f64) -> f64 {
    let n = x.abs();
    let result = if n > LARGE {
        n.ln() + std::f64::consts::LN_2
    } else if n > 2.0 {
        (2.0 * n + 1.0 / ((x * x + 1.0).sqrt() + n)).ln()
    } else {
        let square = x * x;
        (n + square / (1.0 + (1.0 + square).sqrt())).ln_1p()
    };
    result.copysign(x)
}

fn acosh_double(x: f64) -> f64 {
    if x > LARGE {
        x.ln() + std::f64::consts::LN_2
    } else if x > 2.0 {
        (2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt())).ln()
    } else {
        let above = x - 1.0;
        (above + (2.0 * above + above * above).sqrt()).ln_1p()
    }
}

fn atanh_double(x: f64) -> f64 {
    let n = x.abs();
    let result = if n < 0.5 {
        let twice = n + n;
        0.5 * (twice + twice * n / (1.0 - n)).ln_1p()
    } else {
        0.5 * ((n + n) / (1.0 - n)).ln_1p()
    };
    result.copysign(x)
}

fn sin<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$sin", values, Domain::Finite, f64::sin, Decimal128::sin)
}

fn cos<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$cos", values, Domain::Finite, f64::cos, Decimal128::cos)
}

fn tan<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$tan", values, Domain::Finite, f64::tan, Decimal128::tan)
}

fn asin<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$asin", values, Domain::Unit, f64::asin, Decimal128::asin)
}

fn acos<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$acos", values, Domain::Unit, f64::acos, Decimal128::acos)
}

fn atan<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$atan", values, Domain::All, f64::atan, Decimal128::atan)
}

fn sinh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$sinh", values, Domain::All, f64::sinh, Decimal128::sinh)
}

fn cosh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$cosh", values, Domain::All, f64::cosh, Decimal128::cosh)
}

fn tanh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$tanh", values, Domain::All, f64::tanh, Decimal128::tanh)
}

fn asinh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$asinh", values, Domain::All, asinh_double, Decimal128::asinh)
}

fn acosh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$acosh", values, Domain::FromOne, acosh_double, Decimal128::acosh)
}

fn atanh<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    apply("$atanh", values, Domain::Unit, atanh_double, Decimal128::atanh)
}

fn atan2<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (y, x) = pair(values);
    if y.is_nullish() || x.is_nullish() {
        return Ok(Val::Null);
    }
    for (value, code) in [(y, 51044), (x, 51045)] {
        if !value.is_number() {
            return Err(Error::new(
                Code(code),
                format!(
                    "$atan2 only supports numeric types, not {} and {}",
                    y.kind().name(),
                    x.kind().name()
                ),
            ));
        }
    }
    Ok(match (y, x) {
        (Val::Decimal(_), _) | (_, Val::Decimal(_)) => {
            Val::Decimal(to_decimal(y).atan2(to_decimal(x)))
        }
        _ => Val::Double(to_double(y).atan2(to_double(x))),
    })
}

/// Between degrees and radians, by one factor as MongoDB does.
fn convert<'a>(name: &str, values: &[Val<'a>], to_radians: bool) -> Result<Val<'a>> {
    let Some(value) = numeric(name, values)? else { return Ok(Val::Null) };
    let factor = Decimal128::parse(if to_radians { RADIANS } else { DEGREES });
    let factor = factor.unwrap_or(Decimal128::NAN);
    Ok(match value {
        Val::Decimal(n) => Val::Decimal(n.mul(factor)),
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
