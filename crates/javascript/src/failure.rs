//! Failures of functions.

use value::Error;

/// The reason of a failure.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the JavaScript engine; the context has the exception.
    Engine(rquickjs::Error),
    /// An error of this crate, such as a value that cannot be converted.
    Refused(Error),
}

impl From<rquickjs::Error> for Failure {
    fn from(error: rquickjs::Error) -> Failure {
        Failure::Engine(error)
    }
}
