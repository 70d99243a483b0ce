//! Errors of the store, with messages that say what to do about them.

use std::io;
use std::path::{Path, PathBuf};

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A failure of the store.
#[derive(thiserror::Error, Debug, Clone)]
pub enum StoreError {
    /// The operating system failed to read or write.
    #[error("cannot {action} {}: {message}; check the disk and the rights of the folder", file.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The path.
        file: PathBuf,
        /// The kind of error.
        kind: io::ErrorKind,
        /// The message of the operating system.
        message: String,
    },
    /// A checksum does not match or a structure cannot be read: the bytes differ from those
    /// written.
    #[error("{} is damaged{}: {what}; restore the data folder from a backup, or run `motif check` to list all damage and `motif repair` to copy what is readable to a new folder", file.display(), at(offset))]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// The offset in the file, if known.
        offset: Option<u64>,
        /// A description.
        what: String,
    },
    /// No room for another log segment. Nothing was applied; writes succeed again once there is
    /// room.
    #[error("the disk is full; nothing was written; free some space and try again")]
    Full,
    /// A write or flush of the log failed part way, so the log on disk may be incomplete.
    #[error(
        "writing stopped because the log could not be written ({reason}); reads go on; repair the disk and restart"
    )]
    Poisoned {
        /// The first failure.
        reason: String,
    },
    /// Another process uses the folder.
    #[error("{} is in use by another process; stop it or choose another folder", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds other things, and no store.
    #[error("{} is not a data folder: it holds other things, such as {found}; choose an empty folder, or one that does not exist", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// The folder has a format that this version does not know.
    #[error("{} has format {found}, this version reads {supported}; open it with the version that wrote it; if the file FORMAT is damaged, run `motif check` and `motif repair`", path.display())]
    Version {
        /// The folder.
        path: PathBuf,
        /// The content of its FORMAT file.
        found: String,
        /// The formats that this version reads.
        supported: String,
    },
    /// A key or batch exceeds a limit.
    #[error("too large: {what}")]
    TooLarge {
        /// Which limit was exceeded, and by what.
        what: String,
    },
    /// The data of a snapshot is no longer kept: it was open for too long, or held too much.
    #[error("the snapshot is too old: what it reads is not kept any more; read again")]
    SnapshotTooOld,
    /// The caller no longer wanted the operation while it waited. Nothing was applied.
    #[error("the operation was ended while it waited for the store; nothing was written")]
    Interrupted,
    /// The store is read-only.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

fn at(offset: &Option<u64>) -> String {
    offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default()
}

impl StoreError {
    pub(crate) fn io(action: &'static str, file: &Path, error: &io::Error) -> StoreError {
        if is_full(error) {
            return StoreError::Full;
        }
        StoreError::Io {
            action,
            file: file.to_path_buf(),
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

/// Whether the error means that the disk or the quota is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
