//! Extended JSON version 2 and the notation of MongoDB's shell.
//!
//! `parse` is the reader for both, `construct` the shell's `ObjectId("...")` and other constructors, `wrapper`
//! the `{"$oid": "..."}` objects, `print` the three writers; `date` and `base64` are what they
//! need. By hand, because documents are read from and printed to raw bytes, and the shell's notation has
//! no crate. A `{$regex: ..}` document is a query operator and stays one in every mode.

pub mod base64;
mod construct;
pub mod date;
mod parse;
mod print;
mod wrapper;

pub use base64::{decode as decode_base64, encode as encode_base64};
pub use parse::{DEPTH_LIMIT, Mode, Parser};
pub use print::{Format, print, print_pretty, print_value};

use crate::writer::write_value;
use crate::{DocBuf, RawDoc, Result, Val};

/// A value of any type that owns its bytes: a document with one field that has no name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedVal(DocBuf);

impl OwnedVal {
    /// Copies a value; a missing one stays missing.
    #[must_use]
    pub fn new(value: Val<'_>) -> OwnedVal {
        OwnedVal(DocBuf::build(|writer| {
            writer.append("", value);
        }))
    }

    /// Wraps the bytes of a value of this type.
    fn from_raw(kind: u8, bytes: &[u8]) -> OwnedVal {
        OwnedVal(DocBuf::build(|writer| {
            writer.raw("", crate::RawVal { kind, bytes });
        }))
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> Val<'_> {
        self.0.as_doc().first().map_or(Val::Missing, |(_, value)| value.get())
    }

    /// The document that holds the value under the empty name.
    #[must_use]
    pub fn holder(&self) -> RawDoc<'_> {
        self.0.as_doc()
    }

    /// The value's own bytes, without type and name.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_value(&mut bytes, self.get());
        bytes
    }
}

impl From<Val<'_>> for OwnedVal {
    fn from(value: Val<'_>) -> OwnedVal {
        OwnedVal::new(value)
    }
}

/// Reads one document in shell notation, which includes Extended JSON.
///
/// # Errors
/// `FailedToParse` with line and column.
pub fn parse_doc(text: &str) -> Result<DocBuf> {
    parse_doc_as(text, Mode::Shell)
}

/// Reads one document in the given notation.
///
/// # Errors
/// `FailedToParse` with line and column.
pub fn parse_doc_as(text: &str, mode: Mode) -> Result<DocBuf> {
    let mut parser = Parser::new(text, mode);
    let doc = parser.doc()?;
    parser.end()?;
    Ok(doc)
}

/// Reads one value of any type in shell notation.
///
/// # Errors
/// `FailedToParse` with line and column.
pub fn parse_value(text: &str) -> Result<OwnedVal> {
    parse_value_as(text, Mode::Shell)
}

/// Reads one value of any type in the given notation.
///
/// # Errors
/// `FailedToParse` with line and column.
pub fn parse_value_as(text: &str, mode: Mode) -> Result<OwnedVal> {
    let mut parser = Parser::new(text, mode);
    let value = parser.value()?;
    parser.end()?;
    Ok(value)
}
