//! The sixteen bytes in front of every message: length, two numbers, and what kind it is.

use super::ProtocolError;
use value::limits::MESSAGE_BYTES_MAX;

/// Size of a header in bytes.
pub(crate) const HEADER_BYTES: usize = 16;

/// Reply to an `OP_QUERY`.
pub(crate) const OP_REPLY: i32 = 1;
/// The old form of a command, still used for handshakes.
pub(crate) const OP_QUERY: i32 = 2004;
/// A compressed message of another kind.
pub(crate) const OP_COMPRESSED: i32 = 2012;
/// The form of all commands today.
pub(crate) const OP_MSG: i32 = 2013;

/// A message header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Bytes of the message, header included.
    pub(crate) length: usize,
    /// Number that the sender gave the message.
    pub(crate) request_id: i32,
    /// Number of the message that this one answers.
    pub(crate) response_to: i32,
    /// What kind of message it is.
    pub(crate) opcode: i32,
}

impl Header {
    /// Reads a header; `None` while there are fewer than sixteen bytes.
    ///
    /// Length and opcode are checked before the rest is there, so that a client that speaks
    /// another protocol (a TLS greeting has a possible length) is noticed at its first bytes.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Header>, ProtocolError> {
        let Some(length) = number_at(bytes, 0) else { return Ok(None) };
        let length = usize::try_from(length)
            .ok()
            .filter(|length| (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(length))
            .ok_or_else(|| bad_length(length))?;
        match (number_at(bytes, 4), number_at(bytes, 8), number_at(bytes, 12)) {
            (Some(request_id), Some(response_to), Some(opcode)) => {
                if !matches!(opcode, OP_MSG | OP_QUERY | OP_COMPRESSED | OP_REPLY) {
                    return Err(bad_opcode(opcode));
                }
                Ok(Some(Header { length, request_id, response_to, opcode }))
            }
            _ => Ok(None),
        }
    }

    /// Writes the header over the first sixteen bytes of a message that lies in `message`.
    pub(crate) fn write(self, message: &mut [u8]) {
        let mut bytes = [0; HEADER_BYTES];
        let numbers = [length_number(self.length), self.request_id, self.response_to, self.opcode];
        for (slot, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
        if let Some(front) = message.first_chunk_mut::<HEADER_BYTES>() {
            *front = bytes;
        }
    }
}

#[cold]
fn bad_length(length: i32) -> ProtocolError {
    ProtocolError::new(format!("a message claims {length} bytes"))
}

#[cold]
fn bad_opcode(opcode: i32) -> ProtocolError {
    ProtocolError::new(format!("unsupported opcode {opcode}"))
}

#[inline]
fn number_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk::<4>().map(|chunk| i32::from_le_bytes(*chunk))
}

/// A length as the wire has it. Messages stay far below two gigabytes.
pub(crate) fn length_number(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_writing_and_reading() {
        let header = Header { length: 26, request_id: 7, response_to: -1, opcode: OP_MSG };
        let mut bytes = [0; 20];
        header.write(&mut bytes);
        assert_eq!(Header::parse(&bytes), Ok(Some(header)));
    }

    #[test]
    fn lengths_are_checked_at_and_beyond_their_edges() {
        let with_length = |length: i32| {
            let mut bytes = [0u8; 16];
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            bytes[12..].copy_from_slice(&OP_MSG.to_le_bytes());
            Header::parse(&bytes)
        };
        assert!(with_length(16).is_ok());
        assert!(with_length(48_000_000).is_ok());
        for wrong in [0, 15, -1, i32::MIN, i32::MAX, 48_000_001] {
            assert!(with_length(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_part_of_a_header_is_waited_for_unless_its_length_is_wrong() {
        assert_eq!(Header::parse(&[]), Ok(None));
        assert_eq!(Header::parse(&[16, 0, 0]), Ok(None));
        assert_eq!(Header::parse(&[16, 0, 0, 0, 1]), Ok(None));
        assert!(Header::parse(b"GET ").is_err());
        assert!(Header::parse(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdef").is_err());
    }
}
