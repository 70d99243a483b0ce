//! The reply to a command whose member cannot be reached: the code and the labels by which drivers
//! try again, as from a router.

use crate::calls::is_in_transaction;
use value::{Code, Error, RawDoc, Val, Writer};

/// Appends the reply to a command that the cluster could not run.
pub(crate) fn write(command: RawDoc<'_>, error: &Error, reply: &mut Vec<u8>) {
    value::writer::write_doc(reply, |out: &mut Writer<'_>| {
        out.f64("ok", 0.0).str("errmsg", error.message());
        out.i32("code", error.code().0).str("codeName", &error.code().name());
        if let Some(label) = label(command, error) {
            out.array("errorLabels", |list| list.push(Val::String(label)));
        }
    });
}

/// An error of the connection to a member.
pub(crate) fn lost(address: &str, error: &Error) -> Error {
    let text = format!("the connection to {address} failed: {}", error.message());
    Error::new(Code::HOST_UNREACHABLE, text)
}

/// Whether and what the driver may try again.
fn label(command: RawDoc<'_>, error: &Error) -> Option<&'static str> {
    let passing = [Code::HOST_UNREACHABLE, Code::FAILED_TO_SATISFY_READ_PREFERENCE];
    if !passing.contains(&error.code()) {
        return None;
    }
    let name = command.first().map_or("", |(name, _)| name);
    if matches!(name, "commitTransaction" | "abortTransaction") {
        return Some("RetryableWriteError");
    }
    if is_in_transaction(command) {
        return Some("TransientTransactionError");
    }
    command.find("txnNumber").map(|_| "RetryableWriteError")
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    #[test]
    fn labels_say_what_may_be_tried_again() {
        let lost = lost("a:1", &Error::new(Code(9001), "end of file"));
        let label_of =
            |command: &str| label(ejson::parse_doc(command).expect("a document").as_doc(), &lost);
        assert_eq!(label_of("{insert: 'c', txnNumber: 1}"), Some("RetryableWriteError"));
        assert_eq!(label_of("{insert: 'c'}"), None);
        assert_eq!(
            label_of("{insert: 'c', txnNumber: 1, autocommit: false}"),
            Some("TransientTransactionError")
        );
        assert_eq!(
            label_of("{commitTransaction: 1, txnNumber: 1, autocommit: false}"),
            Some("RetryableWriteError")
        );
        assert_eq!(label(RawDoc::empty(), &Error::new(Code(2), "no")), None);
    }
}
