//! Writes BSON: a writer that appends elements to a byte buffer and sets lengths afterwards, and
//! `DocBuf`, a document that owns its bytes.

use crate::raw::{EMPTY, RawDoc, RawVal, Val};
use smallvec::SmallVec;
use std::fmt;

/// A document that owns its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct DocBuf(Vec<u8>);

impl DocBuf {
    /// The empty document.
    #[must_use]
    pub fn new() -> DocBuf {
        DocBuf(EMPTY.to_vec())
    }

    /// Takes bytes that hold one validated document.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> DocBuf {
        DocBuf(bytes)
    }

    /// Builds a document with a writer.
    #[must_use]
    pub fn build(fill: impl FnOnce(&mut Writer<'_>)) -> DocBuf {
        let mut bytes = Vec::with_capacity(128);
        write_doc(&mut bytes, fill);
        DocBuf(bytes)
    }

    /// A borrowed view.
    #[inline]
    #[must_use]
    pub fn as_doc(&self) -> RawDoc<'_> {
        RawDoc::new(&self.0)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, owned.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl Default for DocBuf {
    fn default() -> DocBuf {
        DocBuf::new()
    }
}

impl fmt::Debug for DocBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_doc().fmt(f)
    }
}

impl From<RawDoc<'_>> for DocBuf {
    fn from(doc: RawDoc<'_>) -> DocBuf {
        DocBuf(doc.bytes().to_vec())
    }
}

/// Appends one whole document to `bytes`.
pub fn write_doc(bytes: &mut Vec<u8>, fill: impl FnOnce(&mut Writer<'_>)) {
    let mut writer = Writer::start(bytes);
    fill(&mut writer);
    writer.finish();
}

/// Writes the elements of one document into a buffer. `finish` closes it; nested documents and
/// arrays are written by closures (`doc`, `array`) or by `open` / `close` pairs.
pub struct Writer<'b> {
    bytes: &'b mut Vec<u8>,
    start: usize,
}

impl<'b> Writer<'b> {
    /// Begins a document at the end of `bytes`.
    #[inline]
    pub fn start(bytes: &'b mut Vec<u8>) -> Writer<'b> {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        Writer { bytes, start }
    }

    /// Ends the document: terminator and length.
    #[inline]
    pub fn finish(self) {
        close(self.bytes, self.start);
    }

    /// Bytes of this document so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether nothing was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 4
    }

