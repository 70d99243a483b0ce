//! The copies in a target: of the references that it is written with, and as a reader, a build or
//! a check derives them from the sources.

use super::followers::lose;
use super::{Copies, RESOLVED_MAX, Reference, ResolvedCopies, SourceDelete};
use crate::documents::Documents;
use crate::edit;
use crate::pattern::Pattern;
use std::collections::BTreeMap;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val, keys};

impl Reference {
    /// Returns the image of a written target, with its copies.
    ///
    /// # Errors
    /// PatternViolation for a reference to a missing source, if that is refused.
    pub(super) fn with_copies(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<DocBuf> {
        let mut known: BTreeMap<Vec<u8>, Copies> = BTreeMap::new();
        // A document that refers to itself copies its new values.
        let own = (self.source == pattern.target).then(|| keys::key(self.matched.get(after)));
        // An unchanged reference is not refused: its source may have been missing before.
        let had = before.map_or_else(Vec::new, |before| self.references(before));
        // Before the build has processed the document, only frozen copies of a snapshot can be
        // used.
        if let Some(before) = before.filter(|_| pattern.phase.is_built() || !self.live) {
            self.place.visit(before, &mut |key, held| {
                let copies = self.held_copies(held);
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
        // Values that could not be resolved were refused, as if they were stored.
        if self.pointer { self.without_any(image.as_doc()) } else { Ok(image) }
    }

    /// Returns the document with copies of the current sources.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn resolved(
        &self,
        documents: &mut dyn Documents,
        doc: RawDoc<'_>,
        known: &mut ResolvedCopies,
    ) -> Result<DocBuf> {
        let mut failed = None;
        let image = self.rewrite(doc, &mut |key| {
            let encoded = keys::key(key);
            if let Some(copies) = known.0.get(&encoded) {
                return Ok(copies.clone());
            }
            // If an expression fails there is no copy; the writer of the source got the error.
            let copies = match self.find_source(documents, key) {
                Ok(Some(source)) => self.copies(source.as_doc()).ok(),
                Ok(None) if !self.pointer && self.on_delete == SourceDelete::Keep => None,
                Ok(None) => Some(vec![None; self.fields.len()]),
                Err(error) => {
                    failed = Some(error);
                    None
                }
            };
            if known.0.len() >= RESOLVED_MAX {
                known.0.clear();
            }
            known.0.insert(encoded, copies.clone());
            Ok(copies)
        });
        match (failed, image) {
            (Some(error), _) => Err(error),
            (None, Ok(image)) => Ok(image),
            // This document was not checked: it is returned unchanged.
            (None, Err(_)) => Ok(DocBuf::from(doc)),
        }
    }

    /// Returns the document with the copies that `copies` returns for each reference; `None` keeps
    /// them.
    pub(super) fn rewrite(
        &self,
        doc: RawDoc<'_>,
        copies: &mut dyn FnMut(Val<'_>) -> Result<Option<Copies>>,
    ) -> Result<DocBuf> {
        self.place.rewrite(doc, &mut |context| self.fill_context(context, copies))
    }

    /// Fills the copies of one document that holds a reference.
    pub(super) fn fill_context(
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
            // An array of references has an array of copies.
            let old = into.find(context).and_then(RawVal::as_array).unwrap_or(RawDoc::empty());
            let mut bytes = Vec::new();
            let mut failed = None;
            value::writer::write_array(&mut bytes, |out| {
                for (at, (_, element)) in list.iter().enumerate() {
                    // Without a reference there are no copies, whatever a client wrote there.
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
        // An array of copies belonged to an array of references, which no longer exists.
        let row = into.find(context).is_some_and(|held| held.as_array().is_some());
        let emptied = match row && !into.text().is_empty() {
            true => Some(edit::assign(context, &[(into.clone(), None)])?),
            false => None,
        };
        let context = emptied.as_ref().map_or(context, DocBuf::as_doc);
        self.placed(context, into, &copied)
    }

    pub(super) fn copied(&self, copies: &Copies) -> DocBuf {
        self.placed(RawDoc::empty(), &Path::new(""), copies).unwrap_or_default()
    }

    /// The image of a target with copies derived from the sources alone. Frozen copies of a
    /// snapshot, and copies of deleted sources, are kept if so declared.
    ///
    /// # Errors
    /// Errors of expressions; when the store fails.
    pub(super) fn derived(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        doc: RawDoc<'_>,
    ) -> Result<DocBuf> {
        if self.pointer {
            return self.without_any(doc);
        }
        if !self.live {
            return self.with_copies(pattern, documents, Some(doc), doc);
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

    /// Returns the target that a check expects, derived from the current sources. Frozen copies of
    /// a snapshot cannot be recomputed: any copies are correct if there is a reference, and so are
    /// none, since the source may have been inserted later.
    ///
    /// # Errors
    /// As `derived`.
    pub(super) fn expected_copies(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        doc: RawDoc<'_>,
    ) -> Result<DocBuf> {
        match self.live {
            true => self.derived(pattern, documents, doc),
            false => self.rewrite(doc, &mut |_| Ok(None)),
        }
    }
}
