//! Merging of tables and its failures. If a merge fails, its unfinished files are removed
//! (`leftovers.rs`) and the tree is not merged for a growing time (`work.rs`). A tree with a
//! damaged table is merged around it where its levels allow that.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lsm_tree::compaction::{CompactionStrategy, Leveled, PullDown};
use lsm_tree::{AbstractTree, TableId, Tree};

use super::Shared;
use super::trees::{TABLE_BYTES, tree_error};
use crate::stats::MergeFailure;
use crate::{Result, Space, StoreError};

/// How many flushed tables are merged at once. Each merge also rewrites the older tables. Reads
/// that find no page check the filters of all young tables.
const YOUNG_TABLES: u8 = 8;
/// A damaged table is not merged for this time, which doubles with each further attempt, ...
const DAMAGED_REST: Duration = Duration::from_secs(60);
/// ... up to this time.
const DAMAGED_REST_MAX: Duration = Duration::from_secs(6 * 3600);

/// Damaged tables of a tree, which merging skips.
#[derive(Default)]
pub(super) struct SetAside {
    tables: Vec<(TableId, StoreError)>,
    tries: u32,
    retry_at: Option<Instant>,
}

impl SetAside {
    /// Called after a successful merge: clears a failure that was not traced to a table.
    fn forgive(&mut self) {
        self.tables.retain(|(table, _)| *table != TableId::MAX);
    }
}

impl Shared {
    /// Runs one merge step of a tree. Returns whether there may be another.
    pub(super) fn merge_step(&self, space: Space) -> Result<bool> {
        let tree = &self.trees[space.index()];
        if self.dropped.has_any(space) {
            self.reclaim(space, tree)?;
        }
        let strategy: Arc<dyn CompactionStrategy> = match self.around_damage(space) {
            Around::NoDamage => Arc::new(
                Leveled::default()
                    .with_table_target_size(TABLE_BYTES)
                    .with_l0_threshold(YOUNG_TABLES),
            ),
            Around::PullDown(level) => Arc::new(PullDown(0, level)),
            Around::Nothing => return Ok(false),
        };
        let before = tree.current_version().id();
        match self.compact(space, |watermark| tree.compact(strategy, watermark)) {
            Ok(()) => self.set_aside[space.index()].lock().forgive(),
            Err(error @ StoreError::Corrupt { .. }) => {
                // Reported by `merge_failures`; the tree has its own retry time.
                self.set_aside(space, error);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        if tree.current_version().id() == before {
            return Ok(false);
        }
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.after_merge(space);
        Ok(true)
    }

    /// Calls `run`, which replaces tables; removes its unfinished files if it fails.
    pub(super) fn compact(
        &self,
        space: Space,
        run: impl FnOnce(u64) -> lsm_tree::Result<()>,
    ) -> Result<()> {
        let tree = &self.trees[space.index()];
        let attempt = self.leftovers[space.index()].begin(tree);
        let result = run(self.history.merge_watermark());
        self.versions[space.index()].set(0);
        match result {
            Ok(()) => {
                attempt.succeed([]);
                Ok(())
            }
            // The filter of dropped ranges stops a merge with this error.
            Err(_) if self.work.is_stopping() => Err(StoreError::Closed),
            Err(error) => {
                drop(attempt);
                Err(tree_error(tree, &error))
            }
        }
    }

    /// Records the result of a merge.
    pub(super) fn after_merge(&self, space: Space) {
        let tree = &self.trees[space.index()];
        self.history.note_tables(space, tree, &[]);
        self.advice.note_tables(space, tree);
        self.let_go();
        self.note_debt(space);
    }

    /// Records how far merging of a tree is behind.
    pub(super) fn note_debt(&self, space: Space) {
        let fails = self.work.merging_fails(space)
            || !self.set_aside[space.index()].lock().tables.is_empty();
        self.pressure.note(space, &self.trees[space.index()], fails);
    }

    fn set_aside(&self, space: Space, error: StoreError) {
        let mut aside = self.set_aside[space.index()].lock();
        let rest = DAMAGED_REST.saturating_mul(1 << aside.tries.min(16)).min(DAMAGED_REST_MAX);
        aside.tries += 1;
        aside.retry_at = Some(Instant::now() + rest);
        let table = table_of(&error).unwrap_or(TableId::MAX);
        if aside.tables.iter().any(|(known, _)| *known == table) {
            return;
        }
        tracing::error!(
            tree = space.name(),
            "a damaged table is excluded from merging; reads of the damaged block fail: {error}"
        );
        aside.tables.push((table, error));
    }

    /// Returns how a tree with damaged tables can be merged.
    fn around_damage(&self, space: Space) -> Around {
        let tree = &self.trees[space.index()];
        let mut aside = self.set_aside[space.index()].lock();
        if aside.tables.is_empty() {
            return Around::NoDamage;
        }
        let levels = levels(tree);
        let is_there = |id: &TableId| levels.iter().flatten().any(|table| table == id);
        // The tables were dropped or rewritten.
        if aside.tables.iter().all(|(id, _)| *id != TableId::MAX && !is_there(id)) {
            *aside = SetAside::default();
            return Around::NoDamage;
        }
        if aside.retry_at.is_none_or(|time| time <= Instant::now()) {
            return Around::NoDamage;
        }
        let is_damaged =
            |level: &[TableId]| level.iter().any(|id| aside.tables.iter().any(|(t, _)| t == id));
        let (Some(young), Some(next)) =
            (levels.first(), (1..levels.len()).find(|level| !levels[*level].is_empty()))
        else {
            return Around::Nothing;
        };
        if young.len() < usize::from(YOUNG_TABLES) || is_damaged(young) || is_damaged(&levels[next])
        {
            return Around::Nothing;
        }
        Around::PullDown(next as u8)
    }

    /// Returns the failures that keep trees from being merged.
    pub(super) fn merge_failures(&self) -> Vec<MergeFailure> {
        let mut failures: Vec<MergeFailure> = Vec::new();
        for space in Space::ALL {
            let aside = self.set_aside[space.index()].lock();
            for (_, error) in &aside.tables {
                failures.push(MergeFailure { space, error: error.clone(), tries: aside.tries });
            }
        }
        for (space, error, tries) in self.work.merge_failures() {
            failures.push(MergeFailure { space, error, tries });
        }
        failures
    }
}

/// How to merge a tree that may have damaged tables.
enum Around {
    /// Normally.
    NoDamage,
    /// Young tables are merged into this level; none of them is damaged.
    PullDown(u8),
    /// The tree is not merged for now.
    Nothing,
}

/// The tables of each level of a tree.
fn levels(tree: &Tree) -> Vec<Vec<TableId>> {
    let version = tree.current_version();
    version
        .iter_levels()
        .map(|level| level.iter().flat_map(|run| run.iter()).map(|table| table.id()).collect())
        .collect()
}

/// Returns the id of the damaged table.
fn table_of(error: &StoreError) -> Option<TableId> {
    match error {
        StoreError::Corrupt { file, .. } => file.file_name()?.to_str()?.parse().ok(),
        _ => None,
    }
}
