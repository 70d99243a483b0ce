//! Reclaims the space of dropped ranges. Tables that hold nothing else are removed, many in one
//! step. Entries in other tables are removed when these are merged, or at once if they are many.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lsm_tree::{AbstractTree, SeqNo, Table, Tree};

use super::Shared;
use super::around::first_used;
use super::dropped::{DroppedRange, joined};
use super::log::Log;
use super::merge::{SetAside, levels};
use super::trees::{TABLE_BYTES, approximate_bytes, tables};
use crate::{Bytes, Result, Space, StoreError};

/// A tree up to this size is merged as a whole whenever a part of it was dropped; a larger one
/// only if dropped ranges still take a share of it.
const RECLAIM_BYTES: u64 = 16 << 20;
const RECLAIM_SHARE: u64 = 4;
/// Ranges that were checked are checked again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// The progress of reclaiming the dropped ranges of a tree.
#[derive(Default)]
pub(super) struct Reclaimed {
    /// Ranges with remaining entries, which later merges remove.
    looked_at: BTreeSet<DroppedRange>,
    last_look: Option<Instant>,
}

impl Shared {
    /// Reclaims as much as possible of the dropped ranges of a tree. Stops early when the store
    /// closes, and continues after the next start.
    pub(super) fn reclaim(&self, space: Space, tree: &Tree) -> Result<()> {
        let newest = &self.newest[space.index()];
        let mut reclaimed = self.reclaimed[space.index()].lock();
        if reclaimed.last_look.is_none_or(|time| time.elapsed() > LOOK_AGAIN) {
            reclaimed.looked_at.clear();
            reclaimed.last_look = Some(Instant::now());
        }
        let dropped = self.dropped.of(space);
        if dropped.iter().all(|range| reclaimed.looked_at.contains(range)) {
            return Ok(());
        }
        if let Some(log) = &self.log {
            // The drop must be on disk before any of its data is removed.
            log.sync(log.last())?;
        }
        self.drop_tables(space, tree, &joined(dropped.clone()))?;
        let mut left_bytes = 0;
        let mut left = Vec::new();
        for range in dropped {
            if self.work.is_stopping() {
                return Ok(());
            }
            match approximate_bytes(newest, SeqNo::MAX - 1, &range.from, &range.to) {
                0 => self.dropped.remove(&range),
                bytes => {
                    left_bytes += bytes;
                    left.push(range);
                }
            }
        }
        let size = tree.disk_space();
        // A merge of the whole tree would stop at a damaged table.
        let can_merge = !left.is_empty() && !self.has_damage(space);
        if can_merge && (size <= RECLAIM_BYTES || left_bytes >= size / RECLAIM_SHARE) {
            self.compact(space, |watermark| tree.major_compact(TABLE_BYTES, watermark))?;
            self.counters.compactions.fetch_add(1, Ordering::Relaxed);
            left.retain(|range| {
                let gone = approximate_bytes(newest, SeqNo::MAX - 1, &range.from, &range.to) == 0;
                if gone {
                    self.dropped.remove(range);
                }
                !gone
            });
        }
        // After this, only commits from before the drop can remain in memory. They are filtered
        // out when they are merged.
        reclaimed.looked_at = left.into_iter().collect();
        drop(reclaimed);
        self.after_merge(space);
        self.dropped.save(&self.path)
    }

    /// Merges all tables of a tree; returns how many bytes smaller it is.
    pub(super) fn compact_tree(&self, space: Space) -> Result<u64> {
        let tree = &self.trees[space.index()];
        let before = tree.disk_space();
        let merge = || self.compact(space, |watermark| tree.major_compact(TABLE_BYTES, watermark));
        let mut result = merge();
        if matches!(result, Err(StoreError::Full)) {
            self.give_way();
            self.reserve.release();
            result = merge();
        }
        result?;
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.reserve.measure_free();
        self.after_merge(space);
        Ok(before.saturating_sub(tree.disk_space()))
    }

    /// Gives up everything that is kept for speed or for reading the past: the disk is full.
    pub(super) fn give_way(&self) {
        self.history.forget(&self.tracker);
        self.log.iter().for_each(Log::remove_spares);
    }

