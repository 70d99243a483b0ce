//! Order-preserving bytes: the one encoder for `_id` keys, index keys, sort keys and group keys.
//!
//! Comparing two encodings byte by byte gives the order of `compare`; numbers of all types that
//! are equal encode equally, so the original type is not in the key. Each value starts with a
//! byte for its type (never 0, never above `0xF5` even when inverted), so a key followed by
//! `0xFF` is above every key that continues it: that makes bounds plain byte strings.
//!
//! A descending field has all its bytes inverted.

use crate::raw::{RawDoc, RawVal, Val};
use crate::{Collation, Decimal128, Type};

const NAN: u8 = 30;
const BELOW_LONG: u8 = 31;
/// Negative whole parts of n bytes take `NEGATIVE_ZERO_BYTES - n`.
const NEGATIVE_ZERO_BYTES: u8 = 40;
const ABOVE_MINUS_ONE: u8 = 40;
const ZERO: u8 = 41;
const BELOW_ONE: u8 = 42;
/// Positive whole parts of n bytes take `POSITIVE_ZERO_BYTES + n`.
const POSITIVE_ZERO_BYTES: u8 = 42;
const ABOVE_LONG: u8 = 51;

/// 2^63, the first whole number that takes the encoding of large numbers.
const LARGE: f64 = 9_223_372_036_854_775_808.0;
/// 10^34: fractions of decimals are counted in this many parts.
const DECIMAL_PARTS: u128 = 10_u128.pow(34);

/// Appends the key of a value. A missing value encodes as null, as MongoDB's indexes have it.
pub fn encode(out: &mut Vec<u8>, value: Val<'_>, descending: bool) {
    encode_with(out, value, descending, None);
}

/// The same under a collation: text at any depth is replaced by its collation key.
pub fn encode_with(
    out: &mut Vec<u8>,
    value: Val<'_>,
    descending: bool,
    collation: Option<&Collation>,
) {
    let start = out.len();
    append(out, value, collation);
    if descending {
        invert(out.get_mut(start..).unwrap_or(&mut []));
    }
}

/// The same for a value that is not decoded: text needs no decoding.
#[inline]
pub fn encode_raw(out: &mut Vec<u8>, value: RawVal<'_>) {
    match value.string_bytes() {
        Some(text) => {
            out.push(Type::String.rank());
            append_text(out, text);
        }
        None => append(out, value.get(), None),
    }
}

/// Begins the key of a document whose fields follow one by one (`field`, `close_document`).
pub fn open_document(out: &mut Vec<u8>) {
    out.push(Type::Document.rank());
}

/// The next field of a document's key; a missing value is no field.
pub fn field(out: &mut Vec<u8>, name: &str, value: Val<'_>, collation: Option<&Collation>) {
    if !value.is_missing() {
        out.push(value.kind().rank());
        append_text(out, name.as_bytes());
        append(out, value, collation);
    }
}

/// Ends the key of a document.
pub fn close_document(out: &mut Vec<u8>) {
    out.push(0);
}

/// The ascending key of one value.
#[must_use]
pub fn key(value: Val<'_>) -> Vec<u8> {
    key_with(value, None)
}

/// The same under a collation.
#[must_use]
pub fn key_with(value: Val<'_>, collation: Option<&Collation>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    append(&mut out, value, collation);
    out
}

