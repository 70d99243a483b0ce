//! Merging of tables and its failures. If a merge fails, its unfinished files are removed
//! (`leftovers.rs`) and the tree is not merged for a growing time (`work.rs`). A damaged table is
//! set aside: the tree is merged around it (`around.rs`), and the table is looked at again after a
//! growing time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lsm_tree::compaction::{CompactionStrategy, Leveled, MoveDown, PullDown};
use lsm_tree::{AbstractTree, Table, TableId, Tree};

use super::Shared;
use super::around::{self, Level, MergeStep};
use super::trees::{TABLE_BYTES, check_table, is_unreadable, tables, tree_error};
use super::view::Tables;
use crate::stats::MergeFailure;
use crate::{Damage, Result, Space, StoreError};

/// How many flushed tables are merged at once. Each merge also rewrites the older tables. Reads
/// that find no page check the filters of all young tables.
const YOUNG_TABLES: u8 = 8;
/// A damaged table is not looked at for this time, which doubles each time, ...
const DAMAGED_REST: Duration = Duration::from_secs(60);
/// ... up to this time.
const DAMAGED_REST_MAX: Duration = Duration::from_secs(6 * 3600);
/// Stands for the table in a failure that was not traced to one.
const UNKNOWN: TableId = TableId::MAX;

/// Damaged tables of a tree, which are not merged.
#[derive(Default)]
pub(super) struct SetAside {
    tables: Vec<(TableId, StoreError)>,
    tries: u32,
    retry_at: Option<Instant>,
    /// Whether young tables pile up because the tree cannot be merged around the damage.
    is_stuck: bool,
}

impl SetAside {
    /// Called after a successful merge: clears a failure that was not traced to a table.
    fn forgive(&mut self) {
        self.tables.retain(|(table, _)| *table != UNKNOWN);
        if self.tables.is_empty() {
            *self = SetAside::default();
        }
    }

    /// Begins the next, longer rest.
    fn rest(&mut self) {
        let rest = DAMAGED_REST.saturating_mul(1 << self.tries.min(16)).min(DAMAGED_REST_MAX);
        self.tries += 1;
        self.retry_at = Some(Instant::now() + rest);
    }

    /// Lets the tables be looked at again at once.
    #[cfg(test)]
    pub(super) fn end_rest(&mut self) {
        self.retry_at = None;
    }

    fn has(&self, table: TableId) -> bool {
        self.tables.iter().any(|(known, _)| *known == table)
    }
}

