//! The library: MotifDB inside a Rust program, with the API of MongoDB's Rust driver.
//!
//! `database` opens folders, `collection` lists the operations; the builders that they return are
//! in `find`, `aggregate`, `insert`, `update`, `delete`, `find_and_modify` and `index`. A builder
//! is the command document that a driver would send. `link` passes it to the engine, so that
//! results are the same as the server's. `session` has transactions; `turn` is the state of a
//! session that `link` adds to commands. `watch` has change streams and `change_event` their events;
//! `patterns` has the builders of patterns. `asynchronous` awaits
//! the same builders. `failure` reads the partial results of failed writes.
//!
//! Layer: engine.

mod aggregate;
#[cfg(feature = "async")]
pub mod asynchronous;
mod change_event;
mod collection;
mod convert;
mod cursor;
mod database;
mod delete;
mod failure;
mod find;
mod find_and_modify;
mod index;
mod insert;
mod link;
mod patterns;
mod session;
mod turn;
mod update;
mod watch;

pub use aggregate::{Aggregate, CountDocuments, Distinct};
pub use change_event::{
    ChangeNamespace, ChangeStreamEvent, FullDocumentBeforeChangeType, FullDocumentType,
    OperationType, ResumeToken, TruncatedArray, UpdateDescription,
};
pub use collection::Collection;
pub use cursor::Cursor;
pub use database::{Builder, CreateCollection, Database};
pub use delete::{Delete, DeleteResult};
pub use failure::{WriteError, WriteFailure};
pub use find::{Find, FindOne, Hint};
pub use find_and_modify::{FindOneAndDelete, FindOneAndUpdate};
pub use index::CreateIndex;
pub use insert::{InsertMany, InsertManyResult, InsertOne, InsertOneResult};
pub use patterns::{
    BackfillRate, ChangeEvents, ClientWrites, Computed, CreatePatterns, DropPatterns, DuringBuild,
    Every, ExtendedReference, Freshness, Mode, ModifyPattern, OnDelete, OnDrift, OnError,
    OnMissing, OnMissingNode, OnMissingParent, OnSourceDelete, OverLimit, Pattern, PatternCheck,
    PatternInfo, PatternState, ResumePatterns, Strategy, Subset, SuspendPatterns, Tree,
    ValidatePatterns,
};
pub use session::{
    AbortTransaction, ClientSession, CommitTransaction, StartSession, StartTransaction,
};
pub use update::{Update, UpdateModifications, UpdateResult};
pub use watch::{ChangeStream, Watch};
