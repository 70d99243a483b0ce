//! The delta of modifiers, found along their paths. As in MongoDB, a modifier records the whole
//! value at its path; only elements that were appended to an array are recorded separately.

use super::super::modifier::{Modifier, Modifiers};
use super::super::tree::Tree;
use super::{ArrayDelta, DocDelta, FieldChange};
use value::{RawDoc, RawVal, Type};

/// The delta from `old` to `new`, which the modifiers made.
pub(super) fn delta(
    modifiers: &Modifiers,
    old: RawDoc<'_>,
    new: RawDoc<'_>,
    position: Option<usize>,
) -> Vec<u8> {
    let along = DeltaWalk { modifiers, position };
    match &modifiers.tree {
        Tree::Fields(children) => along.fields(children, old, new),
        _ => DocDelta::default().finish(),
    }
}

struct DeltaWalk<'u> {
    modifiers: &'u Modifiers,
    position: Option<usize>,
}

impl DeltaWalk<'_> {
    fn fields(&self, children: &[(Box<str>, Tree)], old: RawDoc<'_>, new: RawDoc<'_>) -> Vec<u8> {
        let mut delta = DocDelta::default();
        for (name, tree) in children {
            let (before, after) = find_both(old, new, name);
            delta.add(name, self.piece(tree, before, after));
        }
        delta.finish()
    }

    fn piece<'v>(
        &self,
        tree: &Tree,
        old: Option<RawVal<'v>>,
        new: Option<RawVal<'v>>,
    ) -> FieldChange<'v> {
        let (old, new) = match (old, new) {
            (None, None) => return FieldChange::Same,
            (Some(_), None) => return FieldChange::Removed,
            (None, Some(new)) => return FieldChange::Inserted(new),
            (Some(old), Some(new)) if old == new => return FieldChange::Same,
            (Some(old), Some(new)) => (old, new),
        };
        let arrays = old.as_array().zip(new.as_array());
        match (tree, arrays, old.as_doc().zip(new.as_doc())) {
            (Tree::Leaf(leaf), Some((old, new)), _) if self.appends(*leaf) => appended(old, new)
                .map_or(
                    FieldChange::Updated(RawVal { kind: 4, bytes: new.bytes() }),
                    FieldChange::Nested,
                ),
            (Tree::Fields(children), _, Some((old, new))) => {
                FieldChange::Nested(self.fields(children, old, new))
            }
            (Tree::Fields(children), Some((old, new)), _) => {
                FieldChange::Nested(self.elements_by_index(children, old, new))
            }
            (Tree::Elements(children), Some((before, after)), _) => self
                .elements(children, before, after)
                .map_or(FieldChange::Updated(new), FieldChange::Nested),
            _ => FieldChange::Updated(new),
        }
    }

    /// Whether a modifier only appends elements to an array.
    fn appends(&self, leaf: usize) -> bool {
        matches!(self.modifiers.modifiers.get(leaf), Some(Modifier::Push(push)) if push.appends())
    }

    /// Array elements that are named by index.
    fn elements_by_index(
        &self,
        children: &[(Box<str>, Tree)],
        old: RawDoc<'_>,
        new: RawDoc<'_>,
    ) -> Vec<u8> {
        let mut delta = ArrayDelta::default();
        for (name, tree) in children {
            let place = if &**name == "$" { self.position } else { name.parse().ok() };
            let Some(place) = place else { continue };
            let before = old.iter().nth(place).map(|(_, value)| value);
            let after = new.iter().nth(place).map(|(_, value)| value);
            delta.add(place, self.piece(tree, before, after));
        }
        delta.finish()
    }

    /// Array elements that a filter chose: one that changed is recorded alone, several with the whole
    /// array.
    fn elements(
        &self,
        children: &[(Box<str>, Tree)],
        old: RawDoc<'_>,
        new: RawDoc<'_>,
    ) -> Option<Vec<u8>> {
        let [(_, tree)] = children else { return None };
        let mut changed = None;
        let mut befores = old.iter();
        for (place, (_, after)) in new.iter().enumerate() {
            let (_, before) = befores.next()?;
            if before != after && changed.replace((place, before, after)).is_some() {
                return None;
            }
        }
        let (place, before, after) = changed?;
        let mut delta = ArrayDelta::default();
        delta.add(place, self.piece(tree, Some(before), Some(after)));
        Some(delta.finish())
    }
}

/// The value of a field in two documents. Where they are alike up to it, and it is of a fixed size,
/// the second one need not be searched.
fn find_both<'v>(
    old: RawDoc<'v>,
    new: RawDoc<'v>,
    name: &str,
) -> (Option<RawVal<'v>>, Option<RawVal<'v>>) {
    let (before, after) = (old.elements_bytes(), new.elements_bytes());
    let mut elements = old.iter();
    while let Some((found, value)) = elements.next_bytes() {
        if found != name.as_bytes() {
            continue;
        }
        let end = before.len().saturating_sub(elements.rest().len());
        let start = end.saturating_sub(value.bytes.len());
        // The bytes before it name its type, so it is as long as the other one.
        let same = is_of_fixed_size(value.kind())
            && before.get(..start).is_some_and(|part| after.get(..start) == Some(part));
        let bytes = after.get(start..end).filter(|_| same);
        let other = bytes.map(|bytes| RawVal { kind: value.kind, bytes });
        return (Some(value), other.or_else(|| new.find(name)));
    }
    (None, new.find(name))
}

fn is_of_fixed_size(kind: Type) -> bool {
    use Type::{Bool, DateTime, Double, Int32, Int64, ObjectId, Timestamp};
    matches!(kind, Bool | DateTime | Double | Int32 | Int64 | ObjectId | Timestamp)
}

/// The delta of an array to which elements were appended.
fn appended(old: RawDoc<'_>, new: RawDoc<'_>) -> Option<Vec<u8>> {
    if !new.elements_bytes().starts_with(old.elements_bytes()) {
        return None;
    }
    let mut delta = ArrayDelta::default();
    for (place, (_, value)) in new.iter().enumerate().skip(old.count()) {
        delta.add(place, FieldChange::Updated(value));
    }
    Some(delta.finish())
}