/// Inverts key bytes: ascending to descending and back.
pub fn invert(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

fn append(out: &mut Vec<u8>, value: Val<'_>, collation: Option<&Collation>) {
    match value {
        Val::Int32(n) => append_long(out, i64::from(n)),
        Val::Int64(n) => append_long(out, n),
        Val::Double(n) => append_double(out, n),
        Val::Decimal(n) => append_decimal(out, n),
        Val::Missing | Val::Null => out.push(Type::Null.rank()),
        Val::Bool(b) => out.push(Type::Bool.rank() + u8::from(b)),
        Val::String(s) | Val::Symbol(s) => {
            out.push(Type::String.rank());
            match collation {
                None => append_text(out, s.as_bytes()),
                Some(collation) => append_text(out, &collation.key(s)),
            }
        }
        Val::Document(doc) => {
            out.push(Type::Document.rank());
            append_document(out, doc, collation);
        }
        Val::Array(array) => {
            out.push(Type::Array.rank());
            for (_, element) in array {
                append(out, element.get(), collation);
            }
            out.push(0);
        }
        Val::Binary(subtype, bytes) => {
            out.push(Type::Binary.rank());
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.push(subtype);
            out.extend_from_slice(bytes);
        }
        Val::ObjectId(id) => {
            out.push(Type::ObjectId.rank());
            out.extend_from_slice(&id.0);
        }
        Val::DateTime(ms) => {
            out.push(Type::DateTime.rank());
            out.extend_from_slice(&((ms as u64) ^ (1 << 63)).to_be_bytes());
        }
        Val::Timestamp(t) => {
            out.push(Type::Timestamp.rank());
            out.extend_from_slice(&t.to_be_bytes());
        }
        Val::Regex(pattern, options) => {
            out.push(Type::Regex.rank());
            append_text(out, pattern.as_bytes());
            append_text(out, options.as_bytes());
        }
        Val::DbPointer(namespace, id) => {
            out.push(Type::DbPointer.rank());
            out.extend_from_slice(&(namespace.len() as u32).to_be_bytes());
            out.extend_from_slice(namespace.as_bytes());
            out.extend_from_slice(&id.0);
        }
        Val::Code(code) => {
            out.push(Type::Code.rank());
            append_text(out, code.as_bytes());
        }
        Val::CodeWithScope(code, scope) => {
            out.push(Type::CodeWithScope.rank());
            append_text(out, code.as_bytes());
            append_document(out, scope, collation);
        }
        Val::MinKey | Val::MaxKey | Val::Undefined => out.push(value.kind().rank()),
    }
}

/// Text ends with a zero. A zero inside becomes `01 01` and a one `01 02`, so the end is below
/// everything that could continue the text, and no key is the beginning of another one, which
/// keeps the order when all bytes are inverted.
fn append_text(out: &mut Vec<u8>, mut text: &[u8]) {
    // Most text has none of these bytes; one check of all bytes is cheaper than checks one by one.
    if text.iter().fold(true, |plain, byte| plain & (*byte > 1)) {
        out.reserve(text.len() + 1);
        out.extend_from_slice(text);
        out.push(0);
        return;
    }
    while let Some(at) = text.iter().position(|&b| b <= 1) {
        let (plain, rest) = text.split_at(at);
        out.extend_from_slice(plain);
        let Some((&low, rest)) = rest.split_first() else { break };
        out.extend_from_slice(&[1, low + 1]);
        text = rest;
    }
    out.extend_from_slice(text);
    out.push(0);
}

/// Fields in order, each as type rank, name, value, since that is how documents compare.
fn append_document(out: &mut Vec<u8>, doc: RawDoc<'_>, collation: Option<&Collation>) {
    for (name, value) in doc {
        out.push(value.kind().rank());
        append_text(out, name.as_bytes());
        append(out, value.get(), collation);
    }
    out.push(0);
}

fn append_long(out: &mut Vec<u8>, n: i64) {
    match n {
        0 => out.push(ZERO),
        i64::MIN => append_large(out, true, LARGE, None),
        _ => append_whole(out, n < 0, n.unsigned_abs(), None),
    }
}

/// A number whose whole part is at least 1 and below 2^63.
fn append_whole(out: &mut Vec<u8>, negative: bool, whole: u64, fraction: Option<Fraction>) {
    let shifted = (whole << 1) | u64::from(fraction.is_some());
    let bytes = shifted.to_be_bytes();
    let skip = (shifted.leading_zeros() / 8) as usize;
    let used = (8 - skip) as u8;
    out.push(if negative { NEGATIVE_ZERO_BYTES - used } else { POSITIVE_ZERO_BYTES + used });
    let start = out.len();
    out.extend_from_slice(bytes.get(skip..).unwrap_or(&[]));
    if let Some(fraction) = fraction {
        out.extend_from_slice(
            &((fraction.bits << 4) | u64::from(fraction.rest.is_some())).to_be_bytes(),
        );
        if let Some(rest) = fraction.rest {
            out.extend_from_slice(&rest.to_be_bytes());
        }
    }
    if negative {
        invert(out.get_mut(start..).unwrap_or(&mut []));
    }
}

/// A fraction as 60 bits, and what a decimal has beyond them.
struct Fraction {
    bits: u64,
    rest: Option<u128>,
}

fn append_double(out: &mut Vec<u8>, n: f64) {
    let magnitude = n.abs();
    if n.is_nan() {
        out.push(NAN);
    } else if magnitude >= LARGE {
        append_large(out, n < 0.0, magnitude, None);
    } else if magnitude >= 1.0 {
        let whole = magnitude.trunc();
        let fraction = magnitude - whole;
        // A double of 1 or more has at most 52 bits of fraction, so 60 hold it exactly.
        let bits = (fraction * (1_u64 << 60) as f64) as u64;
        let fraction = (bits != 0).then_some(Fraction { bits, rest: None });
        append_whole(out, n < 0.0, whole as u64, fraction);
    } else if magnitude == 0.0 {
        out.push(ZERO);
    } else {
        append_small(out, n < 0.0, magnitude, None);
    }
}

/// A number of 2^63 or more, infinity included.
fn append_large(out: &mut Vec<u8>, negative: bool, magnitude: f64, beyond: Option<Decimal128>) {
    out.push(if negative { BELOW_LONG } else { ABOVE_LONG });
    append_bits(out, negative, magnitude, beyond);
}

/// A number between 0 and 1.
fn append_small(out: &mut Vec<u8>, negative: bool, magnitude: f64, beyond: Option<Decimal128>) {
    out.push(if negative { ABOVE_MINUS_ONE } else { BELOW_ONE });
    append_bits(out, negative, magnitude, beyond);
}

/// The bits of a double, whose order is that of their values, then a decimal that lies between
/// this double and the next.
fn append_bits(out: &mut Vec<u8>, negative: bool, magnitude: f64, beyond: Option<Decimal128>) {
    let start = out.len();
    out.extend_from_slice(&magnitude.to_bits().to_be_bytes());
    out.push(u8::from(beyond.is_some()));
    if let Some(decimal) = beyond {
        let mut parts = decimal.parts();
        while parts.coefficient != 0 && parts.coefficient < DECIMAL_PARTS / 10 {
            parts.coefficient *= 10;
            parts.exponent -= 1;
        }
        out.extend_from_slice(&((parts.exponent + 16_384) as u16).to_be_bytes());
        out.extend_from_slice(&parts.coefficient.to_be_bytes());
    }
    if negative {
        invert(out.get_mut(start..).unwrap_or(&mut []));
    }
}

fn append_decimal(out: &mut Vec<u8>, n: Decimal128) {
    if n.is_nan() {
        out.push(NAN);
    } else if n.is_zero() {
        out.push(ZERO);
    } else if n.is_infinite() {
        append_large(out, n.is_negative(), f64::INFINITY, None);
    } else if let Some((whole, fraction)) = n.integer_and_fraction() {
        if whole == 0 {
            let (truncated, exact) = n.abs().to_f64_truncated();
            append_small(out, n.is_negative(), truncated, (!exact).then_some(n));
        } else {
            append_whole(out, n.is_negative(), whole as u64, decimal_fraction(fraction));
        }
    } else {
        let (truncated, exact) = n.abs().to_f64_truncated();
        append_large(out, n.is_negative(), truncated, (!exact).then_some(n));
    }
}

/// Sixty binary digits of a fraction counted in 10^34ths, and what is left of it.
fn decimal_fraction(mut parts: u128) -> Option<Fraction> {
    if parts == 0 {
        return None;
    }
    let mut bits = 0;
    for _ in 0..60 {
        parts *= 2;
        bits <<= 1;
        if parts >= DECIMAL_PARTS {
            parts -= DECIMAL_PARTS;
            bits |= 1;
        }
    }
    Some(Fraction { bits, rest: (parts != 0).then_some(parts) })
}

/// How many bytes the first value of a key takes; `None` if the bytes are no key.
#[must_use]
pub fn skip(key: &[u8], descending: bool) -> Option<usize> {
    let flip = if descending { 0xFF } else { 0 };
    let mut reader = Skipper { key, flip, at: 0 };
    reader.value()?;
    Some(reader.at)
}

/// A number decoded from a key; decimals that are not doubles are truncated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Whole(i64),
    /// Any other, infinity and NaN included.
    Double(f64),
}

