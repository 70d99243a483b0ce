//! `OP_MSG`: a command as a body and sequences of documents, with flags and maybe a checksum.
//!
//! As in MongoDB, two bodies, an unknown section or invalid BSON are answered with an error;
//! unknown required flags and a wrong checksum close the connection.

use super::header::{HEADER_BYTES, Header, OP_MSG, length_number};
use super::{Content, ProtocolError, Reader, Rejected};
use motifdb::Sequence;
use value::{Code, Error, RawDoc};

/// A CRC-32C of the message follows its sections.
pub(crate) const CHECKSUM_PRESENT: u32 = 1;
/// The sender sends another message without waiting; to a request: no reply is wanted.
pub(crate) const MORE_TO_COME: u32 = 1 << 1;
/// The client takes several replies to this request.
pub(crate) const EXHAUST_ALLOWED: u32 = 1 << 16;

/// Flags below bit 16 must be understood by the receiver; those above may be ignored.
const REQUIRED_FLAGS: u32 = 0xFFFF;
const CHECKSUM_BYTES: usize = 4;
/// Header, flags, and the kind of the body's section.
const REPLY_PREFIX_BYTES: usize = HEADER_BYTES + 4 + 1;

/// A frame whose flags and checksum are right; its sections are not looked at yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) flags: u32,
    sections: &'a [u8],
}

/// The sections of a message, validated.
pub(crate) struct Sections<'a> {
    pub(crate) body: RawDoc<'a>,
    pub(crate) sequences: Vec<Sequence<'a>>,
}

impl<'a> Frame<'a> {
    /// Reads the flags of a whole message, header included, and checks its checksum.
    #[inline]
    pub(crate) fn parse(message: &'a [u8]) -> Result<Frame<'a>, ProtocolError> {
        let mut reader = Reader { rest: message.get(HEADER_BYTES..).unwrap_or(&[]) };
        let flags = reader.i32()? as u32;
        if flags & REQUIRED_FLAGS & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
            return Err(ProtocolError::new(format!(
                "OP_MSG with unknown required flags {flags:#x}"
            )));
        }
        let mut sections = reader.rest;
        if flags & CHECKSUM_PRESENT != 0 {
            let (front, checksum) = sections
                .split_last_chunk::<CHECKSUM_BYTES>()
                .ok_or_else(|| ProtocolError::new("OP_MSG without its checksum"))?;
            let covered = message.get(..message.len() - CHECKSUM_BYTES).unwrap_or(&[]);
            if crc32c::crc32c(covered) != u32::from_le_bytes(*checksum) {
                return Err(ProtocolError::new("OP_MSG with a wrong checksum"));
            }
            sections = front;
        }
        Ok(Frame { flags, sections })
    }

    /// Reads the sections, and validates them, unless that was done.
    pub(crate) fn sections(&self, content: Content) -> Result<Sections<'a>, Rejected> {
        let mut reader = Reader { rest: self.sections };
        let mut body = None;
        let mut sequences: Vec<Sequence<'a>> = Vec::new();
        while !reader.rest.is_empty() {
            match reader.u8()? {
                0 => {
                    if body.is_some() {
                        return Err(refuse(40430, "Multiple body sections in message"));
                    }
                    let (doc, rest) = content.document(reader.rest)?;
                    reader.rest = rest;
                    body = Some(doc);
                }
                1 => {
                    let sequence = sequence(&mut reader, content)?;
                    if sequences.iter().any(|other| other.name == sequence.name) {
                        let text = format!("Duplicate document sequence: {}", sequence.name);
                        return Err(refuse(40431, &text));
                    }
                    sequences.push(sequence);
                }
                kind => return Err(refuse(40432, &format!("Unknown section kind {kind}"))),
            }
        }
        let Some(body) = body else {
            return Err(refuse(40587, "OP_MSG messages must have a body"));
        };
        for sequence in &sequences {
            if body.find(sequence.name).is_some() {
                let name = sequence.name;
                let text = format!("Duplicate field between body and document sequence {name}");
                return Err(refuse(40433, &text));
            }
        }
        Ok(Sections { body, sequences })
    }
}

