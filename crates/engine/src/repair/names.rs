//! Names of collections whose catalog record is lost, from the change log: a record of it has the
//! name of a collection and a document, and the document is found behind a prefix.

use crate::changes::record::{Kind, Reader};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use store::Bytes;

/// The documents of each collection that are looked for. The last ones are most likely still in the
/// change log.
const SAMPLES: usize = 4096;

/// Documents of collections without a name, and the names that the change log has for them.
#[derive(Default)]
pub(super) struct Votes {
    hasher: RandomState,
    samples: BTreeMap<u32, VecDeque<u64>>,
    prefixes: HashMap<u64, u32>,
    votes: BTreeMap<u32, HashMap<(String, String), u64>>,
}

impl Votes {
    /// Notes a document of a collection.
    pub(super) fn note(&mut self, id: u32, doc: &[u8]) {
        let samples = self.samples.entry(id).or_default();
        samples.push_back(self.hasher.hash_one(doc));
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
    }

    /// Counts the names in a record of the change log.
    pub(super) fn count(&mut self, record: Bytes, first: u64) {
        if self.samples.is_empty() {
            return;
        }
        if self.prefixes.is_empty() {
            for (id, samples) in &self.samples {
                self.prefixes.extend(samples.iter().map(|hash| (*hash, *id)));
            }
        }
        let mut reader = Reader::new(record, first);
        while let Some(step) = reader.next() {
            let change = reader.change(&step);
            let image = match change.kind {
                Kind::Insert | Kind::Replace => Some(change.doc),
                _ => change.after,
            };
            let Some(image) = image else { continue };
            let hash = self.hasher.hash_one(image.bytes());
            if let Some(id) = self.prefixes.get(&hash) {
                let (db, name) = change.names();
                let name = (db.to_owned(), name.to_owned());
                *self.votes.entry(*id).or_default().entry(name).or_default() += 1;
            }
        }
    }

    /// The name that most documents of a collection have in the change log. The same document in two
    /// collections may give a wrong one; a name that two collections claim is nobody's.
    pub(super) fn name(&self, id: u32) -> Option<(String, String)> {
        let best = |votes: &HashMap<(String, String), u64>| {
            votes
                .iter()
                .max_by_key(|(name, count)| (**count, (*name).clone()))
                .map(|(n, _)| n.clone())
        };
        let name = best(self.votes.get(&id)?)?;
        let claims = self.votes.values().filter(|votes| best(votes).as_ref() == Some(&name));
        (claims.count() == 1).then_some(name)
    }
}
