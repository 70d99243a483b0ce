//! The type information that keys lose, and the decoding of values from keys.
//!
//! `keys` encodes equal numbers of all types equally, a symbol as a string, and a missing value as
//! null. An index entry stores the difference with its key: one byte for each number, text and null
//! in the order of the key, 0 for the usual type; trailing zeros are omitted, so most entries store
//! nothing. Together they give the original values.

use crate::Type;
use crate::keys;
use crate::raw::{ObjectId, Val};
use crate::writer::{close, open, write_index};

const USUAL: u8 = 0;
/// A number: 32 or 64 bits, a double, where that is not the usual one.
const INT32: u8 = 1;
const INT64: u8 = 2;
const DOUBLE: u8 = 3;
/// Sixteen bytes follow: decimals that are equal may have different digits.
const DECIMAL: u8 = 4;
/// Eight bytes follow: minus zero and the kinds of NaN.
const BITS: u8 = 5;
/// A symbol in place of text, or something missing in place of null.
const OTHER: u8 = 1;

/// Appends the type information that the key of a value lacks.
pub fn append(out: &mut Vec<u8>, value: Val<'_>) {
    match value {
        Val::Int32(_) => out.push(USUAL),
        // The smallest one is encoded as large doubles are.
        Val::Int64(n) => {
            let small = i32::try_from(n).is_ok() || n == i64::MIN;
            out.push(if small { INT64 } else { USUAL });
        }
        Val::Double(n) if n.is_nan() || (n == 0.0 && n.is_sign_negative()) => {
            if n.to_bits() == f64::NAN.to_bits() {
                out.push(USUAL);
            } else {
                out.push(BITS);
                out.extend_from_slice(&n.to_bits().to_be_bytes());
            }
        }
        Val::Double(n) => out.push(if usual_for_double(n) { USUAL } else { DOUBLE }),
        Val::Decimal(n) => {
            out.push(DECIMAL);
            out.extend_from_slice(&n.to_bytes());
        }
        Val::String(_) | Val::Null => out.push(USUAL),
        Val::Symbol(_) | Val::Missing => out.push(OTHER),
        Val::Document(doc) | Val::CodeWithScope(_, doc) => {
            for (_, value) in doc {
                // The ranks in a document's key do not distinguish text from symbols either.
                append(out, value.get());
            }
        }
        Val::Array(array) => {
            for (_, element) in array {
                append(out, element.get());
            }
        }
        _ => {}
    }
}

/// A double that no whole number of 64 bits equals.
fn usual_for_double(n: f64) -> bool {
    n.fract() != 0.0 || !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&n)
}

/// Removes trailing zeros, which a reader adds again.
pub fn trim(types: &mut Vec<u8>) {
    while types.last() == Some(&0) {
        types.pop();
    }
}

/// Reads values from a key and its type information.
pub struct Decoder<'k> {
    key: &'k [u8],
    types: &'k [u8],
    /// What every byte of the current value is XORed with.
    flip: u8,
}

/// A decoded value of a key.
pub enum Decoded {
    /// A missing value.
    Missing,
    /// A value of this type; its bytes were appended.
    Value(Type),
}

