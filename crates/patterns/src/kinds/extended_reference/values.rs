//! The copied values of a source.
//!
//! A field is copied to the same path. If an array is on the way to it in the source, the array is
//! copied, with what a projection of the declared fields keeps of its elements. So the copy has the
//! form that a find of the source with these fields returns.

use super::{Copies, Reference};
use crate::edit::{self, Assignment};
use crate::paths::is_within;
use bumpalo::Bump;
use query::ParseContext;
use query::expr::Env;
use query::project::{Mode, Projection};
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, Result};

/// A copied value.
#[derive(Clone, Debug, PartialEq)]
pub struct CopiedValue {
    /// How many parts of the field's path lead to it: fewer than all for an array on the way.
    parts: usize,
    value: OwnedVal,
}

impl CopiedValue {
    /// The value.
    pub(super) fn value(&self) -> &OwnedVal {
        &self.value
    }
}

/// The fields with a dotted path, which may lead through arrays of the source.
#[derive(Debug)]
pub struct NestedFields {
    /// What is kept of arrays.
    projection: Projection,
    /// Whether the path of each field is dotted.
    dotted: Vec<bool>,
}

impl NestedFields {
    /// Compiles the fields that are copied without an expression: their paths, `None` for all
    /// others. Returns `None` if no path is dotted.
    ///
    /// # Errors
    /// What a find answers to a projection of these paths.
    pub(super) fn new(fields: &[Option<&str>]) -> Result<Option<NestedFields>> {
        let dotted: Vec<bool> =
            fields.iter().map(|path| path.is_some_and(|path| path.contains('.'))).collect();
        if !dotted.contains(&true) {
            return Ok(None);
        }
        let named = DocBuf::build(|out| {
            for path in fields.iter().flatten().filter(|path| path.contains('.')) {
                out.i32(path, 1);
            }
        });
        let projection = Projection::parse(named.as_doc(), &ParseContext::new(0), Mode::Find)?;
        Ok(Some(NestedFields { projection, dotted }))
    }
}

/// The number of parts of a path that lead to an array on the way to its field.
fn array_on_way(doc: RawDoc<'_>, path: &Path) -> Option<usize> {
    let (_, way) = path.parts().split_last()?;
    let mut doc = doc;
    for (at, part) in way.iter().enumerate() {
        let value = doc.find(&part.name)?;
        if value.as_array().is_some() {
            return Some(at + 1);
        }
        doc = value.as_doc()?;
    }
    None
}

/// The first parts of a path, below `into`.
fn path_of(into: &str, path: &Path, parts: usize) -> Path {
    let names = path.parts().iter().take(parts).map(|part| &*part.name);
    let names = Some(into).filter(|into| !into.is_empty()).into_iter().chain(names);
    Path::new(&names.collect::<Vec<_>>().join("."))
}

impl Reference {
    fn array_on_way(&self, doc: RawDoc<'_>, field: usize) -> Option<usize> {
        let nested = self.nested.as_ref()?;
        let (path, _) = self.fields.get(field)?;
        array_on_way(doc, path).filter(|_| nested.dotted.get(field) == Some(&true))
    }

    /// The copies of a source.
    ///
    /// # Errors
    /// Errors of expressions.
    pub(super) fn copies(&self, source: RawDoc<'_>) -> Result<Copies> {
        let arena = Bump::new();
        let env = Env::new(source, &arena);
        let mut projected: Option<Vec<u8>> = None;
        let mut copies = Vec::with_capacity(self.fields.len());
        for (field, (path, expression)) in self.fields.iter().enumerate() {
            if let (Some(parts), Some(nested)) = (self.array_on_way(source, field), &self.nested) {
                let bytes = match projected.take() {
                    Some(bytes) => bytes,
                    None => {
                        let mut bytes = Vec::new();
                        nested.projection.apply(source, None, &arena, &mut bytes)?;
                        bytes
                    }
                };
                let found = path_of("", path, parts);
                let value = found.find(RawDoc::new(&bytes)).map(|value| OwnedVal::new(value.get()));
                copies.push(value.map(|value| CopiedValue { parts, value }));
                projected = Some(bytes);
                continue;
            }
            let value = expression.eval(&env).map_err(|error| {
                error.context(format!("field '{}.{}': ", self.place.into.text(), path.text()))
            })?;
            let (parts, value) = (path.parts().len(), OwnedVal::new(value));
            copies.push((!value.get().is_nullish()).then_some(CopiedValue { parts, value }));
        }
        Ok(copies)
    }

    /// The copies in a document that holds them.
    pub(super) fn held_copies(&self, held: RawDoc<'_>) -> Copies {
        let copy = |(field, (path, _)): (usize, &(Path, _))| {
            let all = path.parts().len();
            let parts = self.array_on_way(held, field).unwrap_or(all);
            let value = path_of("", path, parts).find(held)?;
            Some(CopiedValue { parts, value: OwnedVal::new(value.get()) })
        };
        self.fields.iter().enumerate().map(copy).collect()
    }

    /// A document with these copies below `into`, which may be empty.
    ///
    /// # Errors
    /// PatternViolation if a value other than a document is in the way of a path.
    pub(super) fn placed(&self, doc: RawDoc<'_>, into: &Path, copies: &Copies) -> Result<DocBuf> {
        let mut changes: Vec<Assignment> = Vec::with_capacity(copies.len());
        if self.nested.is_none() {
            for ((path, _), copy) in self.fields.iter().zip(copies) {
                let value = copy.as_ref().map(|copy| copy.value.clone());
                changes.push((path_of(into.text(), path, usize::MAX), value));
            }
            return edit::assign(doc, &changes);
        }
        let held = match into.text() {
            "" => Some(doc),
            _ => into.find(doc).and_then(value::RawVal::as_doc),
        };
        let (mut gone, mut arrays): (Vec<Assignment>, Vec<String>) = (Vec::new(), Vec::new());
        for (field, ((path, _), copy)) in self.fields.iter().zip(copies).enumerate() {
            let all = path.parts().len();
            let parts = copy.as_ref().map_or(all, |copy| copy.parts);
            // An array that was copied before and is another value in the source now.
            let other = held.and_then(|held| self.array_on_way(held, field));
            if let Some(other) = other.filter(|other| *other != parts) {
                gone.push((path_of(into.text(), path, other), None));
            }
            let place = path_of(into.text(), path, parts);
            if parts < all {
                arrays.push(place.text().to_owned());
            }
            if !changes.iter().any(|(known, _)| known.text() == place.text()) {
                changes.push((place, copy.as_ref().map(|copy| copy.value.clone())));
            }
        }
        let is_inside = |path: &str| arrays.iter().any(|a| a != path && is_within(path, a));
        changes.retain(|(path, _)| !is_inside(path.text()));
        if gone.is_empty() {
            return edit::assign(doc, &changes);
        }
        edit::assign(edit::assign(doc, &gone)?.as_doc(), &changes)
    }

    /// The changes that remove the copies of the fields that `is_free` accepts from a document
    /// that holds them.
    pub(super) fn removals(
        &self,
        held: RawDoc<'_>,
        is_free: &dyn Fn(&Path) -> bool,
    ) -> Vec<Assignment> {
        let fields = self.fields.iter().enumerate().filter(|(_, (path, _))| is_free(path));
        fields
            .map(|(field, (path, _))| {
                let parts = self.array_on_way(held, field).unwrap_or(usize::MAX);
                (path_of("", path, parts), None)
            })
            .collect()
    }
}
