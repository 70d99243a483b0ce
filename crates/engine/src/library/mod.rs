//! The library: MotifDB inside a Rust program, with the API of MongoDB's Rust driver.
//!
//! `database` opens folders, `collection` lists the operations; the builders that they return are
//! in `find`, `aggregate`, `insert`, `update`, `delete`, `find_and_modify` and `index`. A builder
//! is the command document that a driver would send. `link` passes it to the engine, so that
//! results are the same as the server's. `failure` reads the partial results of failed writes.
//!
//! Layer: engine.

mod aggregate;
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
mod update;

pub use aggregate::{Aggregate, CountDocuments, Distinct};
pub use collection::Collection;
pub use cursor::Cursor;
pub use database::{Builder, CreateCollection, Database};
pub use delete::{Delete, DeleteResult};
pub use failure::{WriteError, WriteFailure};
pub use find::{Find, FindOne, Hint};
pub use find_and_modify::{FindOneAndDelete, FindOneAndUpdate};
pub use index::CreateIndex;
pub use insert::{InsertMany, InsertManyResult, InsertOne, InsertOneResult};
pub use update::{Update, UpdateModifications, UpdateResult};
