//! Reading many points: in the order of their record keys, or bucket by bucket.

use super::bytes::damaged;
use super::prune::Wanted;
use super::record::{Record, id_key};
use super::settings::SharedSettings;
use crate::layout::{Area, RecordCursor, Records};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use value::{RawDoc, Result};

/// How many points are looked up together at first, and at most.
const TOGETHER_MIN: usize = 8;
const TOGETHER_MAX: usize = 4096;

/// Points in the order of their record keys.
pub(super) struct InOrder {
    records: Arc<dyn Records>,
    /// Record keys with the keys of their buckets.
    entries: Box<dyn RecordCursor>,
    ready: VecDeque<(Vec<u8>, Vec<u8>)>,
    together: usize,
    lent: (Vec<u8>, Vec<u8>),
}

impl InOrder {
    pub(super) fn new(records: Arc<dyn Records>, entries: Box<dyn RecordCursor>) -> InOrder {
        let lent = (Vec::new(), Vec::new());
        InOrder { records, entries, ready: VecDeque::new(), together: TOGETHER_MIN, lent }
    }

    /// Looks up the next points: each of their buckets is read once.
    fn look_up(&mut self) -> Result<()> {
        let mut ids: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut buckets: BTreeMap<Vec<u8>, HashMap<Vec<u8>, usize>> = BTreeMap::new();
        while ids.len() < self.together {
            let Some((id, bucket)) = self.entries.next()? else { break };
            let wanted = (id.to_vec(), ids.len());
            if let Some(own) = buckets.get_mut(bucket) {
                own.insert(wanted.0, wanted.1);
            } else {
                buckets.insert(bucket.to_vec(), HashMap::from([wanted]));
            }
            ids.push((id.to_vec(), Vec::new()));
        }
        self.together = (self.together * 4).min(TOGETHER_MAX);
        let mut key = Vec::new();
        for (bucket, wanted) in buckets {
            let record = self.records.get(Area::Own, &bucket)?.ok_or_else(damaged)?;
            let mut left = wanted.len();
            for doc in Record::read(&record)?.documents()? {
                id_key(RawDoc::new(&doc), &mut key);
                if let Some(at) = wanted.get(&key)
                    && let Some(slot) = ids.get_mut(*at)
                {
                    slot.1 = doc;
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                }
            }
            if left > 0 {
                return Err(damaged());
            }
        }
        self.ready = ids.into();
        Ok(())
    }
}

impl RecordCursor for InOrder {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.ready.is_empty() {
            self.look_up()?;
        }
        let Some(next) = self.ready.pop_front() else { return Ok(None) };
        self.lent = next;
        Ok(Some((&self.lent.0, &self.lent.1)))
    }
}

/// All documents, as far as a filter may accept them: those that are stored as they are, and the points of one bucket after the other.
pub(super) struct AllPoints {
    plain: Option<Box<dyn RecordCursor>>,
    buckets: Box<dyn RecordCursor>,
    /// The points of the current bucket; the next one is the last.
    docs: Vec<Vec<u8>>,
    backward: bool,
    key: Vec<u8>,
    doc: Vec<u8>,
    settings: SharedSettings,
    /// What the filter requires.
    wanted: Option<Wanted>,
}

impl AllPoints {
    pub(super) fn new(
        settings: SharedSettings,
        plain: Box<dyn RecordCursor>,
        buckets: Box<dyn RecordCursor>,
        backward: bool,
        wanted: Option<Wanted>,
    ) -> AllPoints {
        let (docs, key, doc) = (Vec::new(), Vec::new(), Vec::new());
        AllPoints { plain: Some(plain), buckets, docs, backward, key, doc, settings, wanted }
    }
}

impl RecordCursor for AllPoints {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if let Some(plain) = &mut self.plain {
            match plain.next()? {
                Some((key, doc)) => {
                    self.key.clear();
                    self.key.extend_from_slice(key);
                    self.doc.clear();
                    self.doc.extend_from_slice(doc);
                    return Ok(Some((&self.key, &self.doc)));
                }
                None => self.plain = None,
            }
        }
        loop {
            if let Some(doc) = self.docs.pop() {
                self.doc = doc;
                id_key(RawDoc::new(&self.doc), &mut self.key);
                return Ok(Some((&self.key, &self.doc)));
            }
            let Some((key, bucket)) = self.buckets.next()? else { return Ok(None) };
            if let Some(wanted) = &self.wanted
                && !wanted.may_be_in(&self.settings, key, bucket)?
            {
                continue;
            }
            self.docs = Record::read(bucket)?.documents()?;
            if !self.backward {
                self.docs.reverse();
            }
        }
    }
}
