//! OP_MSG frames: 16 bytes of header, flags, one body, document sequences.

use crate::protocol_error;
use value::validate::validate_prefix;
use value::{RawDoc, Result};

/// The opcode of every message that this client sends.
pub(crate) const OP_MSG: i32 = 2013;
/// Flag: four bytes of CRC32C follow the sections.
const CHECKSUM_PRESENT: u32 = 1;
/// Flag: the sender wants no reply, or another message follows this one.
pub(crate) const MORE_TO_COME: u32 = 2;

/// A parsed OP_MSG.
#[derive(Debug)]
pub struct Message<'a> {
    /// The message's own number.
    pub request_id: i32,
    /// The number of the message that it answers.
    pub response_to: i32,
    /// The flag bits.
    pub flags: u32,
    /// The one body.
    pub body: RawDoc<'a>,
    /// Document sequences beside it.
    pub sequences: Vec<SectionRef<'a>>,
}

/// A document sequence of a message.
#[derive(Debug)]
pub struct SectionRef<'a> {
    /// The argument's name.
    pub name: &'a str,
    /// Documents, one after another.
    pub documents: &'a [u8],
}

impl<'a> Message<'a> {
    /// Whether another reply follows without a request.
    #[must_use]
    pub fn more_to_come(&self) -> bool {
        self.flags & MORE_TO_COME != 0
    }

    /// Reads a whole message, header included. Checksums are not verified: TCP has its own.
    ///
    /// # Errors
    /// `ProtocolError` for another opcode or broken sections, `InvalidBSON` for broken documents.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>> {
        let number =
            |at| i32_at(bytes, at).ok_or_else(|| protocol_error("the message is too short"));
        if number(12)? != OP_MSG {
            return Err(protocol_error("the message is not an OP_MSG"));
        }
        let flags = number(16)? as u32;
        let end = bytes.len() - if flags & CHECKSUM_PRESENT == 0 { 0 } else { 4 };
        let mut rest =
            bytes.get(20..end).ok_or_else(|| protocol_error("the message is too short"))?;
        let mut body = None;
        let mut sequences = Vec::new();
        while let Some((&kind, section)) = rest.split_first() {
            match kind {
                0 => {
                    let (doc, after) = validate_prefix(section, value::validate::DEPTH_LIMIT)?;
                    body = Some(doc);
                    rest = after;
                }
                1 => {
                    let wrong = || protocol_error("a document sequence has a wrong length");
                    let size = i32_at(section, 0).and_then(|n| usize::try_from(n).ok());
                    let (content, after) =
                        section.split_at_checked(size.ok_or_else(wrong)?).ok_or_else(wrong)?;
                    let content = content.get(4..).ok_or_else(wrong)?;
                    let name_end = content.iter().position(|&b| b == 0).ok_or_else(wrong)?;
                    let (name, documents) = content.split_at(name_end);
                    let name = std::str::from_utf8(name).map_err(|_| wrong())?;
                    let documents = documents.get(1..).unwrap_or(&[]);
                    sequences.push(SectionRef { name, documents });
                    rest = after;
                }
                _ => return Err(protocol_error("the message has a section of an unknown kind")),
            }
        }
        let body = body.ok_or_else(|| protocol_error("the message has no body"))?;
        Ok(Message { request_id: number(4)?, response_to: number(8)?, flags, body, sequences })
    }
}

/// One OP_MSG with a body alone.
#[must_use]
pub fn frame(request_id: i32, flags: u32, body: RawDoc<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.bytes().len() + 32);
    frame_into(&mut out, request_id, flags, body, "", &[]);
    out
}

/// Appends one OP_MSG to `out`; `documents` (if there are any) become a sequence called `name`.
pub fn frame_into(
    out: &mut Vec<u8>,
    request_id: i32,
    flags: u32,
    body: RawDoc<'_>,
    name: &str,
    documents: &[u8],
) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&request_id.to_le_bytes());
    out.extend_from_slice(&0i32.to_le_bytes());
    out.extend_from_slice(&OP_MSG.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.push(0);
    out.extend_from_slice(body.bytes());
    if !documents.is_empty() {
        out.push(1);
        let size = 4 + name.len() + 1 + documents.len();
        out.extend_from_slice(&(size as u32).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        out.extend_from_slice(documents);
    }
    let length = (out.len() - start) as u32;
    if let Some(slot) = out.get_mut(start..start + 4) {
        slot.copy_from_slice(&length.to_le_bytes());
    }
}

/// A little-endian number inside bytes.
pub(crate) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|chunk| i32::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::DocBuf;

    #[test]
    fn a_framed_message_is_read_back() {
        let body = DocBuf::build(|out| {
            out.i32("ping", 1);
        });
        let doc = DocBuf::build(|out| {
            out.i32("_id", 7);
        });
        let mut bytes = Vec::new();
        frame_into(&mut bytes, 9, MORE_TO_COME, body.as_doc(), "documents", doc.bytes());
        let message = Message::parse(&bytes).unwrap();
        assert_eq!(message.request_id, 9);
        assert!(message.more_to_come());
        assert_eq!(message.body, body.as_doc());
        assert_eq!(message.sequences.len(), 1);
        assert_eq!(message.sequences[0].name, "documents");
        assert_eq!(message.sequences[0].documents, doc.bytes());
    }

    #[test]
    fn a_cut_message_is_an_error_wherever_it_is_cut() {
        let body = DocBuf::build(|out| {
            out.str("hello", "world");
        });
        let bytes = frame(1, 0, body.as_doc());
        for length in 0..bytes.len() {
            assert!(Message::parse(&bytes[..length]).is_err(), "cut at {length}");
        }
    }
}
