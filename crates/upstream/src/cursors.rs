//! Which member has a cursor.
//!
//! Cursors that are not known here are looked for on the primary: another process, or this one before
//! a restart, may have opened them.

use crate::member::Member;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A cursor that is not read for this long is forgotten. Members close idle cursors much earlier.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60 * 60);
/// Idle cursors are looked for when the table has grown to this size, and at each doubling.
const SWEEP_MIN: usize = 1024;

/// The cursors of all clients.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// By the id that the client has.
    cursors: HashMap<i64, Cursor>,
    swept_at: usize,
}

#[derive(Debug)]
struct Cursor {
    member: Arc<Member>,
    /// Its id on the member.
    id: i64,
    used: Instant,
}

impl Cursors {
    /// Takes a cursor of a member. Returns the id for the client: that of the member, or another
    /// one if a cursor of another member has it.
    pub(crate) fn add(&self, member: &Arc<Member>, id: i64) -> i64 {
        let mut table = self.table.lock();
        table.sweep();
        let mut shown = id;
        loop {
            let cursor = || Cursor { member: Arc::clone(member), id, used: Instant::now() };
            match table.cursors.entry(shown) {
                Entry::Vacant(entry) => {
                    entry.insert(cursor());
                    return shown;
                }
                Entry::Occupied(mut entry)
                    if Arc::ptr_eq(&entry.get().member, member) && entry.get().id == id =>
                {
                    entry.insert(cursor());
                    return shown;
                }
                Entry::Occupied(_) => shown = fastrand::i64(1..),
            }
        }
    }

    /// The member and the id there of a cursor that a client names.
    pub(crate) fn find(&self, shown: i64) -> Option<(Arc<Member>, i64)> {
        let mut table = self.table.lock();
        let cursor = table.cursors.get_mut(&shown)?;
        cursor.used = Instant::now();
        Some((Arc::clone(&cursor.member), cursor.id))
    }

    /// Forgets a cursor that is closed.
    pub(crate) fn remove(&self, shown: i64) {
        self.table.lock().cursors.remove(&shown);
    }
}

impl Table {
    fn sweep(&mut self) {
        if self.cursors.len() < self.swept_at.saturating_mul(2).max(SWEEP_MIN) {
            return;
        }
        self.cursors.retain(|_, cursor| cursor.used.elapsed() < FORGOTTEN_AFTER);
        self.swept_at = self.cursors.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(address: &str) -> Arc<Member> {
        Arc::new(Member::new(client::Target::parse(address).expect("an address")))
    }

    #[test]
    fn equal_ids_of_two_members_are_told_apart() {
        let (cursors, one, two) = (Cursors::default(), member("a:1"), member("b:2"));
        let first = cursors.add(&one, 7);
        let second = cursors.add(&two, 7);
        assert_eq!(first, 7);
        assert_ne!(second, 7);
        let found = |id| cursors.find(id).map(|(member, id)| (member.address().to_owned(), id));
        assert_eq!(found(first), Some(("a:1".to_owned(), 7)));
        assert_eq!(found(second), Some(("b:2".to_owned(), 7)));
        assert_eq!(cursors.add(&one, 7), 7);
        cursors.remove(first);
        assert_eq!(found(first), None);
        assert!(found(second).is_some());
    }
}
