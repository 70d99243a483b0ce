//! Reading BSON in place: a skip-scanner over bytes that were validated once (`validate`).
//!
//! `RawDoc` is a borrowed document, `RawVal` an element that is not decoded yet, `Val` a decoded
//! value that still borrows its text and nested documents. Nothing here allocates, and nothing
//! panics on damaged bytes: a scan that meets them ends.

use crate::{Decimal128, Type};
use std::fmt;

/// A borrowed BSON document (or array: an array is a document with the names "0", "1", ...).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawDoc<'a>(&'a [u8]);

/// The empty document.
pub static EMPTY: &[u8] = &[5, 0, 0, 0, 0];

impl<'a> RawDoc<'a> {
    /// Takes bytes that hold one validated document.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> RawDoc<'a> {
        RawDoc(bytes)
    }

    /// The empty document.
    #[inline]
    #[must_use]
    pub fn empty() -> RawDoc<'static> {
        RawDoc(EMPTY)
    }

    /// The bytes, length and terminator included.
    #[inline]
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The bytes of the elements alone: what can be appended to another document.
    #[inline]
    #[must_use]
    pub fn elements_bytes(self) -> &'a [u8] {
        let end = self.0.len().saturating_sub(1);
        self.0.get(4..end).unwrap_or(&[])
    }

    /// Whether there is no element.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.len() <= 5
    }

    /// All elements in order, not yet decoded.
    #[inline]
    #[must_use]
    pub fn iter(self) -> Elements<'a> {
        Elements { rest: self.elements_bytes() }
    }

    /// The last elements: those in the last `left` bytes, a number that [`Elements::rest`] had the
    /// length of. An iteration can be continued with it later.
    #[inline]
    #[must_use]
    pub fn iter_last(self, left: usize) -> Elements<'a> {
        let bytes = self.elements_bytes();
        Elements { rest: bytes.get(bytes.len().saturating_sub(left)..).unwrap_or(&[]) }
    }

    /// How many elements there are; scans them.
    #[must_use]
    pub fn count(self) -> usize {
        self.iter().count()
    }

    /// The first element of this name.
    #[inline]
    #[must_use]
    pub fn find(self, name: &str) -> Option<RawVal<'a>> {
        let name = name.as_bytes();
        let mut elements = self.iter();
        while let Some((found, value)) = elements.next_bytes() {
            if same_name(found, name) {
                return Some(value);
            }
        }
        None
    }

    /// The decoded value of this name, if there is one.
    #[inline]
    #[must_use]
    pub fn get(self, name: &str) -> Option<Val<'a>> {
        self.find(name).map(RawVal::get)
    }

    /// The first element, name and value.
    #[must_use]
    pub fn first(self) -> Option<(&'a str, RawVal<'a>)> {
        self.iter().next()
    }
}

impl<'a> IntoIterator for RawDoc<'a> {
    type Item = (&'a str, RawVal<'a>);
    type IntoIter = Elements<'a>;
    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

impl fmt::Debug for RawDoc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(n, v)| (n, v.get()))).finish()
    }
}

/// Iterator over the elements of a document.
#[derive(Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The next element with its name as bytes: cheaper than `next` where names are compared only.
    #[inline]
    pub fn next_bytes(&mut self) -> Option<(&'a [u8], RawVal<'a>)> {
        let (&kind, rest) = self.rest.split_first()?;
        let name_length = name_length(rest)?;
        let name = rest.get(..name_length)?;
        let body = rest.get(name_length + 1..)?;
        let size = value_size(kind, body)?;
        let value = body.get(..size)?;
        self.rest = body.get(size..)?;
        Some((name, RawVal { kind, bytes: value }))
    }

    /// The bytes of the elements that were not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (&'a str, RawVal<'a>);
    #[inline]
    fn next(&mut self) -> Option<(&'a str, RawVal<'a>)> {
        let (name, value) = self.next_bytes()?;
        Some((text(name), value))
    }
}

/// Whether two names are equal. Most differ in their length or first byte, which saves the call that
/// compares the others.
#[inline]
#[must_use]
pub fn same_name(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.first() == other.first() && one == other
}

