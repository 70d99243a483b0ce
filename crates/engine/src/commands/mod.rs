//! The commands of the server. Each command is a row in [`ALL`].
//!
//! A row (`row`) holds all facts about a command: its fields, the required privileges, whether it
//! runs in transactions, how it is counted and logged. No other file keeps a list of command names.
//! `dispatch` runs a request step by step, `context` is the context of a command, `generic` reads
//! the fields that all commands share. `args` reads fields, `query` and `statements` are shared by
//! the commands that read and write documents.
//!
//! Layer: commands.

mod abort_transaction;
mod aggregate;
mod append_oplog_note;
mod apply_ops;
mod apply_patterns;
mod authenticate;
mod bucket_documents;
mod build_info;
mod bulk_write;
mod capped;
mod change_stream;
mod clone_collection_as_capped;
mod coll_mod;
mod coll_stats;
mod collection_uuid;
mod commit_transaction;
mod compact;
mod configure_fail_point;
mod conn_pool_stats;
mod connection_status;
mod context;
mod convert_to_capped;
mod count;
pub(crate) mod create;
mod create_indexes;
mod create_patterns;
mod create_role;
mod create_user;
mod current_op;
mod data_size;
mod db_hash;
mod db_stats;
mod default_concerns;
mod delete;
mod diagnostics;
mod digests;
mod dispatch;
mod distinct;
mod drop;
mod drop_all_roles_from_database;
mod drop_all_users_from_database;
mod drop_connections;
mod drop_database;
mod drop_indexes;
mod drop_patterns;
mod drop_role;
mod drop_user;
mod end_sessions;
mod explain;
mod explain_pipeline;
mod explain_view;
mod explain_writes;
mod features;
mod file_md5;
mod find;
mod find_and_modify;
mod fixed_parameters;
mod fsync;
mod fsync_unlock;
mod generic;
mod get_cluster_parameter;
mod get_cmd_line_opts;
mod get_default_rw_concern;
mod get_diagnostic_data;
mod get_log;
mod get_more;
mod get_nonce;
mod get_parameter;
mod grant_privileges_to_role;
mod grant_roles_to_role;
mod grant_roles_to_user;
mod heads;
mod hello;
mod host_info;
mod in_transaction;
mod insert;
mod invalidate_user_cache;
mod is_db_grid;
mod is_master;
mod kill_all_sessions;
mod kill_all_sessions_by_pattern;
mod kill_cursors;
mod kill_op;
mod kill_sessions;
mod list_collections;
mod list_commands;
mod list_databases;
mod list_indexes;
mod list_patterns;
mod listing;
mod lock_info;
mod log_components;
mod log_rotate;
mod logout;
mod map_reduce;
mod merge_authz_collections;
mod modify_pattern;
mod named_faces;
mod oplog;
mod parameters;
mod pattern_answers;
mod patterns;
mod ping;
mod plan_cache;
mod plan_cache_clear;
mod plan_cache_clear_filters;
mod plan_cache_list_filters;
mod plan_cache_set_filter;
mod profile;
pub mod query;
mod raw_buckets;
mod re_index;
mod read_concern;
mod refresh_sessions;
mod rename_collection;
mod repl_set_freeze;
mod repl_set_get_config;
mod repl_set_get_status;
mod repl_set_initiate;
mod repl_set_maintenance;
mod repl_set_reconfig;
mod repl_set_step_down;
mod repl_set_sync_from;
mod replica_set;
mod resume_patterns;
mod revoke_privileges_from_role;
mod revoke_roles_from_role;
mod revoke_roles_from_user;
mod roles;
mod roles_info;
mod rotate_certificates;
mod row;
mod sasl;
mod sasl_continue;
mod sasl_start;
mod server_status;
mod sessions;
mod set_default_rw_concern;
mod set_feature_compatibility_version;
mod set_index_commit_quorum;
mod set_parameter;
mod set_profiling_filter_globally;
mod shutdown;
mod stable_api;
mod start_session;
mod statements;
mod suspend_patterns;
#[cfg(test)]
mod tests;
mod through_view;
mod time_series;
mod top;
mod transactions;
mod update;
mod update_role;
mod update_together;
mod update_user;
mod users;
mod users_info;
mod validate;
mod validate_db_metadata;
mod validate_patterns;
mod view_graph;
mod whats_my_sni;
mod whats_my_uri;
mod write_concern;

pub use context::Context;
pub use dispatch::dispatch;
pub use generic::max_time;
pub(crate) use generic::set_time_limit;
use hashbrown::HashMap;
use std::sync::LazyLock;

pub use row::{Command, Handling, handling};

