//! Validation: one pass over untrusted bytes, after which `raw` may trust their structure.
//!
//! Checked are lengths, terminators, types, UTF-8 of names and texts, booleans and the nesting
//! depth. Nested documents are walked with a stack of their ends, not by recursion, so that no
//! input can exhaust the thread's stack.

use crate::{Code, Error, RawDoc, Result};

/// Deepest nesting that any caller may ask for; the stack of open documents has this size.
pub const DEPTH_LIMIT: usize = 256;

/// Checks that `bytes` are exactly one well-formed document nested at most `depth_max` deep.
///
/// # Errors
/// `InvalidBSON` for malformed bytes, `Overflow` for too deep nesting.
pub fn validate(bytes: &[u8], depth_max: usize) -> Result<RawDoc<'_>> {
    let (doc, rest) = validate_prefix(bytes, depth_max)?;
    if !rest.is_empty() {
        return Err(invalid("the document's length does not match its bytes"));
    }
    Ok(doc)
}

/// Checks the document at the beginning of `bytes`. Returns it and the bytes after it.
///
/// # Errors
/// As `validate`; bytes that end before the document does are malformed.
pub fn validate_prefix(bytes: &[u8], depth_max: usize) -> Result<(RawDoc<'_>, &[u8])> {
    let length = length_at(bytes).ok_or_else(|| invalid("the document has no length"))?;
    let doc = bytes
        .get(..length)
        .filter(|doc| doc.len() >= 5)
        .ok_or_else(|| invalid("the document's length does not match its bytes"))?;
    let rest = bytes.get(length..).unwrap_or(&[]);
    Walk { doc, at: 4, ends: [0; DEPTH_LIMIT], depth: 0 }.run(depth_max.min(DEPTH_LIMIT))?;
    Ok((RawDoc::new(doc), rest))
}

#[cold]
fn invalid(message: &str) -> Error {
    Error::new(Code::INVALID_BSON, format!("Invalid BSON: {message}"))
}

#[inline]
fn length_at(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*bytes.first_chunk::<4>()?)).ok()
}

/// A walk over one document: the position, and the ends of the open documents. The scope of a code
/// value is treated as a document that ends with its element.
struct Walk<'a> {
    doc: &'a [u8],
    at: usize,
    /// Ends of the open documents, the position after each terminator.
    ends: [u32; DEPTH_LIMIT],
    depth: usize,
}