/// Length of a name up to its terminating zero. Names are short: eight bytes are looked at at once.
#[inline]
pub(crate) fn name_length(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let Some((head, rest)) = bytes.split_first_chunk::<8>() else {
        return bytes.iter().position(|&b| b == 0);
    };
    let word = u64::from_le_bytes(*head);
    // The lowest bit that is set belongs to the first byte that is zero.
    let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
    match zeros {
        0 => rest.iter().position(|&b| b == 0).map(|at| at + 8),
        zeros => Some((zeros.trailing_zeros() / 8) as usize),
    }
}

/// Text that was validated when it arrived; damaged bytes read as empty rather than as a panic.
#[inline]
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("")
}

#[inline]
pub(crate) fn length_at(bytes: &[u8]) -> Option<usize> {
    let prefix = bytes.first_chunk::<4>()?;
    usize::try_from(i32::from_le_bytes(*prefix)).ok()
}

/// How many bytes a value of this type takes, given what follows its name.
#[inline]
pub(crate) fn value_size(kind: u8, body: &[u8]) -> Option<usize> {
    Some(match kind {
        0x10 => 4,
        0x01 | 0x09 | 0x11 | 0x12 => 8,
        0x02 | 0x0D | 0x0E => length_at(body)?.checked_add(4)?,
        0x03 | 0x04 | 0x0F => length_at(body)?,
        0x05 => length_at(body)?.checked_add(5)?,
        0x07 => 12,
        0x08 => 1,
        0x06 | 0x0A | 0x7F | 0xFF => 0,
        0x13 => 16,
        0x0B => {
            let pattern = name_length(body)?;
            let options = name_length(body.get(pattern + 1..)?)?;
            pattern + options + 2
        }
        0x0C => length_at(body)?.checked_add(16)?,
        _ => return None,
    })
}

/// An element's value, not decoded: its type byte and its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawVal<'a> {
    /// The BSON type byte.
    pub kind: u8,
    /// The value's bytes in the document.
    pub bytes: &'a [u8],
}

impl<'a> RawVal<'a> {
    /// The BSON type.
    #[inline]
    #[must_use]
    pub fn kind(self) -> Type {
        Type::from_byte(self.kind).unwrap_or(Type::Missing)
    }

    /// The decoded value.
    #[inline]
    #[must_use]
    pub fn get(self) -> Val<'a> {
        decode(self.kind, self.bytes).unwrap_or(Val::Missing)
    }

    /// The nested document, if the value is one (not an array).
    #[inline]
    #[must_use]
    pub fn as_doc(self) -> Option<RawDoc<'a>> {
        (self.kind == 0x03).then_some(RawDoc(self.bytes))
    }

    /// The array, as a document of numbered names.
    #[inline]
    #[must_use]
    pub fn as_array(self) -> Option<RawDoc<'a>> {
        (self.kind == 0x04).then_some(RawDoc(self.bytes))
    }

    /// The bytes of a string without length and terminator, unchecked: for comparing.
    #[inline]
    #[must_use]
    pub fn string_bytes(self) -> Option<&'a [u8]> {
        if self.kind == 0x02 { self.bytes.get(4..self.bytes.len().saturating_sub(1)) } else { None }
    }
}

/// Twelve bytes that identify a document.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 12]);

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

