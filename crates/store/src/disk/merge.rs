//! Merging tables, and what happens when it fails: the files that a merge has begun are removed
//! (`leftovers.rs`), the tree rests for a while that grows (`work.rs`), and a tree with a damaged
//! table is merged around it where its levels allow that.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lsm_tree::compaction::{CompactionStrategy, Leveled, PullDown};
use lsm_tree::{AbstractTree, TableId, Tree};

use super::Shared;
use super::trees::{TABLE_BYTES, tree_error};
use crate::stats::MergeFailure;
use crate::{Result, Space, StoreError};

/// So many tables that were written from memory are merged at once: each merge reads what the older
/// ones hold, too. Reads that no page answers look into all of them, by their filters.
const YOUNG_TABLES: u8 = 8;
/// A table that is damaged is left alone for this long, twice as long after each further try, ...
const DAMAGED_REST: Duration = Duration::from_secs(60);
/// ... up to this.
const DAMAGED_REST_MAX: Duration = Duration::from_secs(6 * 3600);

/// Damaged tables of a tree, which merging leaves alone.
#[derive(Default)]
pub(super) struct SetAside {
    tables: Vec<(TableId, StoreError)>,
    tries: u32,
    retry_at: Option<Instant>,
}

impl SetAside {
    /// A merge went well: a failure that was traced to no table is over.
    fn forgive(&mut self) {
        self.tables.retain(|(table, _)| *table != TableId::MAX);
    }
}

impl Shared {
    /// One step of merging a tree; whether there may be another.
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
                // Reported by `merge_failures`; the tree rests by its own clock.
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

    /// Runs something that replaces tables; what it has begun is removed if it fails.
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
            // The filter of dropped ranges ends a merge that way.
            Err(_) if self.work.is_stopping() => Err(StoreError::Closed),
            Err(error) => {
                drop(attempt);
                Err(tree_error(tree, &error))
            }
        }
    }

    /// Notes what a merge has changed.
    pub(super) fn after_merge(&self, space: Space) {
        let tree = &self.trees[space.index()];
        self.history.note_tables(space, tree, &[]);
        self.advice.note_tables(space, tree);
        self.let_go();
        self.note_debt(space);
    }

    /// Notes how far the merging of a tree is behind.
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
            "a damaged table is left out of merging; what is damaged cannot be read: {error}"
        );
        aside.tables.push((table, error));
    }

    /// How a tree can be merged though some of its tables are damaged.
    fn around_damage(&self, space: Space) -> Around {
        let tree = &self.trees[space.index()];
        let mut aside = self.set_aside[space.index()].lock();
        if aside.tables.is_empty() {
            return Around::NoDamage;
        }
        let levels = levels(tree);
        let is_there = |id: &TableId| levels.iter().flatten().any(|table| table == id);
        // Dropped with everything in it, or rewritten after all.
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

    /// What keeps trees from being merged.
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
    /// As always.
    NoDamage,
    /// Young tables go to this level, neither of which is damaged.
    PullDown(u8),
    /// Not at all for now.
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

/// The number of the damaged table.
fn table_of(error: &StoreError) -> Option<TableId> {
    match error {
        StoreError::Corrupt { file, .. } => file.file_name()?.to_str()?.parse().ok(),
        _ => None,
    }
}
