//! Slots: the fields that expressions read, found in one pass over a document.
//!
//! Looking up each path separately would read the document several times. Here all paths are in one
//! tree of names, and a single walk, which ends with the last of them, fills a slot for each.
//! Values are decoded only when an expression reads them.

use crate::path_values::path_through_array;
use bumpalo::Bump;
use value::shape::{NAMES_MAX, Shape};
use value::{RawDoc, RawVal, Val};

/// The value of a slot whose path does not exist.
pub const MISSING: RawVal<'static> = RawVal { kind: 0, bytes: &[] };

/// Paths that are read, each numbered once.
#[derive(Clone, Debug, Default)]
pub struct Paths(Vec<Vec<Box<str>>>);

impl Paths {
    /// The slot of a path.
    pub fn slot(&mut self, path: &[Box<str>]) -> usize {
        if let Some(at) = self.0.iter().position(|known| known == path) {
            return at;
        }
        self.0.push(path.to_vec());
        self.0.len() - 1
    }

    /// How many slots there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The paths in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = &[Box<str>]> {
        self.0.iter().map(Vec::as_slice)
    }
}

/// A tree of paths that is filled from documents. It keeps the shape of previous documents, so each
/// thread has its own.
#[derive(Clone, Debug)]
pub struct Slots {
    top: Level,
    count: usize,
}

/// The names of one level.
#[derive(Clone, Debug, Default)]
struct Level {
    fields: Vec<Field>,
    /// The names of the fields, in their order.
    shape: Shape,
}

#[derive(Clone, Debug)]
struct Field {
    name: Box<str>,
    /// The slot of the value itself, if a path ends here.
    slot: Option<usize>,
    inner: Level,
    /// The slots of all longer paths with the rest of each path, for arrays on the path.
    below: Vec<(usize, Vec<Box<str>>)>,
}

impl Slots {
    /// The tree of some paths; `None` if there are too many, or an empty one.
    #[must_use]
    pub fn new<'p>(
        paths: impl Iterator<Item = (usize, &'p [Box<str>])>,
        count: usize,
    ) -> Option<Slots> {
        let mut top = Level::default();
        for (slot, path) in paths {
            top.insert(slot, path)?;
        }
        top.finish()?;
        Some(Slots { top, count })
    }

    /// No slots.
    #[must_use]
    pub fn none() -> Slots {
        Slots { top: Level::default(), count: 0 }
    }

    /// How many slots there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Fills the slots from the elements of an array instead of a document.
    pub fn fill_through<'a>(&self, array: RawDoc<'a>, arena: &'a Bump, values: &mut [RawVal<'a>]) {
        let mut set = |slot: usize, path: &[Box<str>]| {
            if let Some(place) = values.get_mut(slot)
                && let Val::Array(found) = path_through_array(array, path, arena)
            {
                *place = RawVal { kind: ARRAY, bytes: found.bytes() };
            }
        };
        for field in &self.top.fields {
            if let Some(slot) = field.slot {
                set(slot, std::slice::from_ref(&field.name));
            }
            for (slot, rest) in &field.below {
                let path: Vec<Box<str>> =
                    std::iter::once(&field.name).chain(rest).cloned().collect();
                set(*slot, &path);
            }
        }
    }

    /// Fills the slots from a document. Slots of paths that do not exist are left unchanged.
    #[inline]
    pub fn fill<'a>(&mut self, doc: RawDoc<'a>, arena: &'a Bump, values: &mut [RawVal<'a>]) {
        self.top.fill(doc, arena, values);
    }
}

impl Level {
    fn insert(&mut self, slot: usize, path: &[Box<str>]) -> Option<()> {
        let (name, rest) = path.split_first()?;
        let at = match self.fields.iter().position(|field| field.name == *name) {
            Some(at) => at,
            None if self.fields.len() == NAMES_MAX => return None,
            None => {
                let (inner, below) = (Level::default(), Vec::new());
                self.fields.push(Field { name: name.clone(), slot: None, inner, below });
                self.fields.len() - 1
            }
        };
        let field = self.fields.get_mut(at)?;
        if rest.is_empty() {
            field.slot = Some(slot);
            return Some(());
        }
        field.below.push((slot, rest.to_vec()));
        field.inner.insert(slot, rest)
    }

    /// Builds the shapes after all paths were added.
    fn finish(&mut self) -> Option<()> {
        self.shape = Shape::new(self.fields.iter().map(|field| &*field.name))?;
        self.fields.iter_mut().try_for_each(|field| field.inner.finish())
    }

    #[inline]
    fn fill<'a>(&mut self, doc: RawDoc<'a>, arena: &'a Bump, values: &mut [RawVal<'a>]) {
        let Level { fields, shape } = self;
        shape.each(doc, |at, value| {
            if let Some(field) = fields.get_mut(at) {
                field.store(value, arena, values);
            }
            true
        });
    }
}

impl Field {
    #[inline]
    fn store<'a>(&mut self, value: RawVal<'a>, arena: &'a Bump, values: &mut [RawVal<'a>]) {
        if let Some(slot) = self.slot.and_then(|slot| values.get_mut(slot)) {
            *slot = value;
        }
        if self.below.is_empty() {
            return;
        }
        if let Some(doc) = value.as_doc() {
            self.inner.fill(doc, arena, values);
        } else if let Some(array) = value.as_array() {
            for (slot, rest) in &self.below {
                if let Some(place) = values.get_mut(*slot)
                    && let Val::Array(found) = path_through_array(array, rest, arena)
                {
                    *place = RawVal { kind: ARRAY, bytes: found.bytes() };
                }
            }
        }
    }
}

const ARRAY: u8 = 0x04;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseContext;
    use crate::expr::{Env, Expr};
    use value::ejson;

    /// Every path gives in its slot what the expression of the path gives.
    #[test]
    fn slots_hold_what_paths_mean() {
        let docs = [
            "{}",
            "{a: 1, b: 'x', c: {d: 1.5, e: {f: null}}}",
            "{c: [{d: 1}, {d: [2]}, 5, {e: {f: 3}}], a: [1, 2]}",
            "{c: {d: {x: 1}, e: [{f: 1}, {f: 2}]}, b: {b: 1}}",
            "{b: null, a: {a: 1}, c: 5}",
            "{c: {e: 1}, a: []}",
        ];
        let paths = ["a", "b", "c", "c.d", "c.e.f", "b.b", "c.e", "zz", "a.a"];
        let mut numbered = Paths::default();
        let context = ParseContext::new(0);
        let plain: Vec<Expr> = paths
            .iter()
            .map(|path| Expr::parse(Val::String(&format!("${path}")), &context).unwrap())
            .collect();
        let slotted: Vec<Expr> = plain.iter().map(|expr| expr.in_slots(&mut numbered)).collect();
        assert_eq!(numbered.len(), paths.len());
        let mut slots = Slots::new(numbered.iter().enumerate(), numbered.len()).unwrap();
        for text in docs {
            let doc = ejson::parse_doc(text).unwrap();
            let arena = Bump::new();
            let mut values = vec![MISSING; slots.len()];
            slots.fill(doc.as_doc(), &arena, &mut values);
            let with = Env::new(doc.as_doc(), &arena).with_slots(&values);
            let without = Env::new(doc.as_doc(), &arena);
            for ((plain, slotted), path) in plain.iter().zip(&slotted).zip(paths) {
                let expected = plain.eval(&without).unwrap();
                assert_eq!(slotted.eval(&with).unwrap(), expected, "{path} of {text}");
            }
        }
    }
}
