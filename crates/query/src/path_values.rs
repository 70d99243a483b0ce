//! Values of paths as expressions see them, with results in an arena.

use bumpalo::Bump;
use value::{RawDoc, Val};

/// The value of a path from another value: fields of documents, arrays of the values in elements of
/// arrays; missing from anything else.
pub(crate) fn path_in<'a>(value: Val<'a>, path: &[Box<str>], arena: &'a Bump) -> Val<'a> {
    match (path, value) {
        ([], value) => value,
        (path, Val::Document(doc)) => path_in_doc(doc, path, arena),
        (path, Val::Array(array)) => path_through_array(array, path, arena),
        _ => Val::Missing,
    }
}

/// The value of a path in a document; `path_in` for documents.
pub(crate) fn path_in_doc<'a>(doc: RawDoc<'a>, path: &[Box<str>], arena: &'a Bump) -> Val<'a> {
    let mut doc = doc;
    let mut path = path;
    while let Some((name, rest)) = path.split_first() {
        let Some(found) = doc.find(name) else { return Val::Missing };
        if rest.is_empty() {
            return found.get();
        }
        if let Some(next) = found.as_doc() {
            doc = next;
            path = rest;
        } else if let Some(array) = found.as_array() {
            return path_through_array(array, rest, arena);
        } else {
            return Val::Missing;
        }
    }
    Val::Document(doc)
}

/// The value of a path from an array: the array of its values in the elements that are documents.
pub(crate) fn path_through_array<'a>(
    array: RawDoc<'a>,
    path: &[Box<str>],
    arena: &'a Bump,
) -> Val<'a> {
    let found = array
        .iter()
        .filter_map(|(_, element)| element.as_doc())
        .map(|doc| path_in_doc(doc, path, arena))
        .filter(|value| !value.is_missing());
    // Parts of the document: they cannot be much larger than that, so the size is not checked.
    let mut bytes = Vec::with_capacity(64);
    value::writer::write_array(&mut bytes, |writer| found.for_each(|value| writer.push(value)));
    Val::Array(RawDoc::new(arena.alloc_slice_copy(&bytes)))
}

/// Copies a value into an arena.
pub(crate) fn copy_into<'a>(value: Val<'_>, arena: &'a Bump) -> Val<'a> {
    let doc = |doc: RawDoc<'_>| RawDoc::new(arena.alloc_slice_copy(doc.bytes()) as &'a [u8]);
    match value {
        Val::Missing => Val::Missing,
        Val::MinKey => Val::MinKey,
        Val::Undefined => Val::Undefined,
        Val::Null => Val::Null,
        Val::Bool(b) => Val::Bool(b),
        Val::Int32(n) => Val::Int32(n),
        Val::Int64(n) => Val::Int64(n),
        Val::Double(n) => Val::Double(n),
        Val::Decimal(n) => Val::Decimal(n),
        Val::String(text) => Val::String(arena.alloc_str(text)),
        Val::Symbol(text) => Val::Symbol(arena.alloc_str(text)),
        Val::Document(inner) => Val::Document(doc(inner)),
        Val::Array(inner) => Val::Array(doc(inner)),
        Val::Binary(subtype, bytes) => Val::Binary(subtype, arena.alloc_slice_copy(bytes)),
        Val::ObjectId(id) => Val::ObjectId(id),
        Val::DateTime(ms) => Val::DateTime(ms),
        Val::Timestamp(t) => Val::Timestamp(t),
        Val::Regex(pattern, options) => {
            Val::Regex(arena.alloc_str(pattern), arena.alloc_str(options))
        }
        Val::DbPointer(namespace, id) => Val::DbPointer(arena.alloc_str(namespace), id),
        Val::Code(code) => Val::Code(arena.alloc_str(code)),
        Val::CodeWithScope(code, scope) => Val::CodeWithScope(arena.alloc_str(code), doc(scope)),
        Val::MaxKey => Val::MaxKey,
    }
}
