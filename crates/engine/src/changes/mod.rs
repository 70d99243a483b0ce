//! The change log: the changes of every commit, in commit order.
//!
//! While a transaction runs it keeps `notes` of the documents that it changes. Its commit turns
//! them into one `record`, which is written in the same batch as the changes themselves and gets
//! the next cluster times. `log` publishes records to readers, the newest from memory; `limits`
//! sets how much is kept. `catalog` logs the changes of collections and indexes. The readers of the
//! log are in `change_streams`.
//!
//! Layer: transactions.

mod catalog;
pub(crate) mod limits;
pub(crate) mod log;
mod notes;
pub(crate) mod record;

pub(crate) use catalog::{Cause, note_catalog};
pub(crate) use log::ChangeLog;
pub(crate) use notes::{Notes, keeps_images, logs_images};
