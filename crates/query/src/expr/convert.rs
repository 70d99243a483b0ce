//! Types and conversions: `$convert`, `$toInt` and the like, `$type`, parts of timestamps and
//! binaries.

use super::arithmetic::pair;
use super::binary::{self, ConvertOptions, FORMATS};
use super::operator::Operator;
use super::parse::Parser;
use super::{Call, Env, Node, date, json, number};
use crate::show::{double_text, show};
use std::borrow::Cow;
use value::{Code, Decimal128, Error, ObjectId, Result, Type, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::special_lazy("$convert", parse_convert, convert),
    Operator::new("$isNumber", 1, 1, is_number),
    Operator::new("$subtype", 1, 1, subtype),
    to("$toArray", |values, env| shorthand(values, Type::Array, env)),
    to("$toBool", |values, env| shorthand(values, Type::Bool, env)),
    to("$toDate", |values, env| shorthand(values, Type::DateTime, env)),
    to("$toDecimal", |values, env| shorthand(values, Type::Decimal, env)),
    to("$toDouble", |values, env| shorthand(values, Type::Double, env)),
    to("$toInt", |values, env| shorthand(values, Type::Int32, env)),
    to("$toLong", |values, env| shorthand(values, Type::Int64, env)),
    to("$toObject", |values, env| shorthand(values, Type::Document, env)),
    to("$toObjectId", |values, env| shorthand(values, Type::ObjectId, env)),
    to("$toString", |values, env| shorthand(values, Type::String, env)),
    Operator::new("$toUUID", 1, 1, to_uuid),
    Operator::new("$tsIncrement", 1, 1, ts_increment),
    Operator::new("$tsSecond", 1, 1, ts_second),
    Operator::new("$type", 1, 1, type_name),
];

/// A conversion by its short name.
const fn to(name: &'static str, eval: super::operator::Eager) -> Operator {
    Operator::special(name, parse_shorthand, eval)
}

fn parse_shorthand(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let arguments = parser.operands(value)?;
    if arguments.len() != 1 {
        return Err(Error::new(
            Code(50723),
            format!("{} requires a single argument, got {}", operator.name, arguments.len()),
        ));
    }
    operator.call(parser, arguments)
}

fn type_name<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::String(pair(values).0.kind().name()))
}

fn is_number<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Bool(pair(values).0.is_number()))
}

fn timestamp(name: &str, code: i32, values: &[Val<'_>]) -> Result<Option<u64>> {
    match pair(values).0 {
        Val::Timestamp(t) => Ok(Some(t)),
        value if value.is_nullish() => Ok(None),
        other => Err(Error::new(
            Code(code),
            format!(" Argument to {name} must be a timestamp, but is {}", other.kind().name()),
        )),
    }
}

fn ts_second<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let t = timestamp("$tsSecond", 5687301, values)?;
    Ok(t.map_or(Val::Null, |t| Val::Int64((t >> 32) as i64)))
}

fn ts_increment<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let t = timestamp("$tsIncrement", 5687302, values)?;
    Ok(t.map_or(Val::Null, |t| Val::Int64((t & 0xFFFF_FFFF) as i64)))
}

fn subtype<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    match pair(values).0 {
        Val::Binary(subtype, _) => Ok(Val::Int32(i32::from(subtype))),
        value if value.is_nullish() => Ok(Val::Null),
        other => Err(Error::new(
            Code(10389300),
            format!("$subtype requires a BinData argument, found: {}", other.kind().name()),
        )),
    }
}

fn to_uuid<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    match pair(values).0 {
        value if value.is_nullish() => Ok(Val::Null),
        Val::Binary(4, bytes) => Ok(Val::Binary(4, bytes)),
        Val::String(text) => match binary::uuid(text) {
            Some(bytes) => Ok(Val::Binary(4, env.arena().alloc_slice_copy(&bytes))),
            None => Err(failure("Input string is not a valid UUID", text)),
        },
        other => Err(unsupported(other, "binData")),
    }
}

