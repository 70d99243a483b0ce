//! Arithmetic: sums, products, quotients, roundings, powers, logarithms and bits.

use super::number::{self, checked_mul, checked_sub, to_decimal, to_double};
use super::operator::{MANY, Operator};
use super::{Call, Env};
use crate::show::show;
use crate::sums::Sum;
use value::{Code, Decimal128, Error, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::new("$abs", 1, 1, abs),
    Operator::lazy("$add", 0, MANY, add).commutative(),
    Operator::new("$bitAnd", 0, MANY, bit_and),
    Operator::new("$bitNot", 1, 1, bit_not),
    Operator::new("$bitOr", 0, MANY, bit_or),
    Operator::new("$bitXor", 0, MANY, bit_xor),
    Operator::new("$ceil", 1, 1, ceil),
    Operator::new("$divide", 2, 2, divide),
    Operator::new("$exp", 1, 1, exp),
    Operator::new("$floor", 1, 1, floor),
    Operator::new("$ln", 1, 1, ln),
    Operator::new("$log", 2, 2, log),
    Operator::new("$log10", 1, 1, log10),
    Operator::new("$mod", 2, 2, modulo),
    Operator::lazy("$multiply", 0, MANY, multiply).commutative(),
    Operator::new("$pow", 2, 2, pow),
    Operator::new("$round", 1, 2, round),
    Operator::new("$sigmoid", 1, 1, sigmoid),
    Operator::new("$sqrt", 1, 1, sqrt),
    Operator::new("$subtract", 2, 2, subtract),
    Operator::new("$trunc", 1, 2, trunc),
];

/// The operand of a function of one number; `None` where the result is null.
pub(super) fn numeric<'a>(name: &str, values: &[Val<'a>]) -> Result<Option<Val<'a>>> {
    match values.first().copied().unwrap_or(Val::Missing) {
        value if value.is_nullish() => Ok(None),
        value if value.is_number() => Ok(Some(value)),
        other => Err(Error::new(
            Code(28765),
            format!("{name} only supports numeric types, not {}", other.kind().name()),
        )),
    }
}

/// The two operands of a function.
pub(super) fn pair<'a>(values: &[Val<'a>]) -> (Val<'a>, Val<'a>) {
    let at = |at: usize| values.get(at).copied().unwrap_or(Val::Missing);
    (at(0), at(1))
}

fn abs<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let Some(value) = numeric("$abs", values)? else { return Ok(Val::Null) };
    Ok(match value {
        Val::Int32(n) => match n.checked_abs() {
            Some(n) => Val::Int32(n),
            None => Val::Int64(i64::from(n).abs()),
        },
        Val::Int64(n) => Val::Int64(
            n.checked_abs()
                .ok_or_else(|| Error::new(Code(28680), "can't take $abs of long long min"))?,
        ),
        Val::Double(n) => Val::Double(n.abs()),
        Val::Decimal(n) => Val::Decimal(n.abs()),
        other => other,
    })
}

fn add<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let mut sum = Sum::default();
    let mut date = None;
    for argument in &call.arguments {
        match argument.eval(env)? {
            Val::DateTime(ms) => {
                if date.replace(ms).is_some() {
                    return Err(Error::new(
                        Code(16612),
                        "only one date allowed in an $add expression",
                    ));
                }
            }
            value if value.is_number() => sum.add(value),
            // Operands after a null are not checked.
            value if value.is_nullish() => return Ok(Val::Null),
            other => {
                return Err(Error::type_mismatch(format!(
                    "$add only supports numeric or date types, not {}",
                    other.kind().name()
                )));
            }
        }
    }
    let total = sum.total();
    match date {
        None => Ok(total),
        Some(ms) => move_date(ms, total, false),
    }
}

/// A date moved by a number of milliseconds, rounded.
fn move_date<'a>(ms: i64, by: Val<'_>, back: bool) -> Result<Val<'a>> {
    let whole = value::number::double_to_i64_exact;
    if back && !matches!(by, Val::Decimal(_)) {
        number::refuse_nan(by)?;
    }
    // MongoDB cuts off what it subtracts and rounds what it adds: doubles with halves down,
    // decimals with halves to even after adding.
    let moved = match by {
        Val::Int32(n) if back => ms.checked_sub(i64::from(n)),
        Val::Int32(n) => ms.checked_add(i64::from(n)),
        Val::Int64(n) if back => ms.checked_sub(n),
        Val::Int64(n) => ms.checked_add(n),
        Val::Double(n) if back => {
            let by = whole(n.trunc()).ok_or_else(|| {
                Error::new(Code(31109), format!("Can't coerce out of range value {n:e} to long"))
            })?;
            ms.checked_sub(by)
        }
        Val::Double(n) => whole((n - 0.5).ceil()).and_then(|n| ms.checked_add(n)),
        Val::Decimal(n) if back => ms.checked_sub(n.to_i64_round().unwrap_or(i64::MIN)),
        // A sum that is out of range is the earliest date, as in MongoDB.
        Val::Decimal(n) => Some(Decimal128::from_i64(ms).add(n).to_i64_round().unwrap_or(i64::MIN)),
        _ => None,
    };
    let code = if back { Code::DURATION_OVERFLOW } else { Code::OVERFLOW };
    moved.map(Val::DateTime).ok_or_else(|| Error::new(code, "date overflow"))
}