    /// The buffer behind: for callers that copy whole elements.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.bytes
    }

    #[inline]
    fn name(&mut self, kind: u8, name: &str) {
        self.bytes.push(kind);
        // A name with a zero byte cannot be represented, and cannot be read either.
        let name = name.as_bytes();
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        self.bytes.extend_from_slice(name.get(..end).unwrap_or(name));
        self.bytes.push(0);
    }

    /// Appends an undecoded value of another document.
    #[inline]
    pub fn raw(&mut self, name: &str, value: RawVal<'_>) -> &mut Self {
        self.name(value.kind, name);
        self.bytes.extend_from_slice(value.bytes);
        self
    }

    /// Appends a value; a missing one appends nothing.
    pub fn append(&mut self, name: &str, value: Val<'_>) -> &mut Self {
        if !value.is_missing() {
            self.name(value.kind() as u8, name);
            write_value(self.bytes, value);
        }
        self
    }

    /// Appends a string.
    pub fn str(&mut self, name: &str, value: &str) -> &mut Self {
        self.append(name, Val::String(value))
    }

    /// Appends a 32-bit number.
    pub fn i32(&mut self, name: &str, value: i32) -> &mut Self {
        self.append(name, Val::Int32(value))
    }

    /// Appends a 64-bit number.
    pub fn i64(&mut self, name: &str, value: i64) -> &mut Self {
        self.append(name, Val::Int64(value))
    }

    /// Appends a double.
    pub fn f64(&mut self, name: &str, value: f64) -> &mut Self {
        self.append(name, Val::Double(value))
    }

    /// Appends a boolean.
    pub fn bool(&mut self, name: &str, value: bool) -> &mut Self {
        self.append(name, Val::Bool(value))
    }

    /// Appends a number as MongoDB replies do: 32 bits where it fits, else 64.
    pub fn count(&mut self, name: &str, value: u64) -> &mut Self {
        match i32::try_from(value) {
            Ok(small) => self.i32(name, small),
            Err(_) => self.i64(name, i64::try_from(value).unwrap_or(i64::MAX)),
        }
    }

    /// Appends a nested document.
    pub fn doc(&mut self, name: &str, fill: impl FnOnce(&mut Writer<'_>)) -> &mut Self {
        self.name(0x03, name);
        write_doc(self.bytes, fill);
        self
    }

    /// Appends an array; `fill` numbers its elements by `ArrayWriter::push`.
    pub fn array(&mut self, name: &str, fill: impl FnOnce(&mut ArrayWriter<'_>)) -> &mut Self {
        self.name(0x04, name);
        write_array(self.bytes, fill);
        self
    }

    /// Opens a nested document or array by hand; give the token back to `close`.
    pub fn open(&mut self, name: &str, array: bool) -> usize {
        self.name(if array { 0x04 } else { 0x03 }, name);
        let token = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        token
    }

    /// Closes what `open` opened.
    pub fn close(&mut self, token: usize) {
        close(self.bytes, token);
    }

    /// Appends every element of another document.
    pub fn extend(&mut self, doc: RawDoc<'_>) -> &mut Self {
        self.bytes.extend_from_slice(doc.elements_bytes());
        self
    }

    /// Copies all elements of a document, those with the names of `first` in front, in that order.
    pub fn extend_ordered(&mut self, doc: RawDoc<'_>, first: &[&str]) -> &mut Self {
        for wanted in first {
            for (name, value) in doc.iter().filter(|(name, _)| name == wanted) {
                self.raw(name, value);
            }
        }
        for (name, value) in doc.iter().filter(|(name, _)| !first.contains(name)) {
            self.raw(name, value);
        }
        self
    }
}

/// Appends one whole array to `bytes`.
pub fn write_array(bytes: &mut Vec<u8>, fill: impl FnOnce(&mut ArrayWriter<'_>)) {
    let mut writer = ArrayWriter { writer: Writer::start(bytes), next: 0 };
    fill(&mut writer);
    writer.writer.finish();
}

/// Writes the elements of an array, numbering them.
pub struct ArrayWriter<'b> {
    writer: Writer<'b>,
    next: usize,
}

impl ArrayWriter<'_> {
    fn header(&mut self, kind: u8) {
        self.writer.bytes.push(kind);
        write_index(self.writer.bytes, self.next);
        self.writer.bytes.push(0);
        self.next += 1;
    }

    /// How many elements were pushed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.next
    }

    /// Bytes of the array so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writer.len()
    }

    /// Whether nothing was pushed yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next == 0
    }

    /// Appends a value; a missing one becomes null, as arrays have no holes.
    pub fn push(&mut self, value: Val<'_>) {
        let value = if value.is_missing() { Val::Null } else { value };
        self.header(value.kind() as u8);
        write_value(self.writer.bytes, value);
    }

    /// Appends an undecoded value.
    #[inline]
    pub fn push_raw(&mut self, value: RawVal<'_>) {
        self.header(value.kind);
        self.writer.bytes.extend_from_slice(value.bytes);
    }

    /// Appends a document given by its bytes: one copy.
    #[inline]
    pub fn push_doc_bytes(&mut self, doc: &[u8]) {
        self.header(0x03);
        self.writer.bytes.extend_from_slice(doc);
    }

    /// Appends a document built in place.
    pub fn push_doc(&mut self, fill: impl FnOnce(&mut Writer<'_>)) {
        self.header(0x03);
        write_doc(self.writer.bytes, fill);
    }

    /// Appends an array built in place.
    pub fn push_array(&mut self, fill: impl FnOnce(&mut ArrayWriter<'_>)) {
        self.header(0x04);
        write_array(self.writer.bytes, fill);
    }
}

/// Writes the decimal digits of an array index.
#[inline]
pub fn write_index(bytes: &mut Vec<u8>, index: usize) {
    if index < 10 {
        bytes.push(b'0' + index as u8);
        return;
    }
    let mut digits = [0u8; 20];
    let mut rest = index;
    let mut used = 0;
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + (rest % 10) as u8;
        rest /= 10;
        used += 1;
        if rest == 0 {
            break;
        }
    }
    bytes.extend_from_slice(digits.get(20 - used..).unwrap_or(&[]));
}

