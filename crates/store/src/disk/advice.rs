//! What the kernel is told about table files: that they are read at random, so that a point read does
//! not read half a megabyte around its block, or in order while a scan runs.
//!
//! The trees read all blocks through the descriptors that they keep. The advice stands with the
//! descriptor, so it is given for a whole tree at a time: a scan switches to reading ahead, and the
//! first point read after scans have ended switches back.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lsm_tree::{AbstractTree, DescriptorTable, GlobalTableId, Table, TableId, Tree};
use parking_lot::Mutex;
use rustix::fs::{Advice, fadvise};

use super::trees::tables;
use crate::Space;

/// So many tables are opened at once to give the advice; further ones go without it.
const OPENED_AT_ONCE: usize = 100;
/// A scan that has read no page for this long does not count any more.
const SCAN_ENDS: Duration = Duration::from_millis(200);

/// How the files of all trees are read.
pub(super) struct FileAdvice {
    files: Arc<DescriptorTable>,
    begun: Instant,
    trees: [TreeAdvice; 4],
}

#[derive(Default)]
struct TreeAdvice {
    scanning: AtomicBool,
    /// When a scan has last read from the tree, in milliseconds since the store was opened.
    last_scan: AtomicU64,
    /// The highest number of a table that advice was given for.
    advised: Mutex<Option<TableId>>,
}

impl FileAdvice {
    /// Advice for the files that these descriptors belong to.
    pub(super) fn new(files: Arc<DescriptorTable>) -> FileAdvice {
        FileAdvice { files, begun: Instant::now(), trees: Default::default() }
    }

    /// A scan reads from the tree.
    pub(super) fn note_scan(&self, space: Space, tree: &Tree) {
        let advice = &self.trees[space.index()];
        advice.last_scan.store(self.now(), Ordering::Relaxed);
        if !advice.scanning.load(Ordering::Relaxed) {
            self.switch(space, tree, true);
        }
    }

    /// A key is read from the tree.
    pub(super) fn note_point_read(&self, space: Space, tree: &Tree) {
        let advice = &self.trees[space.index()];
        if advice.scanning.load(Ordering::Relaxed) {
            let idle = self.now().saturating_sub(advice.last_scan.load(Ordering::Relaxed));
            if u128::from(idle) > SCAN_ENDS.as_millis() {
                self.switch(space, tree, false);
            }
        }
    }

    /// Gives the advice for tables that are new.
    pub(super) fn note_tables(&self, space: Space, tree: &Tree) {
        let advice = &self.trees[space.index()];
        let mut advised = advice.advised.lock();
        let mut new: Vec<Table> =
            tables(tree).into_iter().filter(|table| Some(table.id()) > *advised).collect();
        new.sort_unstable_by_key(|table| std::cmp::Reverse(table.id()));
        *advised = new.first().map(|table| table.id()).max(*advised);
        // More would only push each other out of the descriptors that are kept.
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

    fn switch(&self, space: Space, tree: &Tree, scanning: bool) {
        let advice = &self.trees[space.index()];
        let _advised = advice.advised.lock();
        if advice.scanning.swap(scanning, Ordering::Relaxed) != scanning {
            for table in tables(tree) {
                let id = GlobalTableId::from((tree.id(), table.id()));
                if let Some(file) = self.files.access_for_table(&id) {
                    advise(&file, scanning);
                }
            }
        }
    }
}

/// Only advice: what cannot be given changes nothing but speed.
fn advise(file: &File, scanning: bool) {
    let advice = if scanning { Advice::Normal } else { Advice::Random };
    let _ = fadvise(file, 0, None, advice);
}
