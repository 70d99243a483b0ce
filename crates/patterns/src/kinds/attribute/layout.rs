//! The layout `array`: the object with the attributes is stored as an array of pairs, one for each
//! of its fields: `[{k: "cpu", v: "i7"}]`. Values stay as they are, so that the object comes back
//! with the same bytes.
//!
//! The stored array begins with a mark that has the number of the pattern. A client's own array is
//! no stored object, whatever it looks like: one that begins with the mark is stored behind another.

use crate::layout::{Area, Demand, Layout, RecordCursor, Records, RecordsMut, Span};
use value::path::Path;
use value::writer::ArrayWriter;
use value::{DocBuf, RawDoc, RawVal, Result, Val, Writer};

/// What marks begin with. The number of the pattern follows, and one of `OBJECT` and `ARRAY`.
const MARK: &[u8] = b"\xA7\x1Eattributes\0\xC3\x52";

/// Behind such a mark are the pairs of an object.
const OBJECT: u8 = 0;

/// Behind such a mark is an array that only looks stored.
const ARRAY: u8 = 1;

/// The layout of one pattern.
#[derive(Clone, Debug)]
pub(super) struct StoredPairs {
    /// Where the object is.
    path: Path,
    names: Vec<String>,
}

/// Writes another value in the place of one, under a name; false if it stays.
type Change<'c> = &'c dyn Fn(&mut Writer<'_>, &str, RawVal<'_>) -> bool;

/// Writes a document with a changed value at a path. Returns whether any was changed.
fn changed(doc: RawDoc<'_>, names: &[String], change: Change<'_>, out: &mut Writer<'_>) -> bool {
    let Some((first, rest)) = names.split_first() else { return false };
    let mut any = false;
    for (name, value) in doc {
        if name != first {
            out.raw(name, value);
            continue;
        }
        match value.as_doc() {
            _ if rest.is_empty() => match change(out, name, value) {
                true => any = true,
                false => {
                    out.raw(name, value);
                }
            },
            Some(inner) => {
                out.doc(name, |out| any |= changed(inner, rest, change, out));
            }
            None => {
                out.raw(name, value);
            }
        }
    }
    any
}

fn push_mark(out: &mut ArrayWriter<'_>, pattern: u32, tag: u8) {
    let bytes = [MARK, pattern.to_be_bytes().as_slice(), &[tag]].concat();
    out.push(Val::Binary(0x80, &bytes));
}

/// The tag of an array that begins with a mark, and the array behind it. Without a number the mark
/// may be that of any pattern.
fn marked<'d>(value: RawVal<'d>, pattern: Option<u32>) -> Option<(u8, RawDoc<'d>)> {
    let array = value.as_array()?;
    let Val::Binary(0x80, bytes) = array.first()?.1.get() else { return None };
    let (number, rest) = bytes.strip_prefix(MARK)?.split_first_chunk::<4>()?;
    let is_same = pattern.is_none_or(|pattern| pattern.to_be_bytes() == *number);
    match rest {
        [tag] if is_same => Some((*tag, array)),
        _ => None,
    }
}

/// The key and value of a stored pair.
fn pair<'d>(value: RawVal<'d>) -> Option<(&'d str, RawVal<'d>)> {
    let doc = value.as_doc()?;
    let mut fields = doc.iter();
    match (fields.next(), fields.next(), fields.next()) {
        (Some(("k", key)), Some(("v", value)), None) => match key.get() {
            Val::String(key) => Some((key, value)),
            _ => None,
        },
        _ => None,
    }
}

