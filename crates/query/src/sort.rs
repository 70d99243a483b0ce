//! Sort specifications, and the order-preserving key that a document gets from one.
//!
//! A document sorts by the smallest of the keys that an index on the same fields would have for it:
//! arrays are expanded, a missing value counts as null, an empty array as undefined, which is below
//! null.

use crate::field_path;
use crate::interrupt;
use crate::show::show;
use std::sync::Arc;
use value::path::{Part, Path};
use value::{Code, Collation, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val, keys};

/// Most fields of one sort.
const FIELDS_MAX: usize = 32;

/// Steps that it takes to make the key of one element of an array.
const STEPS_OF_KEY: usize = 8;

/// One field of a sort.
#[derive(Clone, Debug)]
pub struct SortField {
    /// The path of the value; `$meta` for a random order.
    pub path: Path,
    /// Largest first.
    pub descending: bool,
    /// Not a field but a random number: `{$meta: "randVal"}`.
    pub random: bool,
    /// Not a field but the score of a text search: `{$meta: "textScore"}`.
    pub score: bool,
    /// Whether the score is the distance from a point: `{$meta: "geoNearDistance"}`.
    pub distance: bool,
}

/// A compiled sort specification.
#[derive(Clone, Debug, Default)]
pub struct SortSpec {
    /// The fields, most significant first.
    pub fields: Vec<SortField>,
    /// The collation of text; `None` compares bytes.
    pub collation: Option<Arc<Collation>>,
    /// Whether `{$meta: "sortKey"}` needs its keys.
    pub shows_key: bool,
}

impl SortSpec {
    /// The specification as a document.
    #[must_use]
    pub fn to_document(&self) -> DocBuf {
        DocBuf::build(|out| {
            for field in &self.fields {
                let name = field.path.text();
                if field.score {
                    out.doc(name, |out| {
                        let distance = field.distance;
                        out.str("$meta", if distance { "geoNearDistance" } else { "textScore" });
                    });
                } else if field.random {
                    out.doc(name, |out| {
                        out.str("$meta", "randVal");
                    });
                } else {
                    out.i32(name, if field.descending { -1 } else { 1 });
                }
            }
        })
    }

    /// Compiles `{a: 1, "b.c": -1}`. `$natural` is not a field: the scan handles it before.
    ///
    /// # Errors
    /// What MongoDB answers to a sort that it cannot parse.
    pub fn parse(doc: RawDoc<'_>) -> Result<SortSpec> {
        let mut fields: Vec<SortField> = Vec::new();
        for (name, value) in doc {
            if name == "$natural" {
                return Err(Error::bad_value(format!(
                    "Cannot include '$natural' in compound sort: {}",
                    show(Val::Document(doc))
                )));
            }
            let field = SortSpec::field(name, value.get())?;
            if fields.iter().any(|other| !other.random && other.path == field.path) {
                // Of repeated fields only the first affects the order.
                continue;
            }
            fields.push(field);
        }
        if fields.len() > FIELDS_MAX {
            return Err(Error::bad_value("too many compound keys"));
        }
        Ok(SortSpec { fields, collation: None, shows_key: false })
    }

    /// The same sort under a collation.
    #[must_use]
    pub fn with_collation(mut self, collation: Option<&Arc<Collation>>) -> SortSpec {
        self.collation = collation.cloned();
        self
    }

    fn field(name: &str, value: Val<'_>) -> Result<SortField> {
        if let Val::Document(meta) = value {
            return meta_field(meta);
        }
        field_path::check(name)?;
        if !value.is_number() {
            return Err(Error::new(
                Code(15974),
                format!("Illegal key in $sort specification: {name}: {}", show(value)),
            ));
        }
        let direction = value.as_f64().map_or(0.0, f64::trunc);
        if direction.abs() != 1.0 {
            return Err(Error::new(
                Code(15975),
                "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
            ));
        }
        Ok(SortField {
            path: Path::new(name),
            descending: direction < 0.0,
            random: false,
            score: false,
            distance: false,
        })
    }

    /// Appends bytes whose order is the sort's order of the documents.
    ///
    /// # Errors
    /// `BadValue` for arrays side by side in two fields, 16746 for a number in a path that could
    /// mean both a place in an array and a field.
    pub fn key(&self, doc: RawDoc<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.key_with_score(doc, 0.0, out)
    }

