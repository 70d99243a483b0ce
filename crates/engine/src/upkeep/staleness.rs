//! How far the maintained values of a document are behind their sources, for `{$meta: "patterns"}`.

use crate::catalog::{Collection, Pointers};
use crate::records::pattern_reads::state_key;
use crate::records::resolve::SnapshotDocuments;
use crate::store_failed;
use ::patterns::declaration::{DuringBuild, Mode};
use ::patterns::{Pattern, Phase, queue};
use std::sync::Arc;
use store::{Snapshot, Space};
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// The patterns that maintain the documents of a collection, at the snapshot of a query.
#[derive(Clone)]
pub struct Staleness {
    patterns: Vec<Arc<Pattern>>,
    places: Arc<Pointers>,
    snapshot: Snapshot,
}

impl Staleness {
    /// Finds the patterns that maintain the documents of a collection.
    #[must_use]
    pub fn new(collection: &Collection, snapshot: &Snapshot) -> Staleness {
        let bound = collection.patterns.as_deref();
        let targets = bound.into_iter().flat_map(|bound| &bound.targets);
        let patterns = targets.filter(|pattern| pattern.phase.is_current()).cloned().collect();
        let places = Arc::new(Pointers::to(collection));
        Staleness { patterns, places, snapshot: snapshot.clone() }
    }

    /// Writes the state of a document's maintained values, by pattern name.
    ///
    /// # Errors
    /// When the store fails.
    pub fn write(&self, doc: RawDoc<'_>, out: &mut Writer<'_>) -> Result<()> {
        let now = crate::clock::now_ms();
        let mut states = Vec::new();
        for pattern in &self.patterns {
            states.push((pattern, self.as_of_and_lag(pattern, doc, now)?));
        }
        out.doc("patterns", |out| {
            for (pattern, state) in &states {
                out.doc(&pattern.name, |out| {
                    if let Some((as_of, lag)) = state {
                        out.append("asOf", Val::DateTime(*as_of)).count("lagMS", *lag);
                    }
                    out.bool("exact", matches!(state, Some((_, 0))));
                });
            }
        });
        Ok(())
    }

    /// Returns the time of the source state that a document reflects, and its lag, both in
    /// milliseconds; `None` if unknown.
    fn as_of_and_lag(
        &self,
        pattern: &Pattern,
        doc: RawDoc<'_>,
        now: i64,
    ) -> Result<Option<(i64, u64)>> {
        let known = match pattern.phase {
            Phase::Ready => true,
            // Readers get the values that the build has not reached.
            Phase::Building => pattern.common.during_build == DuringBuild::Compute,
            _ => false,
        };
        if !known {
            return Ok(None);
        }
        let mut seen = SnapshotDocuments { snapshot: &self.snapshot, pointers: &self.places };
        let since = match pattern.may_queue() {
            true => queue::waits_since(pattern, &mut seen, doc)?,
            false => None,
        };
        let Some(since) = since else { return Ok(Some((now, 0))) };
        let lag = now.saturating_sub(since).max(1) as u64;
        let round = match pattern.common.mode {
            Mode::Every(..) => self.state(pattern, queue::ROUND)?,
            _ => None,
        };
        let round = round.and_then(|doc| doc.as_doc().get("t").and_then(Val::as_i64_exact));
        Ok(Some((round.unwrap_or(since), lag)))
    }

    fn state(&self, pattern: &Pattern, key: &[u8]) -> Result<Option<DocBuf>> {
        let key = state_key(pattern.id, key);
        let found = self.snapshot.get(Space::Documents, &key).map_err(store_failed)?;
        Ok(found.map(|bytes| DocBuf::from_bytes(bytes.to_vec())))
    }
}
