//! Readers of the change log: change streams and the oplog.
//!
//! `follow` reads change by change. `event` makes change events, `stream` is the cursor of a change
//! stream, `seen` shows changes in the form of the watcher, `split` divides large events, and `token` encodes resume positions. `oplog` shows the
//! same records as `local.oplog.rs`. `retention` drops the oldest records.
//!
//! Layer: queries.

mod event;
mod log_reader;
pub(crate) mod oplog;
pub(crate) mod retention;
mod seen;
mod split;
mod stream;
mod token;

pub(crate) use event::{Image, StreamOptions, Watched};
pub(crate) use stream::{Changes, Feed, ResumePoint, Start, wait_for_more};
