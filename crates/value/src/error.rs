//! The error type of replies: MongoDB's code, a message, and further fields of the reply.
//!
//! An error gets its code where it is made. Replies are printed from it in `engine/reply`.

use crate::{Code, DocBuf, Val};
use std::fmt;

/// The result of operations that can fail because of a client's request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with MongoDB's code. One pointer wide, so that `Result` stays small.
#[derive(Clone)]
pub struct Error(Box<Failure>);

#[derive(Clone)]
struct Failure {
    code: Code,
    message: String,
    labels: Vec<&'static str>,
    /// Further fields of the reply (`keyPattern`, `errInfo`, ...).
    info: Option<DocBuf>,
}

impl Error {
    /// An error with a code and a message.
    #[cold]
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error(Box::new(Failure { code, message: message.into(), labels: Vec::new(), info: None }))
    }

    /// A value that cannot be used (2).
    #[cold]
    pub fn bad_value(message: impl Into<String>) -> Error {
        Error::new(Code::BAD_VALUE, message)
    }

    /// A value of the wrong type (14).
    #[cold]
    pub fn type_mismatch(message: impl Into<String>) -> Error {
        Error::new(Code::TYPE_MISMATCH, message)
    }

    /// A request that cannot be understood (9).
    #[cold]
    pub fn failed_to_parse(message: impl Into<String>) -> Error {
        Error::new(Code::FAILED_TO_PARSE, message)
    }

    /// A bug of ours (1).
    #[cold]
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(Code::INTERNAL_ERROR, message)
    }

    /// Adds an error label, as drivers read them.
    #[must_use]
    pub fn with_label(mut self, label: &'static str) -> Error {
        if !self.0.labels.contains(&label) {
            self.0.labels.push(label);
        }
        self
    }

    /// Adds fields to the reply (each field of `info` becomes one of the error document).
    #[must_use]
    pub fn with_info(mut self, info: DocBuf) -> Error {
        self.0.info = Some(info);
        self
    }

    /// Prepends text to the message, for context.
    #[must_use]
    pub fn context(mut self, prefix: impl fmt::Display) -> Error {
        self.0.message = format!("{prefix}{}", self.0.message);
        self
    }

    /// Appends text to the message.
    #[must_use]
    pub fn followed_by(mut self, suffix: impl fmt::Display) -> Error {
        self.0.message = format!("{}{suffix}", self.0.message);
        self
    }

    /// The MongoDB code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The labels that drivers read.
    #[must_use]
    pub fn labels(&self) -> &[&'static str] {
        &self.0.labels
    }

    /// Whether the error has a label.
    #[must_use]
    pub fn contains_label(&self, label: &str) -> bool {
        let others =
            self.info().and_then(|info| info.as_doc().get("errorLabels").and_then(Val::as_array));
        self.0.labels.contains(&label)
            || others
                .is_some_and(|all| all.iter().any(|(_, other)| other.get().as_str() == Some(label)))
    }

    /// Further fields of the error document.
    #[must_use]
    pub fn info(&self) -> Option<&DocBuf> {
        self.0.info.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.0.code.name(), self.0.code.0, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