fn subtract<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (a, b) = pair(values);
    if a.is_nullish() || b.is_nullish() {
        return Ok(Val::Null);
    }
    match (a, b) {
        (Val::DateTime(a), Val::DateTime(b)) => a
            .checked_sub(b)
            .map(Val::Int64)
            .ok_or_else(|| Error::new(Code::OVERFLOW, "date overflow in $subtract")),
        (Val::DateTime(ms), b) if b.is_number() => move_date(ms, b, true),
        (a, b) if a.is_number() && b.is_number() => {
            Ok(checked_sub(a, b).unwrap_or_else(|| Val::Double(to_double(a) - to_double(b))))
        }
        (a, b) => Err(Error::type_mismatch(format!(
            "can't $subtract {} from {}",
            b.kind().name(),
            a.kind().name()
        ))),
    }
}

fn multiply<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let (mut product, mut double) = (Val::Int32(1), 1.0);
    for argument in &call.arguments {
        let value = argument.eval(env)?;
        if value.is_nullish() {
            return Ok(Val::Null);
        }
        if !value.is_number() {
            return Err(Error::type_mismatch(format!(
                "$multiply only supports numeric types, not {}",
                value.kind().name()
            )));
        }
        double *= to_double(value);
        product = checked_mul(product, value)
            .unwrap_or_else(|| Val::Double(to_double(product) * to_double(value)));
    }
    // Doubles are multiplied as such from the first on: minus one times zero is minus zero then.
    Ok(if matches!(product, Val::Double(_)) { Val::Double(double) } else { product })
}

fn divide<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (a, b) = pair(values);
    if a.is_nullish() || b.is_nullish() {
        return Ok(Val::Null);
    }
    if !a.is_number() || !b.is_number() {
        return Err(Error::type_mismatch(format!(
            "$divide only supports numeric types, not {} and {}",
            a.kind().name(),
            b.kind().name()
        )));
    }
    if number::is_zero(b) {
        return Err(Error::bad_value("can't $divide by zero"));
    }
    if matches!(a, Val::Decimal(_)) || matches!(b, Val::Decimal(_)) {
        return Ok(Val::Decimal(to_decimal(a).div(to_decimal(b))));
    }
    Ok(Val::Double(to_double(a) / to_double(b)))
}

fn modulo<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (a, b) = pair(values);
    if a.is_nullish() || b.is_nullish() {
        return Ok(Val::Null);
    }
    if !a.is_number() || !b.is_number() {
        return Err(Error::new(
            Code(16611),
            format!(
                "$mod only supports numeric types, not {} and {}",
                a.kind().name(),
                b.kind().name()
            ),
        ));
    }
    if number::is_zero(b) {
        let decimal = matches!(a, Val::Decimal(_)) || matches!(b, Val::Decimal(_));
        return Err(Error::new(Code(if decimal { 5733415 } else { 16610 }), "can't $mod by zero"));
    }
    Ok(match (a, b) {
        (Val::Decimal(_), _) | (_, Val::Decimal(_)) => {
            Val::Decimal(to_decimal(a).rem(to_decimal(b)))
        }
        (Val::Int32(a), Val::Int32(b)) => Val::Int32(a.wrapping_rem(b)),
        (Val::Double(a), b) => Val::Double(a % to_double(b)),
        // A double that is a 32-bit integer counts as one.
        (Val::Int32(a), Val::Double(b)) if number::to_i32_exact(Val::Double(b)).is_some() => {
            Val::Int32(a.wrapping_rem(b as i32))
        }
        (Val::Int64(a), Val::Double(b)) if number::to_i32_exact(Val::Double(b)).is_some() => {
            Val::Int64(a.wrapping_rem(i64::from(b as i32)))
        }
        (a, Val::Double(b)) => Val::Double(to_double(a) % b),
        (a, b) => {
            let (a, b) = (a.as_i64_exact().unwrap_or(0), b.as_i64_exact().unwrap_or(1));
            Val::Int64(a.wrapping_rem(b))
        }
    })
}

fn ceil<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(match numeric("$ceil", values)? {
        None => Val::Null,
        Some(Val::Double(n)) => Val::Double(n.ceil()),
        Some(Val::Decimal(n)) => Val::Decimal(whole_or_nan(n.ceil())),
        Some(whole) => whole,
    })
}

