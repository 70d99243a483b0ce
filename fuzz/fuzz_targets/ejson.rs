//! Text that may be Extended JSON or the shell's notation: what is read is a proper document, and
//! what is printed of it reads back as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motif_fuzz::laws;
use value::ejson::{self, Format, Mode, Parser};
use value::{DocBuf, RawDoc, Val, limits, validate};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for mode in [Mode::Json, Mode::Shell] {
        let mut parser = Parser::new(text, mode);
        while let Ok(Some(value)) = parser.next_value() {
            check(value.holder(), mode);
        }
        if let Ok(doc) = ejson::parse_doc_as(text, mode) {
            check(doc.as_doc(), mode);
        }
    }
});

fn check(doc: RawDoc<'_>, mode: Mode) {
    // The parser reads deeper than a socket lets through.
    validate::validate(doc.bytes(), ejson::DEPTH_LIMIT + 2).expect("what is read is a document");
    laws::walk(doc);
    let formats: &[Format] =
        if mode == Mode::Json { &[Format::Canonical] } else { &[Format::Canonical, Format::Shell] };
    if validate::validate(doc.bytes(), limits::DEPTH_MAX_WIRE).is_err() || has_wrapper(doc) {
        return;
    }
    for format in formats {
        let text = ejson::print(doc, *format);
        let again = ejson::parse_doc_as(&text, mode);
        let again = again.unwrap_or_else(|error| panic!("{text} does not read back: {error}"));
        assert!(same(&again, doc), "{text} reads back as {}", laws::show(again.as_doc()));
    }
}

fn same(one: &DocBuf, two: RawDoc<'_>) -> bool {
    one.bytes() == two.bytes()
}

/// Whether an object looks like a wrapped value, or a value has no notation: Extended JSON cannot
/// express these.
fn has_wrapper(doc: RawDoc<'_>) -> bool {
    doc.iter().any(|(name, value)| match value.get() {
        Val::Document(inner) => name.starts_with('$') || has_wrapper(inner),
        Val::Array(inner) => name.starts_with('$') || has_wrapper(inner),
        // Not every payload of a NaN can be said.
        Val::Double(number) => name.starts_with('$') || number.is_nan(),
        Val::Decimal(number) => name.starts_with('$') || number.is_nan(),
        _ => name.starts_with('$'),
    })
}
