//! The acceptance scenarios of the kinds of patterns, by their numbers, and what hand-written
//! upkeep gets wrong. `docs/patterns/reference.md` has the guarantees that are tested here.
//!
//! | kind | scenario | test |
//! |---|---|---|
//! | extendedReference | 1 an insert carries copies | `reference_1_an_order_carries_copies` |
//! | | 2 a rename shows at one snapshot | `reference_2_a_rename_shows_everywhere_at_once` |
//! | | 3 what is not copied causes no writes | `reference_3_what_is_not_copied_writes_no_orders` |
//! | | 4 another reference | `reference_4_another_customer_brings_its_own_fields_alone` |
//! | | 5 the race with a new reference, 10,000 times | `reference_5_a_new_order_and_a_rename_never_part` |
//! | | 6 ownership | `reference_6_copies_are_not_the_clients` |
//! | | 7 frozen copies | `reference_7_a_snapshot_stays_as_it_was` |
//! | | 8 50,000 followers | `reference_8_fifty_thousand_orders_follow_a_rename`; how long the rename takes: `how_long_a_rename_takes` in `pattern_speed.rs` |
//! | inheritance | 1 to 6 | `inheritance_1_to_4_types_have_what_is_above_them` and those that follow it |
//! | polymorphic | 1 to 8 schemas, changes of type, inference, other types | `polymorphic_1_a_document_must_be_valid_for_its_type` and those that follow it |
//! | subset | 1 to 5 enter, leave, reorder, move, filter | `subset_1_to_5_the_best_three_follow_every_change` |
//! | | 6 an aborted transaction | `subset_6_an_aborted_transaction_was_never_there` |
//! | | 7 refill of five among 10,234 | `subset_7_the_next_five_stand_in_for_five_that_go`; entries read: `a_refill_reads_a_handful_of_entries` in `crates/patterns/tests/maintenance/refill.rs` |
//! | | 8 the vertical form | `subset_8_reads_and_updates_leave_cold_fields_alone` in `cold_fields.rs` |
//! | computed | 1 to 4 insert, edit, filter, delete | `computed_1_to_4_sums_follow_every_change` |
//! | | 5, 6 upsert twice, change of parent | `computed_5_and_6_an_upsert_counts_once_and_moves_whole` |
//! | | 7 64 clients, a hot parent | `computed_7_sixty_four_clients_and_one_who_edits_the_parent`; with kills: `a_hot_parent_equals_its_children_after_every_kill` in `crates/spec/tests/patterns` |
//! | | 8 exact doubles, a second pattern | `computed_8_sums_of_doubles_are_exact_and_patterns_do_not_disturb_each_other` |
//! | approximation | 1 a million distinct users | `a_million_values_are_within_three_times_the_error_in_99_of_100_runs` in `crates/patterns`; through commands `approximation_1_twenty_thousand_users_are_counted_within_the_error` |
//! | | 2 forty users | `approximation_2_forty_users_are_exactly_forty` |
//! | | 3 inserted and deleted | `approximation_3_what_is_deleted_no_longer_counts` |
//! | | 4 250 inserts, few writes | `approximation_4_a_count_is_written_after_a_hundred_changes` |
//! | | 5 a restart after 199 | `approximation_5_nothing_is_lost_that_was_not_written_yet` |
//! | | 6 the 95th percentile of 100,000 | `approximation_6_percentiles_are_within_the_error` |
//! | | 7 the top ten of a Zipf stream | `approximation_7_the_most_frequent_values_are_exact` |
//! | | 8 bounds | `approximation_8_values_show_their_bounds` |
//! | tree | 1 derived fields | `tree_1_a_node_knows_where_it_is` |
//! | | 2 a move | `tree_2_a_subtree_moves_at_once` |
//! | | 3 a cycle | `tree_3_a_cycle_is_refused` |
//! | | 4 two moves at once, 10,000 times | `tree_4_of_two_moves_that_would_be_a_cycle_one_commits` |
//! | | 5 delete | `tree_5_what_becomes_of_children` |
//! | | 6 search in paths | `tree_6_a_search_in_paths_reads_what_it_returns` |
//! | | 7 nested sets beside 1,000 inserts | `tree_7_nested_sets_hold_while_a_thousand_insert_at_once` |
//! | | 8 100,000 nodes in any order | `tree_8_a_hundred_thousand_nodes_may_come_in_any_order` |
//!
//! What every kind promises:
//!
//! | promise | test |
//! |---|---|
//! | 1 ownership | `reference_6_copies_are_not_the_clients`; what is ignored is counted: `list_patterns_tells_what_a_pattern_costs_and_is_good_for` in `pattern_surface` |
//! | 2 effects, not statements | `contract_2_what_has_no_effect_is_not_followed`; every way to write: `pattern_replies.rs`, expiring documents: `crates/spec/tests/patterns` |
//! | 3 one commit, netted, no order of locks | `contract_3_many_changes_of_one_target_are_one_write`, `contract_3_targets_in_another_order_hold_nobody_up`; `pattern_transactions.rs`, `pattern_races.rs` |
//! | 4 limits of fan-out | `too_many_followers_are_queued_and_come_by` in `patterns.rs`, `while_copies_wait_readers_see_what_their_source_holds` in `pattern_pointer_moments.rs` |
//! | 5 chains and circles | `contract_5_patterns_that_feed_each_other_are_followed_once_and_never_in_a_circle` |
//! | 6 change events | `changes_that_patterns_make_may_be_shown` in `pattern_modes.rs` |
//! | 7 builds | `contract_7_a_slow_build_holds_no_other_up_and_writes_each_target_once`; `builds` in `pattern_surface`, `readers_*` in `pattern_modes.rs`; kills: `crates/spec/tests/patterns` |
//! | 8 staleness | `metadata_tell_how_far_a_document_is_behind`, `nodes_may_follow_later_and_say_so` in `pattern_surface`, `what_follows_later_follows_once_and_can_be_waited_for` in `pattern_modes.rs` |
//! | 9 checks and repair, 10 bypass | `checks` in `pattern_surface` |
//! | 11 removal | `a_dropped_pattern_is_cleared_in_the_background` and the next one in `pattern_modes.rs` |
//! | 12 new versions | `versions` in `pattern_surface`; a second pattern: `computed_8_sums_of_doubles_are_exact_and_patterns_do_not_disturb_each_other` |
//! | 13 privileges | `engine/src/access/required.rs` |
//! | 14 what is seen | `explain_of_a_write_tells_what_patterns_would_do_and_does_nothing` in `pattern_surface` |
//! | 15 copies | `a_copy_by_options_declarations_and_documents_is_like_the_original` in `pattern_surface` |
//! | 16 the oracle | `crates/spec/tests/patterns` |
//!
//! What is often written by hand (`seeds`):
//!
//! | code that is often shown | defect | test |
//! |---|---|---|
//! | sums by a change stream | edits count twice, deletes and moves never leave | `computed_by_a_change_stream_counts_edits_twice` |
//! | sums by a nightly job | sums a field that is not there | `computed_by_a_nightly_job_sums_nothing` |
//! | approximate counts | stands on an arbitrary post; a factor that fits one size | `counts_stand_on_the_author_and_fit_every_size` |
//! | outliers | a collection for each viral post | `comments_of_a_viral_post_stay_in_one_collection` |
//! | buckets, twice | two buckets of one hour, mixed hours, no mean, stale extremes | `statistics_of_readings_by_the_hour_are_right` |
//! | subtree by path | not anchored, reads the whole index | `a_subtree_by_its_path_reads_its_own_keys` |
//! | extended reference in two statements | races, mixed copies | `a_rename_is_done_whole_or_not_at_all`, `reference_5_a_new_order_and_a_rename_never_part` |
//! | schema versioning, four times | | belongs to a kind of pattern that is not there |
//!
//! `PATTERN_RACES=50000` repeats the races more often.

#[path = "../harness/mod.rs"]
mod harness;

mod approximation;
mod arrays;
mod attribute;
mod computed;
mod contract;
mod declaring;
mod inheritance;
mod polymorphic;
mod reference;
mod seeds;
mod subset;
mod tree;

/// How often a race is repeated.
fn repeats(default: usize) -> usize {
    std::env::var("PATTERN_RACES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
