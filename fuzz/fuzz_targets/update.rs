//! Update statements, applied to a few documents and then run by the engine: results are proper
//! documents that keep their `_id`, and afterwards documents, indexes and counts agree.

#![no_main]

use bumpalo::Bump;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use motif_fuzz::bed::{Bed, DOCUMENTS};
use motif_fuzz::{laws, text};
use query::ParseContext;
use query::update::Update;
use std::cell::RefCell;
use std::sync::LazyLock;
use value::{DocBuf, OwnedVal, RawDoc, Val, compare, ejson};

thread_local! {
    static BED: RefCell<Bed> = RefCell::new(Bed::new());
}

static DOCS: LazyLock<Vec<DocBuf>> = LazyLock::new(|| {
    DOCUMENTS.iter().map(|text| ejson::parse_doc(text).expect("readable")).collect()
});

fuzz_target!(|input: &[u8]| {
    let Some(statements) = text::documents(input) else { return };
    for statement in &statements {
        apply(statement.as_doc());
    }
    BED.with_borrow_mut(|bed| run(bed, &statements));
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    text::mutate(data, size, max_size, seed)
});

/// The update alone, without an engine.
fn apply(statement: RawDoc<'_>) {
    let filters: Vec<RawDoc<'_>> = match statement.get("arrayFilters") {
        Some(Val::Array(list)) => list.iter().filter_map(|(_, value)| value.as_doc()).collect(),
        _ => Vec::new(),
    };
    let Some(update) = statement.get("u") else { return };
    let Ok(update) = Update::parse(update, &ParseContext::new(0), &filters) else { return };
    let _ = update.named_paths();
    for doc in DOCS.iter() {
        for position in [None, Some(0), Some(3)] {
            let applied = update.apply(doc.as_doc(), position, false, &Bump::new());
            let Ok(Some(new)) = applied else { continue };
            laws::is_proper(new.bytes());
            // A replacement may give it another type of number.
            let id = |doc: RawDoc<'_>| OwnedVal::new(doc.get("_id").unwrap_or(Val::Null));
            assert!(compare::equal(id(new.as_doc()).get(), id(doc.as_doc()).get()));
        }
    }
    if let Some(Val::Document(filter)) = statement.get("q")
        && let Ok(start) = update.upsert_document(filter)
        && let Ok(Some(new)) = update.apply(start.as_doc(), None, true, &Bump::new())
    {
        laws::is_proper(new.bytes());
    }
}

/// The statements in an engine with indexes.
fn run(bed: &mut Bed, statements: &[DocBuf]) {
    if bed.dirty {
        bed.restore();
    }
    let mut changed = false;
    for statement in statements {
        let command = DocBuf::build(|out| {
            out.str("update", "items");
            out.array("updates", |list| list.push(Val::Document(statement.as_doc())));
        });
        let reply = bed.run(command.as_doc());
        let count = |name| reply.as_doc().get(name).and_then(|value| value.as_i64_exact());
        changed |= count("nModified").unwrap_or(0) > 0 || reply.as_doc().find("upserted").is_some();
    }
    if changed {
        bed.dirty = true;
        let reply = bed.ask("{validate: 'items', full: true}");
        let valid = reply.as_doc().get("valid");
        assert_eq!(valid, Some(Val::Bool(true)), "{}", laws::show(reply.as_doc()));
    }
}