fn floor<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(match numeric("$floor", values)? {
        None => Val::Null,
        Some(Val::Double(n)) => Val::Double(n.floor()),
        Some(Val::Decimal(n)) => Val::Decimal(whole_or_nan(n.floor())),
        Some(whole) => whole,
    })
}

/// A decimal without a fraction. MongoDB returns NaN if the integer part has too many digits, and
/// for infinities.
fn whole_or_nan(n: Decimal128) -> Decimal128 {
    if n.is_infinite() || n.parts().exponent > 0 { Decimal128::NAN } else { n }
}

/// A function of doubles and decimals.
fn real<'a>(
    name: &str,
    values: &[Val<'a>],
    double: fn(f64) -> f64,
    decimal: fn(Decimal128) -> Decimal128,
) -> Result<Val<'a>> {
    Ok(match numeric(name, values)? {
        None => Val::Null,
        Some(Val::Decimal(n)) => Val::Decimal(decimal(n)),
        Some(n) => Val::Double(double(to_double(n))),
    })
}

/// Refuses arguments that are not greater than zero; NaN is accepted.
fn positive(value: Val<'_>, code: i32, what: &str) -> Result<()> {
    if value.is_number() && (number::is_zero(value) || number::is_negative(value)) {
        return Err(Error::new(Code(code), format!("{what}, but is {}", show(value))));
    }
    Ok(())
}

fn exp<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    real("$exp", values, f64::exp, Decimal128::exp)
}

fn sigmoid<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let decimal = |n: Decimal128| Decimal128::ONE.div(Decimal128::ONE.add(n.neg().exp()));
    real("$sigmoid", values, |n| 1.0 / (1.0 + (-n).exp()), decimal)
}

/// MongoDB returns a double for the logarithm of a decimal NaN.
const NOT_A_NUMBER: Val<'static> = Val::Double(f64::NAN);

fn ln<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    if number::is_nan(pair(values).0) {
        return Ok(NOT_A_NUMBER);
    }
    positive(pair(values).0, 28766, "$ln's argument must be a positive number")?;
    real("$ln", values, f64::ln, Decimal128::ln)
}

fn log10<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    if number::is_nan(pair(values).0) {
        return Ok(NOT_A_NUMBER);
    }
    positive(pair(values).0, 28761, "$log10's argument must be a positive number")?;
    real("$log10", values, f64::log10, Decimal128::log10)
}

fn check_numeric(value: Val<'_>, code: i32, what: &str) -> Result<()> {
    match value.is_number() {
        true => Ok(()),
        false => Err(Error::new(
            Code(code),
            format!("{what} must be numeric, not {}", value.kind().name()),
        )),
    }
}

fn log<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (argument, base) = pair(values);
    if argument.is_nullish() || base.is_nullish() {
        return Ok(Val::Null);
    }
    check_numeric(argument, 28756, "$log's argument")?;
    check_numeric(base, 28757, "$log's base")?;
    positive(argument, 28758, "$log's argument must be a positive number")?;
    let rule = "$log's base must be a positive number not equal to 1";
    positive(base, 28759, rule)?;
    if value::number::compare(base, Val::Int32(1)) == Some(std::cmp::Ordering::Equal) {
        return Err(Error::new(Code(28759), format!("{rule}, but is {}", show(base))));
    }
    if number::is_nan(argument) || number::is_nan(base) {
        return Ok(NOT_A_NUMBER);
    }
    if matches!(argument, Val::Decimal(_)) || matches!(base, Val::Decimal(_)) {
        return Ok(Val::Decimal(to_decimal(argument).log(to_decimal(base))));
    }
    Ok(Val::Double(to_double(argument).ln() / to_double(base).ln()))
}

fn sqrt<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let value = pair(values).0;
    if value.is_number() && number::is_negative(value) {
        return Err(Error::new(Code(28714), "$sqrt's argument must be greater than or equal to 0"));
    }
    real("$sqrt", values, f64::sqrt, Decimal128::sqrt)
}