    /// Whether the order depends on the score of a text search.
    #[must_use]
    pub fn needs_score(&self) -> bool {
        self.fields.iter().any(|field| field.score)
    }

    /// Whether the order depends on the distance from a point.
    #[must_use]
    pub fn needs_distance(&self) -> bool {
        self.fields.iter().any(|field| field.distance)
    }

    /// As `key`, of a document with a score.
    ///
    /// # Errors
    /// As `key`.
    pub fn key_with_score(&self, doc: RawDoc<'_>, score: f64, out: &mut Vec<u8>) -> Result<()> {
        self.key_below(doc, score, None, out).map(|_| ())
    }

    /// As `key`, of a document with a score; false as soon as the key is known to be above `bound`.
    ///
    /// # Errors
    /// As `key`.
    pub fn key_below(
        &self,
        doc: RawDoc<'_>,
        score: f64,
        bound: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let start = out.len();
        for (at, field) in self.fields.iter().enumerate() {
            if field.random {
                let bits = fastrand::u32(..);
                keys::encode(out, Val::Int64(i64::from(bits)), false);
                continue;
            }
            if field.score {
                keys::encode(out, Val::Double(score), field.descending);
                continue;
            }
            match plain(doc, field.path.parts()) {
                Some(value) => {
                    keys::encode_with(out, value, field.descending, self.collation.as_deref());
                }
                None => {
                    out.truncate(start);
                    return self.key_with_arrays(doc, score, out).map(|()| true);
                }
            }
            let so_far = out.get(start..).unwrap_or(&[]);
            let before = bound.and_then(|bound| bound.get(..so_far.len()));
            if before.is_some_and(|before| so_far > before) && self.can_skip_rest(at) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the fields after this one can be skipped. Several could be parallel arrays, and a
    /// number in a path could be ambiguous; both must be reported.
    fn can_skip_rest(&self, at: usize) -> bool {
        match self.fields.get(at + 1..).unwrap_or(&[]) {
            [] => true,
            [one] => one.path.is_single(),
            _ => false,
        }
    }

    /// The values that determine the position of a document; of an array the element that
    /// determines it.
    ///
    /// # Errors
    /// As `key`.
    pub fn values(&self, doc: RawDoc<'_>) -> Result<Vec<OwnedVal>> {
        let mut expansion = Expansion { values: Some(Vec::new()), ..Expansion::new(self) };
        let cursors = self.fields.iter().map(|field| Cursor::Walking(field.path.parts()));
        expansion.expand(cursors.collect(), doc)?;
        Ok(expansion.values.unwrap_or_default())
    }

    #[cold]
    fn key_with_arrays(&self, doc: RawDoc<'_>, score: f64, out: &mut Vec<u8>) -> Result<()> {
        let mut expansion = Expansion::new(self);
        let cursors = self.fields.iter().map(|field| match field.score {
            true => Cursor::Done(Val::Double(score)),
            false => Cursor::Walking(field.path.parts()),
        });
        let cursors = cursors.collect();
        expansion.expand(cursors, doc)?;
        out.extend_from_slice(&expansion.best.unwrap_or_default());
        Ok(())
    }
}

fn meta_field(meta: RawDoc<'_>) -> Result<SortField> {
    let Some(value) = meta.get("$meta") else {
        return Err(Error::new(
            Code(17312),
            "$meta is the only expression supported by $sort right now",
        ));
    };
    if meta.count() > 1 {
        return Err(Error::failed_to_parse(
            "Cannot have additional keys in a $meta sort specification",
        ));
    }
    match value {
        Val::String("randVal") => {
            let path = Path::new("$meta");
            Ok(SortField { path, descending: false, random: true, score: false, distance: false })
        }
        Val::String(name @ ("textScore" | "geoNearDistance")) => {
            let path = Path::new("$meta");
            let distance = name == "geoNearDistance";
            Ok(SortField { path, descending: true, random: false, score: true, distance })
        }
        Val::String(name @ ("searchScore" | "searchHighlights")) => Err(Error::new(
            Code(if name == "searchScore" { 31218 } else { 31219 }),
            format!("$meta sort by '{name}' metadata is not supported"),
        )),
        value => {
            Err(Error::new(Code(31138), format!("Illegal $meta sort: $meta: {}", show(value))))
        }
    }
}

/// The value at a path without arrays on it or at its end; `None` if there is one.
fn plain<'a>(doc: RawDoc<'a>, parts: &[Part]) -> Option<Val<'a>> {
    let (last, steps) = parts.split_last()?;
    let mut doc = doc;
    for step in steps {
        match doc.find(&step.name) {
            None => return Some(Val::Missing),
            Some(value) if value.as_array().is_some() => return None,
            Some(value) => match value.as_doc() {
                Some(inner) => doc = inner,
                None => return Some(Val::Missing),
            },
        }
    }
    match doc.find(&last.name) {
        None => Some(Val::Missing),
        Some(value) if value.as_array().is_some() => None,
        Some(value) => Some(value.get()),
    }
}

