//! Open iterators of trees. An iterator holds the memtables and tables that were there when it was
//! opened, so one that lies idle (a cursor between two batches) would hold them for as long as the
//! cursor is open. After a flush all iterators from before are given up; a range that goes on opens
//! a new one behind the last entry that it has read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::read::Pairs;

/// The list is cleaned when it has grown to so many, or to twice of what was left then.
const CLEAN_AT: usize = 64;

/// An iterator that may be taken away between two uses.
pub(super) struct OpenReader {
    /// Nothing while it is in use, or after it was given up.
    entries: Mutex<Option<Pairs>>,
    given_up: AtomicBool,
}

impl OpenReader {
    /// Takes the iterator out to use it; nothing if it was given up.
    pub(super) fn take(&self) -> Option<Pairs> {
        let entries = self.entries.lock().take();
        entries.filter(|_| !self.given_up.load(Ordering::Acquire))
    }

    /// Gives the iterator back after use.
    pub(super) fn put(&self, entries: Pairs) {
        let mut place = self.entries.lock();
        // Under the lock, so that it is not missed by who gives it up now.
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
    /// A place for an iterator that is opened next, and put there after its first use.
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

    /// Gives up all that were opened before now. Those in use are given up when they are put back.
    pub(super) fn give_up_all(&self) {
        let open = std::mem::take(&mut self.0.lock().open);
        // Outside of the list's lock: freeing what they hold may take its time.
        for reader in open.iter().filter_map(Weak::upgrade) {
            drop(reader.give_up());
        }
    }
}
