//! What to merge next in a tree with damaged tables.
//!
//! In a tree, of two tables that hold the same key, the newer one is in a higher level (a lower
//! number), or in an earlier run of the same level. Leveled merging cannot leave out a table, so
//! it stops at a damaged one. Around damage, whole levels are merged instead, and only levels
//! above the highest damaged one:
//!
//! - The levels between the two that are merged are empty, so no older value gets above a newer
//!   one. What is flushed meanwhile stays above both.
//! - Deletes are dropped only in the last level. That is never the target here, since a damaged
//!   level lies below it. So a delete still hides what a damaged table holds.
//! - If a young table is damaged, level 0 moves as a whole on top of the tables of the first level
//!   that has any. That level then consists of several runs: it is stacked. Leveled merging
//!   expects one run in each level but the first, so a stacked level is merged as a whole first.
//! - Several runs can only move on top of others: the tree takes what moves to an empty level for
//!   one run. So a tree whose level 0 has several runs must have something below it. Its first
//!   table moves to the last level at once (`Shared::lay_ground`), what is dropped leaves
//!   something there, and where a merge has left nothing, level 0 is merged at once.
//!
//! The levels that are free form tiers of growing size, so each entry is rewritten a logarithmic
//! number of times.

/// The tree format stores the number of runs of a level in one byte. No level may get more.
pub(super) const RUNS_MAX: usize = 240;
/// A tier that is more than this many times as large as what is to be merged into it is left
/// alone.
const TIER_RATIO: u64 = 8;

/// One level of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) bytes: u64,
    /// Sets of tables that do not overlap.
    pub(super) runs: usize,
    /// Whether it holds a damaged table.
    pub(super) is_damaged: bool,
}

