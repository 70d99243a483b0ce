//! The bytes of messages: what a route must know of them, and the little that it changes.

use client::Message;
use value::{DocBuf, RawDoc, Val};

/// Flags of `OP_MSG`.
pub(crate) const CHECKSUM_PRESENT: u32 = 1;
pub(crate) const MORE_TO_COME: u32 = 1 << 1;
/// The opcode `OP_MSG`.
const OP_MSG: i32 = 2013;
/// Header, flags and the kind of the body's section: where the body of a reply begins.
const BODY_AT: usize = 21;
/// Size of a checksum.
const CHECKSUM_BYTES: usize = 4;

/// The flags of a message.
pub(crate) fn flags_of(message: &[u8]) -> u32 {
    let bytes = message.get(16..).and_then(|rest| rest.first_chunk::<4>());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The message without its checksum, for parts of it may change.
pub(crate) fn without_checksum(message: &[u8]) -> Vec<u8> {
    let end = message.len().saturating_sub(CHECKSUM_BYTES);
    let mut bytes = message.get(..end).unwrap_or(&[]).to_vec();
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    if let Some(slot) = bytes.get_mut(..4) {
        slot.copy_from_slice(&length.to_le_bytes());
    }
    let flags = flags_of(&bytes) & !CHECKSUM_PRESENT;
    if let Some(slot) = bytes.get_mut(16..20) {
        slot.copy_from_slice(&flags.to_le_bytes());
    }
    bytes
}

/// The body of a reply: the whole rest of the message, or what `Message` finds.
pub(crate) fn body_of(message: &[u8]) -> Option<&[u8]> {
    let has_opcode = message.get(12..16) == Some(&OP_MSG.to_le_bytes()[..]);
    if has_opcode && flags_of(message) & CHECKSUM_PRESENT == 0 && message.get(20) == Some(&0) {
        let body = message.get(BODY_AT..)?;
        let length = u32::from_le_bytes(*body.first_chunk::<4>()?) as usize;
        if body.len() == length && body.last() == Some(&0) {
            return Some(body);
        }
    }
    Message::parse(message).ok().map(|message| message.body.bytes())
}

/// The id of the cursor in a reply, and where it is.
pub(crate) fn cursor_of(reply: &[u8]) -> Option<(i64, usize)> {
    let (name, cursor) = RawDoc::new(reply).first()?;
    if name != "cursor" {
        return None;
    }
    let id = cursor.as_doc()?.find("id")?;
    let Val::Int64(number) = id.get() else { return None };
    let at = (id.bytes.as_ptr() as usize).checked_sub(reply.as_ptr() as usize)?;
    Some((number, at))
}

/// A `getMore` of another cursor.
pub(crate) fn with_cursor(command: RawDoc<'_>, id: i64) -> DocBuf {
    DocBuf::build(|out| {
        for (name, value) in command {
            if name == "getMore" {
                out.i64(name, id);
            } else {
                out.raw(name, value);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_of_a_reply_is_found_and_can_be_renamed() {
        let reply = DocBuf::build(|out| {
            out.doc("cursor", |out| {
                out.array("firstBatch", |_| {}).i64("id", 5).str("ns", "d.c");
            });
            out.f64("ok", 1.0);
        });
        let mut bytes = reply.bytes().to_vec();
        let (id, at) = cursor_of(&bytes).expect("a cursor");
        assert_eq!(id, 5);
        bytes[at..at + 8].copy_from_slice(&9i64.to_le_bytes());
        assert_eq!(cursor_of(&bytes).map(|(id, _)| id), Some(9));
        let other = DocBuf::build(|out| {
            out.i32("n", 1).f64("ok", 1.0);
        });
        assert_eq!(cursor_of(other.bytes()), None);
    }

    #[test]
    fn a_checksum_is_taken_off() {
        let body = DocBuf::build(|out| {
            out.i32("ping", 1).str("$db", "admin");
        });
        let plain = client::frame(3, 0, body.as_doc());
        let mut with = client::frame(3, CHECKSUM_PRESENT, body.as_doc());
        with.extend_from_slice(&[1, 2, 3, 4]);
        assert_eq!(without_checksum(&with), plain);
        assert_eq!(body_of(&plain), Some(body.bytes()));
    }
}
