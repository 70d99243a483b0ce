//! Access advice to the kernel for table files: random, so that a point read does not read half a
//! megabyte around its block, or normal (with read-ahead) while a scan runs.
//!
//! The trees read all blocks through cached file descriptors. The advice belongs to the
//! descriptor, so it is set for a whole tree at a time: a scan switches to read-ahead, and the
//! first point read after scans have ended switches back.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lsm_tree::{AbstractTree, DescriptorTable, GlobalTableId, Table, TableId, Tree};
use parking_lot::Mutex;
use rustix::fs::{Advice, fadvise};

use super::trees::tables;
use super::view::Newest;
use crate::Space;

/// How many tables are opened at once to set the advice; others go without it.
const OPENED_AT_ONCE: usize = 100;
/// A scan that has read no page for this time counts as ended.
const SCAN_ENDS: Duration = Duration::from_millis(200);

/// The access advice of all trees.
pub(super) struct FileAdvice {
    files: Arc<DescriptorTable>,
    begun: Instant,
    trees: [TreeAdvice; 4],
}

#[derive(Default)]
struct TreeAdvice {
    scanning: AtomicBool,
    /// When a scan last read from the tree, in milliseconds since the store was opened.
    last_scan: AtomicU64,
    /// The highest table number for which advice was set.
    advised: Mutex<Option<TableId>>,
}

impl FileAdvice {
    /// Advice for the files that these descriptors belong to.
    pub(super) fn new(files: Arc<DescriptorTable>) -> FileAdvice {
        FileAdvice { files, begun: Instant::now(), trees: Default::default() }
    }

    /// Called when a scan reads from the tree.
    pub(super) fn note_scan(&self, space: Space, tree: &Tree, newest: &Newest) {
        let advice = &self.trees[space.index()];
        advice.last_scan.store(self.now(), Ordering::Relaxed);
        if !advice.scanning.load(Ordering::Relaxed) {
            self.switch(space, tree, newest, true);
        }
    }

    /// Called when a point read reads from the tree.
    pub(super) fn note_point_read(&self, space: Space, tree: &Tree, newest: &Newest) {
        let advice = &self.trees[space.index()];
        if advice.scanning.load(Ordering::Relaxed) {
            let idle = self.now().saturating_sub(advice.last_scan.load(Ordering::Relaxed));
            if u128::from(idle) > SCAN_ENDS.as_millis() {
                self.switch(space, tree, newest, false);
            }
        }
    }

    /// Sets the advice for new tables.
    pub(super) fn note_tables(&self, space: Space, tree: &Tree) {
        let advice = &self.trees[space.index()];
        // Before the lock: it waits while a merge of the tree finishes.
        let now = tables(tree);
        let mut advised = advice.advised.lock();
        let mut new: Vec<Table> =
            now.into_iter().filter(|table| Some(table.id()) > *advised).collect();
        new.sort_unstable_by_key(|table| std::cmp::Reverse(table.id()));
        *advised = new.first().map(|table| table.id()).max(*advised);
        // More would only evict each other from the descriptor cache.
        new.truncate(OPENED_AT_ONCE);
        let scanning = advice.scanning.load(Ordering::Relaxed);
        for table in &new {
            let id = GlobalTableId::from((tree.id(), table.id()));
            if let Ok(file) = File::open(&*table.path) {
                advise(&file, scanning);
                self.files.insert_for_table(id, Arc::new(file));
            }
        }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn switch(&self, space: Space, tree: &Tree, newest: &Newest, scanning: bool) {
        let advice = &self.trees[space.index()];
        // `note_tables` opens files under this lock. Whoever reads next can switch.
        let Some(_advised) = advice.advised.try_lock() else { return };
        if advice.scanning.swap(scanning, Ordering::Relaxed) != scanning {
            for table in &newest.tables().list {
                let id = GlobalTableId::from((tree.id(), table.id()));
                if let Some(file) = self.files.access_for_table(&id) {
                    advise(&file, scanning);
                }
            }
        }
    }
}

/// Errors are ignored: the advice only affects speed.
fn advise(file: &File, scanning: bool) {
    let advice = if scanning { Advice::Normal } else { Advice::Random };
    let _ = fadvise(file, 0, None, advice);
}
