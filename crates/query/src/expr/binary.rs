//! `$convert` from and to binaries: text in some format, numbers in some byte order, vectors.

use super::Env;
use value::ejson::base64;
use value::{Code, Error, Result, Val};

/// The options of `$convert` for text, numbers and binaries.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvertOptions<'a> {
    /// The format of binaries as text; `None` if not specified.
    pub(super) format: Option<&'a str>,
    pub(super) big_endian: bool,
    /// The subtype of the resulting binary.
    pub(super) subtype: u8,
    /// The base of whole numbers that are read from text or written as text.
    pub(super) base: Option<u32>,
}

impl ConvertOptions<'_> {
    /// The options of the conversions with short names, such as `$toInt`.
    pub(super) const PLAIN: ConvertOptions<'static> =
        ConvertOptions { format: Some("auto"), big_endian: false, subtype: 0, base: None };
}

fn failure(why: &str) -> Error {
    Error::new(Code::CONVERSION_FAILURE, format!("{why} in $convert with no onError value"))
}

fn needs_format(from: &str, to: &str) -> Error {
    Error::new(
        Code(4341115),
        format!("Format must be specified when converting from '{from}' to '{to}'"),
    )
}

/// The names of formats.
pub(super) static FORMATS: &[&str] = &["auto", "base64", "base64url", "hex", "utf8", "uuid"];

const UUID: u8 = 4;
const VECTOR: u8 = 9;

/// Text as a binary.
pub(super) fn from_text<'a>(
    text: &str,
    options: ConvertOptions<'_>,
    env: &Env<'a>,
) -> Result<Val<'a>> {
    let format = options.format.ok_or_else(|| needs_format("string", "binData"))?;
    let format = match (format, options.subtype) {
        ("auto", UUID) => "uuid",
        ("auto", _) => "base64",
        (format, _) => format,
    };
    if (format == "uuid") != (options.subtype == UUID) {
        return Err(failure("Only the UUID subtype is written as UUID, and always so"));
    }
    let bytes = match format {
        "utf8" => Some(text.as_bytes().to_vec()),
        "hex" => hex(text),
        "uuid" => uuid(text),
        "base64url" => base64::decode(&text.replace('-', "+").replace('_', "/")),
        _ => base64::decode(text),
    };
    let bytes = bytes.ok_or_else(|| failure(&format!("Input '{text}' is not valid {format}")))?;
    Ok(Val::Binary(options.subtype, env.arena().alloc_slice_copy(&bytes)))
}

/// A binary as text.
pub(super) fn to_text<'a>(
    subtype: u8,
    bytes: &[u8],
    options: ConvertOptions<'_>,
    env: &Env<'a>,
) -> Result<Val<'a>> {
    let format = options.format.ok_or_else(|| needs_format("binData", "string"))?;
    let format = match (format, subtype) {
        ("auto", UUID) => "uuid",
        ("auto", _) => "base64",
        (format, _) => format,
    };
    let text = match format {
        "utf8" => {
            std::str::from_utf8(bytes).map_err(|_| failure("BinData is not UTF-8"))?.to_owned()
        }
        "hex" => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
        "uuid" if subtype == UUID && bytes.len() == 16 => uuid_text(bytes),
        "uuid" => return Err(failure("BinData is not a UUID")),
        "base64url" => base64::encode(bytes)
            .replace('+', "-")
            .replace('/', "_")
            .trim_end_matches('=')
            .to_owned(),
        _ => base64::encode(bytes),
    };
    Ok(env.text(&text))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok())
        .collect()
}

/// The bytes of a UUID in its usual notation.
pub(super) fn uuid(text: &str) -> Option<Vec<u8>> {
    if !text.match_indices('-').map(|(at, _)| at).eq([8, 13, 18, 23]) {
        return None;
    }
    hex(&text.replace('-', "")).filter(|bytes| bytes.len() == 16)
}

fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// A number as a binary: four bytes of an int, eight of a long or a double.
pub(super) fn from_number<'a>(
    value: Val<'_>,
    options: ConvertOptions<'_>,
    env: &Env<'a>,
) -> Option<Val<'a>> {
    let mut bytes = match value {
        Val::Int32(n) => n.to_le_bytes().to_vec(),
        Val::Int64(n) => n.to_le_bytes().to_vec(),
        Val::Double(n) => n.to_le_bytes().to_vec(),
        _ => return None,
    };
    if options.big_endian {
        bytes.reverse();
    }
    Some(Val::Binary(options.subtype, env.arena().alloc_slice_copy(&bytes)))
}

/// Reads an integer of one, two, four or eight bytes.
pub(super) fn to_whole(bytes: &[u8], options: ConvertOptions<'_>) -> Result<i64> {
    let ordered = in_order(bytes, options);
    Ok(match *ordered.as_slice() {
        [a] => i64::from(i8::from_le_bytes([a])),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => return Err(failure("Failed to convert a BinData of this length to a number")),
    })
}

/// Reads a number of four or eight bytes.
pub(super) fn to_double(bytes: &[u8], options: ConvertOptions<'_>) -> Result<f64> {
    let ordered = in_order(bytes, options);
    Ok(match *ordered.as_slice() {
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => return Err(failure("Failed to convert a BinData of this length to a double")),
    })
}

fn in_order(bytes: &[u8], options: ConvertOptions<'_>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if options.big_endian {
        bytes.reverse();
    }
    bytes
}

/// The numbers of a vector: a type byte, a byte with the number of unused bits, the data.
pub(super) fn to_array<'a>(subtype: u8, bytes: &[u8], env: &Env<'a>) -> Result<Val<'a>> {
    let (VECTOR, [kind, unused, data @ ..]) = (subtype, bytes) else {
        return Err(failure("Only a vector can become an array"));
    };
    match kind {
        0x03 => env.array(data.iter().map(|byte| Val::Int32(i32::from(byte.cast_signed())))),
        0x27 => {
            let (numbers, rest) = data.as_chunks::<4>();
            if !rest.is_empty() {
                return Err(failure("The vector is cut off"));
            }
            env.array(numbers.iter().map(|four| Val::Double(f64::from(f32::from_le_bytes(*four)))))
        }
        0x10 => {
            let count = (data.len() * 8).saturating_sub(usize::from(*unused));
            let bits = data.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1 == 1));
            env.array(bits.take(count).map(Val::Bool))
        }
        _ => Err(failure("The vector has an unknown type")),
    }
}

/// A whole number in a base, as text.
pub(super) fn in_base(n: i64, base: u32) -> String {
    let magnitude = n.unsigned_abs();
    let digits = match base {
        2 => format!("{magnitude:b}"),
        8 => format!("{magnitude:o}"),
        16 => format!("{magnitude:X}"),
        _ => magnitude.to_string(),
    };
    if n < 0 { format!("-{digits}") } else { digits }
}
