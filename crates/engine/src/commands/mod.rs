//! Commands: what clients can ask. Each command is a row in [`ALL`].
//!
//! A row (`row`) holds everything that is known about a command: its fields, what a client needs to be
//! allowed to run it, whether it runs in transactions, how it is counted and logged. No other file keeps
//! a list of command names. `dispatch` runs a request step by step, `context` is what a command works
//! with, `generic` reads the fields that all commands share. `args` reads fields, `query` and
//! `statements` are shared by the commands that read and write documents.
//!
//! Layer: commands.

mod aggregate;
mod build_info;
mod bulk_write;
mod capped;
mod change_stream;
mod coll_mod;
mod coll_stats;
mod collection_uuid;
mod configure_fail_point;
mod connection_status;
mod context;
mod count;
pub(crate) mod create;
mod create_indexes;
mod current_op;
mod db_stats;
mod default_concerns;
mod delete;
mod diagnostics;
mod digests;
mod dispatch;
mod drop;
mod drop_database;
mod drop_indexes;
mod explain;
mod explain_pipeline;
mod explain_writes;
mod find;
mod find_and_modify;
mod fsync;
mod generic;
mod get_cmd_line_opts;
mod get_log;
mod get_more;
mod get_nonce;
mod hello;
mod host_info;
mod in_transaction;
mod insert;
mod list_collections;
mod list_commands;
mod list_databases;
mod list_indexes;
mod listing;
mod log_rotate;
mod oplog;
mod parameters;
mod patterns;
mod ping;
mod plan_cache;
mod profile;
pub mod query;
mod re_index;
mod read_concern;
mod rename_collection;
mod replica_set;
mod roles;
mod rotate_certificates;
mod row;
mod sasl;
mod server_facts;
mod server_status;
mod sessions;
mod shutdown;
mod stable_api;
mod statements;
#[cfg(test)]
mod tests;
mod top;
mod transactions;
mod update;
mod users;
mod validate;
mod validate_db_metadata;
mod write_concern;

pub use context::Context;
pub use dispatch::dispatch;
pub use generic::max_time;
pub(crate) use generic::set_time_limit;
pub use row::{Command, Handling, handling};

/// Every command, sorted by name.
pub static ALL: &[&Command] = &[
    &transactions::ABORT,
    &aggregate::COMMAND,
    &sasl::AUTHENTICATE,
    &build_info::COMMAND,
    &bulk_write::COMMAND,
    &capped::CLONE,
    &coll_mod::COMMAND,
    &coll_stats::COMMAND,
    &transactions::COMMIT,
    &server_facts::COMPACT,
    &configure_fail_point::COMMAND,
    &replica_set::POOL_STATS,
    &connection_status::CONNECTION_STATUS,
    &capped::CONVERT,
    &count::COUNT,
    &create::COMMAND,
    &create_indexes::COMMAND,
    &patterns::CREATE,
    &roles::CREATE,
    &users::CREATE,
    &current_op::CURRENT_OP,
    &db_stats::DATA_SIZE,
    &digests::DB_HASH,
    &db_stats::DB_STATS,
    &delete::COMMAND,
    &count::DISTINCT,
    &drop::COMMAND,
    &roles::DROP_ALL,
    &users::DROP_ALL,
    &drop_database::COMMAND,
    &drop_indexes::COMMAND,
    &patterns::DROP,
    &roles::DROP,
    &users::DROP,
    &sessions::END,
    &explain::COMMAND,
    &server_facts::FEATURES,
    &digests::FILE_MD5,
    &find::COMMAND,
    &find_and_modify::COMMAND,
    &fsync::COMMAND,
    &get_cmd_line_opts::COMMAND,
    &default_concerns::GET,
    &server_facts::DIAGNOSTIC_DATA,
    &get_log::COMMAND,
    &get_more::GET_MORE,
    &parameters::GET,
    &get_nonce::COMMAND,
    &roles::GRANT_PRIVILEGES,
    &roles::GRANT,
    &users::GRANT,
    &hello::HELLO,
    &host_info::COMMAND,
    &insert::COMMAND,
    &roles::INVALIDATE,
    &hello::IS_MASTER,
    &sessions::KILL_ALL,
    &sessions::KILL_BY_PATTERN,
    &get_more::KILL_CURSORS,
    &current_op::KILL_OP,
    &sessions::KILL,
    &list_collections::COMMAND,
    &list_commands::COMMAND,
    &list_databases::COMMAND,
    &list_indexes::COMMAND,
    &patterns::LIST,
    &server_facts::LOCK_INFO,
    &log_rotate::COMMAND,
    &sasl::LOGOUT,
    &patterns::MODIFY,
    &ping::COMMAND,
    &plan_cache::CLEAR,
    &plan_cache::CLEAR_FILTERS,
    &plan_cache::LIST_FILTERS,
    &plan_cache::SET_FILTER,
    &profile::COMMAND,
    &re_index::COMMAND,
    &sessions::REFRESH,
    &rename_collection::COMMAND,
    &replica_set::GET_CONFIG,
    &replica_set::GET_STATUS,
    &oplog::RESIZE,
    &patterns::RESUME,
    &roles::REVOKE_PRIVILEGES,
    &roles::REVOKE,
    &users::REVOKE,
    &roles::INFO,
    &rotate_certificates::COMMAND,
    &sasl::CONTINUE,
    &sasl::START,
    &server_status::COMMAND,
    &default_concerns::SET,
    &parameters::SET,
    &shutdown::COMMAND,
    &sessions::START,
    &patterns::SUSPEND,
    &top::COMMAND,
    &update::COMMAND,
    &roles::UPDATE,
    &users::UPDATE,
    &users::INFO,
    &validate::COMMAND,
    &validate_db_metadata::COMMAND,
    &patterns::VALIDATE,
    &server_facts::WHATS_MY_SNI,
    &connection_status::WHATS_MY_URI,
];

/// The command of this name or alias. Names are compared as they are written, except for commands that
/// are known in any case (`isMaster`).
#[must_use]
pub fn find(name: &str) -> Option<&'static Command> {
    let exact = ALL.binary_search_by(|row| row.name.cmp(name)).ok().and_then(|at| ALL.get(at));
    exact
        .or_else(|| ALL.iter().find(|row| row.aliases.contains(&name)))
        .or_else(|| ALL.iter().find(|row| row.any_case && row.name.eq_ignore_ascii_case(name)))
        .copied()
}