impl<'k> Decoder<'k> {
    /// Starts at the first value.
    #[must_use]
    pub fn new(key: &'k [u8], types: &'k [u8]) -> Decoder<'k> {
        Decoder { key, types, flip: 0 }
    }

    /// The bytes after the values read so far.
    #[must_use]
    pub fn rest(&self) -> &'k [u8] {
        self.key
    }

    /// Appends the BSON bytes of the next value to `out`; `None` if the bytes are no key.
    pub fn next(&mut self, descending: bool, out: &mut Vec<u8>) -> Option<Decoded> {
        self.flip = if descending { 0xFF } else { 0 };
        self.value(out)
    }

    /// Skips the next value; `None` if the bytes are not a key. `scratch` is temporary space for
    /// its bytes.
    pub fn skip(&mut self, descending: bool, scratch: &mut Vec<u8>) -> Option<()> {
        if self.types.is_empty() {
            let length = keys::skip(self.key, descending)?;
            self.key = self.key.get(length..)?;
            return Some(());
        }
        let before = scratch.len();
        self.next(descending, scratch)?;
        scratch.truncate(before);
        Some(())
    }

    fn kept(&mut self) -> u8 {
        match self.types.split_first() {
            Some((first, rest)) => {
                self.types = rest;
                *first
            }
            None => USUAL,
        }
    }

    fn kept_bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.kept();
        }
        bytes
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.key.split_first()?;
        self.key = rest;
        Some(*first ^ self.flip)
    }

    fn peek(&self) -> Option<u8> {
        self.key.first().map(|byte| *byte ^ self.flip)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Some(bytes)
    }

    /// The text up to its end, unescaped.
    fn text(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let flip = self.flip;
        loop {
            let plain = self.key.iter().position(|byte| byte ^ flip <= 1)?;
            let (run, rest) = self.key.split_at_checked(plain)?;
            match flip {
                0 => out.extend_from_slice(run),
                flip => out.extend(run.iter().map(|byte| byte ^ flip)),
            }
            self.key = rest;
            if self.byte()? == 0 {
                return Some(());
            }
            out.push(self.byte()?.checked_sub(1)?);
        }
    }

    /// A BSON string: length, text, zero.
    fn string(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        self.text(out)?;
        out.push(0);
        let length = u32::try_from(out.len().checked_sub(at + 4)?).ok()?;
        out.get_mut(at..at + 4)?.copy_from_slice(&length.to_le_bytes());
        Some(())
    }

    fn document(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let start = open(out);
        while self.byte()? != 0 {
            let at = out.len();
            out.push(0);
            self.text(out)?;
            out.push(0);
            self.element(at, out)?;
        }
        close(out, start);
        Some(())
    }

    /// Reads a value and writes its type at `at`, before its name.
    fn element(&mut self, at: usize, out: &mut Vec<u8>) -> Option<()> {
        match self.value(out)? {
            Decoded::Missing => None,
            Decoded::Value(kind) => {
                *out.get_mut(at)? = kind as u8;
                Some(())
            }
        }
    }

    fn value(&mut self, out: &mut Vec<u8>) -> Option<Decoded> {
        let kind = self.peek()?;
        if (30..60).contains(&kind) {
            return self.number(out).map(Decoded::Value);
        }
        self.byte()?;
        let found = match kind {
            10 => Type::MinKey,
            15 => Type::Undefined,
            20 => {
                if self.kept() == OTHER {
                    return Some(Decoded::Missing);
                }
                Type::Null
            }
            60 => {
                self.string(out)?;
                if self.kept() == OTHER { Type::Symbol } else { Type::String }
            }
            70 => {
                self.document(out)?;
                Type::Document
            }
            80 => {
                let start = open(out);
                let mut place = 0;
                while self.peek()? != 0 {
                    let at = out.len();
                    out.push(0);
                    write_index(out, place);
                    out.push(0);
                    self.element(at, out)?;
                    place += 1;
                }
                self.byte()?;
                close(out, start);
                Type::Array
            }
            90 => {
                let length = u32::from_be_bytes(self.bytes()?);
                let subtype = self.byte()?;
                // The old subtype 2 has its length once more inside.
                let inner = if subtype == 2 { length.checked_add(4)? } else { length };
                out.extend_from_slice(&inner.to_le_bytes());
                out.push(subtype);
                if subtype == 2 {
                    out.extend_from_slice(&length.to_le_bytes());
                }
                for _ in 0..length {
                    out.push(self.byte()?);
                }
                Type::Binary
            }
            100 => {
                out.extend_from_slice(&self.bytes::<12>()?);
                Type::ObjectId
            }
            110 | 111 => {
                out.push(kind - 110);
                Type::Bool
            }
            120 => {
                let ms = u64::from_be_bytes(self.bytes()?) ^ (1 << 63);
                out.extend_from_slice(&ms.to_le_bytes());
                Type::DateTime
            }
            130 => {
                out.extend_from_slice(&u64::from_be_bytes(self.bytes()?).to_le_bytes());
                Type::Timestamp
            }
            140 => {
                self.text(out)?;
                out.push(0);
                self.text(out)?;
                out.push(0);
                Type::Regex
            }
            150 => {
                let length = u32::from_be_bytes(self.bytes()?);
                out.extend_from_slice(&(length.checked_add(1)?).to_le_bytes());
                for _ in 0..length {
                    out.push(self.byte()?);
                }
                out.push(0);
                out.extend_from_slice(&ObjectId(self.bytes()?).0);
                Type::DbPointer
            }
            160 => {
                self.string(out)?;
                Type::Code
            }
            170 => {
                let at = out.len();
                out.extend_from_slice(&[0; 4]);
                self.string(out)?;
                self.document(out)?;
                let length = u32::try_from(out.len().checked_sub(at)?).ok()?;
                out.get_mut(at..at + 4)?.copy_from_slice(&length.to_le_bytes());
                Type::CodeWithScope
            }
            240 => Type::MaxKey,
            _ => return None,
        };
        Some(Decoded::Value(found))
    }

    fn number(&mut self, out: &mut Vec<u8>) -> Option<Type> {
        let descending = self.flip != 0;
        let length = keys::skip(self.key, descending)?;
        let (own, rest) = self.key.split_at_checked(length)?;
        self.key = rest;
        let kept = self.kept();
        match kept {
            DECIMAL => {
                out.extend_from_slice(&self.kept_bytes::<16>());
                return Some(Type::Decimal);
            }
            BITS => {
                let bits = u64::from_be_bytes(self.kept_bytes());
                out.extend_from_slice(&bits.to_le_bytes());
                return Some(Type::Double);
            }
            _ => {}
        }
        match keys::number(own, descending)? {
            keys::Number::Whole(n) => match (kept, i32::try_from(n)) {
                (USUAL | INT32, Ok(n)) => {
                    out.extend_from_slice(&n.to_le_bytes());
                    Some(Type::Int32)
                }
                (USUAL | INT64, _) => {
                    out.extend_from_slice(&n.to_le_bytes());
                    Some(Type::Int64)
                }
                (DOUBLE, _) => {
                    out.extend_from_slice(&(n as f64).to_bits().to_le_bytes());
                    Some(Type::Double)
                }
                _ => None,
            },
            keys::Number::Double(_) if kept == INT64 => {
                out.extend_from_slice(&i64::MIN.to_le_bytes());
                Some(Type::Int64)
            }
            keys::Number::Double(n) => {
                out.extend_from_slice(&n.to_bits().to_le_bytes());
                Some(Type::Double)
            }
        }
    }
}
