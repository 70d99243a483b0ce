//! One encrypted connection: TLS records on one side, the bytes of messages on the other.
//!
//! The handshake is not a separate phase: it continues whenever bytes arrive, and is parked like an
//! incomplete message.

use crate::link::Link;
use rustls::server::ServerConnection;
use rustls::{ProtocolVersion, ServerConfig};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Bytes that are read from a socket at once: a record of the largest size, and a little.
const READ_BYTES: usize = 17 * 1024;

/// The state of an encrypted connection.
pub(crate) struct Secure {
    session: ServerConnection,
    /// Received bytes that are not yet processed, between `start` and `end`.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    records: Records,
    /// Decrypted bytes of messages that can be read.
    available: usize,
    /// Whether the client has sent its closing alert.
    ended: bool,
}

/// The result of one read from an encrypted connection.
pub(crate) enum ReadOutcome {
    /// Bytes of messages.
    Bytes(usize),
    /// Part of a record, or one that is not for us.
    Nothing,
    /// The handshake is complete.
    Opened,
    /// Nothing more will come.
    End,
}

/// Why an encrypted connection cannot continue.
pub(crate) enum Broken {
    /// The socket failed or timed out.
    Socket(io::Error),
    /// The client violates the protocol, or its certificate is not accepted.
    Tls(rustls::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Socket(error)
    }
}

impl Secure {
    /// Begins, with bytes that were read already.
    pub(crate) fn new(config: Arc<ServerConfig>, read: &[u8]) -> Result<Secure, rustls::Error> {
        let session = ServerConnection::new(config)?;
        let mut records = Records::default();
        records.pass(read);
        let (incoming, end) = (read.to_vec(), read.len());
        Ok(Secure { session, incoming, start: 0, end, records, available: 0, ended: false })
    }

    /// Whether the handshake is not complete.
    pub(crate) fn is_opening(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whether a record has begun to arrive.
    pub(crate) fn is_midway(&self) -> bool {
        self.is_opening() || self.records.is_midway()
    }

    /// Whether bytes were read from the socket that are not handled yet.
    pub(crate) fn has_pending(&self) -> bool {
        self.start < self.end || self.available > 0
    }

    /// Reads bytes of messages into `space`, with at most one read of the socket.
    pub(crate) fn read(&mut self, link: &Link, space: &mut [u8]) -> Result<ReadOutcome, Broken> {
        if !self.has_pending() {
            if self.ended {
                return Ok(ReadOutcome::End);
            }
            self.incoming.resize(READ_BYTES, 0);
            let count = (&mut link.stream()).read(&mut self.incoming)?;
            if count == 0 {
                return Ok(ReadOutcome::End);
            }
            (self.start, self.end) = (0, count);
            self.records.pass(self.incoming.get(..count).unwrap_or(&[]));
        }
        let was_opening = self.is_opening();
        while self.start < self.end && self.available == 0 {
            let mut rest = self.incoming.get(self.start..self.end).unwrap_or(&[]);
            let count = self.session.read_tls(&mut rest)?;
            self.start = if count == 0 { self.end } else { self.start + count };
            match self.session.process_new_packets() {
                Ok(state) => {
                    self.available = state.plaintext_bytes_to_read();
                    self.ended |= state.peer_has_closed();
                }
                Err(error) => {
                    // Sends the alert to the client, if possible.
                    let _ = self.flush(link);
                    return Err(Broken::Tls(error));
                }
            }
            self.flush(link)?;
        }
        if was_opening && !self.is_opening() {
            return Ok(ReadOutcome::Opened);
        }
        if self.available == 0 {
            return Ok(if self.ended { ReadOutcome::End } else { ReadOutcome::Nothing });
        }
        let count = self.session.reader().read(space)?;
        self.available = self.available.saturating_sub(count);
        Ok(ReadOutcome::Bytes(count))
    }

    fn flush(&mut self, link: &Link) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut link.stream()) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes some of `bytes` for sending. Returns how many.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.writer().write(bytes)
    }

    /// Sends taken bytes with one write.
    pub(crate) fn send(&mut self, link: &Link) -> io::Result<()> {
        self.session.write_tls(&mut link.stream()).map(|_| ())
    }

    /// Whether taken bytes are not yet sent.
    pub(crate) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    /// Frees the buffers that only an active connection needs.
    pub(crate) fn release_memory(&mut self) {
        if self.start == self.end {
            (self.incoming, self.start, self.end) = (Vec::new(), 0, 0);
        }
    }

    /// Sends the closing alert, as far as that is possible without waiting.
    pub(crate) fn send_close_notify(&mut self, link: &Link) {
        if self.session.wants_write() {
            return;
        }
        self.session.send_close_notify();
        let mut bytes = Vec::new();
        if self.session.write_tls(&mut bytes).is_ok() {
            link.send_if_possible(&bytes);
        }
    }

    /// The version of TLS, such as `1.3`.
    pub(crate) fn version(&self) -> &'static str {
        match self.session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "1.2",
            Some(ProtocolVersion::TLSv1_3) => "1.3",
            _ => "unknown",
        }
    }

    /// The name of the cipher.
    pub(crate) fn cipher(&self) -> &'static str {
        let suite = self.session.negotiated_cipher_suite();
        suite.and_then(|suite| suite.suite().as_str()).unwrap_or("unknown")
    }

    /// The host name that the client asked for (SNI), if any.
    pub(crate) fn called(&self) -> Option<&str> {
        self.session.server_name()
    }

    /// The certificate of the client, if it showed one. It was checked.
    pub(crate) fn client_certificate(&self) -> Option<&[u8]> {
        self.session.peer_certificates()?.first().map(AsRef::as_ref)
    }
}

/// Follows records by their headers, to know whether one is incomplete.
#[derive(Default)]
struct Records {
    /// Bytes of the current header that were seen, and the last two of them: the length.
    header: usize,
    length: u16,
    /// Bytes of the current record that are still to come.
    body: usize,
}

const RECORD_HEADER_BYTES: usize = 5;

impl Records {
    fn pass(&mut self, mut bytes: &[u8]) {
        loop {
            let skipped = self.body.min(bytes.len());
            self.body -= skipped;
            bytes = bytes.get(skipped..).unwrap_or(&[]);
            let Some((byte, rest)) = bytes.split_first() else { return };
            bytes = rest;
            self.header += 1;
            self.length = self.length << 8 | u16::from(*byte);
            if self.header == RECORD_HEADER_BYTES {
                self.body = usize::from(self.length);
                self.header = 0;
            }
        }
    }

    fn is_midway(&self) -> bool {
        self.header > 0 || self.body > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_followed_however_they_are_cut() {
        let record = |length: u16| {
            let mut bytes = vec![23, 3, 3];
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.resize(RECORD_HEADER_BYTES + usize::from(length), 0xAA);
            bytes
        };
        let all = [record(0), record(3), record(300), record(0), record(17_000)].concat();
        let ends = [5, 13, 318, 323, all.len()];
        for step in [1, 2, 7, 300, all.len()] {
            let mut records = Records::default();
            let mut passed = 0;
            for part in all.chunks(step) {
                records.pass(part);
                passed += part.len();
                assert_eq!(records.is_midway(), !ends.contains(&passed), "{step} {passed}");
            }
        }
    }
}
