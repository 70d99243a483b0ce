//! Converts the wrapper objects of Extended JSON, such as `{"$oid": "..."}`, to values.
//!
//! They are recognised after the object was read, so the wrappers inside a wrapper (`$date` around
//! `$numberLong`) are values already.

use super::{Mode, OwnedVal, base64, date};
use crate::{Decimal128, ObjectId, RawDoc, Val};

/// The wrapped value of an object whose first name begins with `$`; `None` if it is an ordinary
/// object. A wrapper of the wrong shape is an error in JSON and an ordinary object in the shell.
pub(super) fn unwrap(doc: RawDoc<'_>, mode: Mode) -> Result<Option<OwnedVal>, String> {
    let Some((name, _)) = doc.first() else { return Ok(None) };
    if !NAMES.contains(&name) {
        return Ok(None);
    }
    match (value(doc), mode) {
        (Some(value), _) => Ok(Some(value)),
        (None, Mode::Shell) => Ok(None),
        // Second names of wrappers, and one of them a query operator.
        (None, Mode::Json) if matches!(name, "$type" | "$scope") => Ok(None),
        (None, Mode::Json) => Err(format!("the {name} object has the wrong shape")),
    }
}

/// The names that announce a wrapper.
static NAMES: &[&str] = &[
    "$oid",
    "$numberInt",
    "$numberLong",
    "$numberDouble",
    "$numberDecimal",
    "$date",
    "$binary",
    "$uuid",
    "$timestamp",
    "$regularExpression",
    "$symbol",
    "$code",
    "$scope",
    "$dbPointer",
    "$minKey",
    "$maxKey",
    "$undefined",
    "$type",
];

fn value(doc: RawDoc<'_>) -> Option<OwnedVal> {
    let (name, inner) = doc.first()?;
    let inner = inner.get();
    match doc.count() {
        1 => single(name, inner),
        2 => pair(doc),
        _ => None,
    }
}

fn single(name: &str, inner: Val<'_>) -> Option<OwnedVal> {
    Some(OwnedVal::new(match name {
        "$oid" => Val::ObjectId(ObjectId::parse(inner.as_str()?)?),
        "$numberInt" => Val::Int32(whole(inner)?.try_into().ok()?),
        "$numberLong" => Val::Int64(whole(inner)?),
        "$numberDouble" => Val::Double(double(inner)?),
        "$numberDecimal" => Val::Decimal(Decimal128::parse(inner.as_str()?)?),
        "$date" => Val::DateTime(match inner {
            Val::String(text) => date::parse(text)?,
            Val::Int32(millis) => i64::from(millis),
            Val::Int64(millis) => millis,
            _ => return None,
        }),
        "$binary" => return binary(inner.as_doc()?),
        "$uuid" => return Some(OwnedVal::new(Val::Binary(4, &parse_uuid(inner.as_str()?)?))),
        "$timestamp" => {
            let (seconds, increment) = two(inner.as_doc()?, "t", "i")?;
            timestamp(seconds, increment)?
        }
        "$regularExpression" => match two(inner.as_doc()?, "pattern", "options")? {
            (Val::String(pattern), Val::String(options)) => regex(pattern, options)?,
            _ => return None,
        },
        "$symbol" => Val::Symbol(inner.as_str()?),
        "$code" => Val::Code(inner.as_str()?),
        "$dbPointer" => match two(inner.as_doc()?, "$ref", "$id")? {
            (Val::String(namespace), Val::ObjectId(id)) => Val::DbPointer(namespace, id),
            _ => return None,
        },
        "$minKey" if is_one(inner) => Val::MinKey,
        "$maxKey" if is_one(inner) => Val::MaxKey,
        "$undefined" if inner == Val::Bool(true) => Val::Undefined,
        _ => return None,
    }))
}

fn pair(doc: RawDoc<'_>) -> Option<OwnedVal> {
    if let Some((Val::String(code), Val::Document(scope))) = two(doc, "$code", "$scope") {
        return Some(OwnedVal::new(Val::CodeWithScope(code, scope)));
    }
    // The form of version 1: {"$binary": "...", "$type": "00"}.
    let (Val::String(content), Val::String(subtype)) = two(doc, "$binary", "$type")? else {
        return None;
    };
    binary_of(content, subtype)
}

fn binary(doc: RawDoc<'_>) -> Option<OwnedVal> {
    let (Val::String(content), Val::String(subtype)) = two(doc, "base64", "subType")? else {
        return None;
    };
    binary_of(content, subtype)
}

fn binary_of(content: &str, subtype: &str) -> Option<OwnedVal> {
    if subtype.is_empty() || subtype.len() > 2 {
        return None;
    }
    let subtype = u8::from_str_radix(subtype, 16).ok()?;
    Some(OwnedVal::new(Val::Binary(subtype, &base64::decode(content)?)))
}

/// The values of two names, if the document has exactly these, in any order.
fn two<'a>(doc: RawDoc<'a>, first: &str, second: &str) -> Option<(Val<'a>, Val<'a>)> {
    if doc.count() != 2 {
        return None;
    }
    Some((doc.get(first)?, doc.get(second)?))
}

fn is_one(value: Val<'_>) -> bool {
    value.as_i64_exact() == Some(1)
}

/// A whole number as text or as number.
pub(super) fn whole(value: Val<'_>) -> Option<i64> {
    match value {
        Val::String(text) => text.parse().ok(),
        Val::Int32(_) | Val::Int64(_) => value.as_i64_exact(),
        _ => None,
    }
}

fn double(value: Val<'_>) -> Option<f64> {
    match value {
        Val::String("NaN") => Some(f64::NAN),
        Val::String("Infinity") => Some(f64::INFINITY),
        Val::String("-Infinity") => Some(f64::NEG_INFINITY),
        Val::String(text) if text.bytes().all(|b| b.is_ascii_digit() || b"eE.+-".contains(&b)) => {
            text.parse().ok()
        }
        Val::Int32(_) | Val::Int64(_) | Val::Double(_) => value.as_f64(),
        _ => None,
    }
}

/// A timestamp of two numbers of 32 bits.
pub(super) fn timestamp(seconds: Val<'_>, increment: Val<'_>) -> Option<Val<'static>> {
    let half = |value: Val<'_>| u32::try_from(value.as_i64_exact()?).ok();
    Some(Val::Timestamp(u64::from(half(seconds)?) << 32 | u64::from(half(increment)?)))
}

/// A regular expression, whose parts BSON ends with zero bytes.
pub(super) fn regex<'a>(pattern: &'a str, options: &'a str) -> Option<Val<'a>> {
    (!pattern.contains('\0') && !options.contains('\0')).then_some(Val::Regex(pattern, options))
}

/// Sixteen bytes of a UUID with or without hyphens.
pub(super) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens = [8, 13, 18, 23];
    let digits = match text.len() {
        32 => text.to_owned(),
        36 if hyphens.iter().all(|&at| text.as_bytes().get(at) == Some(&b'-')) => {
            text.replace('-', "")
        }
        _ => return None,
    };
    parse_hex(&digits)?.try_into().ok()
}

/// Bytes written as hexadecimal digits.
pub(super) fn parse_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok())
        .collect()
}