impl Walk<'_> {
    fn run(&mut self, depth_max: usize) -> Result<()> {
        self.push(self.doc.len(), depth_max)?;
        let mut end = self.doc.len();
        loop {
            let Some(&kind) = self.doc.get(self.at) else {
                return Err(invalid("the document ends too early"));
            };
            self.at += 1;
            if kind == 0 {
                if self.at != end {
                    return Err(invalid("a document ends where its length does not say"));
                }
                self.depth -= 1;
                match self.depth.checked_sub(1).and_then(|above| self.ends.get(above)) {
                    None => return Ok(()),
                    Some(&above) => end = above as usize,
                }
                continue;
            }
            self.cstring(end)?;
            if matches!(kind, 0x03 | 0x04 | 0x0F) {
                end = self.open(kind, end, depth_max)?;
            } else {
                self.value(kind, end)?;
            }
        }
    }

    fn push(&mut self, end: usize, depth_max: usize) -> Result<()> {
        if self.depth >= depth_max {
            return Err(Error::new(
                Code::OVERFLOW,
                format!("BSON exceeded the depth limit of {depth_max}"),
            ));
        }
        if let Some(slot) = self.ends.get_mut(self.depth) {
            // Lengths are positive 32-bit numbers, so the position fits.
            *slot = end as u32;
        }
        self.depth += 1;
        Ok(())
    }

    /// Enters a document, an array, or the scope of a code value. Returns its end.
    fn open(&mut self, kind: u8, end: usize, depth_max: usize) -> Result<usize> {
        let mut inner = self.length(end, 5)?;
        if kind == 0x0F {
            let whole = inner;
            self.at += 4;
            self.string(whole)?;
            inner = self.length(whole, 5)?;
            if inner != whole {
                return Err(invalid("a code's scope does not fill its element"));
            }
        }
        self.push(inner, depth_max)?;
        self.at += 4;
        Ok(inner)
    }

    /// Reads a length that includes itself. Returns the end, which must be within `end`.
    #[inline]
    fn length(&self, end: usize, least: usize) -> Result<usize> {
        let length = self.doc.get(self.at..).and_then(length_at);
        match length {
            // The enclosing document's terminator must fit behind, except at a scope's end.
            Some(length) if length >= least && length <= end - self.at.min(end) => {
                Ok(self.at + length)
            }
            _ => Err(invalid("a nested document's length is wrong")),
        }
    }

    #[inline]
    fn value(&mut self, kind: u8, end: usize) -> Result<()> {
        let size = match kind {
            0x10 => 4,
            0x01 | 0x09 | 0x11 | 0x12 => 8,
            0x02 | 0x0D | 0x0E => return self.string(end),
            0x07 => 12,
            0x08 => {
                if self.doc.get(self.at).is_none_or(|&b| b > 1) {
                    return Err(invalid("a boolean is neither 0 nor 1"));
                }
                1
            }
            0x06 | 0x0A | 0x7F | 0xFF => 0,
            0x13 => 16,
            0x05 => self.binary()?,
            0x0B => {
                self.cstring(end)?;
                return self.cstring(end);
            }
            0x0C => {
                self.string(end)?;
                12
            }
            _ => return Err(invalid(&format!("unrecognized type {kind}"))),
        };
        self.skip(size, end)
    }

    #[inline]
    fn skip(&mut self, size: usize, end: usize) -> Result<()> {
        // Behind every value at least the terminator follows.
        if size >= end.saturating_sub(self.at) {
            return Err(invalid("a value reaches beyond its document"));
        }
        self.at += size;
        Ok(())
    }

    /// The size of a binary: length, subtype and content.
    fn binary(&self) -> Result<usize> {
        let body = self.doc.get(self.at..).unwrap_or(&[]);
        let length = length_at(body).ok_or_else(|| invalid("a binary's length is wrong"))?;
        if body.get(4) == Some(&2) {
            let inner = body.get(5..).and_then(length_at);
            if inner.and_then(|inner| inner.checked_add(4)) != Some(length) {
                return Err(invalid("an old binary's inner length is wrong"));
            }
        }
        length.checked_add(5).ok_or_else(|| invalid("a binary's length is wrong"))
    }

    /// A zero-terminated text: a name or a part of a regular expression.
    #[inline]
    fn cstring(&mut self, end: usize) -> Result<()> {
        let rest = self.doc.get(self.at..end).unwrap_or(&[]);
        let mut ascii = 0u8;
        for (length, &byte) in rest.iter().enumerate() {
            if byte == 0 {
                if ascii >= 0x80 {
                    self.utf8(self.at, self.at + length)?;
                }
                self.at += length + 1;
                return Ok(());
            }
            ascii |= byte;
        }
        Err(invalid("a name has no end"))
    }

    /// A text with a length in front and a zero behind.
    #[inline]
    fn string(&mut self, end: usize) -> Result<()> {
        let start = self.at + 4;
        let length = self.doc.get(self.at..).and_then(length_at).unwrap_or(0);
        self.skip(4, end)?;
        self.skip(length, end)?;
        if length == 0 || self.doc.get(self.at - 1) != Some(&0) {
            return Err(invalid("a string has no terminator"));
        }
        self.utf8(start, self.at - 1)
    }

    #[inline]
    fn utf8(&self, from: usize, to: usize) -> Result<()> {
        let text = self.doc.get(from..to).unwrap_or(&[]);
        if text.is_ascii() || simdutf8::basic::from_utf8(text).is_ok() {
            Ok(())
        } else {
            Err(invalid("a text is not UTF-8"))
        }
    }
}
