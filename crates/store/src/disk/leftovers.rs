//! Unfinished table files: of a merge that found a damaged block, or of a flush or load on a full
//! disk. The trees do not remove such files; this module does.
//!
//! A tree numbers its tables in ascending order, so the files of an attempt are between the number
//! before it and the number after it. Several attempts may run at once, so files are removed only
//! when none is running; tables that were added to the tree during an attempt are recorded.

use std::collections::HashSet;
use std::ops::Range;

use lsm_tree::{AbstractTree, TableId, Tree};
use parking_lot::Mutex;

use super::trees::TABLES;

/// The attempts of one tree.
#[derive(Default)]
pub(super) struct Leftovers(Mutex<Attempts>);

#[derive(Default)]
struct Attempts {
    under_way: usize,
    /// Number ranges in which failed attempts have left files.
    failed: Vec<Range<TableId>>,
    /// Tables that were added to the tree while an attempt was running.
    registered: HashSet<TableId>,
}

/// A running operation that writes table files.
pub(super) struct Attempt<'a> {
    leftovers: &'a Leftovers,
    tree: &'a Tree,
    first: TableId,
    failed: bool,
}

impl Leftovers {
    /// Begins an attempt. Unless it succeeds, its files are removed.
    pub(super) fn begin<'a>(&'a self, tree: &'a Tree) -> Attempt<'a> {
        let mut attempts = self.0.lock();
        attempts.under_way += 1;
        Attempt { leftovers: self, tree, first: tree.next_table_id(), failed: true }
    }
}

impl Attempt<'_> {
    /// Ends the attempt successfully; these tables are, or will be, part of the tree.
    pub(super) fn succeed(mut self, tables: impl IntoIterator<Item = TableId>) {
        self.failed = false;
        self.leftovers.0.lock().registered.extend(tables);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut attempts = self.leftovers.0.lock();
        attempts.under_way -= 1;
        let now = self.tree.current_version();
        attempts.registered.extend(now.iter_tables().map(|table| table.id()));
        if self.failed {
            let end = self.tree.next_table_id();
            if end > self.first {
                attempts.failed.push(self.first..end);
            }
        }
        if attempts.under_way == 0 {
            let failed = std::mem::take(&mut attempts.failed);
            let registered = std::mem::take(&mut attempts.registered);
            for numbers in failed {
                remove(self.tree, numbers, &registered);
            }
        }
    }
}

/// Removes the files of a tree with these numbers that are not registered.
fn remove(tree: &Tree, numbers: Range<TableId>, registered: &HashSet<TableId>) {
    let folder = &tree.tree_config().path;
    // If a table list reached the disk although writing it failed, it may name any of them.
    let pointer = std::fs::read(folder.join("current")).unwrap_or_default();
    let on_disk = pointer.first_chunk::<8>().map(|number| u64::from_le_bytes(*number));
    if on_disk != Some(tree.current_version().id()) {
        tracing::warn!(folder = %folder.display(), "unfinished tables stay until the next start");
        return;
    }
    for number in numbers.filter(|number| !registered.contains(number)) {
        let file = folder.join(TABLES).join(number.to_string());
        match std::fs::remove_file(&file) {
            Ok(()) => tracing::debug!(file = %file.display(), "removed an unfinished table"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "cannot remove an unfinished table");
            }
        }
    }
}
