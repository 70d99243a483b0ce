//! The channel to a client: plain or encrypted. Both kinds use the same address; the first bytes
//! distinguish them.

use crate::ServerOptions;
use crate::buffer::ReadBuffer;
use crate::link::{Link, Remote, is_passing};
use crate::secure::{Broken, ReadOutcome, Secure};
use crate::tls::{Tls, TlsMode};
use std::io;
use std::sync::Arc;

/// A client's socket and its protocol.
pub(crate) struct Channel {
    link: Arc<Link>,
    kind: Kind,
}

enum Kind {
    /// Not enough bytes were received to decide.
    Undecided,
    Plain,
    Secure(Box<Secure>),
}

/// The protocol of the first bytes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opening {
    Unknown,
    Message,
    Handshake,
}

/// Why a connection is refused at its first bytes.
pub(crate) const PLAIN_REFUSED: &str =
    "the client does not speak TLS, which this server requires (--tls-mode requireTLS)";
pub(crate) const TLS_REFUSED: &str =
    "the client speaks TLS, which this server does not (--tls-mode disabled)";

impl Channel {
    pub(crate) fn new(link: Arc<Link>) -> Channel {
        Channel { link, kind: Kind::Undecided }
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Whether `decide` must check the received bytes before they are read as messages.
    #[inline]
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self.kind, Kind::Undecided)
    }

    /// Whether the protocol is undecided or the TLS handshake incomplete.
    pub(crate) fn is_opening(&self) -> bool {
        match &self.kind {
            Kind::Undecided => true,
            Kind::Plain => false,
            Kind::Secure(secure) => secure.is_opening(),
        }
    }

    /// Whether an incomplete record has arrived that is not in `ReadBuffer`.
    #[inline]
    pub(crate) fn is_midway(&self) -> bool {
        match &self.kind {
            Kind::Undecided | Kind::Plain => false,
            Kind::Secure(secure) => secure.is_midway(),
        }
    }

    /// Whether there are received bytes that a poll of the socket does not report.
    pub(crate) fn has_pending(&self) -> bool {
        match &self.kind {
            Kind::Undecided | Kind::Plain => false,
            Kind::Secure(secure) => secure.has_pending(),
        }
    }

    /// Determines the protocol from the first bytes, which are in `input`.
    ///
    /// # Errors
    /// A sentence, if this server does not take that kind.
    pub(crate) fn decide(
        &mut self,
        tls: Option<&Tls>,
        input: &mut ReadBuffer,
    ) -> Result<(), String> {
        match (opening(input.unread()), tls) {
            (Opening::Unknown, _) => {}
            (Opening::Handshake, None) => return Err(TLS_REFUSED.to_owned()),
            (Opening::Handshake, Some(tls)) => {
                let config = Arc::clone(&tls.identity().config);
                let secure =
                    Secure::new(config, input.unread()).map_err(|error| error.to_string())?;
                let length = input.unread().len();
                input.consume(length);
                self.link.set_secure();
                self.kind = Kind::Secure(Box::new(secure));
            }
            // What goes through a Unix socket does not leave the machine.
            (Opening::Message, Some(tls))
                if tls.mode() == TlsMode::Require && self.link.remote() != Remote::Unix =>
            {
                return Err(PLAIN_REFUSED.to_owned());
            }
            (Opening::Message, _) => self.kind = Kind::Plain,
        }
        Ok(())
    }

    /// Reads into `input`, once.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        input: &mut ReadBuffer,
        wanted: usize,
    ) -> Result<ReadOutcome, Broken> {
        match &mut self.kind {
            Kind::Undecided | Kind::Plain => {
                let count =
                    input.fill(wanted, |space| io::Read::read(&mut self.link.stream(), space))?;
                Ok(if count == 0 { ReadOutcome::End } else { ReadOutcome::Bytes(count) })
            }
            Kind::Secure(secure) => {
                let mut step = ReadOutcome::Nothing;
                input.fill(wanted, |space| {
                    step = secure.read(&self.link, space)?;
                    Ok::<_, Broken>(if let ReadOutcome::Bytes(count) = step { count } else { 0 })
                })?;
                Ok(step)
            }
        }
    }

    /// Sends all of `bytes`; fails if the client reads too slowly.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8], options: &ServerOptions) -> io::Result<()> {
        match &mut self.kind {
            Kind::Undecided | Kind::Plain => self.link.send(bytes, options),
            Kind::Secure(secure) => send_secure(secure, &self.link, bytes, options),
        }
    }

    /// The encryption, if there is one.
    pub(crate) fn secure(&self) -> Option<&Secure> {
        match &self.kind {
            Kind::Secure(secure) => Some(secure),
            _ => None,
        }
    }

    /// Frees the buffers that only an active connection needs.
    pub(crate) fn release_memory(&mut self) {
        if let Kind::Secure(secure) = &mut self.kind {
            secure.release_memory();
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Kind::Secure(secure) = &mut self.kind {
            secure.send_close_notify(&self.link);
        }
    }
}

fn send_secure(
    secure: &mut Secure,
    link: &Link,
    bytes: &[u8],
    options: &ServerOptions,
) -> io::Result<()> {
    let mut rest = bytes;
    let mut pace = link.pace(bytes.len(), options);
    loop {
        let taken = secure.take(rest)?;
        rest = rest.get(taken..).unwrap_or(&[]);
        match secure.send(link) {
            Ok(()) => {}
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        if rest.is_empty() && !secure.wants_write() {
            return Ok(());
        }
        pace.check()?;
    }
}

/// A TLS handshake begins with a record type (22) and a version (3.1 to 3.4). A message begins with
/// its little-endian length: one with the same first bytes would have 66,326 bytes or more, which
/// the first message of a connection never has.
fn opening(bytes: &[u8]) -> Opening {
    match bytes {
        [] | [0x16] | [0x16, 3] => Opening::Unknown,
        [0x16, 3, 1..=4, ..] => Opening::Handshake,
        _ => Opening::Message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_told_from_messages_of_any_usual_length() {
        assert_eq!(opening(&[0x16, 3, 1, 2, 0, 1]), Opening::Handshake);
        assert_eq!(opening(&[0x16, 3]), Opening::Unknown);
        for length in (16u32..66_326).chain([48_000_000]) {
            assert_eq!(opening(&length.to_le_bytes()), Opening::Message, "{length}");
        }
    }
}
