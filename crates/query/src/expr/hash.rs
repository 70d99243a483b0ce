//! Hashes: `$hash` and `$hexHash` of text and binaries, and the hash of hashed indexes: 64 bits of
//! MD5 over a value, numbers of all types alike. The algorithms are in `digest`.

use super::Env;
use super::arithmetic::pair;
use super::digest::{self, md5};
use super::operator::{Operator, Parameter, required};
use crate::show::show;
use value::writer::write_value;
use value::{Error, RawDoc, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::named("$hash", HASH, 9, 9, hash),
    Operator::named("$hexHash", HASH, 9, 9, hex_hash),
    Operator::new("$toHashedIndexKey", 1, 1, to_hashed_index_key),
];

static HASH: &[Parameter] = &[required("input", 9), required("algorithm", 9)];

/// The digest of the operands; `None` where it is null.
fn digest_of(name: &str, values: &[Val<'_>]) -> Result<Option<Vec<u8>>> {
    let (input, algorithm) = pair(values);
    let bytes = match input {
        Val::String(text) => text.as_bytes(),
        Val::Binary(_, bytes) => bytes,
        value if value.is_nullish() => return Ok(None),
        other => {
            return Err(Error::type_mismatch(format!(
                "{name} requires 'input' to be a string or binData, found: {}",
                other.kind().name()
            )));
        }
    };
    Ok(Some(match algorithm {
        Val::String("md5") => digest::md5(bytes).to_vec(),
        Val::String("sha256") => digest::sha256(bytes).to_vec(),
        Val::String("xxh64") => digest::xxh64(bytes).to_be_bytes().to_vec(),
        other => {
            return Err(Error::bad_value(format!("{name} has no algorithm {}", show(other))));
        }
    }))
}

fn hash<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(match digest_of("$hash", values)? {
        None => Val::Null,
        Some(digest) => Val::Binary(0, env.arena().alloc_slice_copy(&digest)),
    })
}

fn hex_hash<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(match digest_of("$hexHash", values)? {
        None => Val::Null,
        Some(digest) => {
            env.text(&digest.iter().map(|byte| format!("{byte:02X}")).collect::<String>())
        }
    })
}

fn to_hashed_index_key<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Int64(hashed_key(pair(values).0)))
}

/// The key that a hashed index holds for a value, as MongoDB computes it.
#[must_use]
pub fn hashed_key(value: Val<'_>) -> i64 {
    let mut bytes = 0i32.to_le_bytes().to_vec();
    add(&mut bytes, None, value);
    let [a, b, c, d, e, f, g, h, ..] = md5(&bytes);
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Appends what is hashed of a value: type class, name inside of documents, content.
fn add(bytes: &mut Vec<u8>, name: Option<&str>, value: Val<'_>) {
    let class: i32 = match value {
        Val::MinKey => -1,
        Val::MaxKey => 127,
        Val::Undefined => 0,
        Val::Missing | Val::Null => 5,
        Val::Int32(_) | Val::Int64(_) | Val::Double(_) | Val::Decimal(_) => 10,
        Val::String(_) | Val::Symbol(_) => 15,
        Val::Document(_) => 20,
        Val::Array(_) => 25,
        Val::Binary(..) => 30,
        Val::ObjectId(_) => 35,
        Val::Bool(_) => 40,
        Val::DateTime(_) => 45,
        Val::Timestamp(_) => 47,
        Val::Regex(..) => 50,
        Val::DbPointer(..) => 55,
        Val::Code(_) => 60,
        Val::CodeWithScope(..) => 65,
    };
    bytes.extend_from_slice(&class.to_le_bytes());
    if let Some(name) = name {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    match value {
        Val::Document(doc) | Val::Array(doc) => add_elements(bytes, doc),
        Val::Int32(n) => bytes.extend_from_slice(&i64::from(n).to_le_bytes()),
        Val::Double(n) => bytes.extend_from_slice(&long(n).to_le_bytes()),
        Val::Decimal(n) => {
            let n = n.to_i64_round().unwrap_or_else(|| long(n.to_f64()));
            bytes.extend_from_slice(&n.to_le_bytes());
        }
        other => write_value(bytes, other),
    }
}

fn add_elements(bytes: &mut Vec<u8>, doc: RawDoc<'_>) {
    for (name, value) in doc {
        add(bytes, Some(name), value.get());
    }
    // The end of a document is an element without type.
    bytes.extend_from_slice(&0i32.to_le_bytes());
}

/// A double cut to a whole number; what 64 bits do not hold goes to their ends, NaN to zero.
fn long(n: f64) -> i64 {
    n as i64
}
