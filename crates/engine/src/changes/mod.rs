//! The log of changes: what every commit did, in commit order, for those who follow it.
//!
//! While a transaction runs it keeps `notes` of the documents that it changes; its commit turns
//! them into one `record`, which is written in the same batch as the changes themselves and gets
//! the next cluster times. `log` publishes records to readers, the newest from memory, `retention`
//! drops the oldest. `catalog` notes what commands did to collections and indexes. `oplog` shows
//! records as `local.oplog.rs`, `event` and `stream` as change streams; `token` is where a stream
//! can go on.
//!
//! Layer: transactions.

mod catalog;
mod event;
mod follow;
mod log;
mod notes;
pub(crate) mod oplog;
mod record;
pub(crate) mod retention;
mod split;
mod stream;
mod token;

pub(crate) use catalog::{Cause, note_catalog};
pub(crate) use event::{Image, Wanted, Watched};
pub(crate) use log::ChangeLog;
pub(crate) use notes::{Notes, keeps_images};
pub(crate) use stream::{Changes, Feed, Place, Start, wait_for_more};
