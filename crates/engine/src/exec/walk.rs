//! Traversal of a tree by an index, from documents to those that refer to them. Each document is
//! returned once.

use super::Examined;
use super::entries::damaged;
use super::scan::{Row, dangling, fetch};
use crate::catalog::Collection;
use crate::index::maintain::{entry_key, record_of};
use crate::operation::Operation;
use crate::planner::walk::Walk;
use crate::records::pattern_reads::visit_matching;
use crate::store_failed;
use ::patterns::Find;
use ::patterns::descent::Start;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Bound;
use store::{Bytes, Direction, Range, Snapshot, Space};
use value::{RawDoc, Result, Val, keys};

/// Remaining levels; `None` for no limit.
type Levels = Option<u32>;

/// A traversal in progress.
pub struct WalkScan {
    walk: Walk,
    starts: VecDeque<Start>,
    /// Nodes whose children are still to be read, with their remaining levels.
    queue: VecDeque<(Vec<u8>, Levels)>,
    /// The children being read, and the remaining levels below them.
    children: Option<(Range, Levels)>,
    /// Records already returned.
    given: HashSet<Bytes>,
    /// Nodes whose children were read, with the levels at that time.
    walked: HashMap<Vec<u8>, Levels>,
}

impl WalkScan {
    /// Creates a traversal, which starts with the first call of `next`.
    #[must_use]
    pub fn new(walk: &Walk) -> WalkScan {
        WalkScan {
            walk: walk.clone(),
            starts: walk.starts.iter().cloned().collect(),
            queue: VecDeque::new(),
            children: None,
            given: HashSet::new(),
            walked: HashMap::new(),
        }
    }

    /// Returns the next node.
    ///
    /// # Errors
    /// When the store fails, the index disagrees with its documents, or the operation is stopped.
    pub fn next(
        &mut self,
        snapshot: &Snapshot,
        collection: &Collection,
        examined: &mut Examined,
        op: &Operation,
    ) -> Result<Option<Row>> {
        loop {
            op.check()?;
            if let Some((range, levels)) = &mut self.children {
                let levels = *levels;
                let Some((entry, _)) = range.next_entry().map_err(store_failed)? else {
                    self.children = None;
                    continue;
                };
                examined.keys += 1;
                let record = record_of(&self.walk.index, &entry);
                let record = record.ok_or_else(|| damaged(&self.walk.index))?;
                if self.walk.is_by_id() {
                    self.enter(record.to_vec(), levels);
                }
                let record = Bytes::copy_from(record);
                let known = self.given.contains(&record);
                if known && self.walk.is_by_id() {
                    continue;
                }
                let row = fetch(snapshot, collection, record)?;
                let row = row.ok_or_else(|| dangling(collection))?;
                examined.documents += 1;
                if !self.walk.is_by_id() {
                    self.enter(self.walk.name_of(RawDoc::new(&row.doc)), levels);
                }
                if self.given.insert(row.record.clone()) {
                    return Ok(Some(row));
                }
            } else if let Some((name, levels)) = self.queue.pop_front() {
                let from = entry_key(&self.walk.index, &name, &[]);
                let mut to = from.clone();
                to.push(0xFF);
                let (from, to) = (Bound::Included(&*from), Bound::Excluded(&*to));
                let range = snapshot.range(Space::Indexes, from, to, Direction::Forward);
                let below = levels.map(|levels| levels.saturating_sub(1));
                self.children = Some((range.map_err(store_failed)?, below));
            } else {
                let Some(start) = self.starts.pop_front() else { return Ok(None) };
                self.enter(keys::key(start.name.get()), start.levels);
                if start.itself
                    && let Some(row) = self.find(snapshot, collection, start.name.get())?
                {
                    examined.keys += 1;
                    examined.documents += 1;
                    if self.given.insert(row.record.clone()) {
                        return Ok(Some(row));
                    }
                }
            }
        }
    }

    /// Adds a node to the queue, unless its children were already read to at least this depth.
    fn enter(&mut self, name: Vec<u8>, levels: Levels) {
        let deep = |levels: Levels| levels.unwrap_or(u32::MAX);
        let done = self.walked.get(&name).is_some_and(|known| deep(*known) >= deep(levels));
        if !done && levels != Some(0) {
            self.walked.insert(name.clone(), levels);
            self.queue.push_back((name, levels));
        }
    }

    /// Returns the node with this name.
    fn find(
        &self,
        snapshot: &Snapshot,
        collection: &Collection,
        name: Val<'_>,
    ) -> Result<Option<Row>> {
        let mut found = None;
        let find =
            Find { collection: &collection.name, path: &self.walk.id, value: name, after: &[] };
        let documents = (collection.id, collection.layouts.as_ref());
        visit_matching(snapshot, documents, &collection.indexes, &find, &mut |doc| {
            let record = keys::key(doc.get("_id").unwrap_or(Val::Null));
            found = Some(Row { record: record.into(), doc: Bytes::copy_from(doc.bytes()) });
            Ok(false)
        })?;
        Ok(found)
    }
}