impl ObjectId {
    /// Reads 24 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<ObjectId> {
        if text.len() != 24 || !text.is_ascii() {
            return None;
        }
        let mut id = [0; 12];
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
        }
        Some(ObjectId(id))
    }

    /// A new id: seconds, a random number of this process, a counter.
    #[must_use]
    pub fn generate() -> ObjectId {
        use std::sync::LazyLock;
        use std::sync::atomic::{AtomicU32, Ordering};
        static PROCESS: LazyLock<[u8; 5]> = LazyLock::new(crate::random::bytes);
        static COUNTER: LazyLock<AtomicU32> =
            LazyLock::new(|| AtomicU32::new(crate::random::u64() as u32));
        let seconds = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs() as u32);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut id = [0; 12];
        let (time, rest) = id.split_at_mut(4);
        time.copy_from_slice(&seconds.to_be_bytes());
        let (process, counter) = rest.split_at_mut(5);
        process.copy_from_slice(&*PROCESS);
        counter.copy_from_slice(count.to_be_bytes().get(1..).unwrap_or(&[0; 3]));
        ObjectId(id)
    }

    /// Seconds since 1970 at which the id was made.
    #[must_use]
    pub fn seconds(self) -> u32 {
        let [a, b, c, d, ..] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// A decoded value. Text, binaries and nested documents are borrowed, so copying one is cheap.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the BSON types")]
pub enum Val<'a> {
    /// No value: a path that leads nowhere. Never stored.
    #[default]
    Missing,
    MinKey,
    Undefined,
    Null,
    Bool(bool),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal(Decimal128),
    String(&'a str),
    Symbol(&'a str),
    Document(RawDoc<'a>),
    /// An array, as a document with the names "0", "1", ...
    Array(RawDoc<'a>),
    Binary(u8, &'a [u8]),
    ObjectId(ObjectId),
    /// Milliseconds since 1970.
    DateTime(i64),
    /// Seconds in the upper half, a counter in the lower.
    Timestamp(u64),
    Regex(&'a str, &'a str),
    DbPointer(&'a str, ObjectId),
    Code(&'a str),
    CodeWithScope(&'a str, RawDoc<'a>),
    MaxKey,
}

fn decode(kind: u8, bytes: &[u8]) -> Option<Val<'_>> {
    let string = |bytes: &'_ [u8]| -> Option<(usize, usize)> {
        let length = length_at(bytes)?;
        Some((4, 4 + length.checked_sub(1)?))
    };
    Some(match kind {
        0x01 => Val::Double(f64::from_le_bytes(*bytes.first_chunk()?)),
        0x02 | 0x0D | 0x0E => {
            let (from, to) = string(bytes)?;
            let content = text(bytes.get(from..to)?);
            match kind {
                0x02 => Val::String(content),
                0x0D => Val::Code(content),
                _ => Val::Symbol(content),
            }
        }
        0x03 => Val::Document(RawDoc(bytes)),
        0x04 => Val::Array(RawDoc(bytes)),
        0x05 => {
            let subtype = *bytes.get(4)?;
            let content = bytes.get(5..)?;
            // The old generic subtype wraps a second length around its content.
            if subtype == 2 && content.len() >= 4 {
                Val::Binary(subtype, content.get(4..)?)
            } else {
                Val::Binary(subtype, content)
            }
        }
        0x06 => Val::Undefined,
        0x07 => Val::ObjectId(ObjectId(*bytes.first_chunk()?)),
        0x08 => Val::Bool(*bytes.first()? != 0),
        0x09 => Val::DateTime(i64::from_le_bytes(*bytes.first_chunk()?)),
        0x0A => Val::Null,
        0x0B => {
            let end = name_length(bytes)?;
            let options = bytes.get(end + 1..bytes.len().checked_sub(1)?)?;
            Val::Regex(text(bytes.get(..end)?), text(options))
        }
        0x0C => {
            let (from, to) = string(bytes)?;
            let id = bytes.get(to + 1..)?;
            Val::DbPointer(text(bytes.get(from..to)?), ObjectId(*id.first_chunk()?))
        }
        0x0F => {
            let rest = bytes.get(4..)?;
            let (from, to) = string(rest)?;
            Val::CodeWithScope(text(rest.get(from..to)?), RawDoc(rest.get(to + 1..)?))
        }
        0x10 => Val::Int32(i32::from_le_bytes(*bytes.first_chunk()?)),
        0x11 => Val::Timestamp(u64::from_le_bytes(*bytes.first_chunk()?)),
        0x12 => Val::Int64(i64::from_le_bytes(*bytes.first_chunk()?)),
        0x13 => Val::Decimal(Decimal128::from_bytes(*bytes.first_chunk()?)),
        0x7F => Val::MaxKey,
        0xFF => Val::MinKey,
        _ => return None,
    })
}

impl<'a> Val<'a> {
    /// The BSON type.
    #[inline]
    #[must_use]
    pub fn kind(self) -> Type {
        match self {
            Val::Missing => Type::Missing,
            Val::MinKey => Type::MinKey,
            Val::Undefined => Type::Undefined,
            Val::Null => Type::Null,
            Val::Bool(_) => Type::Bool,
            Val::Int32(_) => Type::Int32,
            Val::Int64(_) => Type::Int64,
            Val::Double(_) => Type::Double,
            Val::Decimal(_) => Type::Decimal,
            Val::String(_) => Type::String,
            Val::Symbol(_) => Type::Symbol,
            Val::Document(_) => Type::Document,
            Val::Array(_) => Type::Array,
            Val::Binary(..) => Type::Binary,
            Val::ObjectId(_) => Type::ObjectId,
            Val::DateTime(_) => Type::DateTime,
            Val::Timestamp(_) => Type::Timestamp,
            Val::Regex(..) => Type::Regex,
            Val::DbPointer(..) => Type::DbPointer,
            Val::Code(_) => Type::Code,
            Val::CodeWithScope(..) => Type::CodeWithScope,
            Val::MaxKey => Type::MaxKey,
        }
    }

    /// Whether there is no value at all.
    #[inline]
    #[must_use]
    pub fn is_missing(self) -> bool {
        matches!(self, Val::Missing)
    }

    /// Whether this is null, undefined or missing: what aggregation calls nullish.
    #[inline]
    #[must_use]
    pub fn is_nullish(self) -> bool {
        matches!(self, Val::Missing | Val::Null | Val::Undefined)
    }

    /// Whether this is a number of any type.
    #[inline]
    #[must_use]
    pub fn is_number(self) -> bool {
        matches!(self, Val::Int32(_) | Val::Int64(_) | Val::Double(_) | Val::Decimal(_))
    }

    /// The text, if this is a string.
    #[inline]
    #[must_use]
    pub fn as_str(self) -> Option<&'a str> {
        if let Val::String(text) = self { Some(text) } else { None }
    }

    /// The nested document, if this is one (not an array).
    #[inline]
    #[must_use]
    pub fn as_doc(self) -> Option<RawDoc<'a>> {
        if let Val::Document(doc) = self { Some(doc) } else { None }
    }

    /// The array, if this is one.
    #[inline]
    #[must_use]
    pub fn as_array(self) -> Option<RawDoc<'a>> {
        if let Val::Array(doc) = self { Some(doc) } else { None }
    }

    /// The value as a whole number, if it is a number without fraction that fits.
    #[must_use]
    pub fn as_i64_exact(self) -> Option<i64> {
        match self {
            Val::Int32(n) => Some(i64::from(n)),
            Val::Int64(n) => Some(n),
            Val::Double(n) => crate::double::double_to_i64_exact(n),
            Val::Decimal(n) => n.to_i64_exact(),
            _ => None,
        }
    }

    /// The value as a double, if it is a number; may round.
    #[must_use]
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Val::Int32(n) => Some(f64::from(n)),
            Val::Int64(n) => Some(n as f64),
            Val::Double(n) => Some(n),
            Val::Decimal(n) => Some(n.to_f64()),
            _ => None,
        }
    }

    /// Whether MongoDB treats the value as true: all but false, zero, null, undefined and missing.
    #[must_use]
    pub fn truthy(self) -> bool {
        match self {
            Val::Missing | Val::Null | Val::Undefined => false,
            Val::Bool(b) => b,
            Val::Int32(n) => n != 0,
            Val::Int64(n) => n != 0,
            Val::Double(n) => n != 0.0,
            Val::Decimal(n) => !n.is_zero(),
            _ => true,
        }
    }
}

impl<'a> From<RawDoc<'a>> for Val<'a> {
    fn from(doc: RawDoc<'a>) -> Val<'a> {
        Val::Document(doc)
    }
}
