//! The wire protocol without sockets, for the fuzz targets: the same buffer, frames and
//! compression that a connection uses, and the laws that hold between them.

use crate::buffer::{Front, ReadBuffer};
use crate::wire::header::{HEADER_BYTES, Header, OP_COMPRESSED, OP_MSG, OP_QUERY};
use crate::wire::op_compressed::{Compressor, Packer, unpack};
use crate::wire::op_msg::{CHECKSUM_PRESENT, EXHAUST_ALLOWED, Frame, MORE_TO_COME};
use crate::wire::{Content, Rejected, op_msg, op_query};
use motifdb::{Client, Flow, Request};

/// Reads messages from bytes that arrive `step` at a time and runs them as `client`, until the
/// bytes end or are no message. Gives how many messages were answered.
///
/// # Panics
/// When a reply is not a message that a client could read.
pub fn converse(client: &mut Client, bytes: &[u8], step: usize) -> usize {
    let mut input = ReadBuffer::default();
    let mut rest = bytes;
    let mut unpacked = Vec::new();
    let mut answered = 0;
    loop {
        let (length, goes_on) = match input.front() {
            Err(_) => return answered,
            Ok(Front::Part(wanted)) => {
                let (mut front, behind) =
                    rest.split_at(step.clamp(1, rest.len().max(1)).min(rest.len()));
                let offered = front.len();
                let read = |space: &mut [u8]| std::io::Read::read(&mut front, space);
                if !matches!(input.fill(wanted, read), Ok(1..)) {
                    return answered;
                }
                // What did not fit is offered again.
                let taken = offered - front.len();
                rest = rest.get(taken..).unwrap_or(behind);
                continue;
            }
            Ok(Front::Message(header, message)) if header.opcode == OP_COMPRESSED => {
                let goes_on = match unpack(header, message, &mut unpacked) {
                    Ok((inner, _)) => answer(client, inner, &unpacked),
                    Err(_) => false,
                };
                (header.length, goes_on)
            }
            Ok(Front::Message(header, message)) => (header.length, answer(client, header, message)),
        };
        if !goes_on {
            return answered;
        }
        answered += 1;
        input.consume(length);
    }
}

/// Answers one message; false when the connection would be closed.
fn answer(client: &mut Client, header: Header, message: &[u8]) -> bool {
    let mut reply = Vec::new();
    match header.opcode {
        OP_MSG => {
            let Ok(frame) = Frame::parse(message) else { return false };
            op_msg::begin_reply(&mut reply);
            match frame.sections(Content::Unknown) {
                Err(Rejected::Protocol(_)) => return false,
                Err(Rejected::Command(error)) => {
                    reply.extend_from_slice(crate::wire::error_body(&error).bytes());
                }
                Ok(sections) => {
                    let request = Request {
                        sequences: &sections.sequences,
                        exhaust_allowed: frame.flags & EXHAUST_ALLOWED != 0,
                        ..Request::new(sections.body)
                    };
                    if matches!(client.run(&request, &mut reply), Flow::Abort | Flow::Close) {
                        return false;
                    }
                }
            }
            if frame.flags & MORE_TO_COME == 0 {
                op_msg::finish_reply(
                    &mut reply,
                    1,
                    header.request_id,
                    frame.flags & CHECKSUM_PRESENT,
                );
                check_reply(&reply);
            }
            true
        }
        OP_QUERY => {
            let Ok(query) = op_query::parse(message) else { return false };
            op_query::begin_reply(&mut reply);
            let body = query.body.as_doc();
            let request = Request::new(body);
            if matches!(client.run(&request, &mut reply), Flow::Abort | Flow::Close) {
                return false;
            }
            op_query::finish_reply(&mut reply, 1, header.request_id);
            let header = Header::parse(&reply).expect("a reply begins with a header");
            assert_eq!(header.map(|header| header.length), Some(reply.len()));
            true
        }
        _ => false,
    }
}

/// A reply reads back as one message with one body.
fn check_reply(reply: &[u8]) {
    let header = Header::parse(reply).expect("a reply begins with a header").expect("a whole one");
    assert_eq!(header.length, reply.len());
    let frame = Frame::parse(reply).expect("a reply is a frame");
    let sections = frame.sections(Content::Unknown);
    assert!(
        sections.is_ok_and(|sections| sections.sequences.is_empty()),
        "a reply is one document"
    );
}

/// Unpacks the content of a compressed message as a client may have made it; what unpacks must
/// pack and unpack to itself again, by every compressor.
///
/// # Panics
/// When it does not.
pub fn unpack_and_pack(content: &[u8]) -> Option<usize> {
    let mut packed = vec![0; HEADER_BYTES];
    packed.extend_from_slice(content);
    let length = packed.len();
    let header = Header { length, request_id: 1, response_to: 0, opcode: OP_COMPRESSED };
    header.write(&mut packed);
    let mut message = Vec::new();
    let (inner, _) = unpack(header, &packed, &mut message).ok()?;
    assert_eq!(inner.length, message.len(), "the header knows the size of what was unpacked");
    let mut packer = Packer::default();
    for compressor in [Compressor::None, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
        // A message of a kind that nobody knows is never answered, so never packed.
        let Some(again) = packer.pack(&message, compressor).map(<[u8]>::to_vec) else { continue };
        let header = Header::parse(&again).expect("a header").expect("a whole one");
        let mut copy = Vec::new();
        unpack(header, &again, &mut copy).expect("what was packed unpacks");
        assert!(copy == message, "what was packed unpacks to itself");
    }
    Some(message.len())
}

/// The content of a message that is packed by the compressor of this number: an input for
/// `unpack_and_pack`.
#[must_use]
pub fn packed(content: &[u8], number: u8) -> Option<Vec<u8>> {
    let mut message = vec![0; HEADER_BYTES];
    message.extend_from_slice(content);
    let length = message.len();
    Header { length, request_id: 1, response_to: 0, opcode: OP_MSG }.write(&mut message);
    let mut packer = Packer::default();
    let packed = packer.pack(&message, Compressor::from_number(number)?)?;
    packed.get(HEADER_BYTES..).map(<[u8]>::to_vec)
}