/// Opens a document at the end of `bytes` by hand; the token goes to `close`.
#[must_use]
pub fn open(bytes: &mut Vec<u8>) -> usize {
    let token = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    token
}

/// Terminates the document that began at `start` and writes its length there.
#[inline]
pub fn close(bytes: &mut Vec<u8>, start: usize) {
    bytes.push(0);
    let length = (bytes.len() - start) as u32;
    if let Some(slot) = bytes.get_mut(start..start + 4) {
        slot.copy_from_slice(&length.to_le_bytes());
    }
}

fn write_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
}

fn write_cstring(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(text.split('\0').next().unwrap_or("").as_bytes());
    bytes.push(0);
}

/// Appends the bytes of a value, without type and name.
pub fn write_value(bytes: &mut Vec<u8>, value: Val<'_>) {
    match value {
        Val::Missing | Val::MinKey | Val::MaxKey | Val::Undefined | Val::Null => {}
        Val::Bool(b) => bytes.push(u8::from(b)),
        Val::Int32(n) => bytes.extend_from_slice(&n.to_le_bytes()),
        Val::Int64(n) | Val::DateTime(n) => bytes.extend_from_slice(&n.to_le_bytes()),
        Val::Double(n) => bytes.extend_from_slice(&n.to_le_bytes()),
        Val::Decimal(n) => bytes.extend_from_slice(&n.to_bytes()),
        Val::String(s) | Val::Symbol(s) | Val::Code(s) => write_string(bytes, s),
        Val::Document(doc) | Val::Array(doc) => bytes.extend_from_slice(doc.bytes()),
        Val::Binary(2, content) => {
            bytes.extend_from_slice(&(content.len() as u32 + 4).to_le_bytes());
            bytes.push(2);
            bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
            bytes.extend_from_slice(content);
        }
        Val::Binary(subtype, content) => {
            bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
            bytes.push(subtype);
            bytes.extend_from_slice(content);
        }
        Val::ObjectId(id) => bytes.extend_from_slice(&id.0),
        Val::Timestamp(t) => bytes.extend_from_slice(&t.to_le_bytes()),
        Val::Regex(pattern, options) => {
            write_cstring(bytes, pattern);
            write_cstring(bytes, options);
        }
        Val::DbPointer(namespace, id) => {
            write_string(bytes, namespace);
            bytes.extend_from_slice(&id.0);
        }
        Val::CodeWithScope(code, scope) => {
            let start = bytes.len();
            bytes.extend_from_slice(&[0; 4]);
            write_string(bytes, code);
            bytes.extend_from_slice(scope.bytes());
            let length = (bytes.len() - start) as u32;
            if let Some(slot) = bytes.get_mut(start..start + 4) {
                slot.copy_from_slice(&length.to_le_bytes());
            }
        }
    }
}

/// A value that owns its bytes: constants of compiled filters, updates and expressions.
#[derive(PartialEq, Eq)]
pub struct OwnedVal {
    kind: u8,
    /// Numbers, dates and identifiers need no memory of their own.
    bytes: SmallVec<[u8; 16]>,
}

impl OwnedVal {
    /// Copies a value.
    #[must_use]
    pub fn new(value: Val<'_>) -> OwnedVal {
        let bytes = match value {
            // The most common types.
            Val::Int32(n) => SmallVec::from_slice(&n.to_le_bytes()),
            Val::Int64(n) => SmallVec::from_slice(&n.to_le_bytes()),
            Val::Double(n) => SmallVec::from_slice(&n.to_le_bytes()),
            _ => {
                let mut bytes = Vec::new();
                write_value(&mut bytes, value);
                // Allocated exactly, because constants are kept for a long time.
                SmallVec::from_slice(&bytes)
            }
        };
        OwnedVal { kind: value.kind() as u8, bytes }
    }

    /// The value, borrowed.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Val<'_> {
        self.raw().get()
    }

    /// The value, undecoded.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> RawVal<'_> {
        RawVal { kind: self.kind, bytes: &self.bytes }
    }
}

impl Clone for OwnedVal {
    fn clone(&self) -> OwnedVal {
        OwnedVal { kind: self.kind, bytes: SmallVec::from_slice(&self.bytes) }
    }
}

impl From<Val<'_>> for OwnedVal {
    fn from(value: Val<'_>) -> OwnedVal {
        OwnedVal::new(value)
    }
}

impl fmt::Debug for OwnedVal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
