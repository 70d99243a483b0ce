//! Bytes that may be a document. What the validator lets through can be read, written, compared,
//! encoded as a key and printed, and comes back as the same bytes; a second reader agrees.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motif_fuzz::laws;
use std::cmp::Ordering;
use value::ejson::{self, Format};
use value::{DocBuf, RawDoc, Val, compare, keys, limits, validate};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((doc, rest)) = validate::validate_prefix(bytes, limits::DEPTH_MAX_WIRE) {
        assert_eq!(doc.bytes().len() + rest.len(), bytes.len());
    }
    let Ok(doc) = validate::validate(bytes, limits::DEPTH_MAX_WIRE) else { return };
    laws::walk(doc);
    assert_eq!(doc.iter().count(), doc.count());

    let copy = copied(doc);
    assert!(copy.bytes() == bytes, "what is read and written again is the same");

    let value = Val::Document(doc);
    assert_eq!(compare::compare(value, value), Ordering::Equal);
    let key = keys::key(value);
    assert_eq!(keys::skip(&key, false), Some(key.len()), "a key knows where it ends");
    for ((_, one), (_, two)) in doc.iter().zip(doc.iter().skip(1)) {
        let (one, two) = (one.get(), two.get());
        let order = compare::compare(one, two);
        assert_eq!(compare::compare(two, one), order.reverse());
        assert_eq!(keys::key(one).cmp(&keys::key(two)), order, "keys are in the order of values");
    }

    for format in [Format::Canonical, Format::Relaxed, Format::Shell] {
        let text = ejson::print(doc, format);
        // An object that looks like a wrapper is read as one: text cannot say otherwise. But what
        // was read and printed once stays as it is.
        if let Ok(read) = ejson::parse_doc(&text) {
            laws::walk(read.as_doc());
        }
    }
    let _ = ejson::print_pretty(doc);
    let _ = motifdb::bson::Document::from_reader(bytes).map(|document| document.len());
});

fn copied(doc: RawDoc<'_>) -> DocBuf {
    DocBuf::build(|out| copy_fields(doc, out))
}

fn copy_fields(doc: RawDoc<'_>, out: &mut value::Writer<'_>) {
    for (name, value) in doc.iter() {
        match value.get() {
            Val::Document(inner) => {
                out.doc(name, |out| copy_fields(inner, out));
            }
            Val::Array(inner) => {
                // Names in arrays are the client's, not always numbers: kept as they are.
                let token = out.open(name, true);
                copy_fields(inner, out);
                out.close(token);
            }
            other => {
                out.append(name, other);
            }
        }
    }
}
