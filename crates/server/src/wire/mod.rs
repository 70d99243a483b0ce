//! The wire protocol: frames as bytes, without sockets and without commands.
//!
//! `header` is what every message begins with; `op_msg` and `op_query` are the two forms of a
//! command; `op_compressed` wraps either. `connection` calls them; `ProtocolError` here is what
//! closes a connection, while `value::Error` is sent to the client.

pub(crate) mod header;
pub(crate) mod op_compressed;
pub(crate) mod op_msg;
pub(crate) mod op_query;

use std::borrow::Cow;
use std::fmt;
use value::{DocBuf, Error, RawDoc, limits, validate};

/// An invalid message, after which the connection is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProtocolError(pub(crate) Cow<'static, str>);

impl ProtocolError {
    #[cold]
    pub(crate) fn new(reason: impl Into<Cow<'static, str>>) -> ProtocolError {
        ProtocolError(reason.into())
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a message is not a command.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// The rest of the stream cannot be trusted; the connection is closed.
    Protocol(ProtocolError),
    /// The frame is valid but its content is not; the reply is this error.
    Command(Error),
}

impl From<ProtocolError> for Rejected {
    fn from(error: ProtocolError) -> Rejected {
        Rejected::Protocol(error)
    }
}

impl From<Error> for Rejected {
    fn from(error: Error) -> Rejected {
        Rejected::Command(error)
    }
}

/// Reads numbers and texts from the front of a message; bytes that end too early are an error.
pub(crate) struct Reader<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn take(&mut self, size: usize) -> Result<&'a [u8], ProtocolError> {
        let (front, rest) = self
            .rest
            .split_at_checked(size)
            .ok_or_else(|| ProtocolError::new("a message ends too early"))?;
        self.rest = rest;
        Ok(front)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, ProtocolError> {
        let (&first, rest) = self
            .rest
            .split_first()
            .ok_or_else(|| ProtocolError::new("a message ends too early"))?;
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Result<i32, ProtocolError> {
        let (front, rest) = self
            .rest
            .split_first_chunk::<4>()
            .ok_or_else(|| ProtocolError::new("a message ends too early"))?;
        self.rest = rest;
        Ok(i32::from_le_bytes(*front))
    }

    /// A zero-terminated UTF-8 text.
    pub(crate) fn cstring(&mut self) -> Result<&'a str, ProtocolError> {
        let end = self
            .rest
            .iter()
            .position(|&byte| byte == 0)
            .ok_or_else(|| ProtocolError::new("a name in a message has no end"))?;
        let text = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(text)
            .map_err(|_| ProtocolError::new("a name in a message is not UTF-8"))
    }
}

/// Whether the documents of a message were validated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Nothing: they are validated where they are read.
    Unknown,
    /// They were validated, in the same message.
    Validated,
}

impl Content {
    /// The one document at the front of `bytes`, and what follows.
    #[inline]
    fn document(self, bytes: &[u8]) -> value::Result<(RawDoc<'_>, &[u8])> {
        if self == Content::Validated
            && let Some(size) = bytes.first_chunk::<4>()
            && let Some((doc, rest)) = bytes.split_at_checked(u32::from_le_bytes(*size) as usize)
        {
            return Ok((RawDoc::new(doc), rest));
        }
        document(bytes)
    }
}

/// Validates the one document at the front of `bytes`, its size too; gives it and what follows.
#[inline]
pub(crate) fn document(bytes: &[u8]) -> value::Result<(RawDoc<'_>, &[u8])> {
    let (doc, rest) = validate::validate_prefix(bytes, limits::DEPTH_MAX_WIRE)?;
    if doc.bytes().len() > limits::DOCUMENT_BYTES_MAX_INTERNAL {
        return Err(too_large(doc));
    }
    Ok((doc, rest))
}

#[cold]
fn too_large(doc: RawDoc<'_>) -> Error {
    let size = doc.bytes().len();
    Error::new(
        value::Code::BSON_OBJECT_TOO_LARGE,
        format!(
            "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and {}(16MB)",
            limits::DOCUMENT_BYTES_MAX_INTERNAL
        ),
    )
}

/// The body of the reply to a command that never reached the engine.
pub(crate) fn error_body(error: &Error) -> DocBuf {
    DocBuf::build(|doc| {
        doc.f64("ok", 0.0);
        doc.str("errmsg", error.message());
        doc.i32("code", error.code().0);
        doc.str("codeName", &error.code().name());
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_stops_at_the_end_instead_of_panicking() {
        let mut reader = Reader { rest: &[1, 0, 0, 0, b'a', 0, 9] };
        assert_eq!(reader.i32(), Ok(1));
        assert_eq!(reader.cstring(), Ok("a"));
        assert_eq!(reader.u8(), Ok(9));
        assert!(reader.u8().is_err());
        assert!(reader.i32().is_err());
        assert!(reader.cstring().is_err());
        assert!(reader.take(1).is_err());
    }

    #[test]
    fn a_document_above_the_internal_limit_is_refused_with_its_own_code() {
        let text = "a".repeat(limits::DOCUMENT_BYTES_MAX_INTERNAL);
        let big = DocBuf::build(|doc| {
            doc.str("x", &text);
        });
        let error = document(big.bytes()).expect_err("too large");
        assert_eq!(error.code().0, 10334);
    }
}
