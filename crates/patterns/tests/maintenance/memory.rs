//! Documents in memory, with patterns that maintain them: for tests of the patterns themselves.

use patterns::documents::{Documents, Find};
use patterns::graph;
use patterns::maintain::{CollectionPatterns, Origin, Pending};
use patterns::pattern::{Pattern, Phase};
use patterns::queue;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, keys};

/// A database in memory.
#[derive(Clone, Default)]
pub struct Memory {
    collections: BTreeMap<String, BTreeMap<Vec<u8>, DocBuf>>,
    states: BTreeMap<(u32, Vec<u8>), DocBuf>,
    bound: HashMap<String, CollectionPatterns>,
    /// The time, in milliseconds.
    time: i64,
    /// Documents and records that were visited in ranges so far.
    visited: usize,
}

/// One write of a client: a collection, an `_id`, and the document unless it is deleted.
pub type Write<'w> = (&'w str, Val<'w>, Option<&'w DocBuf>);

/// One transaction: the database and what waits to be settled.
struct Open<'m> {
    memory: &'m mut Memory,
    pending: Pending,
}

impl Memory {
    /// An empty database with patterns that are ready.
    ///
    /// # Errors
    /// When the patterns cannot be together.
    pub fn new(patterns: Vec<Pattern>) -> Result<Memory> {
        let refs: Vec<&Pattern> = patterns.iter().collect();
        let order = graph::order(&refs)?;
        let mut memory = Memory::default();
        let mut ranked: Vec<(usize, Pattern)> = patterns.into_iter().enumerate().collect();
        ranked.sort_by_key(|(at, _)| order.iter().position(|other| other == at));
        for (rank, (_, mut pattern)) in ranked.into_iter().enumerate() {
            pattern.id = rank as u32 + 1;
            pattern.rank = rank;
            pattern.phase = Phase::Ready;
            let pattern = Arc::new(pattern);
            memory.bound.entry(pattern.target.clone()).or_default().targets.push(pattern.clone());
            if let Some(source) = pattern.source() {
                memory.bound.entry(source.to_owned()).or_default().sources.push(pattern.clone());
            }
        }
        Ok(memory)
    }

    /// Writes a document, or deletes it, as a client in one transaction. `None` deletes.
    ///
    /// # Errors
    /// What a pattern refuses; then nothing has changed.
    pub fn write(&mut self, collection: &str, id: Val<'_>, doc: Option<&DocBuf>) -> Result<()> {
        self.write_all(&[(collection, id, doc)])
    }

