//! `extendedReference`: fields of a document that is referred to, copied beside the reference.
//!
//! A target's write copies what its references mean (`shape`); a source's write is followed by
//! all documents that refer to it (`settle`). A reference may stand in arrays: `context` finds the
//! documents that hold one.

mod context;
pub(crate) mod declaration;

use crate::documents::{Documents, Find, read};
use crate::edit::{self, Assignment};
use crate::pattern::Pattern;
use crate::queue;
use crate::stats::Stats;
use bumpalo::Bump;
use context::Place;
use query::expr::{Env, Expr};
use std::collections::{BTreeMap, BTreeSet};
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val, keys};

/// Copies of fields beside a reference.
#[derive(Debug)]
pub struct Reference {
    /// The collection that is referred to.
    pub source: String,
    /// The field of the source that a reference names.
    pub matched: Path,
    /// Where references stand in the target, and where copies go.
    pub place: Place,
    /// What is copied, by the path below `into`.
    pub fields: Vec<(Path, Expr)>,
    /// Whether copies follow their source.
    pub live: bool,
    /// Whether there are no copies: readers resolve them from their source.
    pub pointer: bool,
    /// Whether the database chooses between the two.
    pub automatic: bool,
    /// Whether a reference to nothing is refused.
    pub reject_missing: bool,
    /// What the removal of a source means.
    pub on_delete: SourceDelete,
    /// What is read of the source.
    pub reads: Vec<String>,
}

/// What happens to the documents that refer to a source that goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceDelete {
    /// The copies stay.
    Keep,
    /// The copies go, the reference stays.
    Unset,
    /// The source cannot go.
    Restrict,
    /// They go too; a reference in an array only with its element.
    Cascade,
}

/// The copies of one reference: a value for each field.
type Copies = Vec<Option<OwnedVal>>;

/// The sources that a reader has met, by the values that name them.
#[derive(Debug, Default)]
pub struct Met(BTreeMap<Vec<u8>, Option<Copies>>);

/// The most sources that a reader keeps.
const MET_MAX: usize = 10_000;

/// So many followers are read at once; of more it is first asked how many there are.
const FEW: usize = 16;

/// The key that is there once copies may have outlived their source.
const LOST: u8 = 6;

impl Reference {
    /// Where references and copies stand.
    ///
    /// # Errors
    /// BadValue when copies would stand inside of the reference.
    pub fn place(reference: &str, into: &str) -> Result<Place> {
        Place::new(reference, into)
    }

    /// What is read of the targets.
    #[must_use]
    pub fn target_reads(&self) -> Vec<String> {
        vec![self.place.reference.text().to_owned()]
    }

    /// The paths that are maintained.
    #[must_use]
    pub fn maintains(&self) -> Vec<String> {
        self.fields
            .iter()
            .map(|(path, _)| format!("{}.{}", self.place.into.text(), path.text()))
            .collect()
    }

    /// The indexes that it needs: the followers of a source are found by one.
    #[must_use]
    pub fn indexes(&self, target: &str) -> Vec<(String, DocBuf)> {
        let reference = self.place.reference.text();
        if reference == "_id" {
            return Vec::new();
        }
        let key = DocBuf::build(|out| {
            out.i32(reference, 1);
        });
        vec![(target.to_owned(), key)]
    }

    /// What is copied of a source.
    ///
    /// # Errors
    /// What an expression gives.
    fn copies(&self, source: RawDoc<'_>) -> Result<Copies> {
        let arena = Bump::new();
        let env = Env::new(source, &arena);
        self.fields
            .iter()
            .map(|(_, expression)| {
                let value = expression.eval(&env)?;
                Ok((!value.is_nullish()).then(|| OwnedVal::new(value)))
            })
            .collect()
    }

