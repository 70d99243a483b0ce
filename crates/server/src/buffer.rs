//! The bytes that a client sent and that are not yet processed.
//!
//! One read takes all bytes that have arrived, often several messages. The buffer grows with
//! received bytes, never with the length in a header, and shrinks when no more large messages
//! arrive.

use crate::wire::ProtocolError;
use crate::wire::header::{HEADER_BYTES, Header};

/// Buffers of messages and replies above this are freed after the message that needed them.
pub(crate) const BUFFER_KEEP_BYTES: usize = 1024 * 1024;
/// The size of the buffer of an active connection.
const SMALL_BYTES: usize = 16 * 1024;
/// A larger buffer is freed after `CALM_MESSAGES` messages that did not need it.
const LARGE_BYTES: usize = 256 * 1024;
const CALM_MESSAGES: u32 = 16;

/// A growing buffer; the unprocessed bytes are between `start` and `end`.
#[derive(Default)]
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Consecutive messages for which a small buffer was sufficient.
    calm: u32,
}

/// The content at the front of a buffer.
pub(crate) enum Front<'a> {
    /// A part of a message, or nothing; with the size of the whole message, as far as known.
    Part(usize),
    /// A whole message, header included.
    Message(Header, &'a [u8]),
}

impl ReadBuffer {
    /// Bytes that arrived and are not handled.
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or(&[])
    }

    /// Whether nothing waits to be handled.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The next message, if all of it is there.
    #[inline]
    pub(crate) fn front(&self) -> Result<Front<'_>, ProtocolError> {
        let unread = self.unread();
        let Some(header) = Header::parse(unread)? else { return Ok(Front::Part(HEADER_BYTES)) };
        Ok(match unread.get(..header.length) {
            Some(message) => Front::Message(header, message),
            None => Front::Part(header.length),
        })
    }

    /// Memory that the buffer takes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Memory that the buffer will take after the next `fill`.
    pub(crate) fn planned(&self, wanted: usize) -> usize {
        let unread = self.end - self.start;
        self.bytes.len().max(wanted.min(unread.saturating_mul(2)))
    }

    /// Calls `read` once, with the space for its bytes. `wanted` is the size of the message that is
    /// being read, if it is known.
    pub(crate) fn fill<E>(
        &mut self,
        wanted: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.make_room(wanted);
        let space = self.bytes.get_mut(self.end..).unwrap_or(&mut []);
        let count = read(space)?;
        self.end += count;
        Ok(count)
    }

    /// Removes a processed message.
    pub(crate) fn consume(&mut self, length: usize) {
        self.start = (self.start + length).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        if self.bytes.len() <= LARGE_BYTES || length > LARGE_BYTES / 4 {
            self.calm = 0;
            return;
        }
        self.calm += 1;
        if self.calm >= CALM_MESSAGES && self.end - self.start <= SMALL_BYTES {
            let mut small = vec![0; SMALL_BYTES];
            let unread = self.unread();
            if let Some(front) = small.get_mut(..unread.len()) {
                front.copy_from_slice(unread);
            }
            *self = ReadBuffer { end: unread.len(), bytes: small, start: 0, calm: 0 };
        }
    }

    /// Frees the memory, except for a part of a message.
    ///
    /// A large part is not copied: it fills at least half of the buffer, and copying it at each
    /// pause of a slow client would be expensive.
    pub(crate) fn release(&mut self) {
        if self.is_empty() {
            *self = ReadBuffer::default();
        } else if self.unread().len() < SMALL_BYTES {
            let unread = self.unread().to_vec();
            *self = ReadBuffer { start: 0, end: unread.len(), bytes: unread, calm: 0 };
        }
    }

    /// Makes room after the unread bytes by moving them to the front or by doubling the buffer.
    fn make_room(&mut self, wanted: usize) {
        if self.bytes.is_empty() {
            self.bytes.resize(SMALL_BYTES, 0);
        }
        let unread = self.end - self.start;
        let fits = self.bytes.len() - self.start >= wanted && self.end < self.bytes.len();
        if fits {
            return;
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = unread;
        }
        if self.bytes.len() < wanted || self.end == self.bytes.len() {
            // Twice the received bytes, so that memory is proportional to what a client sends.
            let size = wanted.min(unread.saturating_mul(2)).max(SMALL_BYTES).max(self.end + 1);
            if size > self.bytes.len() {
                self.bytes.reserve_exact(size - self.bytes.len());
                self.bytes.resize(size, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{self, Read};

    fn message(length: usize, fill: u8) -> Vec<u8> {
        let mut bytes = vec![fill; length];
        Header { length, request_id: i32::from(fill), response_to: 0, opcode: 1 }.write(&mut bytes);
        bytes
    }

    /// Hands out at most `step` bytes a read.
    struct Drip<'a> {
        bytes: &'a [u8],
        step: usize,
    }

    impl Read for Drip<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            assert!(!into.is_empty(), "a read into no space looks like the end");
            let count = self.step.min(into.len()).min(self.bytes.len());
            into[..count].copy_from_slice(&self.bytes[..count]);
            self.bytes = &self.bytes[count..];
            Ok(count)
        }
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in(
            lengths in proptest::collection::vec(prop_oneof![16usize..200, 10_000usize..700_000], 1..12),
            step in prop_oneof![1usize..100, 1000usize..100_000],
        ) {
            let step = step.max(lengths.iter().sum::<usize>() / 2000);
            let messages: Vec<_> =
                lengths.iter().enumerate().map(|(i, l)| message(*l, i as u8)).collect();
            let all = messages.concat();
            let mut source = Drip { bytes: &all, step };
            let mut buffer = ReadBuffer::default();
            for expected in &messages {
                loop {
                    let wanted = match buffer.front().expect("right lengths") {
                        Front::Message(_, found) => {
                            prop_assert_eq!(found, &expected[..]);
                            break;
                        }
                        Front::Part(wanted) => wanted,
                    };
                    prop_assert!(buffer.fill(wanted, |space| source.read(space)).expect("reads") > 0);
                }
                buffer.consume(expected.len());
            }
            prop_assert!(buffer.is_empty());
        }
    }

    #[test]
    fn a_promise_of_a_large_message_takes_no_memory() {
        let mut head = message(16, 0);
        head[..4].copy_from_slice(&48_000_000i32.to_le_bytes());
        let mut buffer = ReadBuffer::default();
        buffer.fill(HEADER_BYTES, |space| (&head[..]).read(space)).expect("reads");
        buffer.fill(48_000_000, |space| (&[1u8, 2][..]).read(space)).expect("reads");
        assert!(buffer.bytes.capacity() <= 2 * SMALL_BYTES);
        buffer.release();
        assert_eq!(buffer.bytes.capacity(), 18);
    }

    #[test]
    fn a_large_buffer_is_given_back_when_messages_are_small_again() {
        let mut buffer = ReadBuffer::default();
        let mut pass = |length: usize| {
            let bytes = message(length, 1);
            let mut source = &bytes[..];
            while !source.is_empty() {
                buffer.fill(length, |space| source.read(space)).expect("reads");
            }
            buffer.consume(length);
            buffer.bytes.capacity()
        };
        assert!(pass(4_000_000) >= 4_000_000);
        let after: Vec<_> = (0..CALM_MESSAGES).map(|_| pass(100)).collect();
        assert_eq!(after.last(), Some(&SMALL_BYTES));
    }
}