/// The progress of a sort field along its path.
#[derive(Clone, Copy)]
enum Cursor<'a, 'p> {
    /// Its value is known.
    Done(Val<'a>),
    /// These parts of its path are left.
    Walking(&'p [Part]),
}

/// The array on the path of a sort field, and the rest of the path.
struct ArrayOnPath<'a, 'p> {
    array: RawDoc<'a>,
    rest: &'p [Part],
    /// A number in the path selected the array, which counts as a whole.
    whole: bool,
}

struct Expansion<'s> {
    spec: &'s SortSpec,
    /// The smallest key so far.
    best: Option<Vec<u8>>,
    scratch: Vec<u8>,
    /// The values of that key, where they are wanted.
    values: Option<Vec<OwnedVal>>,
}

impl<'s> Expansion<'s> {
    fn new(spec: &'s SortSpec) -> Expansion<'s> {
        Expansion { spec, best: None, scratch: Vec::new(), values: None }
    }

    /// Walks `doc`; if fields reach an array, continues with each of its elements.
    fn expand<'a>(&mut self, mut cursors: Vec<Cursor<'a, 's>>, doc: RawDoc<'a>) -> Result<()> {
        let mut meetings: Vec<Option<ArrayOnPath<'a, 's>>> = Vec::with_capacity(cursors.len());
        let mut array: Option<RawDoc<'a>> = None;
        for cursor in &mut cursors {
            let Cursor::Walking(parts) = *cursor else {
                meetings.push(None);
                continue;
            };
            match advance(doc, parts)? {
                Ok(value) => {
                    *cursor = Cursor::Done(value);
                    meetings.push(None);
                }
                Err(meeting) => {
                    let same = |other: RawDoc<'a>| {
                        std::ptr::eq(other.bytes().as_ptr(), meeting.array.bytes().as_ptr())
                    };
                    if array.is_some_and(|other| !same(other)) {
                        return Err(Error::bad_value(
                            "cannot sort with keys that are parallel arrays",
                        ));
                    }
                    array = Some(meeting.array);
                    meetings.push(Some(meeting));
                }
            }
        }
        let Some(array) = array else {
            self.compare_combination(&cursors);
            return Ok(());
        };
        if array.is_empty() {
            let next = step(&cursors, &meetings, None);
            return self.expand(next, RawDoc::empty());
        }
        for (_, element) in array {
            interrupt::charge(STEPS_OF_KEY)?;
            let next = step(&cursors, &meetings, Some(element));
            self.expand(next, element.as_doc().unwrap_or(RawDoc::empty()))?;
        }
        Ok(())
    }

    fn compare_combination(&mut self, cursors: &[Cursor<'_, '_>]) {
        self.scratch.clear();
        for (cursor, field) in cursors.iter().zip(&self.spec.fields) {
            let value = match cursor {
                Cursor::Done(value) => *value,
                Cursor::Walking(_) => Val::Missing,
            };
            let collation = self.spec.collation.as_deref();
            keys::encode_with(&mut self.scratch, value, field.descending, collation);
        }
        if self.best.as_ref().is_none_or(|best| self.scratch < *best) {
            self.best = Some(self.scratch.clone());
            if let Some(values) = &mut self.values {
                values.clear();
                values.extend(cursors.iter().map(|cursor| match cursor {
                    Cursor::Done(Val::Missing) | Cursor::Walking(_) => OwnedVal::new(Val::Null),
                    Cursor::Done(value) => OwnedVal::new(*value),
                }));
            }
        }
    }
}