    /// The source that a reference means.
    fn find_source(&self, documents: &mut dyn Documents, key: Val<'_>) -> Result<Option<DocBuf>> {
        if self.matched.text() == "_id" {
            return documents.get(&self.source, key);
        }
        let mut found = None;
        let find = Find { collection: &self.source, path: &self.matched, value: key, after: &[] };
        documents.find(&find, &mut |doc| {
            found = Some(DocBuf::from(doc));
            Ok(false)
        })?;
        Ok(found)
    }

    /// The image of a target that is written, with its copies.
    ///
    /// # Errors
    /// PatternViolation for a reference to nothing, where that is refused.
    pub fn shape(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<DocBuf> {
        let mut known: BTreeMap<Vec<u8>, Copies> = BTreeMap::new();
        // A document that refers to itself has what it is about to have.
        let own = (self.source == pattern.target).then(|| keys::key(self.matched.get(after)));
        // A reference that stays is nobody's fault: what it names may have been missing all along.
        let had = before.map_or_else(Vec::new, |before| self.references(before));
        // Before the build came by, only what a snapshot froze can be trusted.
        if let Some(before) = before.filter(|_| pattern.phase.is_built() || !self.live) {
            self.place.visit(before, &mut |key, held| {
                let copies: Copies = self
                    .fields
                    .iter()
                    .map(|(path, _)| path.find(held).map(|value| OwnedVal::new(value.get())))
                    .collect();
                let trusted = pattern.phase.is_built() || copies.iter().any(Option::is_some);
                if trusted {
                    known.entry(keys::key(key)).or_insert(copies);
                }
            });
        }
        let image = self.rewrite(after, &mut |key| {
            let encoded = keys::key(key);
            if self.live && own.as_ref() == Some(&encoded) {
                return self.copies(after).map(Some);
            }
            if let Some(copies) = known.get(&encoded) {
                return Ok(Some(copies.clone()));
            }
            let copies = match self.find_source(documents, key)? {
                Some(source) => self.copies(source.as_doc())?,
                None if own.as_ref() == Some(&encoded) => self.copies(after)?,
                None if self.reject_missing && !had.contains(&encoded) => {
                    return Err(Error::new(
                        Code::PATTERN_VIOLATION,
                        format!(
                            "pattern '{}': '{}' refers to a document that is not in '{}', and \
                             onMissing is 'reject'",
                            pattern.name,
                            self.place.reference.text(),
                            self.source
                        ),
                    ));
                }
                None => vec![None; self.fields.len()],
            };
            known.insert(encoded, copies.clone());
            Ok(Some(copies))
        })?;
        // What could not be shown was refused, as if it were stored.
        if self.pointer { self.cleared(image.as_doc()) } else { Ok(image) }
    }

    /// The document with copies of what its references mean at this moment.
    ///
    /// # Errors
    /// When the store fails.
    pub fn resolve(
        &self,
        documents: &mut dyn Documents,
        doc: RawDoc<'_>,
        known: &mut Met,
    ) -> Result<DocBuf> {
        let mut failed = None;
        let image = self.rewrite(doc, &mut |key| {
            let encoded = keys::key(key);
            if let Some(copies) = known.0.get(&encoded) {
                return Ok(copies.clone());
            }
            // An expression that fails shows nothing; who wrote the source was told.
            let copies = match self.find_source(documents, key) {
                Ok(Some(source)) => self.copies(source.as_doc()).ok(),
                Ok(None) if !self.pointer && self.on_delete == SourceDelete::Keep => None,
                Ok(None) => Some(vec![None; self.fields.len()]),
                Err(error) => {
                    failed = Some(error);
                    None
                }
            };
            if known.0.len() >= MET_MAX {
                known.0.clear();
            }
            known.0.insert(encoded, copies.clone());
            Ok(copies)
        });
        match (failed, image) {
            (Some(error), _) => Err(error),
            (None, Ok(image)) => Ok(image),
            // Nobody has checked this document: it is shown as it is.
            (None, Err(_)) => Ok(DocBuf::from(doc)),
        }
    }

    /// The document with copies as `copies` gives them for each reference; `None` leaves them.
    fn rewrite(
        &self,
        doc: RawDoc<'_>,
        copies: &mut dyn FnMut(Val<'_>) -> Result<Option<Copies>>,
    ) -> Result<DocBuf> {
        self.place.rewrite(doc, &mut |context| self.fill(context, copies))
    }

    /// Fills the copies of one document that holds a reference.
    fn fill(
        &self,
        context: RawDoc<'_>,
        copies: &mut dyn FnMut(Val<'_>) -> Result<Option<Copies>>,
    ) -> Result<DocBuf> {
        let none = vec![None; self.fields.len()];
        let into = &self.place.rest_into;
        let reference = self.place.rest_reference.find(context).map_or(Val::Missing, RawVal::get);
        if let Val::Array(list) = reference {
            if into.text().is_empty() {
                return Ok(DocBuf::from(context));
            }
            // References in a row become documents in a row.
            let old = into.find(context).and_then(RawVal::as_array).unwrap_or(RawDoc::empty());
            let mut bytes = Vec::new();
            let mut failed = None;
            value::writer::write_array(&mut bytes, |out| {
                for (at, (_, element)) in list.iter().enumerate() {
                    // Beside no reference there are no copies, whatever a client put there.
                    let made = match element.get().is_nullish() {
                        true => Ok(Some(none.clone())),
                        false => copies(element.get()),
                    };
                    match made {
                        Ok(Some(copies)) => out.push_doc(|out| {
                            let doc = self.copied(&copies);
                            out.extend(doc.as_doc());
                        }),
                        Ok(None) => match old.iter().nth(at) {
                            Some((_, kept)) => out.push_raw(kept),
                            None => out.push_doc(|_| {}),
                        },
                        Err(error) => failed = failed.take().or(Some(error)),
                    }
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            let value = OwnedVal::new(Val::Array(RawDoc::new(&bytes)));
            return edit::assign(context, &[(into.clone(), Some(value))]);
        }
        let copied = if reference.is_nullish() { Some(none) } else { copies(reference)? };
        let Some(copied) = copied else { return Ok(DocBuf::from(context)) };
        // Copies in a row belonged to references in a row, which are no more.
        let row = into.find(context).is_some_and(|held| held.as_array().is_some());
        let emptied = match row && !into.text().is_empty() {
            true => Some(edit::assign(context, &[(into.clone(), None)])?),
            false => None,
        };
        let context = emptied.as_ref().map_or(context, DocBuf::as_doc);
        let changes: Vec<Assignment> = self
            .fields
            .iter()
            .zip(copied)
            .map(|((path, _), value)| {
                let text = if into.text().is_empty() {
                    path.text().to_owned()
                } else {
                    format!("{}.{}", into.text(), path.text())
                };
                (Path::new(&text), value)
            })
            .collect();
        edit::assign(context, &changes)
    }

    fn copied(&self, copies: &Copies) -> DocBuf {
        let changes: Vec<Assignment> = self
            .fields
            .iter()
            .zip(copies)
            .map(|((path, _), value)| (path.clone(), value.clone()))
            .collect();
        edit::assign(RawDoc::empty(), &changes).unwrap_or_default()
    }

    /// The sources, by the value that references name, whose followers must look again.
    ///
    /// # Errors
    /// PatternViolation when the source cannot go; what an expression gives.
    pub fn note(
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

    fn has_followers(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
        source: Option<RawDoc<'_>>,
    ) -> Result<bool> {
        // Who refers to itself alone is in nobody's way.
        let own = source.filter(|_| self.source == pattern.target).and_then(|doc| doc.get("_id"));
        let mut found = false;
        documents.find(&self.followers(pattern, key, &[]), &mut |doc| {
            found = own.is_none_or(|own| doc.get("_id") != Some(own));
            Ok(!found)
        })?;
        Ok(found)
    }

    fn followers<'f>(&'f self, pattern: &'f Pattern, value: Val<'f>, after: &'f [u8]) -> Find<'f> {
        Find { collection: &pattern.target, path: &self.place.reference, value, after }
    }

    /// Brings the followers of a source up to date; beyond the limit they are queued or refused.
    ///
    /// # Errors
    /// PatternViolation when there are too many; when the store fails.
    pub fn settle(
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
        // Of many it is enough to know that they are too many: counting does not read them.
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
            return self.follow(pattern, documents, key, &followers);
        }
        if pattern.common.reject_over_limit {
            return Err(Error::new(
                Code::PATTERN_VIOLATION,
                format!(
                    "pattern '{}': more than {limit} documents in '{}' would have to follow, and \
                     overLimit is 'reject'",
                    pattern.name, pattern.target
                ),
            ));
        }
        queue::put(pattern, documents, encoded, key)
    }

    /// Brings the followers of a source behind a place up to date, at most `batch`. Returns how many,
    /// and where they go on if there may be more.
    ///
    /// # Errors
    /// When the store fails.
    pub fn follow_some(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
        after: &[u8],
        batch: usize,
    ) -> Result<(usize, Option<Vec<u8>>)> {
        let find = self.followers(pattern, key, after);
        let followers = read(documents, &find, batch.saturating_sub(1))?;
        self.follow(pattern, documents, key, &followers)?;
        let last = followers.last().filter(|_| followers.len() >= batch);
        let next = last.map(|last| keys::key(last.as_doc().get("_id").unwrap_or(Val::Null)));
        Ok((followers.len(), next))
    }

    /// The encoded references of a document.
    #[must_use]
    pub fn references(&self, doc: RawDoc<'_>) -> Vec<Vec<u8>> {
        let found = crate::fold::values_at(doc, &self.place.reference);
        found.into_iter().map(|(key, _)| key).collect()
    }

    /// The document without any copies.
    ///
    /// # Errors
    /// PatternViolation when something stands in a path's way.
    pub fn cleared(&self, doc: RawDoc<'_>) -> Result<DocBuf> {
        let all: Vec<Path> = self.maintains().iter().map(|path| Path::new(path)).collect();
        self.cleared_at(doc, &all)
    }

    /// The document without the copies at these of the maintained paths.
    ///
    /// # Errors
    /// As `cleared`.
    pub fn cleared_at(&self, doc: RawDoc<'_>, free: &[Path]) -> Result<DocBuf> {
        self.place.rewrite(doc, &mut |context| self.bare(context, free, &|_| true))
    }

    /// The document `after` without the copies that stand in it `before` already, whatever the
    /// references beside them became.
    ///
    /// # Errors
    /// As `cleared`.
    pub fn cleared_if_same(
        &self,
        before: RawDoc<'_>,
        after: RawDoc<'_>,
        free: &[Path],
    ) -> Result<DocBuf> {
        let mut left: BTreeSet<Vec<u8>> = BTreeSet::new();
        self.place.visit_copies(before, &mut |at| {
            left.insert(self.held(at));
        });
        let is_left = |at: RawDoc<'_>| left.contains(&self.held(at));
        self.place.rewrite(after, &mut |context| self.bare(context, free, &is_left))
    }

    /// The copies of one reference, as the bytes of one document.
    fn held(&self, at: RawDoc<'_>) -> Vec<u8> {
        let held = DocBuf::build(|out| {
            for (path, _) in &self.fields {
                if let Some(value) = path.find(at) {
                    out.raw(path.text(), value);
                }
            }
        });
        held.into_bytes()
    }

    /// One document that may hold a reference without the copies that `left` finds to be some.
    fn bare(
        &self,
        context: RawDoc<'_>,
        free: &[Path],
        left: &dyn Fn(RawDoc<'_>) -> bool,
    ) -> Result<DocBuf> {
        let into = &self.place.rest_into;
        let is_free = |path: &Path| {
            let whole = format!("{}.{}", self.place.into.text(), path.text());
            free.iter().any(|free| free.text() == whole)
        };
        let fields = self.fields.iter().map(|(path, _)| path);
        let gone: Vec<Assignment> =
            fields.filter(|path| is_free(path)).map(|path| (path.clone(), None)).collect();
        if into.text().is_empty() {
            return if left(context) { edit::assign(context, &gone) } else { Ok(context.into()) };
        }
        let Some(held) = into.find(context) else { return Ok(context.into()) };
        if let Some(at) = held.as_doc().filter(|at| left(*at)) {
            if at.is_empty() {
                return Ok(context.into());
            }
            let image = edit::assign(at, &gone)?;
            let kept =
                (!image.as_doc().is_empty()).then(|| OwnedVal::new(Val::Document(image.as_doc())));
            return edit::assign(context, &[(into.clone(), kept)]);
        }
        let Some(row) = held.as_array() else { return Ok(context.into()) };
        // A row goes with the last of its copies; until then the others keep their places.
        let mut empty = !row.is_empty() || left(RawDoc::empty());
        let mut bytes = Vec::new();
        let mut failed = None;
        value::writer::write_array(&mut bytes, |out| {
            for (_, element) in row {
                let image =
                    element.as_doc().filter(|at| left(*at)).map(|at| edit::assign(at, &gone));
                match image {
                    Some(Ok(image)) => {
                        empty &= image.as_doc().is_empty();
                        out.push(Val::Document(image.as_doc()));
                    }
                    Some(Err(error)) => failed = Some(error),
                    None => {
                        empty = false;
                        out.push_raw(element);
                    }
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let kept = (!empty).then(|| OwnedVal::new(Val::Array(RawDoc::new(&bytes))));
        edit::assign(context, &[(into.clone(), kept)])
    }

    /// The image of a target with copies derived from the sources alone; what a snapshot froze and
    /// the copies of sources that went stay where that is declared.
    ///
    /// # Errors
    /// What an expression gives; when the store fails.
    pub fn derive(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        doc: RawDoc<'_>,
    ) -> Result<DocBuf> {
        if self.pointer {
            return self.cleared(doc);
        }
        if !self.live {
            return self.shape(pattern, documents, Some(doc), doc);
        }
        self.rewrite(doc, &mut |key| match self.find_source(documents, key)? {
            Some(source) => self.copies(source.as_doc()).map(Some),
            None if self.on_delete == SourceDelete::Keep => {
                lose(pattern, documents)?;
                Ok(None)
            }
            None => Ok(Some(vec![None; self.fields.len()])),
        })
    }

    /// What a check expects of a target, derived from what is there now. What a snapshot froze cannot
    /// be told from its source: copies are right wherever there is a reference, and so are none, since
    /// the source may have come later.
    ///
    /// # Errors
    /// As `derive`.
    pub fn expected(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        doc: RawDoc<'_>,
    ) -> Result<DocBuf> {
        match self.live {
            true => self.derive(pattern, documents, doc),
            false => self.rewrite(doc, &mut |_| Ok(None)),
        }
    }

    /// Keys under which something is kept exactly while copies may differ from their sources: a
    /// key of its own, and the beginning of others.
    #[must_use]
    pub fn stale_keys() -> ([u8; 1], [u8; 1]) {
        ([LOST], [queue::QUEUE])
    }

    /// How many documents behind a place refer to a source.
    ///
    /// # Errors
    /// When the store fails.
    pub fn count_followers(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
        after: &[u8],
    ) -> Result<u64> {
        documents.count(&self.followers(pattern, key, after), usize::MAX).map(|n| n as u64)
    }

    fn follow(
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
            // It went and came again before anybody looked: what was frozen stays.
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

/// Notes that copies may have outlived their source.
fn lose(pattern: &Pattern, documents: &mut dyn Documents) -> Result<()> {
    documents.set_state(pattern.id, &[LOST], Some(DocBuf::new()))
}
