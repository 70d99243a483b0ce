//! Deltas: what an update changed, in the form in which the change log keeps it.
//!
//! A delta of a document is `{d: {removed: false, ..}, u: {changed: value, ..}, i: {new: value, ..},
//! s<field>: delta, ..}`; one of an array `{a: true, l: length, u<index>: value, s<index>: delta, ..}`.
//! `i` puts a field at the end, also when it stood elsewhere before.
//!
//! `along` finds the delta along the paths of modifiers, `between` compares two whole documents,
//! `describe` turns a delta into the words of change events, `apply` changes a document by it, `partial` is about
//! documents of which not all of an array was read.

mod along;
mod apply;
mod between;
mod describe;
mod partial;

pub use apply::apply;
pub use between::between;
pub use describe::{Description, describe};
pub use partial::of_whole;

use super::{Kind, Update};
use smallvec::SmallVec;
use value::{RawDoc, RawVal, writer};

/// How an update of one document is recorded in the change log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedUpdate {
    /// As the fields that changed.
    Delta(Vec<u8>),
    /// As the whole new document.
    Replacement,
}

impl LoggedUpdate {
    /// The delta; `None` if the whole document is recorded.
    #[must_use]
    pub fn delta(&self) -> Option<&[u8]> {
        match self {
            LoggedUpdate::Delta(delta) => Some(delta),
            LoggedUpdate::Replacement => None,
        }
    }
}

impl Update {
    /// The record of the change from `old` to `new`, which this update made. `position` is the index
    /// of the array element that the filter matched.
    #[must_use]
    pub fn logged(
        &self,
        old: RawDoc<'_>,
        new: RawDoc<'_>,
        position: Option<usize>,
    ) -> LoggedUpdate {
        match &self.kind {
            Kind::Replacement(_) => LoggedUpdate::Replacement,
            Kind::Modifiers(modifiers) => {
                LoggedUpdate::Delta(along::delta(modifiers, old, new, position))
            }
            Kind::Pipeline(_) => between(old, new),
        }
    }
}

/// Names of fields.
pub type Names<'d> = SmallVec<[&'d [u8]; 4]>;