/// The number at the start of a key; `None` if there is none.
#[must_use]
pub fn number(key: &[u8], descending: bool) -> Option<Number> {
    let flip = if descending { 0xFF } else { 0 };
    let (kind, rest) = key.split_first()?;
    let kind = *kind ^ flip;
    let negative = kind < ZERO;
    let flip = if negative { !flip } else { flip };
    let sign = |n: f64| if negative { -n } else { n };
    let eight = |bytes: &[u8]| -> Option<u64> {
        let bytes: &[u8; 8] = bytes.first_chunk()?;
        Some(bytes.iter().fold(0, |n, byte| n << 8 | u64::from(byte ^ flip)))
    };
    match kind {
        NAN => return Some(Number::Double(f64::NAN)),
        ZERO => return Some(Number::Whole(0)),
        BELOW_LONG | ABOVE_MINUS_ONE | BELOW_ONE | ABOVE_LONG => {
            return Some(Number::Double(sign(f64::from_bits(eight(rest)?))));
        }
        BELOW_LONG..=ABOVE_LONG => {}
        _ => return None,
    }
    let used = if negative { NEGATIVE_ZERO_BYTES - kind } else { kind - POSITIVE_ZERO_BYTES };
    let (own, rest) = rest.split_at_checked(usize::from(used))?;
    let shifted = own.iter().fold(0_u64, |n, byte| n << 8 | u64::from(byte ^ flip));
    let whole = i64::try_from(shifted >> 1).ok()?;
    if shifted & 1 == 0 {
        return Some(Number::Whole(if negative { -whole } else { whole }));
    }
    let fraction = (eight(rest)? >> 4) as f64 / (1_u64 << 60) as f64;
    Some(Number::Double(sign(whole as f64 + fraction)))
}

