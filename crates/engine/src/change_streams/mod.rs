//! Readers of the log of changes: change streams and the oplog.
//!
//! `follow` reads change by change; `event` makes change events of changes and `stream` the cursor of a
//! change stream, `split` cuts large events; `token` is where a stream can resume. `oplog` shows the
//! same records as `local.oplog.rs`. `retention` drops the oldest records.
//!
//! Layer: queries.

mod event;
mod follow;
pub(crate) mod oplog;
pub(crate) mod retention;
mod split;
mod stream;
mod token;

pub(crate) use event::{Image, StreamOptions, Watched};
pub(crate) use stream::{Changes, Feed, ResumePoint, Start, wait_for_more};
