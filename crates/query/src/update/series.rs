//! One update applied to one document after another.
//!
//! Documents of a collection mostly look alike, and most updates set plain values of fields that are
//! there already. From the third document on, or at once if the document is large, such an update is
//! tried as a patch: the fields are found by the shape of the documents before, the document is
//! copied once, the new values are written over the old ones, and the delta is made from the same
//! values. Everything else takes the general path of updates, so that there is one place for each
//! rule and each error.
//!
//! Of a large document `edit` gives the parts that the new one consists of, so that whoever stores it
//! copies it once.

use super::delta::LoggedUpdate;
use super::modifier::{Modifier, ModifierContext, Modifiers};
use super::tree::Tree;
use super::{Kind, Update};
use bumpalo::Bump;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;
use value::shape::Shape;
use value::{DocBuf, RawDoc, RawVal, Result, Writer, limits};

/// The number of documents that take the general path before a patch is prepared.
const WITHOUT_PATCH: u32 = 2;
/// From this size on a patch is prepared for the first document: it copies the document once, and
/// compares nothing.
const LARGE_BYTES: usize = 64 * 1024;
/// An update of more fields is not applied as a patch.
const FIELDS_MAX: usize = 8;

/// An update and what was learned from the documents that it was applied to.
pub struct Series<'u> {
    update: &'u Update,
    applied: u32,
    patch: Option<Patch<'u>>,
}

impl<'u> Series<'u> {
    /// A series that begins.
    #[must_use]
    pub fn new(update: &'u Update) -> Series<'u> {
        Series { update, applied: 0, patch: None }
    }

    /// The update itself.
    #[must_use]
    pub fn update(&self) -> &'u Update {
        self.update
    }

    /// The next version of a document, and the record of its change; `None` if the update changes
    /// nothing. `position` is the array place that the filter matched.
    ///
    /// # Errors
    /// As [`Update::apply`].
    pub fn apply(
        &mut self,
        doc: RawDoc<'_>,
        position: Option<usize>,
    ) -> Result<Option<(DocBuf, LoggedUpdate)>> {
        if self.applied <= WITHOUT_PATCH {
            let is_large = doc.bytes().len() >= LARGE_BYTES;
            if self.patch.is_none() && (self.applied == WITHOUT_PATCH || is_large) {
                self.patch = Patch::of(self.update);
            }
            self.applied += 1;
        }
        match self.patch.as_mut().and_then(|patch| patch.apply(doc)) {
            Some(Patched::Same) => return Ok(None),
            Some(Patched::Changed(new, delta)) => {
                return Ok(Some((new, LoggedUpdate::Delta(delta))));
            }
            None => {}
        }
        let Some(new) = self.update.apply(doc, position, false, &Bump::new())? else {
            return Ok(None);
        };
        let logged = self.update.logged(doc, new.as_doc(), position);
        Ok(Some((new, logged)))
    }
}

/// The result of editing a large document.
pub enum Edit<'d> {
    /// Nothing changes.
    Same,
    /// The parts that the new document consists of, most of them from the old one.
    Parts(Vec<Cow<'d, [u8]>>),
}

impl Series<'_> {
    /// The next version of a large document, in parts; `None` if it is not large, or the update does
    /// more than to give values to top-level fields: then use `apply`. The record of the change is
    /// that of [`Update::logged`].
    pub fn edit<'d>(&mut self, doc: RawDoc<'d>) -> Option<Edit<'d>> {
        if doc.bytes().len() < LARGE_BYTES {
            return None;
        }
        if self.patch.is_none() {
            self.patch = Patch::of(self.update);
        }
        self.patch.as_mut()?.edit(doc)
    }
}

/// Modifiers of top-level fields, each of which gives a value for a value.
struct Patch<'u> {
    modifiers: &'u Modifiers,
    /// The names and their modifiers, in the order in which they are applied.
    fields: SmallVec<[(&'u str, &'u Modifier); 2]>,
    shape: Shape,
    /// The elements that the modifiers write.
    written: Vec<u8>,
}