#[cold]
fn refuse(code: i32, text: &str) -> Rejected {
    Rejected::Command(Error::new(Code(code), text))
}

fn sequence<'a>(reader: &mut Reader<'a>, content: Content) -> Result<Sequence<'a>, Rejected> {
    let size = usize::try_from(reader.i32()?).unwrap_or(0);
    let size = size
        .checked_sub(4)
        .ok_or_else(|| ProtocolError::new("a document sequence with a wrong size"))?;
    let mut inside = Reader { rest: reader.take(size)? };
    let name = inside.cstring()?;
    let documents = inside.rest;
    if content == Content::Unknown {
        let mut rest = documents;
        while !rest.is_empty() {
            rest = content.document(rest)?.1;
        }
    }
    Ok(Sequence { name, documents })
}

/// Begins a reply in an empty buffer, with space for everything before the body.
#[inline]
pub(crate) fn begin_reply(reply: &mut Vec<u8>) {
    reply.clear();
    reply.extend_from_slice(&[0; REPLY_PREFIX_BYTES]);
}

/// Ends a reply behind whose prefix a body was appended: header, flags, and maybe a checksum.
#[inline]
pub(crate) fn finish_reply(reply: &mut Vec<u8>, request_id: i32, response_to: i32, flags: u32) {
    let checksum = flags & CHECKSUM_PRESENT != 0;
    let length = reply.len() + if checksum { CHECKSUM_BYTES } else { 0 };
    Header { length, request_id, response_to, opcode: OP_MSG }.write(reply);
    if let Some(slot) = reply.get_mut(HEADER_BYTES..HEADER_BYTES + 4) {
        slot.copy_from_slice(&flags.to_le_bytes());
    }
    if checksum {
        let sum = crc32c::crc32c(reply);
        reply.extend_from_slice(&sum.to_le_bytes());
    }
    debug_assert_eq!(length_number(length), length_number(reply.len()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use value::DocBuf;

    fn ping() -> DocBuf {
        DocBuf::build(|doc| {
            doc.i32("ping", 1).str("$db", "admin");
        })
    }

    fn message(flags: u32, sections: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(&flags.to_le_bytes());
        for section in sections {
            bytes.extend_from_slice(section);
        }
        let length = bytes.len();
        Header { length, request_id: 1, response_to: 0, opcode: OP_MSG }.write(&mut bytes);
        bytes
    }

    fn body(doc: &DocBuf) -> Vec<u8> {
        [&[0], doc.bytes()].concat()
    }

    fn sequence(name: &str, documents: &[u8]) -> Vec<u8> {
        let size = (4 + name.len() + 1 + documents.len()) as i32;
        [&[1], &size.to_le_bytes()[..], name.as_bytes(), &[0], documents].concat()
    }

    fn code(message: &[u8]) -> i32 {
        match Frame::parse(message).expect("a frame").sections(Content::Unknown) {
            Err(Rejected::Command(error)) => error.code().0,
            Err(Rejected::Protocol(error)) => panic!("closed: {error}"),
            Ok(_) => 0,
        }
    }

    #[test]
    fn a_body_and_two_sequences_in_any_order_are_read() {
        let two = [ping().bytes(), ping().bytes()].concat();
        let bytes = message(0, &[&sequence("a", &two), &body(&ping()), &sequence("b", &[])]);
        let frame = Frame::parse(&bytes).expect("frame");
        let Ok(sections) = frame.sections(Content::Unknown) else { panic!("they are right") };
        assert_eq!(sections.body, ping().as_doc());
        let names: Vec<_> =
            sections.sequences.iter().map(|s| (s.name, s.documents.len())).collect();
        assert_eq!(names, [("a", two.len()), ("b", 0)]);
    }

    #[test]
    fn sections_that_were_validated_are_read_as_before() {
        let two = [ping().bytes(), ping().bytes()].concat();
        let bytes = message(0, &[&sequence("a", &two), &body(&ping()), &sequence("b", &[])]);
        let frame = Frame::parse(&bytes).expect("frame");
        let read = |content| frame.sections(content).expect("they are right");
        let (first, again) = (read(Content::Unknown), read(Content::Validated));
        assert_eq!(first.body, again.body);
        let all = |sections: &Sections<'_>| {
            let pairs =
                sections.sequences.iter().map(|one| (one.name.to_owned(), one.documents.to_vec()));
            pairs.collect::<Vec<_>>()
        };
        assert_eq!(all(&first), all(&again));
    }

    #[test]
    fn wrong_sections_have_the_codes_of_mongodb() {
        let ping = ping();
        assert_eq!(code(&message(0, &[&body(&ping)])), 0);
        assert_eq!(code(&message(0, &[&body(&ping), &body(&ping)])), 40430);
        assert_eq!(
            code(&message(0, &[&body(&ping), &sequence("a", &[]), &sequence("a", &[])])),
            40431
        );
        assert_eq!(code(&message(0, &[&[5], ping.bytes()])), 40432);
        assert_eq!(code(&message(0, &[&body(&ping), &sequence("ping", &[])])), 40433);
        assert_eq!(code(&message(0, &[])), 40587);
        assert_eq!(code(&message(0, &[&body(&ping), &sequence("a", &[5, 0, 0, 0, 7])])), 22);
        assert_eq!(code(&message(0, &[&[0, 200, 0, 0, 0, 1]])), 22);
    }

    #[test]
    fn a_section_that_reaches_beyond_the_message_closes() {
        let mut long = sequence("a", &[]);
        long[1] = 200;
        for wrong in
            [long, vec![1, 3, 0, 0, 0], vec![1, 255, 255, 255, 255], vec![1, 6, 0, 0, 0, 65, 66]]
        {
            let bytes = message(0, &[&wrong]);
            let frame = Frame::parse(&bytes).expect("frame");
            assert!(matches!(frame.sections(Content::Unknown), Err(Rejected::Protocol(_))));
        }
    }

    #[test]
    fn required_flags_that_are_unknown_close_and_others_are_ignored() {
        assert!(Frame::parse(&message(1 << 2, &[&body(&ping())])).is_err());
        assert!(Frame::parse(&message(1 << 15, &[&body(&ping())])).is_err());
        assert!(Frame::parse(&message(1 << 17 | EXHAUST_ALLOWED, &[&body(&ping())])).is_ok());
    }

    #[test]
    fn a_reply_with_a_checksum_is_accepted_and_a_changed_byte_is_not() {
        let mut reply = Vec::new();
        begin_reply(&mut reply);
        reply.extend_from_slice(ping().bytes());
        finish_reply(&mut reply, 3, 4, CHECKSUM_PRESENT);
        let frame = Frame::parse(&reply).expect("right checksum");
        assert!(
            frame.sections(Content::Unknown).is_ok_and(|sections| sections.body == ping().as_doc())
        );
        for at in 0..reply.len() {
            let mut changed = reply.clone();
            changed[at] ^= 0x40;
            // A change of the flag that announces the checksum leaves a message without one.
            let frame = Frame::parse(&changed);
            assert!(frame.is_err() || frame.is_ok_and(|f| f.flags & CHECKSUM_PRESENT == 0), "{at}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(frame) = Frame::parse(&bytes) {
                let _ = frame.sections(Content::Unknown);
            }
        }

        #[test]
        fn no_sections_make_the_parser_panic(
            kinds in proptest::collection::vec((0u8..3, 0i32..40, proptest::collection::vec(any::<u8>(), 0..20)), 0..5),
        ) {
            let mut sections = Vec::new();
            for (kind, size, bytes) in kinds {
                sections.push(kind);
                sections.extend_from_slice(&size.to_le_bytes());
                sections.extend_from_slice(&bytes);
            }
            let bytes = message(0, &[&sections]);
            let _ = Frame::parse(&bytes).map(|frame| frame.sections(Content::Unknown).is_ok());
        }
    }
}
