//! Checks of a fold: compares its records with those recomputed from the children.

use super::{Fold, GROUP};
use crate::documents::Documents;
use crate::kind::{CheckedPart, MissingDocuments};
use crate::pattern::{Pattern, Phase};
use crate::queue;
use crate::scratch::Scratch;
use std::collections::BTreeSet;
use value::{DocBuf, OwnedVal, Result, Val};

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