impl Shared {
    /// Runs one merge step of a tree. Returns whether there may be another.
    pub(super) fn merge_step(&self, space: Space) -> Result<bool> {
        let tree = &self.trees[space.index()];
        if self.dropped.has_any(space) {
            match self.reclaim(space, tree) {
                Err(error @ StoreError::Corrupt { .. }) => self.set_aside(space, error),
                result => result?,
            }
        }
        let strategy: Arc<dyn CompactionStrategy> = match self.next_step(space) {
            MergeStep::Leveled => Arc::new(
                Leveled::default()
                    .with_table_target_size(TABLE_BYTES)
                    .with_l0_threshold(YOUNG_TABLES),
            ),
            MergeStep::Merge { from, to } => Arc::new(PullDown(from, to)),
            MergeStep::Move { from, to } => {
                let moved = self.move_level(space, from, to)?;
                self.after_merge(space);
                return Ok(moved);
            }
            MergeStep::Rest { .. } => return Ok(false),
        };
        let before = tree.current_version().id();
        match self.compact(space, |watermark| tree.compact(strategy, watermark)) {
            Ok(()) => self.set_aside[space.index()].lock().forgive(),
            Err(error @ StoreError::Corrupt { .. }) => {
                // Reported by `merge_failures`. The next step goes around it.
                self.set_aside(space, error);
                return Ok(true);
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

    /// Moves all tables of a level to another. Returns whether the tree has changed.
    pub(super) fn move_level(&self, space: Space, from: u8, to: u8) -> Result<bool> {
        // No table may be added between looking at the levels and moving one.
        let _registering = self.registering[space.index()].lock();
        let tree = &self.trees[space.index()];
        let before = tree.current_version().id();
        if around::can_move(&levels(tree, &SetAside::default()), from.into(), to.into()) {
            let strategy = Arc::new(MoveDown(from, to));
            self.compact(space, |watermark| tree.compact(strategy, watermark))?;
        }
        Ok(tree.current_version().id() != before)
    }

    /// Called after tables were added to a tree: its first ones move to the last level. Should
    /// young tables be damaged later, they have something to be put on (`around.rs`).
    pub(super) fn lay_ground(&self, space: Space) {
        let tree = &self.trees[space.index()];
        let levels = levels(tree, &SetAside::default());
        if levels.first().is_none_or(|young| young.runs != 1)
            || around::first_used(&levels, 1).is_some()
        {
            return;
        }
        // Merging would do it later.
        if let Err(error) = self.move_level(space, 0, levels.len() as u8 - 1) {
            tracing::debug!(tree = space.name(), "the first table stays where it is: {error}");
        }
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
        self.newest[space.index()].note_tables(Tables::of(tree));
        match result {
            Ok(()) => {
                attempt.succeed([]);
                Ok(())
            }
            // The filter of dropped ranges stops a merge with this error.
            Err(_) if self.work.is_stopping() => Err(StoreError::Closed),
            Err(error) => {
                drop(attempt);
                Err(self.merge_error(space, &error))
            }
        }
    }

    /// Records the result of a merge.
    pub(super) fn after_merge(&self, space: Space) {
        let tree = &self.trees[space.index()];
        self.history.note_tables(space, &self.newest[space.index()].tables(), &[]);
        self.advice.note_tables(space, tree);
        self.let_go();
        self.note_debt(space);
    }

    /// Records how far merging of a tree is behind.
    pub(super) fn note_debt(&self, space: Space) {
        let fails = self.why_not_merged(space).is_some();
        self.pressure.note(space, &self.trees[space.index()], fails);
    }

    /// Returns why the young tables of a tree are not merged, if that fails.
    pub(super) fn why_not_merged(&self, space: Space) -> Option<StoreError> {
        let aside = self.set_aside[space.index()].lock();
        let damage = aside.tables.first().filter(|_| aside.is_stuck);
        damage.map(|(_, error)| error.clone()).or_else(|| self.work.merge_failure(space))
    }

    /// Whether a tree has damaged tables.
    pub(super) fn has_damage(&self, space: Space) -> bool {
        !self.set_aside[space.index()].lock().tables.is_empty()
    }

    fn set_aside(&self, space: Space, error: StoreError) {
        let mut aside = self.set_aside[space.index()].lock();
        aside.rest();
        let table = table_of(&error).unwrap_or(UNKNOWN);
        if aside.has(table) {
            return;
        }
        tracing::error!(
            tree = space.name(),
            "a damaged table is excluded from merging; reads of the damaged block fail: {error}"
        );
        aside.tables.push((table, error));
    }

    /// Chooses the next step of a tree.
    fn next_step(&self, space: Space) -> MergeStep {
        self.look_at_damage_again(space);
        let tree = &self.trees[space.index()];
        let choose = || {
            let aside = self.set_aside[space.index()].lock();
            let levels = levels(tree, &aside);
            if aside.has(UNKNOWN) {
                let is_stuck =
                    levels.first().is_some_and(|young| young.runs >= YOUNG_TABLES.into());
                return (MergeStep::Rest { is_stuck }, None);
            }
            let step = around::next_step(&levels, YOUNG_TABLES.into());
            let stacked = match step {
                MergeStep::Merge { to, .. } => {
                    Some(to).filter(|to| levels[usize::from(*to)].runs > 1)
                }
                _ => None,
            };
            (step, stacked)
        };
        let (mut step, stacked) = choose();
        // After a restart it is not known which of its tables was damaged. Checking them takes less
        // than a large merge that fails.
        if let Some(level) = stacked {
            let tables = level_tables(tree, level.into());
            if let Some(error) = first_damage(tables) {
                self.set_aside(space, error);
                step = choose().0;
            }
        }
        self.set_aside[space.index()].lock().is_stuck =
            matches!(step, MergeStep::Rest { is_stuck: true });
        step
    }

    /// Forgets damaged tables that are no longer there, and after their rest those that can be
    /// read.
    fn look_at_damage_again(&self, space: Space) {
        let now = tables(&self.trees[space.index()]);
        let find = |id: TableId| now.iter().find(|table| table.id() == id);
        {
            let mut aside = self.set_aside[space.index()].lock();
            aside.tables.retain(|(id, _)| *id == UNKNOWN || find(*id).is_some());
            let rests = aside.retry_at.is_some_and(|time| time > Instant::now());
            if aside.tables.is_empty() {
                *aside = SetAside::default();
            }
            if aside.tables.is_empty() || rests {
                return;
            }
        }
        let mut aside = self.set_aside[space.index()].lock();
        let is_damaged = |table: &Table| !matches!(check_table(table, &mut |_| {}), Ok(None));
        aside.tables.retain(|(id, _)| find(*id).is_some_and(is_damaged));
        if !aside.tables.is_empty() {
            aside.rest();
        }
    }

    /// Converts the error of a merge; traces damage to a table that is not known as damaged yet.
    fn merge_error(&self, space: Space, error: &lsm_tree::Error) -> StoreError {
        let tree = &self.trees[space.index()];
        let mut candidates = tables(tree);
        candidates.retain(|table| !self.set_aside[space.index()].lock().has(table.id()));
        if let lsm_tree::Error::Io(io) = error
            && io.kind() != std::io::ErrorKind::UnexpectedEof
        {
            // A table that the disk cannot read is as good as damaged.
            let unreadable = is_unreadable(io).then(|| first_damage(candidates)).flatten();
            return unreadable.unwrap_or_else(|| tree_error(tree, error));
        }
        first_damage(candidates).unwrap_or_else(|| StoreError::Corrupt {
            file: tree.tree_config().path.clone(),
            offset: None,
            what: format!("{error:?}"),
        })
    }

    /// Returns the failures that keep tables from being merged.
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

/// The levels of a tree.
pub(super) fn levels(tree: &Tree, aside: &SetAside) -> Vec<Level> {
    let version = tree.current_version();
    let mut levels = Vec::new();
    for level in version.iter_levels() {
        let mut shape = Level { runs: level.iter().count(), ..Level::default() };
        for table in level.iter().flat_map(|run| run.iter()) {
            shape.bytes += table.metadata.file_size;
            shape.is_damaged |= aside.has(table.id());
        }
        levels.push(shape);
    }
    levels
}

/// The tables of one level.
fn level_tables(tree: &Tree, number: usize) -> Vec<Table> {
    let version = tree.current_version();
    let level = version.level(number);
    let runs = level.iter().flat_map(|level| level.iter());
    runs.flat_map(|run| run.iter().cloned()).collect()
}

/// Reads tables, the newest first, until one is damaged. Returns its damage.
fn first_damage(mut tables: Vec<Table>) -> Option<StoreError> {
    tables.sort_by_key(|table| std::cmp::Reverse(table.id()));
    tables.iter().find_map(|table| match check_table(table, &mut |_| {}) {
        Ok(None) => None,
        Ok(Some(Damage { file, offset, what })) => Some(StoreError::Corrupt { file, offset, what }),
        Err(error) => Some(StoreError::Corrupt {
            file: table.path.to_path_buf(),
            offset: None,
            what: error.to_string(),
        }),
    })
}

/// Returns the id of the damaged table.
fn table_of(error: &StoreError) -> Option<TableId> {
    match error {
        StoreError::Corrupt { file, .. } => file.file_name()?.to_str()?.parse().ok(),
        _ => None,
    }
}