/// The fields of a document, at its top level, that a delta changes.
#[must_use]
pub fn top_level_names(delta: RawDoc<'_>) -> Names<'_> {
    let mut names = Names::new();
    let mut parts = delta.iter();
    while let Some((name, part)) = parts.next_bytes() {
        match (name, part.as_doc()) {
            (b"d" | b"u" | b"i", Some(fields)) => {
                let mut fields = fields.iter();
                names.extend(std::iter::from_fn(|| fields.next_bytes()).map(|(name, _)| name));
            }
            ([b's', name @ ..], _) => names.push(name),
            _ => {}
        }
    }
    names
}

/// Elements; most updates change few and small ones, which need no memory of their own.
type Elements = SmallVec<[u8; 64]>;

/// The delta of a document while it is made; each part holds elements.
#[derive(Default)]
struct DocDelta {
    removed: Elements,
    updated: Elements,
    inserted: Elements,
    nested: Elements,
}

impl DocDelta {
    fn add(&mut self, name: &str, piece: FieldChange<'_>) {
        match piece {
            FieldChange::Same => {}
            FieldChange::Removed => {
                element(&mut self.removed, "", name, RawVal { kind: 0x08, bytes: &[0] });
            }
            FieldChange::Inserted(value) => element(&mut self.inserted, "", name, value),
            FieldChange::Updated(value) => element(&mut self.updated, "", name, value),
            FieldChange::Nested(delta) => {
                element(&mut self.nested, "s", name, RawVal { kind: 0x03, bytes: &delta });
            }
        }
    }

    fn finish(self) -> Vec<u8> {
        let sizes = [&self.removed, &self.updated, &self.inserted, &self.nested];
        let mut bytes =
            Vec::with_capacity(16 + sizes.iter().map(|part| part.len() + 8).sum::<usize>());
        let start = writer::open(&mut bytes);
        for (name, part) in [(b'd', self.removed), (b'u', self.updated), (b'i', self.inserted)] {
            if !part.is_empty() {
                bytes.extend_from_slice(&[0x03, name, 0]);
                let inner = writer::open(&mut bytes);
                bytes.extend_from_slice(&part);
                writer::close(&mut bytes, inner);
            }
        }
        bytes.extend_from_slice(&self.nested);
        writer::close(&mut bytes, start);
        bytes
    }
}

/// The change of one field or array element.
enum FieldChange<'v> {
    Same,
    Removed,
    Inserted(RawVal<'v>),
    Updated(RawVal<'v>),
    Nested(Vec<u8>),
}

/// The delta of an array while it is made.
#[derive(Default)]
struct ArrayDelta {
    places: Vec<(usize, Elements)>,
    length: Option<usize>,
}

impl ArrayDelta {
    fn add(&mut self, place: usize, piece: FieldChange<'_>) {
        let mut bytes = Elements::new();
        let name = place.to_string();
        match piece {
            FieldChange::Same | FieldChange::Removed => return,
            FieldChange::Inserted(value) | FieldChange::Updated(value) => {
                element(&mut bytes, "u", &name, value);
            }
            FieldChange::Nested(delta) => {
                element(&mut bytes, "s", &name, RawVal { kind: 0x03, bytes: &delta });
            }
        }
        self.places.push((place, bytes));
    }

    fn finish(mut self) -> Vec<u8> {
        self.places.sort_by_key(|(place, _)| *place);
        let mut bytes = Vec::with_capacity(64);
        let start = writer::open(&mut bytes);
        bytes.extend_from_slice(&[0x08, b'a', 0, 1]);
        if let Some(length) = self.length {
            let length = i32::try_from(length).unwrap_or(i32::MAX);
            bytes.extend_from_slice(&[0x10, b'l', 0]);
            bytes.extend_from_slice(&length.to_le_bytes());
        }
        for (_, place) in self.places {
            bytes.extend_from_slice(&place);
        }
        writer::close(&mut bytes, start);
        bytes
    }
}

/// Appends an element whose name has a mark in front.
fn element(bytes: &mut Elements, mark: &str, name: &str, value: RawVal<'_>) {
    bytes.push(value.kind);
    bytes.extend_from_slice(mark.as_bytes());
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(value.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseContext;
    use value::{DocBuf, Val, ejson};

    fn doc(text: &str) -> DocBuf {
        ejson::parse_doc(text).unwrap()
    }

    /// What the log keeps of an update, and the update's description. The expectations are what
    /// MongoDB 6.0 writes.
    fn logged(old: &str, update: &str) -> (String, String) {
        let (old, update) = (doc(old), doc(&format!("{{u: {update}}}")));
        let context = ParseContext::new(0);
        let update = update.as_doc().get("u").unwrap_or(Val::Null);
        let update = Update::parse(update, &context, &[]).unwrap();
        let new = update.apply(old.as_doc(), None, false, &bumpalo::Bump::new()).unwrap().unwrap();
        let show = |doc: RawDoc<'_>| {
            ejson::print_value(Val::Document(doc), ejson::Format::Shell)
                .replace(' ', "")
                .replace('"', "'")
        };
        match update.logged(old.as_doc(), new.as_doc(), None) {
            LoggedUpdate::Replacement => ("replacement".to_owned(), String::new()),
            LoggedUpdate::Delta(delta) => {
                let delta = RawDoc::new(&delta);
                let description = DocBuf::from(&describe(delta));
                (show(delta), show(description.as_doc()))
            }
        }
    }

    #[test]
    fn a_delta_names_the_fields_that_it_changes() {
        let named = |delta: &str| {
            let delta = doc(delta);
            let names = top_level_names(delta.as_doc());
            names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(named("{}"), [""; 0]);
        assert_eq!(
            named(
                "{d: {u: false}, u: {a: 1, d: {x: 1}}, i: {z: 2}, ss: {u: {q: 4}}, sd: {a: true, u0: 1}}"
            ),
            ["u", "a", "d", "z", "s", "d"]
        );
    }

    #[test]
    fn modifiers_tell_the_values_at_their_paths() {
        let old = "{_id: 1, x: 1, s: {p: 1, q: 2}, arr: [1, 2, 3], d: [{n: 1}, {n: 2}]}";
        for (update, delta) in [
            ("{$set: {x: 2}}", "{u:{x:2}}"),
            ("{$inc: {x: 1, 's.q': 1}}", "{u:{x:2},ss:{u:{q:3}}}"),
            ("{$set: {x: 'long', 's.p': 1.5, 's.q': 8}}", "{u:{x:'long'},ss:{u:{p:1.5,q:8}}}"),
            ("{$set: {s: {p: 1, q: 3}}}", "{u:{s:{p:1,q:3}}}"),
            ("{$set: {'s.q': 4, 'n.e.w': 1}}", "{i:{n:{e:{w:1}}},ss:{u:{q:4}}}"),
            ("{$unset: {'s.q': 1}}", "{ss:{d:{q:false}}}"),
            ("{$set: {arr: [1, 2, 4]}}", "{u:{arr:[1,2,4]}}"),
            ("{$push: {arr: {$each: [6, 7]}}}", "{sarr:{a:true,u3:6,u4:7}}"),
            ("{$push: {arr: {$each: [0], $position: 0}}}", "{u:{arr:[0,1,2,3]}}"),
            ("{$addToSet: {arr: 99}}", "{u:{arr:[1,2,3,99]}}"),
            ("{$pop: {arr: 1}}", "{u:{arr:[1,2]}}"),
            ("{$set: {'arr.5': 1}}", "{sarr:{a:true,u5:1}}"),
            ("{$unset: {'arr.1': 1}}", "{sarr:{a:true,u1:null}}"),
            ("{$set: {'d.0.n': 5}}", "{sd:{a:true,s0:{u:{n:5}}}}"),
            ("{$inc: {'d.$[].n': 1}}", "{u:{d:[{n:2},{n:3}]}}"),
            ("{$rename: {x: 'y', 's.p': 's.r'}}", "{d:{x:false},i:{y:1},ss:{d:{p:false},i:{r:1}}}"),
            ("{$push: {'d.1.z': 4}}", "{sd:{a:true,s1:{i:{z:[4]}}}}"),
        ] {
            assert_eq!(logged(old, update).0, delta, "{update}");
        }
        assert_eq!(logged(old, "{x: 2}").0, "replacement");
    }

    #[test]
    fn pipelines_tell_the_shorter_of_delta_and_document() {
        let old = "{_id: 1, new: 2, arr: [1, 2, 3, 4, 5], o: {a: {b: {c: 1}}}, big: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'}";
        for (update, delta) in [
            ("[{$set: {arr: [1, 2]}}]", "{sarr:{a:true,l:2}}"),
            ("[{$set: {'o.a.b.c': 2}}]", "{u:{o:{a:{b:{c:2}}}}}"),
            ("[{$unset: 'o'}]", "{d:{o:false}}"),
            (
                "[{$replaceWith: {_id: 1, big: '$big', new: '$new'}}]",
                "{d:{arr:false,o:false},i:{new:2}}",
            ),
            ("[{$replaceWith: {_id: 1, zz: 1}}]", "replacement"),
        ] {
            assert_eq!(logged(old, update).0, delta, "{update}");
        }
    }

    #[test]
    fn deltas_are_described_by_paths() {
        let old = "{_id: 1, a: {'0': 1}, arr: [1, 2, 3], d: [{n: 1}, {n: 2}]}";
        let (_, words) = logged(old, "{$set: {'a.0': 7, 'd.1.n': 3}, $unset: {arr: 1}}");
        assert_eq!(
            words,
            "{updatedFields:{'a.0':7,'d.1.n':3},removedFields:['arr'],truncatedArrays:[],\
             disambiguatedPaths:{'a.0':['a','0']}}"
        );
        let (_, words) = logged(old, "[{$set: {arr: [1, 2]}}]");
        assert!(words.contains("truncatedArrays:[{field:'arr',newSize:2}]"), "{words}");
        // The whole array is shorter than the words for its new length.
        let (_, words) = logged(old, "[{$set: {arr: [1]}}]");
        assert!(words.contains("updatedFields:{arr:[1]}"), "{words}");
    }
}