/// The cursors after an array, at one of its elements (`None` if it is empty).
fn step<'a, 'p>(
    cursors: &[Cursor<'a, 'p>],
    meetings: &[Option<ArrayOnPath<'a, 'p>>],
    element: Option<RawVal<'a>>,
) -> Vec<Cursor<'a, 'p>> {
    let next = |(cursor, meeting): (&Cursor<'a, 'p>, &Option<ArrayOnPath<'a, 'p>>)| match meeting {
        None => *cursor,
        Some(meeting) if !meeting.rest.is_empty() => Cursor::Walking(meeting.rest),
        Some(meeting) => Cursor::Done(match element {
            None => Val::Undefined,
            Some(_) if meeting.whole => Val::Array(meeting.array),
            Some(element) => element.get(),
        }),
    };
    cursors.iter().zip(meetings).map(next).collect()
}

/// Follows a path to its value, or to the first array that must be expanded.
fn advance<'a, 'p>(
    doc: RawDoc<'a>,
    parts: &'p [Part],
) -> Result<std::result::Result<Val<'a>, ArrayOnPath<'a, 'p>>> {
    let Some((part, mut rest)) = parts.split_first() else { return Ok(Ok(Val::Missing)) };
    let Some(mut value) = doc.find(&part.name) else { return Ok(Ok(Val::Missing)) };
    let mut whole = false;
    loop {
        if let Some(array) = value.as_array() {
            match element_by_index(array, rest)? {
                Some(element) => {
                    value = element;
                    rest = rest.get(1..).unwrap_or(&[]);
                    whole = true;
                }
                None => return Ok(Err(ArrayOnPath { array, rest, whole })),
            }
            continue;
        }
        let Some((part, after)) = rest.split_first() else { return Ok(Ok(value.get())) };
        match value.as_doc().and_then(|doc| doc.find(&part.name)) {
            None => return Ok(Ok(Val::Missing)),
            Some(next) => {
                value = next;
                rest = after;
                whole = false;
            }
        }
    }
}

