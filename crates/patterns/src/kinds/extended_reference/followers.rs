//! Followers: the documents that refer to a source, and their updates when it changes.

use super::{LOST, Reference, SourceDelete};
use crate::documents::{Documents, Find, read};
use crate::pattern::Pattern;
use crate::queue;
use crate::stats::Stats;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, keys};

/// How many followers are read at once; if there are more, they are counted first.
const FEW: usize = 16;

impl Reference {
    /// The sources, by the value of their references, whose followers must be updated.
    ///
    /// # Errors
    /// PatternViolation if the source cannot be deleted; errors of expressions.
    pub(super) fn changed_keys(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
    ) -> Result<Vec<(Vec<u8>, OwnedVal)>> {
        let key = |doc: RawDoc<'_>| {
            let value = self.matched.get(doc);
            (!value.is_nullish()).then(|| (keys::key(value), OwnedVal::new(value)))
        };
        let (old, new) = (before.and_then(key), after.and_then(key));
        let mut noted = Vec::new();
        let stays = old.as_ref().map(|(key, _)| key) == new.as_ref().map(|(key, _)| key);
        if stays && self.pointer && !self.automatic {
            return Ok(noted);
        }
        if stays {
            if let (Some(before), Some(after), true, Some(key)) = (before, after, self.live, new)
                && self.copies(before)? != self.copies(after)?
            {
                Stats::add(&pattern.stats.changes, 1);
                if !self.pointer {
                    noted.push(key);
                }
            }
            return Ok(noted);
        }
        if let Some((encoded, value)) = old {
            if self.on_delete == SourceDelete::Restrict
                && self.has_followers(pattern, documents, value.get(), before)?
            {
                return Err(Error::new(
                    Code::PATTERN_VIOLATION,
                    format!(
                        "pattern '{}': documents in '{}' refer to this one, and onSourceDelete is \
                         'restrict'",
                        pattern.name, pattern.target
                    ),
                ));
            }
            let followed = match self.pointer {
                true => self.on_delete == SourceDelete::Cascade,
                false => self.on_delete != SourceDelete::Keep || self.live,
            };
            if followed {
                noted.push((encoded, value));
            }
        }
        if let Some(key) = new.filter(|_| self.live && !self.pointer) {
            noted.push(key);
        }
        Ok(noted)
    }

    pub(super) fn has_followers(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
        source: Option<RawDoc<'_>>,
    ) -> Result<bool> {
        // A document that refers only to itself may be deleted.
        let own = source.filter(|_| self.source == pattern.target).and_then(|doc| doc.get("_id"));
        let mut found = false;
        documents.find(&self.followers(pattern, key, &[]), &mut |doc| {
            found = own.is_none_or(|own| doc.get("_id") != Some(own));
            Ok(!found)
        })?;
        Ok(found)
    }

    pub(super) fn followers<'f>(
        &'f self,
        pattern: &'f Pattern,
        value: Val<'f>,
        after: &'f [u8],
    ) -> Find<'f> {
        Find { collection: &pattern.target, path: &self.place.reference, value, after }
    }

    /// Updates the followers of a source; above the limit they are queued or refused.
    ///
    /// # Errors
    /// PatternViolation when there are too many; when the store fails.
    pub(super) fn settle_key(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        encoded: &[u8],
        key: Val<'_>,
    ) -> Result<()> {
        if pattern.is_deferred() {
            return queue::put(pattern, documents, encoded, key);
        }
        let limit = pattern.common.fanout_limit;
        let find = self.followers(pattern, key, &[]);
        // Above the limit it is sufficient to count them without reading.
        let mut followers = read(documents, &find, limit.min(FEW))?;
        let mut over = followers.len() > limit;
        if followers.len() > FEW && !over {
            over = documents.count(&find, limit.saturating_add(1))? > limit;
            if !over {
                followers = read(documents, &find, limit)?;
            }
        }
        if self.on_delete == SourceDelete::Keep
            && !followers.is_empty()
            && self.find_source(documents, key)?.is_none()
        {
            return lose(pattern, documents);
        }
        if !over {
            return self.update(pattern, documents, key, &followers);
        }
        if pattern.common.reject_over_limit {
            return Err(Error::new(
                Code::PATTERN_VIOLATION,
                format!(
                    "pattern '{}': more than {limit} documents in '{}' would have to be updated, and \
                     overLimit is 'reject'",
                    pattern.name, pattern.target
                ),
            ));
        }
        queue::put(pattern, documents, encoded, key)
    }

    /// Updates at most `batch` followers of a source after a key. Returns their number, and where
    /// to continue if there may be more.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn update_some(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
        after: &[u8],
        batch: usize,
    ) -> Result<(usize, Option<Vec<u8>>)> {
        let find = self.followers(pattern, key, after);
        let followers = read(documents, &find, batch.saturating_sub(1))?;
        self.update(pattern, documents, key, &followers)?;
        let last = followers.last().filter(|_| followers.len() >= batch);
        let next = last.map(|last| keys::key(last.as_doc().get("_id").unwrap_or(Val::Null)));
        Ok((followers.len(), next))
    }

    /// The number of documents after a key that refer to a source.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn count_followers(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
        after: &[u8],
    ) -> Result<u64> {
        documents.count(&self.followers(pattern, key, after), usize::MAX).map(|n| n as u64)
    }

    pub(super) fn update(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
        followers: &[DocBuf],
    ) -> Result<()> {
        let source = self.find_source(documents, key)?;
        if self.pointer && source.is_some() {
            return Ok(());
        }
        let copies = match &source {
            // It was deleted and inserted again before the update: frozen copies are kept.
            Some(_) if !self.live => return Ok(()),
            Some(source) => Some(self.copies(source.as_doc())?),
            None if self.on_delete == SourceDelete::Unset => Some(vec![None; self.fields.len()]),
            None => None,
        };
        let encoded = keys::key(key);
        for follower in followers {
            let doc = follower.as_doc();
            let image = match &copies {
                Some(copies) => self.rewrite(doc, &mut |other| {
                    Ok((keys::key(other) == encoded).then(|| copies.clone()))
                })?,
                None if self.on_delete == SourceDelete::Cascade => {
                    match self.place.without(doc, &encoded) {
                        Some(image) if image == *follower => {}
                        Some(image) => {
                            documents.alter(pattern.id, &pattern.target, doc, &image)?;
                        }
                        None => documents.delete(pattern.id, &pattern.target, doc)?,
                    }
                    continue;
                }
                None => continue,
            };
            if image != *follower {
                documents.replace(pattern.id, &pattern.target, doc, &image)?;
            }
        }
        Ok(())
    }
}

/// Records that copies may have outlived their source.
pub(super) fn lose(pattern: &Pattern, documents: &mut dyn Documents) -> Result<()> {
    documents.set_state(pattern.id, &[LOST], Some(DocBuf::new()))
}
