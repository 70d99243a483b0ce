//! Arrays taken apart. Stored elements stand in a document whose names are all empty, so that an
//! element need not be written again when its position changes.

use super::settings::Bound;
use value::path::{Part, Path};
use value::writer::ArrayWriter;
use value::{DocBuf, RawDoc, RawVal, Val, Writer};

/// The bytes of a number's digits.
fn digits(mut number: usize) -> usize {
    let mut digits = 1;
    while number >= 10 {
        number /= 10;
        digits += 1;
    }
    digits
}

/// The bytes that an element adds to an array at this position.
pub(super) fn size_at(position: usize, element: RawVal<'_>) -> usize {
    element.bytes.len() + digits(position) + 2
}

/// The elements of an array. `None` if its names are not their positions: such an array, which some
/// client made by hand, could not be put together again.
pub(super) fn of(array: RawDoc<'_>) -> Option<Vec<RawVal<'_>>> {
    let mut found = Vec::new();
    let mut size = 5;
    for (name, value) in array {
        size += size_at(found.len(), value);
        let is_next = value::path::array_index(name) == Some(found.len());
        if !is_next {
            return None;
        }
        found.push(value);
    }
    (size == array.bytes().len()).then_some(found)
}

/// The size of an array of these elements.
pub(super) fn measure(array: RawDoc<'_>, elements: &[RawVal<'_>]) -> Bound {
    Bound { count: elements.len(), bytes: array.bytes().len() }
}

/// Elements as they are stored.
pub(super) fn pack(elements: &[RawVal<'_>]) -> Vec<u8> {
    let room = elements.iter().map(|element| element.bytes.len() + 2).sum::<usize>() + 5;
    let mut bytes = Vec::with_capacity(room);
    let mut out = Writer::start(&mut bytes);
    elements.iter().for_each(|element| {
        out.raw("", *element);
    });
    out.finish();
    bytes
}

/// Adds stored elements to an array.
pub(super) fn unpack(stored: &[u8], array: &mut ArrayWriter<'_>) {
    RawDoc::new(stored).iter().for_each(|(_, element)| array.push_raw(element));
}

/// The document with another value at a path, which has one.
pub(super) fn with(doc: RawDoc<'_>, path: &Path, value: RawVal<'_>) -> Vec<u8> {
    DocBuf::build(|out| write(doc, path.parts(), value, out)).into_bytes()
}

fn write(doc: RawDoc<'_>, parts: &[Part], value: RawVal<'_>, out: &mut Writer<'_>) {
    let Some((part, rest)) = parts.split_first() else { return };
    // Of several fields of one name the first counts.
    let mut is_done = false;
    for (name, known) in doc {
        match known.as_doc() {
            _ if is_done || *name != *part.name => {
                out.raw(name, known);
                continue;
            }
            Some(inner) if !rest.is_empty() => {
                out.doc(name, |out| write(inner, rest, value, out));
            }
            _ => {
                out.raw(name, value);
            }
        }
        is_done = true;
    }
}

/// The value at the place of a pattern's array, if it is an array that can be taken apart.
pub(super) fn at<'d>(path: &Path, doc: RawDoc<'d>) -> Option<(RawDoc<'d>, Vec<RawVal<'d>>)> {
    let array = path.find(doc)?.as_array()?;
    Some((array, of(array)?))
}

/// The number of elements at the place of a pattern's array.
pub(super) fn count(path: &Path, doc: RawDoc<'_>) -> usize {
    match path.get(doc) {
        Val::Array(array) => array.count(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    #[test]
    fn an_array_is_put_together_as_it_was() {
        let doc = ejson::parse_doc("{a: 1, b: {c: [1, 'x', {y: [2]}, null]}, z: 2}");
        let doc = doc.expect("test text");
        let path = Path::new("b.c");
        let (array, elements) = at(&path, doc.as_doc()).expect("an array");
        assert_eq!(elements.len(), 4);
        let packed = pack(&elements);
        let again = DocBuf::build(|out| {
            out.array("c", |list| unpack(&packed, list));
        });
        let again = again.as_doc().find("c").expect("is there");
        assert_eq!(again.bytes, array.bytes());
        let other = with(doc.as_doc(), &path, again);
        assert_eq!(other, doc.bytes());
        assert_eq!(count(&path, doc.as_doc()), 4);
    }

    #[test]
    fn an_array_with_other_names_is_left_alone() {
        let odd = ejson::parse_doc("{'0': 1, '2': 2}").expect("test text");
        assert!(of(odd.as_doc()).is_none());
        let even = DocBuf::build(|out| {
            (0..1000).for_each(|n| {
                out.i32(&n.to_string(), n);
            });
        });
        assert_eq!(of(even.as_doc()).expect("an array").len(), 1000);
    }
}