/// Every command, sorted by name.
pub static ALL: &[&Command] = &[
    &merge_authz_collections::COMMAND,
    &abort_transaction::COMMAND,
    &aggregate::COMMAND,
    &append_oplog_note::COMMAND,
    &apply_ops::COMMAND,
    &apply_patterns::COMMAND,
    &authenticate::COMMAND,
    &build_info::COMMAND,
    &bulk_write::COMMAND,
    &clone_collection_as_capped::COMMAND,
    &coll_mod::COMMAND,
    &coll_stats::COMMAND,
    &commit_transaction::COMMAND,
    &compact::COMMAND,
    &configure_fail_point::COMMAND,
    &conn_pool_stats::COMMAND,
    &connection_status::COMMAND,
    &convert_to_capped::COMMAND,
    &count::COMMAND,
    &create::COMMAND,
    &create_indexes::COMMAND,
    &create_patterns::COMMAND,
    &create_role::COMMAND,
    &create_user::COMMAND,
    &current_op::COMMAND,
    &data_size::COMMAND,
    &db_hash::COMMAND,
    &db_stats::COMMAND,
    &delete::COMMAND,
    &distinct::COMMAND,
    &drop::COMMAND,
    &drop_all_roles_from_database::COMMAND,
    &drop_all_users_from_database::COMMAND,
    &drop_connections::COMMAND,
    &drop_database::COMMAND,
    &drop_indexes::COMMAND,
    &drop_patterns::COMMAND,
    &drop_role::COMMAND,
    &drop_user::COMMAND,
    &end_sessions::COMMAND,
    &explain::COMMAND,
    &features::COMMAND,
    &file_md5::COMMAND,
    &find::COMMAND,
    &find_and_modify::COMMAND,
    &fsync::COMMAND,
    &fsync_unlock::COMMAND,
    &get_cluster_parameter::COMMAND,
    &get_cmd_line_opts::COMMAND,
    &get_default_rw_concern::COMMAND,
    &get_diagnostic_data::COMMAND,
    &get_log::COMMAND,
    &get_more::COMMAND,
    &get_parameter::COMMAND,
    &get_nonce::COMMAND,
    &grant_privileges_to_role::COMMAND,
    &grant_roles_to_role::COMMAND,
    &grant_roles_to_user::COMMAND,
    &hello::COMMAND,
    &host_info::COMMAND,
    &insert::COMMAND,
    &invalidate_user_cache::COMMAND,
    &is_master::COMMAND,
    &is_db_grid::COMMAND,
    &kill_all_sessions::COMMAND,
    &kill_all_sessions_by_pattern::COMMAND,
    &kill_cursors::COMMAND,
    &kill_op::COMMAND,
    &kill_sessions::COMMAND,
    &list_collections::COMMAND,
    &list_commands::COMMAND,
    &list_databases::COMMAND,
    &list_indexes::COMMAND,
    &list_patterns::COMMAND,
    &lock_info::COMMAND,
    &log_rotate::COMMAND,
    &logout::COMMAND,
    &map_reduce::COMMAND,
    &modify_pattern::COMMAND,
    &ping::COMMAND,
    &plan_cache_clear::COMMAND,
    &plan_cache_clear_filters::COMMAND,
    &plan_cache_list_filters::COMMAND,
    &plan_cache_set_filter::COMMAND,
    &profile::COMMAND,
    &re_index::COMMAND,
    &refresh_sessions::COMMAND,
    &rename_collection::COMMAND,
    &repl_set_freeze::COMMAND,
    &repl_set_get_config::COMMAND,
    &repl_set_get_status::COMMAND,
    &repl_set_initiate::COMMAND,
    &repl_set_maintenance::COMMAND,
    &repl_set_reconfig::COMMAND,
    &oplog::RESIZE,
    &repl_set_step_down::COMMAND,
    &repl_set_sync_from::COMMAND,
    &resume_patterns::COMMAND,
    &revoke_privileges_from_role::COMMAND,
    &revoke_roles_from_role::COMMAND,
    &revoke_roles_from_user::COMMAND,
    &roles_info::COMMAND,
    &rotate_certificates::COMMAND,
    &sasl_continue::COMMAND,
    &sasl_start::COMMAND,
    &server_status::COMMAND,
    &set_default_rw_concern::COMMAND,
    &set_feature_compatibility_version::COMMAND,
    &set_index_commit_quorum::COMMAND,
    &set_parameter::COMMAND,
    &set_profiling_filter_globally::COMMAND,
    &shutdown::COMMAND,
    &start_session::COMMAND,
    &suspend_patterns::COMMAND,
    &top::COMMAND,
    &update::COMMAND,
    &update_role::COMMAND,
    &update_user::COMMAND,
    &users_info::COMMAND,
    &validate::COMMAND,
    &validate_db_metadata::COMMAND,
    &validate_patterns::COMMAND,
    &whats_my_sni::COMMAND,
    &whats_my_uri::COMMAND,
];

/// All commands by their names and aliases.
static BY_NAME: LazyLock<HashMap<&'static str, usize>> = LazyLock::new(|| {
    let names = |row: &'static Command| row.aliases.iter().copied().chain([row.name]);
    let places = ALL.iter().enumerate();
    places.flat_map(|(at, row)| names(row).map(move |name| (name, at))).collect()
});

/// Finds the command of this name or alias. Names are case-sensitive, except for some commands
/// (`isMaster`).
#[must_use]
pub fn find(name: &str) -> Option<&'static Command> {
    place(name).and_then(|at| ALL.get(at)).copied()
}

/// The place in `ALL` of the command of this name or alias.
fn place(name: &str) -> Option<usize> {
    let exact = BY_NAME.get(name).copied();
    exact.or_else(|| ALL.iter().position(|row| row.any_case && row.name.eq_ignore_ascii_case(name)))
}
