//! The reasons for which a connection ends.

use crate::secure::Broken;
use crate::wire::ProtocolError;
use std::io;

/// Why a connection ends.
pub(crate) enum Ending {
    /// The client closed it, or the server stops.
    Ordinary,
    /// The client violated the protocol.
    Protocol(ProtocolError),
    /// The TLS handshake failed, or the client's certificate was refused.
    Secure(String),
    /// A time limit was exceeded.
    Late(&'static str),
    /// The socket failed.
    Failed(io::Error),
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Ending {
        Ending::Failed(error)
    }
}

impl From<Broken> for Ending {
    fn from(broken: Broken) -> Ending {
        match broken {
            Broken::Socket(error) => Ending::Failed(error),
            Broken::Tls(error) => Ending::Secure(error.to_string()),
        }
    }
}

impl From<ProtocolError> for Ending {
    fn from(error: ProtocolError) -> Ending {
        Ending::Protocol(error)
    }
}
