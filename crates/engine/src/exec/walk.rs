//! Walking from documents to those that name them, by an index: each is found once, whatever leads to it.

use super::Examined;
use super::entries::damaged;
use super::scan::{Row, dangling, fetch};
use crate::catalog::Collection;
use crate::index::maintain::{entry_key, record_of};
use crate::operation::Operation;
use crate::planner::walk::Walk;
use crate::records::pattern_reads::visit_found;
use crate::store_failed;
use ::patterns::Find;
use ::patterns::descent::Start;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Bound;
use store::{Bytes, Direction, Range, Snapshot, Space};
use value::{RawDoc, Result, Val, keys};

/// How many levels may follow; all of them without.
type Levels = Option<u32>;

/// A walk that is under way.
pub struct WalkScan {
    walk: Walk,
    starts: VecDeque<Start>,
    /// Nodes whose children are to be read: their names, and how many levels may follow.
    queue: VecDeque<(Vec<u8>, Levels)>,
    /// The children that are being read, and how many levels may follow below them.
    children: Option<(Range, Levels)>,
    /// Records that were given.
    given: HashSet<Bytes>,
    /// Nodes whose children were read, and how many levels.
    walked: HashMap<Vec<u8>, Levels>,
}

impl WalkScan {
    /// A walk that begins when the first node is asked for.
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

    /// The next node.
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

    /// Notes that the children of a node are wanted, unless they were read as far down already.
    fn enter(&mut self, name: Vec<u8>, levels: Levels) {
        let deep = |levels: Levels| levels.unwrap_or(u32::MAX);
        let done = self.walked.get(&name).is_some_and(|known| deep(*known) >= deep(levels));
        if !done && levels != Some(0) {
            self.walked.insert(name.clone(), levels);
            self.queue.push_back((name, levels));
        }
    }

    /// The node of a name.
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
        visit_found(snapshot, documents, &collection.indexes, &find, &mut |doc| {
            let record = keys::key(doc.get("_id").unwrap_or(Val::Null));
            found = Some(Row { record: record.into(), doc: Bytes::copy_from(doc.bytes()) });
            Ok(false)
        })?;
        Ok(found)
    }
}