/// The text of a value, for operators that also accept numbers and dates.
pub(super) fn coerce_to_text(value: Val<'_>) -> Result<Cow<'_, str>> {
    Ok(match value {
        Val::String(text) | Val::Symbol(text) | Val::Code(text) => Cow::Borrowed(text),
        value if value.is_nullish() => Cow::Borrowed(""),
        Val::Int32(n) => Cow::Owned(n.to_string()),
        Val::Int64(n) => Cow::Owned(n.to_string()),
        // In lower case, unlike `$toString`.
        Val::Double(n) if n.is_nan() => Cow::Borrowed("nan"),
        Val::Double(n) if n.is_infinite() => Cow::Borrowed(if n > 0.0 { "inf" } else { "-inf" }),
        Val::Double(n) => Cow::Owned(double_text(n)),
        Val::Decimal(n) => Cow::Owned(n.to_string()),
        Val::DateTime(ms) => Cow::Owned(date::iso_text(ms)?),
        Val::Timestamp(t) => Cow::Owned(date::timestamp_text(t)),
        other => {
            return Err(Error::new(
                Code(16007),
                format!("can't convert from BSON type {} to String", other.kind().name()),
            ));
        }
    })
}

fn shorthand<'a>(values: &[Val<'a>], to: Type, env: &Env<'a>) -> Result<Val<'a>> {
    let value = pair(values).0;
    if value.is_nullish() {
        return Ok(Val::Null);
    }
    convert_value(value, to, ConvertOptions::PLAIN, env)
}

/// Arguments are input, to, onNull, format, byteOrder, base, and onError if there is one.
fn parse_convert(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let Val::Document(doc) = value else {
        return Err(Error::failed_to_parse(format!(
            "$convert expects an object of named arguments but found: {}",
            value.kind().name()
        )));
    };
    let (mut input, mut to, mut on_error, mut on_null) = (None, None, None, None);
    let (mut format, mut order, mut base) = (None, None, None);
    for (name, operand) in doc {
        let slot = match name {
            "input" => &mut input,
            "to" => &mut to,
            "onError" => &mut on_error,
            "onNull" => &mut on_null,
            "format" => &mut format,
            "byteOrder" => &mut order,
            "base" => &mut base,
            unknown => {
                return Err(Error::failed_to_parse(format!(
                    "$convert found an unknown argument: {unknown}"
                )));
            }
        };
        *slot = Some(parser.parse(operand.get())?);
    }
    let missing =
        |name: &str| Error::failed_to_parse(format!("Missing '{name}' parameter to $convert"));
    let input = input.ok_or_else(|| missing("input"))?;
    let to = to.ok_or_else(|| missing("to"))?;
    let on_null = on_null.unwrap_or_else(|| Node::constant(Val::Null));
    let absent = || Node::constant(Val::Missing);
    let (format, order) = (format.unwrap_or_else(absent), order.unwrap_or_else(absent));
    let mut arguments = vec![input, to, on_null, format, order, base.unwrap_or_else(absent)];
    arguments.extend(on_error);
    operator.call(parser, arguments)
}

fn convert<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let input = call.argument(0, env)?;
    let to = call.argument(1, env)?;
    // {type: .., subtype: ..}: the subtype matters for binaries only.
    let (to, subtype) = match to {
        Val::Document(doc) => {
            let kind = doc.get("type").ok_or_else(|| {
                Error::failed_to_parse(
                    "$convert's 'to' argument needs a 'type' when it is an object",
                )
            })?;
            (kind, doc.get("subtype").unwrap_or(Val::Missing))
        }
        to => (to, Val::Missing),
    };
    let target = if to.is_nullish() { None } else { Some(target_type(to)?) };
    if input.is_nullish() {
        return call.argument(2, env);
    }
    let Some(target) = target else { return Ok(Val::Null) };
    let Some(options) = text_format(call, subtype, env)? else { return Ok(Val::Null) };
    match convert_value(input, target, options, env) {
        Err(error) if error.code() == Code::CONVERSION_FAILURE && call.arguments.len() > 6 => {
            call.argument(6, env)
        }
        result => result,
    }
}

