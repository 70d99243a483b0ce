//! Fields that are written to targets after a number of changes or some time, not with each change.
//!
//! The record of a group has every change at once, in the commit of its source, so nothing is lost
//! when the process ends. The group waits in the queue until its targets are written: by the change
//! that makes the number full, when the time is over, or for a reader that asks for fresh values.

use super::grouped::{Fold, Value};
use super::groups::Group;
use super::record::Record;
use crate::documents::{Documents, Key};
use crate::pattern::Pattern;
use crate::queue;
use value::Result;

/// What is written later, and when.
#[derive(Clone, Debug)]
pub struct Flush {
    /// After how many changes of a group.
    pub every: i64,
    /// After how many milliseconds.
    pub after_ms: u64,
    /// For each field, whether it is written later.
    pub fields: Vec<bool>,
}

impl Fold {
    /// Counts the changes of a group that its targets do not show yet. Returns whether they wait.
    pub(super) fn holds_back(&self, pattern: &Pattern, record: &mut Record, group: &Group) -> bool {
        let Some(flush) = self.flush.as_ref().filter(|_| pattern.phase.is_built()) else {
            return false;
        };
        record.held += group.changes() as i64;
        let waits = record.held < flush.every && record.children > 0;
        if !waits {
            record.held = 0;
        }
        waits
    }

    /// Queues a group, and writes the fields that do not wait.
    pub(super) fn hold_back(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Key<'_>,
        record: &Record,
    ) -> Result<()> {
        if !queue::has(pattern, documents, key.encoded)? {
            queue::put(pattern, documents, key.encoded, key.value)?;
        }
        let later = self.flush.as_ref().map_or(&[][..], |flush| &flush.fields);
        let now: Vec<Value<'_>> = self
            .values(record)
            .into_iter()
            .zip(later)
            .filter_map(|(value, later)| (!later).then_some(value))
            .collect();
        if !now.is_empty() {
            self.write_values(pattern, documents, key, &now, true, None)?;
        }
        Ok(())
    }
}
