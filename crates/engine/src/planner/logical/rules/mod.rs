//! The rules: one file each, in the order in which they are tried.

mod answers_from_patterns;
mod count_entries;
mod count_from_counters;
mod count_only;
mod covered_count;
mod covered_find;
mod covered_group;
mod distinct_group;
mod distinct_scan;
mod drop_overridden_sort;
mod find_in_front;
mod fuse_group;
mod limit_before_projection;
mod match_forward;
mod match_into_lookup;
mod merge_matches;
mod ordered_group;
mod set_in_place;
mod sort_with_limit;
mod unwind_into_lookup;

use super::Rule;

/// All rules. Of rules that run at the same time, the first one that applies is used.
pub static RULES: &[&Rule] = &[
    &drop_overridden_sort::RULE,
    &set_in_place::RULE,
    &limit_before_projection::RULE,
    &match_into_lookup::RULE,
    &merge_matches::RULE,
    &match_forward::RULE,
    &answers_from_patterns::RULE,
    &unwind_into_lookup::RULE,
    &count_only::RULE,
    &count_from_counters::RULE,
    &find_in_front::RULE,
    &fuse_group::RULE,
    &sort_with_limit::RULE,
    &distinct_scan::RULE,
    &distinct_group::RULE,
    &covered_find::RULE,
    &count_entries::RULE,
    &covered_count::RULE,
    &covered_group::RULE,
    &ordered_group::RULE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_rule_has_a_file_and_a_spec_file_of_its_name() {
        let engine = Path::new(env!("CARGO_MANIFEST_DIR"));
        for rule in RULES {
            let code = engine.join(format!("src/planner/logical/rules/{}.rs", rule.name));
            assert!(code.is_file(), "no file of the rule {}", rule.name);
            let spec = engine.join(format!("../../tests/spec/optimiser/{}.test", rule.name));
            let text = std::fs::read_to_string(&spec).unwrap_or_default();
            let fired = text.lines().any(|line| {
                line.contains("ulesFired") && line.contains(&format!("\"{}\"", rule.name))
            });
            assert!(fired, "no spec file shows that the rule {} fired", rule.name);
        }
        assert!(RULES.len() <= 32, "a set of rules has 32 bits");
    }
}
