//! What upkeep reads: the entries behind those that went, or beside a median, not all of a parent's
//! children; and what is read anew when most of them change.

use crate::memory::{Memory, Write};
use patterns::declaration;
use value::{DocBuf, RawDoc, Val, ejson};

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("test text")
}

#[test]
fn a_refill_reads_a_handful_of_entries() {
    const REVIEWS: i32 = 10_234;
    let subset = doc(
        "{name: 'top', kind: 'subset', into: 'top', from: 'reviews', on: {foreign: 'p'}, filter: {ok: true}, sort: {rating: -1, _id: -1}, limit: 5, fields: ['rating'], count: 'n'}",
    );
    let pattern = declaration::parse("products", subset.as_doc()).expect("a declaration");
    let mut memory = Memory::new(vec![pattern]).expect("one goes alone");
    memory.write("products", Val::Int32(1), Some(&doc("{_id: 1}"))).expect("is allowed");
    let reviews: Vec<DocBuf> = (0..REVIEWS)
        .map(|n| doc(&format!("{{_id: {n}, p: 1, rating: {}, ok: true}}", n / 10)))
        .collect();
    let inserts: Vec<Write<'_>> = reviews
        .iter()
        .enumerate()
        .map(|(n, review)| ("reviews", Val::Int32(n as i32), Some(review)))
        .collect();
    memory.write_all(&inserts).expect("is allowed");
    let before = memory.entries_read();
    let deletes: Vec<Write<'_>> =
        (REVIEWS - 5..REVIEWS).map(|n| ("reviews", Val::Int32(n), None)).collect();
    memory.write_all(&deletes).expect("is allowed");
    let read = memory.entries_read() - before;
    let product = memory.all("products").pop().expect("the product");
    let top = product.as_doc().get("top").and_then(Val::as_array).expect("a list");
    let ids: Vec<i64> = top
        .iter()
        .filter_map(|(_, row)| {
            row.as_doc().and_then(|row: RawDoc<'_>| row.get("_id")?.as_i64_exact())
        })
        .collect();
    assert_eq!(ids, [10_228, 10_227, 10_226, 10_225, 10_224]);
    assert_eq!(product.as_doc().get("n").and_then(Val::as_i64_exact), Some(10_229));
    assert!(read <= 10, "{read} entries were read");
}

/// Prices of one product, with these fields.
fn priced(fields: &str, count: i32) -> (Memory, std::sync::Arc<patterns::stats::Stats>) {
    let text =
        format!("{{name: 'm', kind: 'computed', from: 'prices', on: {{foreign: 'p'}}, {fields}}}");
    let pattern = declaration::parse("products", doc(&text).as_doc()).expect("a declaration");
    let stats = pattern.stats.clone();
    let mut memory = Memory::new(vec![pattern]).expect("one goes alone");
    memory.write("products", Val::Int32(1), Some(&doc("{_id: 1}"))).expect("is allowed");
    let prices: Vec<DocBuf> = (0..count)
        .map(|n| doc(&format!("{{_id: {n}, p: 1, x: {}}}", (n * 7919) % count)))
        .collect();
    let inserts: Vec<Write<'_>> = prices
        .iter()
        .enumerate()
        .map(|(n, price)| ("prices", Val::Int32(n as i32), Some(price)))
        .collect();
    memory.write_all(&inserts).expect("is allowed");
    (memory, stats)
}

#[test]
fn a_median_moves_by_a_step_or_two() {
    let (mut memory, _) = priced(
        "fields: {m: {$median: {input: '$x', method: 'approximate'}}, q: {$percentile: {input: '$x', p: [0.25, 0.99], method: 'approximate'}}}",
        2000,
    );
    let shown = |memory: &Memory| {
        let product = memory.all("products").pop().expect("the product");
        (
            product.as_doc().get("m").and_then(Val::as_f64),
            format!("{:?}", product.as_doc().get("q")),
        )
    };
    assert_eq!(shown(&memory).0, Some(999.0));
    let before = memory.entries_read();
    // Each is less than all others, so that every rank goes down by one number or stays.
    for n in 0..100 {
        let low = doc(&format!("{{_id: 'low{n}', p: 1, x: -1}}"));
        memory.write("prices", Val::String(&format!("low{n}")), Some(&low)).expect("is allowed");
    }
    let read = memory.entries_read() - before;
    assert_eq!(shown(&memory).0, Some(949.0));
    assert!(
        shown(&memory).1.contains("424.0") && shown(&memory).1.contains("1978.0"),
        "{:?}",
        shown(&memory)
    );
    assert!(read <= 3 * 100, "{read} entries were read");
    // The number at the rank goes.
    let id = (0..2000).find(|n| (n * 7919) % 2000 == 949).expect("one has it");
    memory.write("prices", Val::Int32(id), None).expect("is allowed");
    assert_eq!(shown(&memory).0, Some(950.0));
}

#[test]
fn lists_are_read_anew_when_a_large_part_of_them_changes() {
    use patterns::stats::Stats;
    let (mut memory, stats) = priced("order: {x: 1}, fields: {all: {$push: '$x'}}", 2000);
    assert_eq!(Stats::read(&stats.recomputed), 1, "all of them came at once");
    let all = |memory: &Memory| {
        let product = memory.all("products").pop().expect("the product");
        product.as_doc().get("all").and_then(Val::as_array).map(|list| list.count())
    };
    let delete = |memory: &mut Memory, from: i32, to: i32| {
        let gone: Vec<Write<'_>> = (from..to).map(|n| ("prices", Val::Int32(n), None)).collect();
        memory.write_all(&gone).expect("is allowed");
    };
    delete(&mut memory, 0, 400);
    assert_eq!(
        (Stats::read(&stats.recomputed), all(&memory)),
        (1, Some(1600)),
        "a fifth, not more"
    );
    delete(&mut memory, 400, 721);
    assert_eq!((Stats::read(&stats.recomputed), all(&memory)), (2, Some(1279)));
    let (mut sums, stats) = priced("fields: {all: {$sum: '$x'}}", 100);
    delete(&mut sums, 0, 100);
    assert_eq!(Stats::read(&stats.recomputed), 0, "sums gain nothing by it");
}
