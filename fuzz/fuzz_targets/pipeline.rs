//! Pipelines, run on a few collections, for a bounded time: results are proper documents, and the
//! same whether they come in one batch or one by one.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use motif_fuzz::bed::Bed;
use motif_fuzz::{laws, text};
use std::cell::RefCell;
use value::{DocBuf, Val};

thread_local! {
    static BED: RefCell<Bed> = RefCell::new(Bed::new());
}

/// Where two runs may differ: chance, clocks, the order of groups, and what the first run wrote.
static UNSTEADY: &[&str] = &[
    "$sample",
    "$rand",
    "$createObjectId",
    "$createUUID",
    "$currentDate",
    "NOW",
    "CLUSTER_TIME",
    "$group",
    "$bucket",
    "$sortByCount",
    "$out",
    "$merge",
    "$currentOp",
    "Stats",
    "Sessions",
    "USER_ROLES",
    "$addToSet",
    "$set",
];

fuzz_target!(|input: &[u8]| {
    let Some(stages) = text::documents(input) else { return };
    BED.with_borrow_mut(|bed| {
        if bed.dirty {
            *bed = Bed::new();
        }
        let command = DocBuf::build(|out| {
            out.str("aggregate", "items");
            out.array("pipeline", |list| {
                stages.iter().for_each(|stage| list.push(Val::Document(stage.as_doc())));
            });
        });
        let line = laws::show(command.as_doc());
        // It never ends.
        if line.contains("$changeStream") {
            return;
        }
        bed.dirty = line.contains("$out") || line.contains("$merge");
        let Some(together) = bed.all(command.as_doc(), 1000) else { return };
        if UNSTEADY.iter().any(|word| line.contains(word)) {
            return;
        }
        if let Some(singly) = bed.all(command.as_doc(), 1) {
            assert_eq!(shown(&together), shown(&singly), "{line} depends on the batches");
        }
    });
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    text::mutate(data, size, max_size, seed)
});

fn shown(documents: &[DocBuf]) -> Vec<String> {
    documents.iter().map(|doc| laws::show(doc.as_doc())).collect()
}