/// The options for text and bytes; `None` if one of them is null.
fn text_format<'a>(
    call: &'a Call,
    subtype: Val<'a>,
    env: &Env<'a>,
) -> Result<Option<ConvertOptions<'a>>> {
    let refuse = |what: &str, value: Val<'_>| {
        Err(Error::bad_value(format!("$convert has no {what} {}", show(value))))
    };
    let format = match call.argument(3, env)? {
        Val::Missing => None,
        Val::Null | Val::Undefined => return Ok(None),
        Val::String(format) if FORMATS.contains(&format) => Some(format),
        other => return refuse("format", other),
    };
    let big_endian = match call.argument(4, env)? {
        Val::Missing | Val::String("little") => false,
        Val::String("big") => true,
        Val::Null | Val::Undefined => return Ok(None),
        other => return refuse("byteOrder", other),
    };
    let base = match call.argument(5, env)? {
        Val::Missing => None,
        Val::Null | Val::Undefined => return Ok(None),
        value => match value.as_i64_exact() {
            Some(base @ (2 | 8 | 10 | 16)) => u32::try_from(base).ok(),
            _ => return refuse("base", value),
        },
    };
    let subtype = match subtype {
        Val::Missing => 0,
        Val::Null | Val::Undefined => return Ok(None),
        value => match value.as_i64_exact().and_then(|n| u8::try_from(n).ok()) {
            Some(subtype) => subtype,
            None => return refuse("subtype", value),
        },
    };
    Ok(Some(ConvertOptions { format, big_endian, subtype, base }))
}

fn target_type(to: Val<'_>) -> Result<Type> {
    match to {
        Val::String("missing") => Ok(Type::Missing),
        Val::String(name) => Type::from_name(name)
            .ok_or_else(|| Error::bad_value(format!("Unknown type name: {name}"))),
        to if to.is_number() => {
            let Some(number) = to.as_i64_exact() else {
                return Err(Error::failed_to_parse(
                    "In $convert, numeric 'to' argument is not an integer",
                ));
            };
            let kind = match number {
                -1 => Some(Type::MinKey),
                // 0 is a valid type number, but no value can be converted to it.
                0 => Some(Type::Missing),
                number => i8::try_from(number)
                    .ok()
                    .and_then(|number| u8::try_from(number).ok())
                    .and_then(Type::from_byte),
            };
            kind.ok_or_else(|| {
                Error::failed_to_parse(format!(
                    "In $convert, numeric value for 'to' does not correspond to a BSON type: \
                     {number}"
                ))
            })
        }
        other => Err(Error::failed_to_parse(format!(
            "$convert's 'to' argument must be a string or number, but is {}",
            other.kind().name()
        ))),
    }
}

fn unsupported(value: Val<'_>, to: &str) -> Error {
    Error::new(
        Code::CONVERSION_FAILURE,
        format!(
            "Unsupported conversion from {} to {to} in $convert with no onError value",
            value.kind().name()
        ),
    )
}

fn failure(what: &str, detail: &str) -> Error {
    Error::new(
        Code::CONVERSION_FAILURE,
        format!("{what} in $convert with no onError value: {detail}"),
    )
}

fn parse_failure(text: &str, why: &str) -> Error {
    failure(&format!("Failed to parse number '{text}'"), why)
}

fn overflow(value: Val<'_>) -> Error {
    failure("Conversion would overflow target type", &show(value))
}

