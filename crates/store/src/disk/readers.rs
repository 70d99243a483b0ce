//! Open iterators of trees. An iterator holds the memtables and tables that existed when it was
//! opened, so an idle one (a cursor between two batches) would hold them as long as the cursor is
//! open. After a flush all older iterators are closed; a range that continues opens a new one
//! after the last entry that it has read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::read::Pairs;

/// The list is cleaned when it reaches this length, or twice the length after the last cleaning.
const CLEAN_AT: usize = 64;

/// An iterator that may be closed between two uses.
pub(super) struct OpenReader {
    /// `None` while it is in use, or after it was closed.
    entries: Mutex<Option<Pairs>>,
    given_up: AtomicBool,
}

impl OpenReader {
    /// Takes the iterator out for use; `None` if it was closed.
    pub(super) fn take(&self) -> Option<Pairs> {
        let entries = self.entries.lock().take();
        entries.filter(|_| !self.given_up.load(Ordering::Acquire))
    }

    /// Returns the iterator after use.
    pub(super) fn put(&self, entries: Pairs) {
        let mut place = self.entries.lock();
        // Under the lock, so that a concurrent `give_up_all` does not miss it.
        if !self.given_up.load(Ordering::Acquire) {
            *place = Some(entries);
        }
    }

    fn give_up(&self) -> Option<Pairs> {
        self.given_up.store(true, Ordering::Release);
        self.entries.lock().take()
    }
}

/// All open iterators.
#[derive(Default)]
pub(super) struct Readers(Mutex<List>);

#[derive(Default)]
struct List {
    open: Vec<Weak<OpenReader>>,
    clean_at: usize,
}

impl Readers {
    /// Registers an iterator, which is opened next and stored after its first use.
    pub(super) fn add(&self) -> Arc<OpenReader> {
        let reader =
            Arc::new(OpenReader { entries: Mutex::new(None), given_up: AtomicBool::new(false) });
        let mut list = self.0.lock();
        if list.open.len() >= list.clean_at.max(CLEAN_AT) {
            list.open.retain(|reader| reader.strong_count() > 0);
            list.clean_at = list.open.len() * 2;
        }
        list.open.push(Arc::downgrade(&reader));
        reader
    }

    /// Closes all iterators opened before now. Those in use are closed when they are returned.
    pub(super) fn give_up_all(&self) {
        let open = std::mem::take(&mut self.0.lock().open);
        // Outside of the list's lock: freeing what they hold may take long.
        for reader in open.iter().filter_map(Weak::upgrade) {
            drop(reader.give_up());
        }
    }
}