    /// Writes several documents as one statement of a client.
    ///
    /// # Errors
    /// What a pattern refuses; then nothing has changed.
    pub fn write_all(&mut self, writes: &[Write<'_>]) -> Result<()> {
        let saved = self.clone();
        let outcome = self.write_and_settle(writes);
        if outcome.is_err() {
            *self = saved;
        }
        outcome
    }

    fn write_and_settle(&mut self, writes: &[Write<'_>]) -> Result<()> {
        let mut open = Open { memory: self, pending: Pending::default() };
        for (collection, id, doc) in writes {
            let before = open.get(collection, *id)?;
            if before.is_some() || doc.is_some() {
                open.change(collection, before.as_ref(), *doc, Origin::Client)?;
            }
        }
        while let Some(settlement) = open.pending.pop() {
            settlement.settle(&mut open)?;
        }
        Ok(())
    }

    /// Lets it be this time: children that are too old by then leave the windows of patterns, a few at
    /// a time.
    ///
    /// # Errors
    /// What a pattern refuses.
    pub fn pass(&mut self, time: i64) -> Result<()> {
        self.time = time;
        let patterns: Vec<Arc<Pattern>> =
            self.bound.values().flat_map(|bound| bound.sources.clone()).collect();
        for pattern in patterns {
            loop {
                let mut open = Open { memory: self, pending: Pending::default() };
                let gone = pattern.kind.expire(&pattern, &mut open, 2)?;
                if gone.is_empty() {
                    break;
                }
                gone.into_iter().for_each(|delta| open.pending.add_delta(&pattern, delta));
                while let Some(settlement) = open.pending.pop() {
                    settlement.settle(&mut open)?;
                }
            }
        }
        Ok(())
    }

    fn patterns(&self) -> Vec<Arc<Pattern>> {
        self.bound.values().flat_map(|bound| bound.targets.clone()).collect()
    }

    /// Works at an entry of each queue, as one transaction: about `batch` targets. False when nothing
    /// waits any more.
    ///
    /// # Errors
    /// When a target cannot be written.
    pub fn work(&mut self, batch: usize) -> Result<bool> {
        let mut worked = false;
        for pattern in self.patterns() {
            let mut open = Open { memory: self, pending: Pending::default() };
            let entries = queue::entries(&pattern, &mut open, &[], 1)?;
            let Some(entry) = entries.first() else { continue };
            worked = true;
            queue::work(&pattern, &mut open, &entry.place, batch)?;
            while let Some(settlement) = open.pending.pop() {
                settlement.settle(&mut open)?;
            }
        }
        Ok(worked)
    }

    /// Whether a document waits for what is queued.
    ///
    /// # Errors
    /// None, in memory.
    pub fn is_stale(&mut self, doc: &DocBuf) -> Result<bool> {
        for pattern in self.patterns() {
            let mut open = Open { memory: self, pending: Pending::default() };
            if queue::is_stale(&pattern, &mut open, doc.as_doc())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The documents of a collection, in the order of their `_id`s.
    #[must_use]
    pub fn all(&self, collection: &str) -> Vec<DocBuf> {
        let found = self.collections.get(collection);
        found.map_or_else(Vec::new, |documents| documents.values().cloned().collect())
    }

    /// How many records the patterns keep for themselves.
    #[must_use]
    pub fn state_count(&self) -> usize {
        self.states.len()
    }

    /// How many documents and records patterns have visited in ranges so far.
    #[must_use]
    pub fn entries_read(&self) -> usize {
        self.visited
    }
}

impl Open<'_> {
    fn change(
        &mut self,
        collection: &str,
        before: Option<&DocBuf>,
        after: Option<&DocBuf>,
        origin: Origin,
    ) -> Result<()> {
        let bound = self.memory.bound.get(collection).cloned().unwrap_or_default();
        let before_doc = before.map(DocBuf::as_doc);
        let image = match after {
            Some(after) => Some(bound.fill(self, before_doc, after.as_doc(), origin)?),
            None => None,
        };
        let notes = bound.note(self, before_doc, image.as_ref().map(DocBuf::as_doc), origin)?;
        let documents = self.memory.collections.entry(collection.to_owned()).or_default();
        match (image, before) {
            (Some(image), _) => {
                let id = keys::key(image.as_doc().get("_id").unwrap_or(Val::Null));
                documents.insert(id, image);
            }
            (None, Some(before)) => {
                documents.remove(&keys::key(before.as_doc().get("_id").unwrap_or(Val::Null)));
            }
            (None, None) => return Err(Error::new(Code::INTERNAL_ERROR, "nothing to change")),
        }
        self.pending.add(notes);
        Ok(())
    }
}

impl Documents for Open<'_> {
    fn get(&mut self, collection: &str, id: Val<'_>) -> Result<Option<DocBuf>> {
        Ok(self.memory.collections.get(collection).and_then(|c| c.get(&keys::key(id))).cloned())
    }

    fn find(
        &mut self,
        find: &Find<'_>,
        visit: &mut dyn FnMut(RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        let wanted = keys::key(find.value);
        for doc in self.memory.all(find.collection) {
            let id = keys::key(doc.as_doc().get("_id").unwrap_or(Val::Null));
            let values = patterns::paths::values_at(doc.as_doc(), find.path);
            let above = find.after.is_empty() || id.as_slice() > find.after;
            self.memory.visited += 1;
            let none = values.is_empty() && find.value.is_nullish();
            let holds = none || values.iter().any(|(key, _)| *key == wanted);
            if above && holds && !visit(doc.as_doc())? {
                break;
            }
        }
        Ok(())
    }

    fn insert(&mut self, pattern: u32, collection: &str, doc: &DocBuf) -> Result<()> {
        self.change(collection, None, Some(doc), Origin::Pattern(pattern))
    }

    fn replace(
        &mut self,
        pattern: u32,
        collection: &str,
        before: RawDoc<'_>,
        after: &DocBuf,
    ) -> Result<()> {
        self.change(collection, Some(&before.into()), Some(after), Origin::Pattern(pattern))
    }

    fn delete(&mut self, pattern: u32, collection: &str, before: RawDoc<'_>) -> Result<()> {
        self.change(collection, Some(&before.into()), None, Origin::Pattern(pattern))
    }

    fn state(&mut self, pattern: u32, key: &[u8]) -> Result<Option<DocBuf>> {
        Ok(self.memory.states.get(&(pattern, key.to_vec())).cloned())
    }

    fn set_state(&mut self, pattern: u32, key: &[u8], state: Option<DocBuf>) -> Result<()> {
        match state {
            Some(state) => self.memory.states.insert((pattern, key.to_vec()), state),
            None => self.memory.states.remove(&(pattern, key.to_vec())),
        };
        Ok(())
    }

    fn now(&self) -> i64 {
        self.memory.time
    }

    fn states(
        &mut self,
        pattern: u32,
        prefix: &[u8],
        after: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        let start = if after.is_empty() { prefix } else { after };
        let range = (pattern, start.to_vec())..(pattern + 1, Vec::new());
        for ((_, key), doc) in self.memory.states.range(range) {
            if key == after {
                continue;
            }
            self.memory.visited += 1;
            if !key.starts_with(prefix) || !visit(key, doc.as_doc())? {
                break;
            }
        }
        Ok(())
    }

    fn states_before(
        &mut self,
        pattern: u32,
        prefix: &[u8],
        before: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        let range = (pattern, prefix.to_vec())..(pattern, before.to_vec());
        for ((_, key), doc) in self.memory.states.range(range).rev() {
            self.memory.visited += 1;
            if !visit(key, doc.as_doc())? {
                break;
            }
        }
        Ok(())
    }
}