/// The result of a patch.
enum Patched {
    /// Nothing changes.
    Same,
    /// The new document, and the delta.
    Changed(DocBuf, Vec<u8>),
}

impl<'u> Patch<'u> {
    /// The update as a patch, if it can be one.
    fn of(update: &'u Update) -> Option<Patch<'u>> {
        let Kind::Modifiers(modifiers) = &update.kind else { return None };
        let Tree::Fields(children) = &modifiers.tree else { return None };
        let rewrites = modifiers.deepest > limits::DEPTH_MAX || modifiers.dollar_name.is_some();
        if children.len() > FIELDS_MAX || rewrites {
            return None;
        }
        let field = |(name, tree): &'u (Box<str>, Tree)| {
            let Tree::Leaf(leaf) = tree else { return None };
            let modifier = modifiers.modifiers.get(*leaf)?;
            let gives_a_value = matches!(
                modifier,
                Modifier::Set(_)
                    | Modifier::Increment(_)
                    | Modifier::Multiply(_)
                    | Modifier::Min(_)
                    | Modifier::Max(_)
                    | Modifier::Bits(_)
            );
            (gives_a_value && &**name != "_id").then_some((&**name, modifier))
        };
        let fields = children.iter().map(field).collect::<Option<SmallVec<_>>>()?;
        let shape = Shape::new(fields.iter().map(|(name, _)| *name))?;
        Some(Patch { modifiers, fields, shape, written: Vec::new() })
    }

    /// The document after the update; `None` if the new values do not fit in place of the old ones,
    /// or the update is refused.
    fn apply(&mut self, doc: RawDoc<'_>) -> Option<Patched> {
        if doc.first().is_none_or(|(name, _)| name != "_id") {
            return None;
        }
        let mut found = [None::<RawVal<'_>>; FIELDS_MAX];
        self.shape.each(doc, |at, value| {
            if let Some(place) = found.get_mut(at) {
                *place = Some(value);
            }
            true
        });
        let context = self.context(doc);
        self.written.clear();
        // The delta is `{u: {name: value, ..}}`; what the modifiers write are its elements.
        let mut out = Writer::start(&mut self.written);
        let token = out.open("u", false);
        let mut new = Vec::new();
        for ((name, modifier), old) in self.fields.iter().zip(found) {
            let old = old?;
            let start = out.buffer().len();
            modifier.apply(name, Some(old), &context, &mut out).ok()?;
            let (kind, element) = out.buffer().get(start..)?.split_first()?;
            let value = element.get(name.len() + 1..)?;
            if *kind != old.kind || value.len() != old.bytes.len() {
                return None;
            }
            if value == old.bytes {
                out.buffer().truncate(start);
                continue;
            }
            if new.is_empty() {
                new = doc.bytes().to_vec();
            }
            let at = old.bytes.as_ptr().addr().checked_sub(doc.bytes().as_ptr().addr())?;
            new.get_mut(at..at + value.len())?.copy_from_slice(value);
        }
        if context.touched.get() {
            return None;
        }
        if new.is_empty() {
            return Some(Patched::Same);
        }
        out.close(token);
        out.finish();
        Some(Patched::Changed(DocBuf::from_bytes(new), self.written.clone()))
    }

    /// The document after the update in parts; `None` if the update is refused. Other than in `apply`
    /// values may have another length than before, and new fields are added at the end.
    fn edit<'d>(&mut self, doc: RawDoc<'d>) -> Option<Edit<'d>> {
        if doc.first().is_none_or(|(name, _)| name != "_id") {
            return None;
        }
        let mut found = [None::<RawVal<'d>>; FIELDS_MAX];
        self.shape.each(doc, |at, value| {
            if let Some(place) = found.get_mut(at) {
                *place = Some(value);
            }
            true
        });
        let context = self.context(doc);
        self.written.clear();
        let mut out = Writer::start(&mut self.written);
        // Where an element was, and where the new one is in what is written.
        let mut edits: SmallVec<[(Range<usize>, Range<usize>); 4]> = SmallVec::new();
        let end = doc.bytes().len().checked_sub(1)?;
        for ((name, modifier), old) in self.fields.iter().zip(found) {
            let start = out.buffer().len();
            modifier.apply(name, old, &context, &mut out).ok()?;
            let element = out.buffer().get(start..)?;
            let place = match old {
                None if element.is_empty() => continue,
                None => end..end,
                Some(old) => {
                    let (kind, value) = (element.first()?, element.get(name.len() + 2..)?);
                    if *kind == old.kind && value == old.bytes {
                        continue;
                    }
                    let at = old.bytes.as_ptr().addr().checked_sub(doc.bytes().as_ptr().addr())?;
                    at.checked_sub(name.len() + 2)?..at + old.bytes.len()
                }
            };
            edits.push((place, start..out.buffer().len()));
        }
        if context.touched.get() {
            return None;
        }
        if edits.is_empty() {
            return Some(Edit::Same);
        }
        // New fields stay in the order in which they are added.
        edits.sort_by_key(|(place, _)| place.start);
        let mut parts: Vec<Cow<'d, [u8]>> = vec![Cow::Borrowed(&[])];
        let mut from = 4;
        for (place, written) in &edits {
            parts.push(Cow::Borrowed(doc.bytes().get(from..place.start)?));
            parts.push(Cow::Owned(self.written.get(written.clone())?.to_vec()));
            from = place.end;
        }
        parts.push(Cow::Borrowed(doc.bytes().get(from..)?));
        let length = 4 + parts.iter().map(|part| part.len()).sum::<usize>();
        // A document that would be too large is refused by the general path.
        let length = i32::try_from(length).ok().filter(|_| length <= limits::DOCUMENT_BYTES_MAX)?;
        *parts.first_mut()? = Cow::Owned(length.to_le_bytes().to_vec());
        Some(Edit::Parts(parts))
    }