/// The position of the first occurrence of a byte; compares eight bytes at once.
#[inline]
fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    for chunk in bytes.chunks_exact(8) {
        let word = chunk.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        let word = word ^ (ONES * u64::from(wanted));
        // The lowest bit that is set belongs to the first byte that is zero now.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(at + (zeros.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    bytes.iter().skip(at).position(|byte| *byte == wanted).map(|place| at + place)
}

struct Skipper<'a> {
    key: &'a [u8],
    /// What every byte is XORed with: `FF` in a descending field.
    flip: u8,
    at: usize,
}

impl Skipper<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.key.get(self.at)? ^ self.flip;
        self.at += 1;
        Some(byte)
    }

    fn bytes(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count)?;
        (self.at <= self.key.len()).then_some(())
    }

    fn length(&mut self) -> Option<usize> {
        let mut length = 0;
        for _ in 0..4 {
            length = (length << 8) | usize::from(self.byte()?);
        }
        Some(length)
    }

    fn text(&mut self) -> Option<()> {
        let length = position(self.key.get(self.at..)?, self.flip)?;
        self.at += length + 1;
        Some(())
    }

    fn document(&mut self) -> Option<()> {
        while self.byte()? != 0 {
            self.text()?;
            self.value()?;
        }
        Some(())
    }

    fn number(&mut self, kind: u8) -> Option<()> {
        let negative = kind < ZERO;
        let flip = if negative { 0xFF } else { 0 };
        if kind == BELOW_LONG || kind == ABOVE_MINUS_ONE || kind == BELOW_ONE || kind == ABOVE_LONG
        {
            self.bytes(8)?;
            if self.byte()? ^ flip == 1 {
                self.bytes(18)?;
            }
            return Some(());
        }
        let used = if negative { NEGATIVE_ZERO_BYTES - kind } else { kind - POSITIVE_ZERO_BYTES };
        self.bytes(usize::from(used) - 1)?;
        if (self.byte()? ^ flip) & 1 == 1 {
            self.bytes(7)?;
            if (self.byte()? ^ flip) & 1 == 1 {
                self.bytes(16)?;
            }
        }
        Some(())
    }

    fn value(&mut self) -> Option<()> {
        let kind = self.byte()?;
        match kind {
            10 | 15 | 20 | NAN | ZERO | 110 | 111 | 240 => Some(()),
            BELOW_LONG..=ABOVE_LONG => self.number(kind),
            60 | 160 => self.text(),
            70 => self.document(),
            80 => {
                while self.key.get(self.at).map(|b| b ^ self.flip)? != 0 {
                    self.value()?;
                }
                self.bytes(1)
            }
            90 => {
                let length = self.length()?;
                self.bytes(length.checked_add(1)?)
            }
            100 => self.bytes(12),
            120 | 130 => self.bytes(8),
            140 => {
                self.text()?;
                self.text()
            }
            150 => {
                let length = self.length()?;
                self.bytes(length.checked_add(12)?)
            }
            170 => {
                self.text()?;
                self.document()
            }
            _ => None,
        }
    }
}