/// Converts a value that is not null.
fn convert_value<'a>(
    value: Val<'a>,
    to: Type,
    options: ConvertOptions<'_>,
    env: &Env<'a>,
) -> Result<Val<'a>> {
    if value.kind() == to && !matches!(value, Val::Binary(subtype, _) if subtype != options.subtype)
    {
        return Ok(value);
    }
    match to {
        Type::Bool => Ok(Val::Bool(value.truthy())),
        Type::Int32 => to_int(value, options),
        Type::Int64 => match value {
            Val::String(text) => parse_whole(text, options.base).map(Val::Int64),
            Val::Binary(_, bytes) => binary::to_whole(bytes, options).map(Val::Int64),
            value => to_long(value).map(Val::Int64),
        },
        Type::Double => match value {
            Val::Binary(_, bytes) => binary::to_double(bytes, options).map(Val::Double),
            value => to_double(value),
        },
        Type::Decimal => to_decimal(value),
        Type::String => to_text(value, options, env),
        Type::Binary => match value {
            Val::String(text) => binary::from_text(text, options, env),
            value => binary::from_number(value, options, env)
                .ok_or_else(|| unsupported(value, "binData")),
        },
        Type::Array => match value {
            Val::String(text) => json::to_array(text, env),
            Val::Binary(subtype, bytes) => binary::to_array(subtype, bytes, env),
            value => Err(unsupported(value, "array")),
        },
        Type::Document => match value {
            Val::String(text) => json::to_object(text, env),
            value => Err(unsupported(value, "object")),
        },
        Type::ObjectId => to_object_id(value),
        Type::DateTime => to_date(value),
        other => Err(unsupported(value, other.name())),
    }
}

fn refuse_hexadecimal(text: &str) -> Result<()> {
    let unsigned = text.trim_start_matches(['+', '-']);
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        return Err(failure("Illegal hexadecimal input", text));
    }
    Ok(())
}

fn parse_whole(text: &str, base: Option<u32>) -> Result<i64> {
    if let Some(base) = base {
        return i64::from_str_radix(text, base)
            .map_err(|_| parse_failure(text, "it is no number in this base"));
    }
    refuse_hexadecimal(text)?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() {
        return Err(parse_failure(text, "No digits"));
    }
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(parse_failure(text, "Did not consume whole string."));
    }
    text.parse().map_err(|_| parse_failure(text, "Overflow"))
}

fn to_int<'a>(value: Val<'a>, options: ConvertOptions<'_>) -> Result<Val<'a>> {
    if let Val::Binary(_, bytes) = value {
        let n = binary::to_whole(bytes, options)?;
        return i32::try_from(n).map(Val::Int32).map_err(|_| overflow(value));
    }
    if let Val::String(text) = value {
        let n = parse_whole(text, options.base)?;
        return i32::try_from(n).map(Val::Int32).map_err(|_| parse_failure(text, "Overflow"));
    }
    if matches!(value, Val::DateTime(_)) {
        return Err(unsupported(value, "int"));
    }
    if let Val::Double(n) = value
        && n.is_finite()
        && !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&n)
    {
        // Checked before the fraction is removed.
        return Err(overflow(value));
    }
    let n = to_long(value).map_err(|error| match value.kind() {
        kind if kind.is_number() || kind == Type::Bool => error,
        _ => unsupported(value, "int"),
    })?;
    i32::try_from(n).map(Val::Int32).map_err(|_| overflow(value))
}

fn to_long(value: Val<'_>) -> Result<i64> {
    let special = |what: &str| {
        Error::new(
            Code::CONVERSION_FAILURE,
            format!(
                "Attempt to convert {what} value to integer type in $convert with no onError value"
            ),
        )
    };
    match value {
        Val::Int32(n) => Ok(i64::from(n)),
        Val::Int64(n) | Val::DateTime(n) => Ok(n),
        Val::Bool(b) => Ok(i64::from(b)),
        Val::Double(n) if n.is_nan() => Err(special("NaN")),
        Val::Double(n) if n.is_infinite() => Err(special("infinity")),
        Val::Double(n) => {
            value::number::double_to_i64_exact(n.trunc()).ok_or_else(|| overflow(value))
        }
        Val::Decimal(n) if n.is_nan() => Err(special("NaN")),
        Val::Decimal(n) if n.is_infinite() => Err(special("infinity")),
        Val::Decimal(n) => n.to_i64_truncate().ok_or_else(|| overflow(value)),
        Val::String(text) => parse_whole(text, None),
        other => Err(unsupported(other, "long")),
    }
}

