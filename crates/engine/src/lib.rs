//! MotifDB inside a Rust program: the same commands that the server answers, without a server.
//!
//! ```
//! use motifdb::{Database, Result, bson::doc};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order {
//!     #[serde(rename = "_id")]
//!     number: i32,
//!     customer: String,
//!     paid: bool,
//! }
//!
//! fn main() -> Result<()> {
//!     let db = Database::in_memory()?; // or `Database::open("folder")?`
//!     let orders = db.collection::<Order>("orders");
//!     orders.create_index(doc! {"customer": 1}).run()?;
//!     orders.insert_one(Order { number: 1, customer: "Ada".into(), paid: false }).run()?;
//!     orders.insert_one(Order { number: 2, customer: "Max".into(), paid: true }).run()?;
//!
//!     let unpaid = orders.find(doc! {"paid": false}).sort(doc! {"_id": 1}).limit(10).run()?;
//!     let customers = unpaid.map(|order| Ok(order?.customer)).collect::<Result<Vec<_>>>()?;
//!     assert_eq!(customers, ["Ada"]);
//!
//!     orders.update_one(doc! {"_id": 1}, doc! {"$set": {"paid": true}}).run()?;
//!     assert_eq!(orders.count_documents(doc! {"paid": true}).run()?, 2);
//!     db.close()
//! }
//! ```
//!
//! - [`Database`] opens a folder; [`Collection`] has the operations on documents and indexes.
//! - [`ClientSession`] has transactions; [`Collection::watch`] returns a [`ChangeStream`].
//! - [`Computed`], [`ExtendedReference`], [`Subset`] and [`Tree`] are patterns: values that the
//!   database maintains with every write. [`Collection::create_patterns`] declares them.
//! - `asynchronous`, with the feature `async`, has the same for programs that use Tokio, under the
//!   names of MongoDB's Rust driver.
//! - [`Error`] has MongoDB's codes and labels; [`WriteFailure`] the result of a write that failed in
//!   part.
//!
//! These are in `library`. The server uses the
//! layers below it: `engine` opens the store, `client` is the state of one client, `commands` has
//! all commands. Below them, `planner` chooses plans, `exec` runs them, `index` maintains index
//! entries, `txn` commits, and `catalog` records which collections, indexes and patterns exist.

#![deny(missing_docs)]

mod access;
mod args;
mod bell;
mod catalog;
mod change_streams;
mod changes;
mod check;
mod client;
mod clock;
mod command_log;
mod commands;
mod cursor;
mod damage;
mod engine;
mod exec;
mod fail_points;
mod host;
mod index;
mod index_keys;
mod job;
mod layout;
mod library;
mod memory;
mod metrics;
mod namespace;
mod operation;
mod options;
mod own_log;
mod parameters;
mod plan_cache;
mod planner;
mod profiler;
mod query_stats;
mod records;
mod repair;
mod reply;
mod report;
mod request;
mod resources;
mod session;
mod shared;
mod slot;
mod stages;
mod startup_log;
mod store_errors;
mod trash;
mod ttl;
mod txn;
mod upkeep;
mod usage;
mod validation;

pub use bson;
pub use check::{Checked, check_folder};
pub use client::Client;
pub use commands::{Handling, handling};
pub use damage::{Affected, Damage, Severity};
pub use engine::Engine;
#[cfg(feature = "async")]
pub use library::asynchronous;
pub use library::{
    AbortTransaction, Aggregate, Builder, ChangeNamespace, ChangeStream, ChangeStreamEvent,
    ClientSession, Collection, CommitTransaction, CountDocuments, CreateCollection, CreateIndex,
    Cursor, Database, Delete, DeleteResult, Distinct, Find, FindOne, FindOneAndDelete,
    FindOneAndUpdate, FullDocumentBeforeChangeType, FullDocumentType, Hint, InsertMany,
    InsertManyResult, InsertOne, InsertOneResult, OperationType, ResumeToken, StartSession,
    StartTransaction, TruncatedArray, Update, UpdateDescription, UpdateModifications, UpdateResult,
    Watch, WriteError, WriteFailure,
};
pub use library::{
    BackfillRate, ChangeEvents, ClientWrites, Computed, CreatePatterns, DropPatterns, DuringBuild,
    Every, ExtendedReference, Freshness, Mode, ModifyPattern, OnDelete, OnDrift, OnError,
    OnMissing, OnMissingNode, OnMissingParent, OnSourceDelete, OverLimit, Pattern, PatternCheck,
    PatternInfo, PatternState, ResumePatterns, Strategy, Subset, SuspendPatterns, Tree,
    ValidatePatterns,
};
pub use memory::{Memory, Share};
pub use metrics::{Metrics, Network, ServerCertificate};
pub use options::{Options, Storage, Topology};
pub use parameters::LogLevels;
pub use repair::{Copied, Repaired, repair};
pub use reply::{error_of, is_ok};
pub use request::{ClientCertificate, Flow, Peer, Request, Sequence, Waiting};
pub use shared::Inner;
pub(crate) use store_errors::store_failed;
pub use value::{self, Code, Error, Result};

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A name in one of the registries, with a one-sentence description where there is one.
pub struct Entry {
    /// The registry: `command`, `stage`, ...
    pub kind: &'static str,
    /// Its name.
    pub name: &'static str,
    /// A description; may be empty.
    pub help: &'static str,
}

/// All entries of the registries, from which COMPAT.md is generated.
#[must_use]
pub fn registry() -> Vec<Entry> {
    let mut entries = Vec::new();
    for command in commands::ALL.iter().filter(|command| !command.test) {
        entries.push(Entry { kind: "command", name: command.name, help: command.help });
    }
    for stage in stages::ALL {
        entries.push(Entry { kind: "stage", name: stage.name, help: stage.help });
    }
    for rule in planner::logical::RULES {
        entries.push(Entry { kind: "optimiser rule", name: rule.name, help: rule.help });
    }
    let mut names = |kind, names: &mut dyn Iterator<Item = &'static str>| {
        entries.extend(names.map(|name| Entry { kind, name, help: "" }));
    };
    names("filter operator", &mut query::filter::top_operators());
    names("filter operator", &mut query::filter::operators().iter().map(|row| row.name));
    names("update operator", &mut query::update::operators());
    names("accumulator", &mut query::accumulate::operators());
    names("expression", &mut query::expr::operators());
    entries
}