impl Level {
    fn is_empty(&self) -> bool {
        self.runs == 0
    }
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeStep {
    /// Leveled merging.
    Leveled,
    /// All tables of two levels are merged into the second.
    Merge { from: u8, to: u8 },
    /// All tables of a level move to another, unchanged.
    Move { from: u8, to: u8 },
    /// Nothing can be merged, or there is nothing to do. `is_stuck` if young tables pile up.
    Rest { is_stuck: bool },
}

/// Chooses the next step. Around damage, young tables are merged once there are `young` runs.
pub(super) fn next_step(levels: &[Level], young: usize) -> MergeStep {
    let (Some(first), below) = (levels.first(), levels.len()) else {
        return MergeStep::Rest { is_stuck: false };
    };
    let is_stacked = |level: usize| levels[level].runs > 1;
    let rest = MergeStep::Rest { is_stuck: first.runs >= young };
    if first.is_damaged {
        let (from, to) = out_of_the_way(levels);
        return if can_move(levels, from, to) { merge_or_move(from, to, true) } else { rest };
    }
    if first.runs > 1 && first_used(levels, 1).is_none() {
        return merge_or_move(0, below - 1, false);
    }
    let Some(top) = (1..below).find(|level| levels[*level].is_damaged || is_stacked(*level)) else {
        return MergeStep::Leveled;
    };
    if !levels[top].is_damaged {
        let above = (1..top).rev().find(|level| !levels[*level].is_empty());
        return merge_or_move(above.unwrap_or(0), top, false);
    }
    if top == 1 || first.runs < young {
        return rest;
    }
    let fits = |from: usize, to: usize| levels[to].bytes <= levels[from].bytes * TIER_RATIO;
    match (1..top).find(|level| !levels[*level].is_empty()) {
        None => merge_or_move(0, top - 1, false),
        Some(tier) if fits(0, tier) => merge_or_move(0, tier, false),
        Some(1) => make_room(levels, top),
        Some(tier) => merge_or_move(0, tier - 1, false),
    }
}

/// The first level from this one on that has tables.
pub(super) fn first_used(levels: &[Level], from: usize) -> Option<usize> {
    (from..levels.len()).find(|level| !levels[*level].is_empty())
}

/// Which level moves where if a young table is damaged. The first level below stays free for
/// merging, so its tables move down before the young ones.
fn out_of_the_way(levels: &[Level]) -> (usize, usize) {
    let last = levels.len() - 1;
    match first_used(levels, 1) {
        Some(1) => match first_used(levels, 2) {
            Some(next) if next > 2 && levels[1].runs == 1 => (1, next - 1),
            next => (1, next.unwrap_or(last)),
        },
        target => (0, target.unwrap_or(last)),
    }
}

/// Whether a level can move to another below it.
pub(super) fn can_move(levels: &[Level], from: usize, to: usize) -> bool {
    let (Some(moved), Some(target)) = (levels.get(from), levels.get(to)) else { return false };
    from < to
        && first_used(levels, from + 1).is_none_or(|next| next >= to)
        && moved.runs + target.runs <= RUNS_MAX
        && (moved.runs <= 1 || target.runs > 0)
}

/// All tiers are in use: makes the first one free, or merges those that fit best.
fn make_room(levels: &[Level], top: usize) -> MergeStep {
    let pairs = || (1..top - 1).filter(|level| !levels[*level].is_empty());
    if let Some(tier) = pairs().find(|tier| levels[tier + 1].is_empty()) {
        return merge_or_move(tier, tier + 1, true);
    }
    let fits = |tier: &usize| levels[tier + 1].bytes <= levels[*tier].bytes * TIER_RATIO;
    match pairs().find(fits).or(pairs().next_back()) {
        Some(tier) => merge_or_move(tier, tier + 1, false),
        None => merge_or_move(0, 1, false),
    }
}

fn merge_or_move(from: usize, to: usize, is_move: bool) -> MergeStep {
    let (from, to) = (from as u8, to as u8);
    if is_move { MergeStep::Move { from, to } } else { MergeStep::Merge { from, to } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(bytes: u64, runs: usize) -> Level {
        Level { bytes, runs, is_damaged: false }
    }

    fn damaged(bytes: u64, runs: usize) -> Level {
        Level { is_damaged: true, ..level(bytes, runs) }
    }

    #[test]
    fn a_sound_tree_is_merged_by_levels() {
        let levels = [level(9, 9), level(0, 0), level(5, 1)];
        assert_eq!(next_step(&levels, 8), MergeStep::Leveled);
    }

    #[test]
    fn damaged_young_tables_move_on_top_of_the_first_level_in_use() {
        let mut levels = [Level::default(); 7];
        // A single run needs nothing to lie on; several would become one.
        levels[0] = damaged(3, 1);
        assert_eq!(next_step(&levels, 8), MergeStep::Move { from: 0, to: 6 });
        levels[0] = damaged(3, 3);
        assert_eq!(next_step(&levels, 8), MergeStep::Rest { is_stuck: false });
        levels[6] = level(100, 1);
        assert_eq!(next_step(&levels, 8), MergeStep::Move { from: 0, to: 6 });
        // The byte that counts the runs of a level must not overflow.
        levels[6].runs = RUNS_MAX;
        levels[0].runs = 9;
        assert_eq!(next_step(&levels, 8), MergeStep::Rest { is_stuck: true });
    }

    #[test]
    fn the_first_level_is_made_free_before_damaged_young_tables_move() {
        let mut levels = [Level::default(); 7];
        levels[0] = damaged(3, 3);
        levels[1] = level(5, 1);
        assert_eq!(next_step(&levels, 8), MergeStep::Move { from: 1, to: 6 });
        levels[6] = damaged(100, 4);
        assert_eq!(next_step(&levels, 8), MergeStep::Move { from: 1, to: 5 });
        // What is stacked moves on top of something.
        levels[1].runs = 2;
        assert_eq!(next_step(&levels, 8), MergeStep::Move { from: 1, to: 6 });
        levels[2] = damaged(5, 7);
        assert_eq!(next_step(&levels, 8), MergeStep::Move { from: 1, to: 2 });
        levels[1] = Level::default();
        assert_eq!(next_step(&levels, 8), MergeStep::Move { from: 0, to: 2 });
        levels[2].runs = RUNS_MAX - 1;
        assert_eq!(next_step(&levels, 8), MergeStep::Rest { is_stuck: false });
    }

    #[test]
    fn several_young_runs_do_not_stay_without_anything_below() {
        let mut levels = [Level::default(); 7];
        levels[0] = level(3, 2);
        assert_eq!(next_step(&levels, 8), MergeStep::Merge { from: 0, to: 6 });
        levels[0] = level(3, 1);
        assert_eq!(next_step(&levels, 8), MergeStep::Leveled);
    }

    #[test]
    fn a_stacked_level_without_damage_is_merged_as_a_whole() {
        let mut levels = [Level::default(); 7];
        levels[6] = level(100, 3);
        assert_eq!(next_step(&levels, 8), MergeStep::Merge { from: 0, to: 6 });
        levels[4] = level(5, 1);
        levels[2] = level(5, 1);
        assert_eq!(next_step(&levels, 8), MergeStep::Merge { from: 4, to: 6 });
    }

    #[test]
    fn levels_above_damage_form_tiers() {
        let mut levels = [Level::default(); 7];
        levels[6] = damaged(1000, 4);
        levels[0] = level(8, 7);
        assert_eq!(next_step(&levels, 8), MergeStep::Rest { is_stuck: false });
        let mut merged = 0_u64;
        let mut flushed = 0_u64;
        for _ in 0..20_000 {
            levels[0] = level(levels[0].bytes + 1, levels[0].runs + 1);
            flushed += 1;
            loop {
                let step = next_step(&levels, 8);
                let (from, to) = match step {
                    MergeStep::Rest { is_stuck } => {
                        assert!(!is_stuck, "{levels:?}");
                        break;
                    }
                    MergeStep::Leveled => panic!("{levels:?}"),
                    MergeStep::Merge { from, to } | MergeStep::Move { from, to } => {
                        (from.into(), to.into())
                    }
                };
                let from: usize = from;
                let to: usize = to;
                assert!(from < to && to < 6, "{step:?} of {levels:?}");
                assert!(levels[from + 1..to].iter().all(Level::is_empty), "{step:?} {levels:?}");
                if matches!(step, MergeStep::Move { .. }) {
                    // A level that is in use may not become stacked.
                    assert!(levels[to].is_empty() && levels[from].runs == 1);
                } else {
                    merged += levels[from].bytes + levels[to].bytes;
                }
                levels[to] = level(levels[from].bytes + levels[to].bytes, 1);
                levels[from] = Level::default();
            }
            assert!(levels[0].runs < 8);
        }
        assert!(merged < flushed * 40, "{merged} written for {flushed}");
    }
}
