//! What a refill reads: the entries behind those that went, not all of a parent's children.

use patterns::declaration;
use patterns::memory::{Memory, Write};
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
