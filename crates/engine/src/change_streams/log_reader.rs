//! Reads the log change by change from a position, up to its current end.

use crate::changes::log::Entry;
use crate::changes::record::{Change, ChangeOffsets, Reader};
use crate::txn::Data;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use value::{Code, Error, Result};

/// A reader's position in the log.
pub(super) struct LogReader {
    /// The start time of the record read last.
    after: u64,
    /// All changes up to this time have been read.
    pub(super) seen: u64,
    waiting: VecDeque<Entry>,
    current: Option<Reader>,
}

impl LogReader {
    /// Starts at the first change at or after a time.
    ///
    /// # Errors
    /// ChangeStreamHistoryLost when changes since then were dropped.
    pub(super) fn starting_at(data: &Data, time: u64) -> Result<LogReader> {
        if data.changes.lost.load(Ordering::Relaxed) >= time {
            return Err(history_lost());
        }
        let after = data.changes.start_of(&*data.store, time)?;
        let seen = time.saturating_sub(1);
        Ok(LogReader { after, seen, waiting: VecDeque::new(), current: None })
    }

    /// Starts at the oldest change in the log.
    pub(super) fn from_the_beginning() -> LogReader {
        LogReader { after: 0, seen: 0, waiting: VecDeque::new(), current: None }
    }

    /// Advances to the next change; decode it with `change`. `None` at the end of the log.
    ///
    /// # Errors
    /// When the store fails; ChangeStreamHistoryLost when the log was truncated beyond the
    /// position.
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

    /// Decodes the change read last.
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