fn pow<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (base, exponent) = pair(values);
    if base.is_nullish() || exponent.is_nullish() {
        return Ok(Val::Null);
    }
    check_numeric(base, 28762, "$pow's base")?;
    check_numeric(exponent, 28763, "$pow's exponent")?;
    if number::is_zero(base) && number::is_negative(exponent) {
        return Err(Error::new(
            Code(28764),
            "$pow cannot take a base of 0 and a negative exponent",
        ));
    }
    Ok(match (base, exponent) {
        (Val::Decimal(_), _) | (_, Val::Decimal(_)) => {
            Val::Decimal(to_decimal(base).pow(to_decimal(exponent)))
        }
        (Val::Double(_), _) | (_, Val::Double(_)) => {
            Val::Double(to_double(base).powf(to_double(exponent)))
        }
        (base, exponent) => {
            let small = matches!((base, exponent), (Val::Int32(_), Val::Int32(_)));
            let b = base.as_i64_exact().unwrap_or(0);
            let e = exponent.as_i64_exact().unwrap_or(0);
            let whole = match (b, e) {
                (1, _) => Some(1),
                (-1, e) => Some(if e % 2 == 0 { 1 } else { -1 }),
                (b, e) => u32::try_from(e).ok().and_then(|e| b.checked_pow(e)),
            };
            match (whole, whole.and_then(|n| i32::try_from(n).ok())) {
                (_, Some(n)) if small => Val::Int32(n),
                (Some(n), _) => Val::Int64(n),
                _ => Val::Double((b as f64).powf(e as f64)),
            }
        }
    })
}

fn round<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    round_with("$round", values, Decimal128::round_to, f64::round_ties_even)
}

fn trunc<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    round_with("$trunc", values, Decimal128::trunc_to, f64::trunc)
}

/// Rounds to decimal places, which may be negative.
fn round_with<'a>(
    name: &str,
    values: &[Val<'a>],
    decimal: fn(Decimal128, i32) -> Decimal128,
    whole: fn(f64) -> f64,
) -> Result<Val<'a>> {
    let (value, precision) = pair(values);
    let precision = if values.len() < 2 { Val::Int32(0) } else { precision };
    if value.is_nullish() {
        return Ok(Val::Null);
    }
    if !value.is_number() {
        return Err(Error::new(
            Code(51081),
            format!("{name} only supports numeric types, not {}", value.kind().name()),
        ));
    }
    if precision.is_nullish() {
        return Ok(Val::Null);
    }
    number::refuse_nan(precision)?;
    if !precision.is_number() {
        return Err(Error::new(
            Code(16004),
            format!("can't convert from BSON type {} to long", precision.kind().name()),
        ));
    }
    let Some(places) = number::to_i32_exact(precision) else {
        return Err(Error::new(
            Code(51082),
            format!("precision argument to  {name} must be a integral value"),
        ));
    };
    if !(-20..=100).contains(&places) {
        return Err(Error::new(
            Code(51083),
            format!(
                "cannot apply {name} with precision value {places} value must be in [-20, 100]"
            ),
        ));
    }
    Ok(match value {
        Val::Double(n) if places == 0 => Val::Double(whole(n)),
        Val::Double(n) if !n.is_finite() => value,
        Val::Double(n) => Val::Double(decimal(Decimal128::from_f64_34_digits(n), places).to_f64()),
        Val::Decimal(n) => Val::Decimal(decimal(n, places)),
        whole if places >= 0 => whole,
        whole => {
            let rounded = decimal(to_decimal(whole), places).to_i64_exact().ok_or_else(|| {
                Error::new(
                    Code(51080),
                    format!("invalid conversion from Decimal128 result in {name}"),
                )
            })?;
            match (whole, i32::try_from(rounded)) {
                (Val::Int32(_), Ok(small)) => Val::Int32(small),
                _ => Val::Int64(rounded),
            }
        }
    })
}

/// Folds int and long operands bit by bit.
fn bits<'a>(
    name: &str,
    values: &[Val<'a>],
    start: i64,
    fold: fn(i64, i64) -> i64,
) -> Result<Val<'a>> {
    let mut bits = start;
    let mut long = false;
    let mut null = false;
    for value in values {
        bits = match value {
            Val::Int32(n) => fold(bits, i64::from(*n)),
            Val::Int64(n) => {
                long = true;
                fold(bits, *n)
            }
            value if value.is_nullish() => {
                null = true;
                bits
            }
            other => {
                return Err(Error::type_mismatch(format!(
                    "{name} only supports int and long operands, not {}",
                    other.kind().name()
                )));
            }
        };
    }
    Ok(match (null, long, i32::try_from(bits)) {
        (true, ..) => Val::Null,
        (_, false, Ok(small)) => Val::Int32(small),
        _ => Val::Int64(bits),
    })
}

fn bit_and<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    bits("$bitAnd", values, -1, |a, b| a & b)
}

fn bit_or<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    bits("$bitOr", values, 0, |a, b| a | b)
}

fn bit_xor<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    bits("$bitXor", values, 0, |a, b| a ^ b)
}

fn bit_not<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    match pair(values).0 {
        Val::Int32(n) => Ok(Val::Int32(!n)),
        Val::Int64(n) => Ok(Val::Int64(!n)),
        value if value.is_nullish() => Ok(Val::Null),
        other => Err(Error::type_mismatch(format!(
            "$bitNot only supports int and long, not: {}.",
            other.kind().name()
        ))),
    }
}
