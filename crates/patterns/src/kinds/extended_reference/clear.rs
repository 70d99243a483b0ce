//! Targets without copies: for patterns that store none, and after a pattern was dropped.

use super::Reference;
use crate::edit;
use std::collections::BTreeSet;
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val};

impl Reference {
    /// The document without any copies.
    ///
    /// # Errors
    /// PatternViolation if a value is in the way of a path.
    pub(super) fn without_any(&self, doc: RawDoc<'_>) -> Result<DocBuf> {
        let all: Vec<Path> = self.maintained_paths().iter().map(|path| Path::new(path)).collect();
        self.without_copies_at(doc, &all)
    }

    /// The document without the copies at these maintained paths.
    ///
    /// # Errors
    /// As `without_any`.
    pub(super) fn without_copies_at(&self, doc: RawDoc<'_>, free: &[Path]) -> Result<DocBuf> {
        self.place.rewrite(doc, &mut |context| self.context_without(context, free, &|_| true))
    }

    /// The document `after` without the copies that `before` already has, even if the references
    /// changed.
    ///
    /// # Errors
    /// As `without_any`.
    pub(super) fn without_old_copies(
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
        self.place.rewrite(after, &mut |context| self.context_without(context, free, &is_left))
    }

    /// The copies of one reference, as the bytes of one document.
    pub(super) fn held(&self, at: RawDoc<'_>) -> Vec<u8> {
        let held = DocBuf::build(|out| {
            for ((path, _), copy) in self.fields.iter().zip(self.held_copies(at)) {
                if let Some(copy) = copy {
                    out.raw(path.text(), copy.value().raw());
                }
            }
        });
        held.into_bytes()
    }

    /// A document that may hold a reference, without the copies that `left` accepts.
    pub(super) fn context_without(
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
        let cleared = |at: RawDoc<'_>| edit::assign(at, &self.removals(at, &is_free));
        if into.text().is_empty() {
            return if left(context) { cleared(context) } else { Ok(context.into()) };
        }
        let Some(held) = into.find(context) else { return Ok(context.into()) };
        if let Some(at) = held.as_doc().filter(|at| left(*at)) {
            if at.is_empty() {
                return Ok(context.into());
            }
            let image = cleared(at)?;
            let kept =
                (!image.as_doc().is_empty()).then(|| OwnedVal::new(Val::Document(image.as_doc())));
            return edit::assign(context, &[(into.clone(), kept)]);
        }
        let Some(row) = held.as_array() else { return Ok(context.into()) };
        // An array is removed with the last of its copies; until then the others keep their
        // positions.
        let mut empty = !row.is_empty() || left(RawDoc::empty());
        let mut bytes = Vec::new();
        let mut failed = None;
        value::writer::write_array(&mut bytes, |out| {
            for (_, element) in row {
                let image = element.as_doc().filter(|at| left(*at)).map(cleared);
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
}
