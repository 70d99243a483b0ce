//! Setting the field of an output as `$addFields` does: in every element of arrays on its path.

use value::path::Part;
use value::{RawDoc, RawVal, Val, Writer, writer};

/// Copies a document with the value at a path replaced, added, or removed when it is missing.
pub(super) fn set(doc: RawDoc<'_>, parts: &[Part], value: Val<'_>, out: &mut Vec<u8>) {
    writer::write_doc(out, |out| set_fields(doc, parts, value, out));
}

fn set_fields(doc: RawDoc<'_>, parts: &[Part], value: Val<'_>, out: &mut Writer<'_>) {
    let Some((part, rest)) = parts.split_first() else { return };
    let mut written = false;
    for (name, old) in doc {
        if name != &*part.name {
            out.raw(name, old);
            continue;
        }
        written = true;
        match rest {
            [] => {
                out.append(name, value);
            }
            _ => set_below(name, old, rest, value, out),
        }
    }
    // The documents on the path are made for a missing value as well.
    if !written {
        match rest {
            [] => {
                out.append(&part.name, value);
            }
            _ => {
                out.doc(&part.name, |out| set_fields(RawDoc::empty(), rest, value, out));
            }
        }
    }
}

/// Writes a field with the rest of the path set in it. A value that is neither a document nor an
/// array gives way to a document.
fn set_below(name: &str, old: RawVal<'_>, rest: &[Part], value: Val<'_>, out: &mut Writer<'_>) {
    match old.as_array() {
        Some(array) => {
            let mut elements = Vec::new();
            writer::write_doc(&mut elements, |out| {
                for (at, element) in array {
                    set_below(at, element, rest, value, out);
                }
            });
            out.append(name, Val::Array(RawDoc::new(&elements)));
        }
        None => {
            let inner = old.as_doc().unwrap_or(RawDoc::empty());
            out.doc(name, |out| set_fields(inner, rest, value, out));
        }
    }
}
