//! The library for asynchronous programs, with the names of MongoDB's Rust driver; the feature
//! `async` enables it.
//!
//! [`Client`], [`Database`] and [`Collection`] have the operations of the blocking library. Their
//! builders are the same ones; here they are awaited instead of run. Cursors and change streams are
//! [`Stream`](futures_core::Stream)s.
//!
//! ```
//! use motifdb::asynchronous::Client;
//! use motifdb::bson::{Document, doc};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> motifdb::Result<()> {
//! let client = Client::in_memory().await?; // or `Client::open("folder").await?`
//! let orders = client.database("shop").collection::<Document>("orders");
//! orders.insert_one(doc! {"_id": 1, "paid": false}).await?;
//! orders.update_one(doc! {"_id": 1}, doc! {"$set": {"paid": true}}).await?;
//!
//! let mut paid = orders.find(doc! {"paid": true}).sort(doc! {"_id": 1}).await?;
//! while let Some(order) = paid.try_next().await? {
//!     assert_eq!(order, doc! {"_id": 1, "paid": true});
//! }
//! client.shutdown().await
//! # }
//! ```
//!
//! The work is done on the threads that Tokio keeps for blocking work, so that no task waits for a
//! disk; a Tokio runtime must be running, else operations fail with IllegalOperation (20). What has
//! begun is finished, also if the future is dropped. Each open operation takes a thread while it
//! runs, and each change stream that waits for events takes one too.
//!
//! Dropping the last handle closes the folder, which blocks the thread while data are written to
//! disk; [`Client::shutdown`] does not.

mod action;
mod change_stream;
mod client;
mod collection;
mod cursor;
mod database;
mod pull;
mod transaction;

pub use change_stream::ChangeStream;
pub use client::Client;
pub use collection::Collection;
pub use cursor::Cursor;
pub use database::Database;

// The types that both libraries share, under the names that programs of the driver use.
pub use super::{
    ChangeStreamEvent, ClientSession, FullDocumentBeforeChangeType, FullDocumentType, ResumeToken,
};