    fn context<'d>(&self, doc: RawDoc<'d>) -> ModifierContext<'d>
    where
        'u: 'd,
    {
        ModifierContext {
            doc,
            path: String::new(),
            inserting: false,
            in_array: false,
            renamed: Vec::new(),
            collation: self.modifiers.collation.as_deref(),
            touched: Cell::new(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseContext;
    use proptest::prelude::*;
    use value::ejson;

    const UPDATES: [&str; 16] = [
        "{$inc: {n: 1}}",
        "{$inc: {n: 1, m: 2.5}}",
        "{$inc: {n: {$numberLong: '4'}}}",
        "{$mul: {n: 2}}",
        "{$mul: {n: NaN}}",
        "{$set: {s: 'abc'}}",
        "{$set: {s: 'abc', n: 7}, $inc: {m: 1}}",
        "{$set: {o: {a: 2}, l: [1]}}",
        "{$min: {n: 3}, $max: {m: 3}}",
        "{$bit: {n: {xor: 5}}}",
        "{$set: {_id: 1}}",
        "{$set: {}}",
        "{$set: {'o.a': 1}, $inc: {n: 1}}",
        "{$unset: {n: 1}}",
        "{$setOnInsert: {n: 1}}",
        "{$currentDate: {d: true}}",
    ];

    fn any_doc() -> impl Strategy<Value = DocBuf> {
        let names = prop::sample::select(vec!["n", "m", "s", "o", "l", "d", "other"]);
        let value = prop::sample::select(vec![
            "1",
            "3",
            "2147483647",
            "2.5",
            "-0.0",
            "{$numberLong: '9223372036854775806'}",
            "{$numberDecimal: '1.50'}",
            "'abc'",
            "'xyz'",
            "'longer'",
            "null",
            "{a: 1}",
            "[1]",
            "[1, 2]",
            "ISODate('2020-01-01T00:00:00Z')",
        ]);
        let fields = prop::collection::vec((names, value), 0..7);
        (fields, 0..10).prop_map(|(fields, id_at)| {
            DocBuf::build(|out| {
                if id_at > 0 {
                    out.i32("_id", 1);
                }
                for (name, value) in fields {
                    out.append(name, ejson::parse_value(value).expect("a value").get());
                }
            })
        })
    }

    proptest! {
        #[test]
        fn a_series_does_to_each_document_what_the_update_does(
            docs in prop::collection::vec((any_doc(), 1_usize..5), 1..6),
            update in prop::sample::select(UPDATES.to_vec()),
        ) {
            let update = ejson::parse_value(update).expect("an update");
            let update = Update::parse(update.get(), &ParseContext::new(0), &[]).expect("is right");
            let mut series = Series::new(&update);
            for (doc, times) in docs.iter().cycle().take(12) {
                for _ in 0..*times {
                    let doc = doc.as_doc();
                    let expected = update.apply(doc, None, false, &Bump::new());
                    let found = series.apply(doc, None);
                    match (found, expected) {
                        (Ok(found), Ok(expected)) => {
                            let expected = expected.map(|new| {
                                let logged = update.logged(doc, new.as_doc(), None);
                                (new, logged)
                            });
                            prop_assert_eq!(found, expected);
                        }
                        (found, expected) => prop_assert_eq!(
                            found.err().map(|error| error.to_string()),
                            expected.err().map(|error| error.to_string())
                        ),
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_large_document_is_edited_as_the_update_does(
            doc in any_doc(),
            update in prop::sample::select(UPDATES.to_vec()),
        ) {
            let update = ejson::parse_value(update).expect("an update");
            let update = Update::parse(update.get(), &ParseContext::new(0), &[]).expect("is right");
            let Some(mut patch) = Patch::of(&update) else { return Ok(()) };
            let Some(edit) = patch.edit(doc.as_doc()) else { return Ok(()) };
            let expected = update.apply(doc.as_doc(), None, false, &Bump::new());
            let found = match edit {
                Edit::Same => None,
                Edit::Parts(parts) => Some(DocBuf::from_bytes(parts.concat())),
            };
            prop_assert_eq!(found, expected.expect("it is not refused"));
        }
    }

    #[test]
    fn only_large_documents_are_edited() {
        let update = ejson::parse_value("{$set: {new: 1, s: 'longer'}}").expect("an update");
        let update = Update::parse(update.get(), &ParseContext::new(0), &[]).expect("is right");
        let mut series = Series::new(&update);
        let doc = |text: &str| {
            DocBuf::build(|out| {
                out.i32("_id", 1).str("s", "short").str("text", text).i32("n", 1);
            })
        };
        assert!(series.edit(doc("small").as_doc()).is_none());
        let large = doc(&"x".repeat(LARGE_BYTES));
        let Some(Edit::Parts(parts)) = series.edit(large.as_doc()) else { panic!("it changes") };
        let new = DocBuf::from_bytes(parts.concat());
        let names: Vec<&str> = new.as_doc().iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["_id", "s", "text", "n", "new"]);
        assert!(matches!(series.edit(new.as_doc()), Some(Edit::Same)));
        let full = doc(&"x".repeat(limits::DOCUMENT_BYTES_MAX - 50));
        assert!(series.edit(full.as_doc()).is_none(), "the general path refuses it");
    }

    #[test]
    fn documents_that_look_alike_are_patched() {
        let update = ejson::parse_value("{$inc: {n: 1}, $set: {s: 'def'}}").expect("an update");
        let update = Update::parse(update.get(), &ParseContext::new(0), &[]).expect("is right");
        let mut patch = Patch::of(&update).expect("a patch");
        let doc = ejson::parse_doc("{_id: 1, n: 1, s: 'abc', t: 1}").expect("a document");
        let Some(Patched::Changed(new, delta)) = patch.apply(doc.as_doc()) else {
            panic!("it fits");
        };
        assert_eq!(new, ejson::parse_doc("{_id: 1, n: 2, s: 'def', t: 1}").expect("a document"));
        let logged = ejson::parse_doc("{u: {n: 2, s: 'def'}}").expect("a document");
        assert_eq!(delta, logged.bytes());
        let longer = ejson::parse_doc("{_id: 1, n: 1, s: 'abcd', t: 1}").expect("a document");
        assert!(patch.apply(longer.as_doc()).is_none());
    }
}
