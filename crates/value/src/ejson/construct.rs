//! The constants and constructor calls of MongoDB's shell.

use super::{OwnedVal, base64, date, wrapper};
use crate::{Decimal128, DocBuf, ObjectId, Val};
use std::time::{SystemTime, UNIX_EPOCH};

/// The value of a word, called with arguments or standing alone.
pub(super) fn construct(word: &str, arguments: Option<&[OwnedVal]>) -> Result<OwnedVal, String> {
    if arguments.is_none() {
        let constant = match word {
            "undefined" => Some(Val::Undefined),
            "NaN" => Some(Val::Double(f64::NAN)),
            "Infinity" => Some(Val::Double(f64::INFINITY)),
            "MinKey" => Some(Val::MinKey),
            "MaxKey" => Some(Val::MaxKey),
            _ => None,
        };
        return match constant {
            Some(value) => Ok(OwnedVal::new(value)),
            None => Err(format!("unknown word '{word}'")),
        };
    }
    let values: Vec<Val<'_>> = arguments.unwrap_or(&[]).iter().map(OwnedVal::get).collect();
    if !NAMES.contains(&word) {
        return Err(format!("unknown function '{word}'"));
    }
    call(word, &values).ok_or_else(|| format!("wrong arguments for {word}"))
}

static NAMES: &[&str] = &[
    "ISODate",
    "Date",
    "ObjectId",
    "NumberInt",
    "Int32",
    "NumberLong",
    "Long",
    "Double",
    "NumberDouble",
    "NumberDecimal",
    "Decimal128",
    "Timestamp",
    "BinData",
    "HexData",
    "MD5",
    "UUID",
    "RegExp",
    "MinKey",
    "MaxKey",
    "Symbol",
    "BSONSymbol",
    "Code",
    "DBRef",
    "DBPointer",
];

fn call(word: &str, arguments: &[Val<'_>]) -> Option<OwnedVal> {
    let value = match (word, arguments) {
        ("ISODate" | "Date", []) => Val::DateTime(now()),
        ("ISODate" | "Date", [Val::String(text)]) => Val::DateTime(date::parse(text)?),
        ("Date", [number]) => Val::DateTime(number.as_i64_exact()?),
        ("ObjectId", []) => Val::ObjectId(ObjectId::generate()),
        ("ObjectId", [Val::String(text)]) => Val::ObjectId(ObjectId::parse(text)?),
        ("NumberInt" | "Int32", []) => Val::Int32(0),
        ("NumberInt" | "Int32", [number]) => Val::Int32(whole(*number)?.try_into().ok()?),
        ("NumberLong" | "Long", []) => Val::Int64(0),
        ("NumberLong" | "Long", [number]) => Val::Int64(whole(*number)?),
        ("Double" | "NumberDouble", [Val::String(text)]) => Val::Double(text.parse().ok()?),
        ("Double" | "NumberDouble", [number]) => Val::Double(number.as_f64()?),
        ("NumberDecimal" | "Decimal128", [Val::String(text)]) => {
            Val::Decimal(Decimal128::parse(text)?)
        }
        ("NumberDecimal" | "Decimal128", [number]) => Val::Decimal(match number {
            Val::Double(n) => Decimal128::parse(&format!("{n:?}"))?,
            Val::Decimal(n) => *n,
            number => Decimal128::from_i64(number.as_i64_exact()?),
        }),
        ("Timestamp", []) => Val::Timestamp(0),
        ("Timestamp", [Val::Document(doc)]) => wrapper::timestamp(doc.get("t")?, doc.get("i")?)?,
        ("Timestamp", [seconds, increment]) => wrapper::timestamp(*seconds, *increment)?,
        ("RegExp", [Val::String(pattern)]) => wrapper::regex(pattern, "")?,
        ("RegExp", [Val::String(pattern), Val::String(options)]) => {
            wrapper::regex(pattern, options)?
        }
        ("MinKey", []) => Val::MinKey,
        ("MaxKey", []) => Val::MaxKey,
        ("Symbol" | "BSONSymbol", [Val::String(text)]) => Val::Symbol(text),
        ("Code", [Val::String(code)]) => Val::Code(code),
        ("Code", [Val::String(code), Val::Document(scope)]) => Val::CodeWithScope(code, *scope),
        ("DBPointer", [Val::String(namespace), Val::ObjectId(id)]) => {
            Val::DbPointer(namespace, *id)
        }
        ("DBRef", arguments) => return reference(arguments),
        _ => return binary(word, arguments),
    };
    Some(OwnedVal::new(value))
}

fn binary(word: &str, arguments: &[Val<'_>]) -> Option<OwnedVal> {
    let (subtype, content) = match (word, arguments) {
        ("BinData", [subtype, Val::String(text)]) => (byte(*subtype)?, base64::decode(text)?),
        ("HexData", [subtype, Val::String(text)]) => (byte(*subtype)?, wrapper::parse_hex(text)?),
        ("MD5", [Val::String(text)]) => (5, wrapper::parse_hex(text)?),
        ("UUID", [Val::String(text)]) => (4, wrapper::parse_uuid(text)?.to_vec()),
        _ => return None,
    };
    Some(OwnedVal::new(Val::Binary(subtype, &content)))
}

/// A reference is an ordinary document by convention.
fn reference(arguments: &[Val<'_>]) -> Option<OwnedVal> {
    let (collection, id, database) = match arguments {
        [Val::String(collection), id] => (*collection, *id, None),
        [Val::String(collection), id, Val::String(database)] => (*collection, *id, Some(*database)),
        _ => return None,
    };
    let doc = DocBuf::build(|writer| {
        writer.str("$ref", collection).append("$id", id);
        if let Some(database) = database {
            writer.str("$db", database);
        }
    });
    Some(OwnedVal::new(Val::Document(doc.as_doc())))
}

/// A whole number as text or as a number of any type.
fn whole(value: Val<'_>) -> Option<i64> {
    wrapper::whole(value).or_else(|| value.as_i64_exact())
}

fn byte(value: Val<'_>) -> Option<u8> {
    value.as_i64_exact()?.try_into().ok()
}

/// Milliseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
