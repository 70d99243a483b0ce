//! Filters, run on a few documents: `$nor` of a filter is its complement, a plan with an index finds
//! what a scan finds, and what the engine finds is what the filter matches.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use motif_fuzz::bed::{Bed, DOCUMENTS};
use motif_fuzz::{laws, text};
use query::ParseContext;
use query::filter::Filter;
use std::cell::RefCell;
use std::sync::LazyLock;
use value::{DocBuf, RawDoc, Val, ejson, limits, validate};

thread_local! {
    static BED: RefCell<Bed> = RefCell::new(Bed::new());
}

static DOCS: LazyLock<Vec<DocBuf>> = LazyLock::new(|| {
    DOCUMENTS.iter().map(|text| ejson::parse_doc(text).expect("readable")).collect()
});

fuzz_target!(|input: &[u8]| {
    for filter in text::documents(input).unwrap_or_default() {
        check(filter.as_doc());
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    text::mutate(data, size, max_size, seed)
});

fn check(filter: RawDoc<'_>) {
    let context = ParseContext::new(0);
    let Ok(parsed) = Filter::parse(filter, &context) else { return };
    let shown = DocBuf::build(|out| parsed.explain(out));
    validate::validate(shown.bytes(), limits::DEPTH_MAX_WIRE + 20).expect("explained");

    let nor = DocBuf::build(|out| {
        out.array("$nor", |list| list.push(Val::Document(filter)));
    });
    let line = laws::show(filter);
    // Whoever throws dice twice sees two answers.
    let dice = ["$rand", "$sampleRate", "$createObjectId", "$createUUID", "$currentDate"];
    let steady = !dice.iter().any(|operator| line.contains(operator));
    let nor = Filter::parse(nor.as_doc(), &context).ok().filter(|_| steady);
    let mut expected: Vec<&DocBuf> = Vec::new();
    let mut failed = false;
    for doc in DOCS.iter() {
        match parsed.matches_at(doc.as_doc(), &mut None) {
            Ok(found) => {
                if let Some(nor) = &nor
                    && let Ok(complement) = nor.matches(doc.as_doc())
                {
                    assert_ne!(found, complement, "{line} on {}", laws::show(doc.as_doc()));
                }
                if found {
                    expected.push(doc);
                }
            }
            Err(_) => failed = true,
        }
    }
    BED.with_borrow_mut(|bed| {
        let planned = find(bed, filter, false);
        let scanned = find(bed, filter, true);
        let (Some(planned), Some(scanned)) = (planned, scanned) else { return };
        if !steady {
            return;
        }
        assert_eq!(planned, scanned, "{line} finds other documents with an index");
        // The clock of this target stands still, the engine's does not.
        if !failed && !line.contains("NOW") {
            let mut expected: Vec<String> =
                expected.iter().map(|doc| laws::show(doc.as_doc())).collect();
            expected.sort();
            assert_eq!(scanned, expected, "{line} matches other documents than it finds");
        }
    });
}

/// What a query finds, sorted; nothing when it fails.
fn find(bed: &mut Bed, filter: RawDoc<'_>, scan: bool) -> Option<Vec<String>> {
    let command = DocBuf::build(|out| {
        out.str("find", "items").append("filter", Val::Document(filter));
        if scan {
            out.doc("hint", |out| {
                out.i32("$natural", 1);
            });
        }
    });
    let found = bed.all(command.as_doc(), 1000)?;
    let mut lines: Vec<String> = found.iter().map(|doc| laws::show(doc.as_doc())).collect();
    lines.sort();
    Some(lines)
}
