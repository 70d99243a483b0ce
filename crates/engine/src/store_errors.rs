//! Errors of the store as clients see them.
//!
//! Layer: base.

use store::StoreError;
use value::{Code, Error};

/// Converts an error of the store into one for clients.
#[cold]
pub fn store_failed(error: StoreError) -> Error {
    let code = match &error {
        StoreError::Full => Code::OUT_OF_DISK_SPACE,
        StoreError::Interrupted => Code::INTERRUPTED,
        StoreError::SnapshotTooOld => Code::SNAPSHOT_TOO_OLD,
        StoreError::Corrupt { .. } => Code::DATA_CORRUPTION_DETECTED,
        StoreError::TooLarge { .. } => Code::OBSOLETE_KEY_TOO_LONG,
        _ => Code::INTERNAL_ERROR,
    };
    Error::new(code, error.to_string())
}
