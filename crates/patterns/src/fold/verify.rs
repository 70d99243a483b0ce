//! Checks of a fold: compares its records with those recomputed from the children.

use super::accumulators::Accumulator;
use super::record::{Record, record_key};
use super::{Field, Fold, GROUP};
use crate::documents::Documents;
use crate::kind::{CheckedPart, MissingDocuments};
use crate::pattern::{Pattern, Phase};
use crate::queue;
use crate::scratch::Scratch;
use std::collections::BTreeSet;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val};

impl Fold {
    /// Whether the records of the groups differ from the recomputed ones. Called only if something
    /// is wrong already, or documents were written without the pattern.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn has_wrong_records(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        records: &Scratch,
        part: &CheckedPart<'_>,
    ) -> Result<bool> {
        if part.drift == 0 && pattern.phase != Phase::Degraded {
            return Ok(false);
        }
        let aligned = self.aligned(pattern, documents, records)?;
        let records = aligned.as_ref().unwrap_or(records);
        let (mut kept, mut same) = (0, true);
        // Groups whose record is in their target.
        let mut in_targets: Vec<(Vec<u8>, DocBuf)> = Vec::new();
        // In a partial check only the records of groups can be assigned to the part.
        let is_group = |key: &[u8]| key.first() == Some(&GROUP);
        let prefix: &[u8] = if part.is_whole { &[] } else { &[GROUP] };
        documents.states(pattern.id, prefix, &[], &mut |key, doc| {
            // Progress, notes and queue entries are not compared.
            let counts = key.first() != Some(&0) && !queue::is_entry(key);
            if counts && (part.is_whole || (part.has)(key.get(1..).unwrap_or(&[]))) {
                kept += 1;
                if is_group(key) && Fold::target_key(doc).is_some() {
                    in_targets.push((key.to_vec(), doc.into()));
                    return Ok(true);
                }
                same = records.states.get(key).is_some_and(|expected| expected.as_doc() == doc);
            }
            Ok(same)
        })?;
        for (key, stored) in &in_targets {
            let whole = self.whole_record(documents, stored.as_doc())?;
            same &= records.states.get(key).is_some_and(|expected| *expected == whole);
        }
        let counted = |key: &&Vec<u8>| part.is_whole || is_group(key);
        let expected = records.states.keys().filter(counted).count();
        Ok(!same || kept != expected)
    }

    /// The recomputed records in the form of the stored ones; `None` if that does not depend on the
    /// past.
    fn aligned(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        records: &Scratch,
    ) -> Result<Option<Scratch>> {
        if !self.has_history() {
            return Ok(None);
        }
        let mut aligned = Scratch { states: records.states.clone() };
        for key in records.states.keys().filter(|key| key.first() == Some(&GROUP)) {
            self.align(pattern, documents, &mut aligned, key.get(1..).unwrap_or(&[]))?;
        }
        Ok(Some(aligned))
    }

    /// Whether the form of a record may depend on what its group once had.
    fn has_history(&self) -> bool {
        let is_sketch = |field: &Field| matches!(field.accumulator, Accumulator::Sketch(_));
        self.bounds || self.flush.is_some() || self.fields.iter().any(is_sketch)
    }

    /// Converts the recomputed record of a group to the form of the stored one, where that depends
    /// on the past: when it last changed, what its targets do not show yet, and whether it once had
    /// more values than now.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn align(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        records: &mut Scratch,
        encoded: &[u8],
    ) -> Result<()> {
        let own_key = record_key(encoded);
        let (Some(stored), Some(doc)) =
            (documents.state(pattern.id, &own_key)?, records.state(pattern.id, &own_key)?)
        else {
            return Ok(());
        };
        let stored = Record::of(stored.as_doc(), self.fields.len());
        let mut record = Record::of(doc.as_doc(), self.fields.len());
        record.at = stored.at;
        record.held = stored.held;
        let states = record.states.iter_mut().zip(&stored.states);
        for (number, (field, (state, stored))) in self.fields.iter().zip(states).enumerate() {
            if let Accumulator::Sketch(sketch) = &field.accumulator {
                sketch.align(pattern, records, (number, encoded), state, stored)?;
            }
        }
        let kept = record.to_doc(doc.as_doc().get("k").unwrap_or(Val::Null));
        records.set_state(pattern.id, &own_key, Some(kept))
    }

    /// As `align`, for the group of a target.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn align_target(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        records: &mut Scratch,
        target: RawDoc<'_>,
    ) -> Result<()> {
        match self.local_key(target).filter(|_| self.has_history()) {
            Some(key) => self.align(pattern, documents, records, &key),
            None => Ok(()),
        }
    }

    /// The groups that have children but no document.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn missing_documents(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        records: &mut Scratch,
        there: &BTreeSet<Vec<u8>>,
    ) -> Result<MissingDocuments> {
        let mut groups: Vec<(Vec<u8>, OwnedVal)> = Vec::new();
        records.states(pattern.id, &[GROUP], &[], &mut |key, doc| {
            let key = key.get(1..).unwrap_or(&[]);
            if !there.contains(key) {
                groups.push((key.to_vec(), OwnedVal::new(doc.get("k").unwrap_or(Val::Null))));
            }
            Ok(true)
        })?;
        let mut missing = MissingDocuments::default();
        for (key, id) in groups {
            if queue::has(pattern, documents, &key)? {
                missing.stale += 1;
            } else {
                missing.ids.push(id);
            }
        }
        Ok(missing)
    }
}
