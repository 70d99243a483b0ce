//! Why a function did not run to its end.

use value::Error;

/// Why something did not happen.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The engine says so; an exception waits in the context.
    Engine(rquickjs::Error),
    /// We say so.
    Refused(Error),
}

impl From<rquickjs::Error> for Failure {
    fn from(error: rquickjs::Error) -> Failure {
        Failure::Engine(error)
    }
}