/// Writes the logical value of a stored one; false if it is stored as it is.
fn write_logical(out: &mut Writer<'_>, name: &str, value: RawVal<'_>, pattern: u32) -> bool {
    let Some((tag, array)) = marked(value, Some(pattern)) else { return false };
    let behind = || array.iter().skip(1).map(|(_, value)| value);
    match tag {
        OBJECT if behind().all(|value| pair(value).is_some()) => {
            out.doc(name, |out| {
                for (key, value) in behind().filter_map(pair) {
                    out.raw(key, value);
                }
            });
            true
        }
        ARRAY => match behind().next() {
            Some(value) if value.as_array().is_some() => {
                out.raw(name, value);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// Writes the stored value of a logical one; false if it is stored as it is.
fn write_stored(out: &mut Writer<'_>, name: &str, value: RawVal<'_>, pattern: u32) -> bool {
    if let Some(object) = value.as_doc() {
        out.array(name, |out| {
            push_mark(out, pattern, OBJECT);
            for (key, value) in object {
                out.push_doc(|out| {
                    out.str("k", key).raw("v", value);
                });
            }
        });
        return true;
    }
    if marked(value, Some(pattern)).is_none() {
        return false;
    }
    out.array(name, |out| {
        push_mark(out, pattern, ARRAY);
        out.push_raw(value);
    });
    true
}

/// Writes a stored value as clients may see it, without the mark.
fn write_shown(out: &mut Writer<'_>, name: &str, value: RawVal<'_>) -> bool {
    let Some((tag, array)) = marked(value, None) else { return false };
    let mut behind = array.iter().skip(1).map(|(_, value)| value);
    if tag == ARRAY {
        return behind.next().is_some_and(|value| {
            out.raw(name, value);
            true
        });
    }
    out.array(name, |out| behind.for_each(|value| out.push_raw(value)));
    true
}

impl StoredPairs {
    /// The layout for the object at a path.
    pub(super) fn new(path: &Path) -> StoredPairs {
        let names = path.text().split('.').map(str::to_owned).collect();
        StoredPairs { path: path.clone(), names }
    }

    /// The document with a changed value; `None` if nothing changes.
    fn with(&self, doc: &[u8], change: Change<'_>) -> Option<Vec<u8>> {
        let mut any = false;
        let made = DocBuf::build(|out| any = changed(RawDoc::new(doc), &self.names, change, out));
        any.then(|| made.into_bytes())
    }

    /// The document of a record; `None` if it is the record.
    fn logical(&self, stored: &[u8], pattern: u32) -> Option<Vec<u8>> {
        // Most documents without a stored object have none at all: nothing is copied for them.
        self.path.find(RawDoc::new(stored))?.as_array()?;
        self.with(stored, &|out, name, value| write_logical(out, name, value, pattern))
    }

    /// A record as clients may see it; `None` if that is the same.
    pub(super) fn shown(&self, stored: RawDoc<'_>) -> Option<DocBuf> {
        self.with(stored.bytes(), &write_shown).map(DocBuf::from_bytes)
    }
}

impl Layout for StoredPairs {
    fn paths(&self) -> Vec<String> {
        vec![self.path.text().to_owned()]
    }

    fn get(&self, records: &dyn Records, key: &[u8], demand: &Demand) -> Result<Option<Vec<u8>>> {
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(None) };
        if !demand.reads(self.path.text()) {
            return Ok(Some(stored));
        }
        Ok(Some(self.logical(&stored, records.pattern()).unwrap_or(stored)))
    }

    fn scan(
        &self,
        records: &dyn Records,
        span: &Span,
        demand: &Demand,
    ) -> Result<Box<dyn RecordCursor>> {
        let stored = records.scan(Area::Documents, span)?;
        if !demand.reads(self.path.text()) {
            return Ok(stored);
        }
        let pattern = records.pattern();
        Ok(Box::new(Logical { layout: self.clone(), pattern, stored, doc: Vec::new() }))
    }

    fn put(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        _: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        let pattern = records.pattern();
        let stored = self
            .with(new.bytes(), &|out, name, value| write_stored(out, name, value, pattern))
            .unwrap_or_else(|| new.bytes().to_vec());
        records.put(Area::Documents, key, stored)
    }

    fn delete(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        records.delete(Area::Documents, key)
    }

    fn check(&self, records: &dyn Records, find: &mut dyn FnMut(String)) -> Result<()> {
        let pattern = records.pattern();
        let mut stored = records.scan(Area::Documents, &Span::all())?;
        while let Some((key, doc)) = stored.next()? {
            let Some(value) = self.path.find(RawDoc::new(doc)) else { continue };
            let is_readable = |tag, array: RawDoc<'_>| {
                let mut behind = array.iter().skip(1).map(|(_, value)| value);
                match tag {
                    OBJECT => behind.all(|value| pair(value).is_some()),
                    _ => behind.next().is_some_and(|value| value.as_array().is_some()),
                }
            };
            if marked(value, Some(pattern)).is_some_and(|(tag, array)| !is_readable(tag, array)) {
                find(format!("the attributes of the document {key:?} cannot be read"));
            }
        }
        Ok(())
    }
}

/// The documents of a range of records.
struct Logical {
    layout: StoredPairs,
    pattern: u32,
    stored: Box<dyn RecordCursor>,
    doc: Vec<u8>,
}

impl RecordCursor for Logical {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, stored)) = self.stored.next()? else { return Ok(None) };
        match self.layout.logical(stored, self.pattern) {
            None => Ok(Some((key, stored))),
            Some(doc) => {
                self.doc = doc;
                Ok(Some((key, &self.doc)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn round_trip(path: &str, doc: &DocBuf) -> Vec<u8> {
        let layout = StoredPairs::new(&Path::new(path));
        let stored =
            layout.with(doc.bytes(), &|out, name, value| write_stored(out, name, value, 7));
        let stored = stored.unwrap_or_else(|| doc.bytes().to_vec());
        let back = layout.logical(&stored, 7).unwrap_or_else(|| stored.clone());
        assert_eq!(back, doc.bytes(), "{doc:?}");
        stored
    }

    #[test]
    fn an_object_comes_back_with_the_same_bytes() {
        for (path, text) in [
            (
                "specs",
                "{_id: 1, specs: {cpu: 'i7', ram: 32, ports: ['a', 'b'], d: {w: 1}, n: null}, x: 1}",
            ),
            ("specs", "{specs: {}}"),
            ("specs", "{specs: [{k: 'a', v: 1}]}"),
            ("specs", "{specs: 5, other: {specs: {a: 1}}}"),
            ("a.b", "{a: {x: 1, b: {c: 1}, y: 2}}"),
            ("a.b", "{a: [{b: {c: 1}}]}"),
            ("a.b", "{_id: 1}"),
        ] {
            round_trip(path, &ejson::parse_doc(text).expect("test text"));
        }
    }

    #[test]
    fn what_is_stored_are_pairs() {
        let doc = ejson::parse_doc("{_id: 1, specs: {cpu: 'i7', ram: [1, 2]}}").expect("test text");
        let stored = round_trip("specs", &doc);
        let layout = StoredPairs::new(&Path::new("specs"));
        let shown = layout.shown(RawDoc::new(&stored)).expect("is stored in another form");
        let expected = "{_id: 1, specs: [{k: 'cpu', v: 'i7'}, {k: 'ram', v: [1, 2]}]}";
        assert_eq!(shown, ejson::parse_doc(expected).expect("test text"));
        // The records of another pattern are not its own.
        assert!(layout.logical(&stored, 8).is_none());
    }

    #[test]
    fn an_array_that_looks_stored_is_an_array() {
        let doc = ejson::parse_doc("{_id: 1, specs: {a: 1}}").expect("test text");
        let stored = DocBuf::from_bytes(round_trip("specs", &doc));
        let again = DocBuf::from_bytes(round_trip("specs", &stored));
        round_trip("specs", &again);
    }
}