fn to_double<'a>(value: Val<'a>) -> Result<Val<'a>> {
    Ok(Val::Double(match value {
        Val::Int32(n) => f64::from(n),
        Val::Int64(n) | Val::DateTime(n) => n as f64,
        Val::Bool(b) => f64::from(u8::from(b)),
        Val::Decimal(n) => {
            let double = n.to_f64();
            if n.is_finite() && (double.is_infinite() || (double == 0.0 && !n.is_zero())) {
                return Err(overflow(value));
            }
            double
        }
        Val::String(text) => {
            refuse_hexadecimal(text)?;
            if text.starts_with(|c: char| c.is_whitespace()) {
                return Err(parse_failure(text, "Leading whitespace"));
            }
            let double: f64 =
                text.parse().map_err(|_| parse_failure(text, "Did not consume whole string."))?;
            let mantissa = text.split(['e', 'E']).next().unwrap_or("");
            let not_zero = mantissa.bytes().any(|b| matches!(b, b'1'..=b'9'));
            if not_zero && (double.is_infinite() || double == 0.0) {
                return Err(parse_failure(text, "Out of range"));
            }
            double
        }
        other => return Err(unsupported(other, "double")),
    }))
}

fn to_decimal<'a>(value: Val<'a>) -> Result<Val<'a>> {
    Ok(Val::Decimal(match value {
        Val::Int32(_) | Val::Int64(_) | Val::Double(_) => number::to_decimal(value),
        Val::DateTime(ms) => Decimal128::from_i64(ms),
        Val::Bool(b) => Decimal128::from_i32(i32::from(b)),
        Val::String(text) => {
            refuse_hexadecimal(text)?;
            let (number, signals) = Decimal128::parse_truncated(text)
                .ok_or_else(|| parse_failure(text, "Failed to parse string to decimal"))?;
            if signals.overflow || signals.underflow {
                return Err(parse_failure(
                    text,
                    "Conversion from string to decimal would overflow",
                ));
            }
            number
        }
        other => return Err(unsupported(other, "decimal")),
    }))
}

fn to_text<'a>(value: Val<'a>, options: ConvertOptions<'_>, env: &Env<'a>) -> Result<Val<'a>> {
    let text = match (value, options.base) {
        (Val::Int32(n), Some(base)) => binary::in_base(i64::from(n), base),
        (Val::Int64(n), Some(base)) => binary::in_base(n, base),
        _ => plain_text(value, options, env)?,
    };
    Ok(env.text(&text))
}

fn plain_text(value: Val<'_>, options: ConvertOptions<'_>, env: &Env<'_>) -> Result<String> {
    Ok(match value {
        Val::Bool(b) => b.to_string(),
        Val::ObjectId(id) => id.to_string(),
        Val::Double(n) => double_text(n),
        Val::Int32(_) | Val::Int64(_) | Val::Decimal(_) | Val::DateTime(_) => {
            coerce_to_text(value)?.into_owned()
        }
        Val::Binary(subtype, bytes) => {
            binary::to_text(subtype, bytes, options, env)?.as_str().unwrap_or("").to_owned()
        }
        other => return Err(unsupported(other, "string")),
    })
}

fn to_object_id<'a>(value: Val<'a>) -> Result<Val<'a>> {
    let Val::String(text) = value else { return Err(unsupported(value, "objectId")) };
    ObjectId::parse(text).map(Val::ObjectId).ok_or_else(|| {
        let why = if text.len() == 24 {
            let bad = text.chars().find(|c| !c.is_ascii_hexdigit()).unwrap_or(' ');
            format!("Invalid character found in hex string: {bad}")
        } else {
            format!(
                "Invalid string length for parsing to OID, expected 24 but found {}",
                text.len()
            )
        };
        failure(&format!("Failed to parse objectId '{text}'"), &why)
    })
}

fn to_date<'a>(value: Val<'a>) -> Result<Val<'a>> {
    Ok(Val::DateTime(match value {
        Val::Int64(ms) => ms,
        Val::Double(_) | Val::Decimal(_) => to_long(value)?,
        Val::ObjectId(id) => i64::from(id.seconds()) * 1000,
        Val::Timestamp(t) => (t >> 32) as i64 * 1000,
        Val::String(text) => date::from_text(text)?,
        other => return Err(unsupported(other, "date")),
    }))
}
