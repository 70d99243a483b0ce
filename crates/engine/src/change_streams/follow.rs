//! Reading the log change by change, from a place onwards, as far as it goes now.

use crate::changes::log::Entry;
use crate::changes::record::{Change, ChangeOffsets, Reader};
use crate::txn::Data;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use value::{Code, Error, Result};

/// A place in the log that moves on.
pub(super) struct Follower {
    /// The record that was taken last began here.
    after: u64,
    /// All changes up to this time were looked at.
    pub(super) seen: u64,
    waiting: VecDeque<Entry>,
    current: Option<Reader>,
}

impl Follower {
    /// Begins with the first change at or after a time.
    ///
    /// # Errors
    /// ChangeStreamHistoryLost when changes since then are gone.
    pub(super) fn starting_at(data: &Data, time: u64) -> Result<Follower> {
        if data.changes.lost.load(Ordering::Relaxed) >= time {
            return Err(history_lost());
        }
        let after = data.changes.start_of(&*data.store, time)?;
        let seen = time.saturating_sub(1);
        Ok(Follower { after, seen, waiting: VecDeque::new(), current: None })
    }

    /// Begins with the oldest change that is there.
    pub(super) fn from_the_beginning() -> Follower {
        Follower { after: 0, seen: 0, waiting: VecDeque::new(), current: None }
    }

    /// Takes the next change; look at it with `change`. `None` at the end of the log.
    ///
    /// # Errors
    /// When the store fails, or ChangeStreamHistoryLost when the log was cut behind the place.
    pub(super) fn next(&mut self, data: &Data) -> Result<Option<ChangeOffsets>> {
        loop {
            if let Some(reader) = &mut self.current {
                if let Some(step) = reader.next() {
                    return Ok(Some(step));
                }
                self.seen = self.seen.max(reader.last());
                self.current = None;
            }
            if self.waiting.is_empty() {
                self.waiting = data.changes.read_after(&*data.store, self.after)?.into();
                let lost = data.changes.lost.load(Ordering::Relaxed);
                if lost > self.seen && self.after > 0 {
                    return Err(history_lost());
                }
            }
            let Some(entry) = self.waiting.pop_front() else { return Ok(None) };
            self.after = entry.first;
            self.current = Some(Reader::new(entry.record, entry.first));
        }
    }

    /// The next change of the same record, if there is one.
    pub(super) fn next_of_record(&mut self) -> Option<ChangeOffsets> {
        self.current.as_mut()?.next()
    }

    /// The change that was taken last.
    pub(super) fn change(&self, step: &ChangeOffsets) -> Option<Change<'_>> {
        Some(self.current.as_ref()?.change(step))
    }
}

pub(super) fn history_lost() -> Error {
    Error::new(
        Code::CHANGE_STREAM_HISTORY_LOST,
        "Resume of change stream was not possible, as the resume point may no longer be in the \
         oplog.",
    )
    .with_label("NonResumableChangeStreamError")
}