    /// Reclaims dropped ranges although memory cannot be flushed because the disk is full.
    pub(super) fn make_room_by_drops(&self) {
        let dropped = Space::ALL.into_iter().filter(|space| self.dropped.has_any(*space));
        let dropped: Vec<Space> = dropped.collect();
        if !dropped.is_empty() {
            self.reserve.release();
            self.work.retry_merges();
            dropped.into_iter().for_each(|space| self.work.want_merge(space));
        }
    }

    /// Removes tables within dropped ranges, as many as possible in each step: each step writes
    /// and flushes a new table list.
    fn drop_tables(&self, space: Space, tree: &Tree, ranges: &[DroppedRange]) -> Result<()> {
        loop {
            if self.work.is_stopping() {
                return Ok(());
            }
            self.keep_ground(space, tree, ranges)?;
            // No table may be added between choosing and removing.
            let _registering = self.registering[space.index()].lock();
            let before = tree.table_count();
            let Some((from, to)) = droppable(&tables(tree), ranges) else { return Ok(()) };
            self.compact(space, |watermark| {
                tree.drop_range::<&[u8], _>(&*from..=&*to)?;
                // The tree would hold the tables until its next change, which may never come on a
                // full disk.
                let folder = &tree.tree_config().path;
                tree.get_version_history_lock().maintenance(folder, watermark)
            })?;
            if tree.table_count() == before {
                return Ok(());
            }
        }
    }

    /// If everything below the young tables of a tree is to be dropped, these move on top of it
    /// first: damaged young tables need something that they lie on (`around.rs`).
    fn keep_ground(&self, space: Space, tree: &Tree, ranges: &[DroppedRange]) -> Result<()> {
        let levels = levels(tree, &SetAside::default());
        let Some(to) = first_used(&levels, 1).filter(|_| levels[0].runs > 1) else {
            return Ok(());
        };
        let version = tree.current_version();
        let mut old = version.iter_levels().skip(1).flat_map(|level| level.iter());
        if old.all(|run| run.iter().all(|table| is_within(table, ranges))) {
            self.move_level(space, 0, to as u8)?;
        }
        Ok(())
    }
}

/// Whether all keys of a table are in one of the ranges, which are sorted and do not overlap.
fn is_within(table: &Table, ranges: &[DroppedRange]) -> bool {
    let range = &table.metadata.key_range;
    let (min, max): (&[u8], &[u8]) = (range.min(), range.max());
    let after = ranges.partition_point(|range| &*range.from <= min);
    after > 0 && max < &*ranges[after - 1].to
}

/// The first and last key of as many tables as possible that lie within `ranges`, such that no
/// other table lies between them.
fn droppable(tables: &[Table], ranges: &[DroppedRange]) -> Option<(Bytes, Bytes)> {
    let mut tables: Vec<(&[u8], &[u8], bool)> = tables
        .iter()
        .map(|table| {
            let range = &table.metadata.key_range;
            (&**range.min(), &**range.max(), is_within(table, ranges))
        })
        .collect();
    tables.sort_unstable();
    let others: Vec<(&[u8], &[u8])> =
        tables.iter().filter(|table| !table.2).map(|table| (table.0, table.1)).collect();
    let mut best: Option<(usize, &[u8], &[u8])> = None;
    let mut group: Option<(usize, &[u8], &[u8])> = None;
    for (min, max, _) in tables.iter().filter(|table| table.2) {
        let grown = group.map(|(count, from, to)| (count + 1, from, to.max(max)));
        let holds_other = |(_, from, to): &(usize, &[u8], &[u8])| {
            others.iter().any(|(min, max)| from <= min && max <= to)
        };
        group = Some(match grown.filter(|grown| !holds_other(grown)) {
            Some(grown) => grown,
            None => (1, min, max),
        });
        if group.map(|group| group.0) > best.map(|best| best.0) {
            best = group;
        }
    }
    best.map(|(_, from, to)| (Bytes::copy_from(from), Bytes::copy_from(to)))
}