/// The element of an array that a number at the start of `rest` selects.
fn element_by_index<'a>(array: RawDoc<'a>, rest: &[Part]) -> Result<Option<RawVal<'a>>> {
    let Some(Part { name, index: Some(index) }) = rest.first() else { return Ok(None) };
    let Some((_, element)) = array.iter().nth(*index) else { return Ok(None) };
    let is_field =
        |(_, other): (&str, RawVal<'_>)| other.as_doc().is_some_and(|doc| doc.find(name).is_some());
    if array.iter().any(is_field) {
        return Err(Error::new(
            Code(16746),
            format!(
                "Ambiguous field name found in array (do not use numeric field names in embedded \
                 elements in an array), field: '{name}' for array: {}",
                show(Val::Array(array))
            ),
        ));
    }
    Ok(Some(element))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson::parse_doc;

    /// The places of the documents in sorted order; ties stay in place.
    fn order(sort: &str, docs: &[&str]) -> Vec<usize> {
        let spec = SortSpec::parse(parse_doc(sort).unwrap().as_doc()).unwrap();
        let mut keyed: Vec<(Vec<u8>, usize)> = docs
            .iter()
            .enumerate()
            .map(|(at, doc)| {
                let mut key = Vec::new();
                spec.key(parse_doc(doc).unwrap().as_doc(), &mut key).unwrap();
                (key, at)
            })
            .collect();
        keyed.sort();
        keyed.into_iter().map(|(_, at)| at).collect()
    }

    fn code(sort: &str) -> i32 {
        SortSpec::parse(parse_doc(sort).unwrap().as_doc()).unwrap_err().code().0
    }

    #[test]
    fn arrays_sort_by_their_smallest_or_largest_element() {
        let docs = [
            "{a: [1, 5]}",
            "{a: 3}",
            "{a: []}",
            "{a: null}",
            "{}",
            "{a: [[]]}",
            "{a: [[7, 0]]}",
            "{a: [null]}",
            "{a: MinKey()}",
            "{a: {b: 1}}",
        ];
        assert_eq!(order("{a: 1}", &docs), [8, 2, 3, 4, 7, 0, 1, 9, 5, 6]);
        assert_eq!(order("{a: -1}", &docs), [6, 5, 9, 0, 1, 3, 4, 7, 2, 8]);
    }

    #[test]
    fn paths_through_arrays() {
        let docs = [
            "{a: []}",
            "{a: null}",
            "{a: [{b: 2}, {b: 1}]}",
            "{a: [{c: 1}]}",
            "{a: [1]}",
            "{a: [{b: []}]}",
            "{a: [{b: [3, 0.5]}]}",
            "{a: [[{b: -1}]]}",
            "{a: 5}",
            "{}",
        ];
        assert_eq!(order("{'a.b': 1}", &docs), [5, 0, 1, 3, 4, 7, 8, 9, 6, 2]);
        assert_eq!(order("{'a.b': -1}", &docs), [6, 2, 0, 1, 3, 4, 7, 8, 9, 5]);
    }

    #[test]
    fn numbers_in_paths() {
        let docs = [
            "{a: [5, 1]}",
            "{a: [[5, 3]]}",
            "{a: [2]}",
            "{a: {'0': 4}}",
            "{a: [[4, 9]]}",
            "{a: []}",
            "{}",
            "{a: [[[9, 1]]]}",
            "{a: [null]}",
            "{a: [[]]}",
            "{a: [{b: 5}]}",
        ];
        assert_eq!(order("{'a.0': 1}", &docs), [9, 5, 6, 8, 2, 3, 0, 10, 4, 1, 7]);
        assert_eq!(order("{'a.0': -1}", &docs), [7, 1, 4, 10, 0, 3, 2, 5, 6, 8, 9]);
        assert_eq!(order("{'a.0.0': 1}", &docs), [0, 2, 3, 5, 6, 8, 9, 10, 4, 1, 7]);
        assert_eq!(order("{'a.1': 1}", &docs), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0]);
        let docs = [
            "{a: [[{b: 5}, {b: 1}]]}",
            "{a: [{b: 3}]}",
            "{}",
            "{a: [[{c: 1}]]}",
            "{a: [[]]}",
            "{a: [{c: 1}, {b: 7}]}",
            "{a: [4]}",
        ];
        assert_eq!(order("{'a.0.b': 1}", &docs), [2, 3, 4, 5, 6, 0, 1]);
    }

    #[test]
    fn fields_of_one_array_stay_together() {
        let docs =
            ["{a: [{b: 1, c: 9}, {b: 2, c: 1}]}", "{a: [{b: 1, c: 5}]}", "{a: {b: 1, c: 7}}"];
        assert_eq!(order("{'a.b': 1, 'a.c': 1}", &docs), [1, 2, 0]);
        assert_eq!(order("{'a.b': 1, 'a.c': -1}", &docs), [0, 2, 1]);
        assert_eq!(order("{'a.c': 1, 'a.b': 1}", &docs), [0, 1, 2]);
    }

    #[test]
    fn parallel_arrays_and_ambiguous_numbers_fail() {
        let key = |sort: &str, doc: &str| {
            let spec = SortSpec::parse(parse_doc(sort).unwrap().as_doc()).unwrap();
            spec.key(parse_doc(doc).unwrap().as_doc(), &mut Vec::new()).unwrap_err().code().0
        };
        assert_eq!(key("{a: 1, b: 1}", "{a: [1, 2], b: [1, 2]}"), 2);
        assert_eq!(key("{'a.b': 1, 'a.c': 1}", "{a: [{b: [1, 2], c: [3]}]}"), 2);
        assert_eq!(key("{'a.0': 1, 'a.1': 1}", "{a: [[1, 2], [3, 4]]}"), 2);
        assert_eq!(key("{'a.0': 1}", "{a: [{'0': 1}]}"), 16746);
    }

    #[test]
    fn specifications_that_are_refused() {
        assert_eq!(code("{a: 0}"), 15975);
        assert_eq!(code("{a: 2}"), 15975);
        assert_eq!(code("{a: 'x'}"), 15974);
        assert_eq!(code("{a: true}"), 15974);
        assert_eq!(code("{a: {b: 1}}"), 17312);
        assert_eq!(code("{a: {$meta: 'foo'}}"), 31138);
        assert_eq!(code("{a: {$meta: 'searchScore'}}"), 31218);
        assert_eq!(code("{'': 1}"), 40352);
        assert_eq!(code("{'a.': 1}"), 40353);
        assert_eq!(code("{'.a': 1}"), 15998);
        assert_eq!(code("{$a: 1}"), 16410);
        assert_eq!(code("{$natural: 1, a: 1}"), 2);
        assert!(SortSpec::parse(parse_doc("{a: 1.5}").unwrap().as_doc()).is_ok());
    }
}
