//! Shared code of `commitTransaction` and `abortTransaction`.

use super::Context;
use value::{Code, Error, Result};

/// The session and the number of the transaction to end.
pub(super) fn named(context: &Context<'_>) -> Result<([u8; 16], i64)> {
    context.session.zip(context.transaction).ok_or_else(|| {
        Error::new(
            Code::COMMAND_FAILED,
            format!("{} must be run within a transaction", context.name),
        )
    })
}
