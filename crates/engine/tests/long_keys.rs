//! `_id`s and index keys that are longer than the trees take behave as short ones.

mod harness;

use harness::{Server, print};
use motifdb::value::Val;

/// Texts that differ only behind many equal bytes, around the length at which keys are cut, and far
/// above it.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for length in [0, 10, 65_480, 65_498, 65_499, 65_500, 65_535, 70_000, 300_000] {
        for end in ["", "a", "ab", "b", "\u{0}", "zz"] {
            texts.push(format!("{}{end}", "x".repeat(length)));
        }
    }
    texts
}

/// The numbers of the documents that a command returns, in its order.
fn numbers(server: &Server, text: &str) -> Vec<i64> {
    let number = |doc: &_| harness::whole(doc, "n");
    server.docs(text).iter().map(number).collect()
}

fn fill(server: &Server, documents: impl Fn(usize, &str) -> String) {
    for (n, text) in texts().iter().enumerate() {
        let text = text.replace('\u{0}', "\\u0000");
        server.run(&format!("{{insert: 'c', documents: [{}]}}", documents(n, &text)));
    }
}

/// The numbers of all texts in their order.
fn in_order() -> Vec<i64> {
    let texts = texts();
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by(|a, b| texts[*a].as_bytes().cmp(texts[*b].as_bytes()));
    order.into_iter().map(|n| n as i64).collect()
}

/// How the documents of a query are read.
fn plan(server: &Server, text: &str) -> String {
    print(server.run(&format!("{{explain: {text}, verbosity: 'queryPlanner'}}")).as_doc())
}

fn check_sound(server: &Server, collection: &str) {
    let reply = server.run(&format!("{{validate: '{collection}', full: true}}"));
    let valid = reply.as_doc().get("valid");
    assert_eq!(valid, Some(Val::Bool(true)), "{}", print(reply.as_doc()));
}

#[test]
fn long_ids_are_found_ordered_and_unique() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::on(folder.path());
    fill(&server, |n, text| format!("{{_id: '{text}', n: {n}}}"));
    for round in 0..2 {
        let order = in_order();
        assert_eq!(
            numbers(&server, "{find: 'c', sort: {_id: 1}, projection: {_id: 0, n: 1}}"),
            order
        );
        let mut reversed = order.clone();
        reversed.reverse();
        assert_eq!(
            numbers(&server, "{find: 'c', sort: {_id: -1}, projection: {_id: 0, n: 1}}"),
            reversed
        );
        for (n, text) in texts().iter().enumerate() {
            let text = text.replace('\u{0}', "\\u0000");
            let find = format!("{{find: 'c', filter: {{_id: '{text}'}}, projection: {{_id: 0}}}}");
            assert_eq!(numbers(&server, &find), [n as i64]);
            assert_eq!(
                server.code(&format!("{{insert: 'c', documents: [{{_id: '{text}'}}]}}")),
                11000
            );
            let place = order.iter().position(|known| *known == n as i64).expect("is there");
            for (operator, expected) in [
                ("$gt", &order[place + 1..]),
                ("$gte", &order[place..]),
                ("$lt", &order[..place]),
                ("$lte", &order[..=place]),
            ] {
                let find = format!(
                    "{{find: 'c', filter: {{_id: {{{operator}: '{text}'}}}}, sort: {{_id: 1}}, projection: {{n: 1, _id: 0}}}}"
                );
                assert_eq!(numbers(&server, &find), expected, "{operator} {n}");
            }
        }
        check_sound(&server, "c");
        if round == 0 {
            server.close();
            server = Server::on(folder.path());
        }
    }
    let text = "x".repeat(70_000);
    let one = format!("{{_id: '{text}'}}");
    server.run(&format!("{{update: 'c', updates: [{{q: {one}, u: {{$set: {{seen: true}}}}}}]}}"));
    let found =
        server.docs(&format!("{{find: 'c', filter: {one}, projection: {{_id: 0, seen: 1}}}}"));
    assert_eq!(found[0].as_doc().get("seen"), Some(Val::Bool(true)));
    let reply = server.run(&format!("{{delete: 'c', deletes: [{{q: {one}, limit: 1}}]}}"));
    assert_eq!(harness::whole(&reply, "n"), 1);
    assert_eq!(server.docs(&format!("{{find: 'c', filter: {one}}}")).len(), 0);
    assert_eq!(
        server.docs("{find: 'c', batchSize: 1000, projection: {n: 1, _id: 0}}").len(),
        texts().len() - 1
    );
    check_sound(&server, "c");
}

#[test]
fn long_index_keys_are_ordered_and_unique() {
    for built_first in [true, false] {
        let server = Server::new();
        let index = "{createIndexes: 'c', indexes: [{key: {t: 1}, name: 't_1', unique: true}, {key: {g: 1, t: -1}, name: 'g_1_t_-1'}]}";
        if built_first {
            server.run(index);
        }
        fill(&server, |n, text| format!("{{_id: {n}, n: {n}, g: {}, t: '{text}'}}", n % 2));
        if !built_first {
            server.run(index);
        }
        let order = in_order();
        let find =
            |rest: &str| numbers(&server, &format!("{{find: 'c', projection: {{n: 1}}, {rest}}}"));
        assert_eq!(find("sort: {t: 1}, hint: 't_1'"), order);
        let reversed: Vec<i64> = order.iter().rev().copied().collect();
        assert_eq!(find("sort: {t: -1}, hint: 't_1'"), reversed);
        let even: Vec<i64> = reversed.iter().copied().filter(|n| n % 2 == 0).collect();
        assert_eq!(find("filter: {g: 0}, sort: {t: -1}, hint: 'g_1_t_-1'"), even);
        assert!(
            !plan(&server, "{find: 'c', filter: {g: 0}, sort: {t: -1}, hint: 'g_1_t_-1'}")
                .contains("SORT")
        );
        for (n, text) in texts().iter().enumerate() {
            let text = text.replace('\u{0}', "\\u0000");
            assert_eq!(find(&format!("filter: {{t: '{text}'}}, hint: 't_1'")), [n as i64]);
            assert_eq!(
                server.code(&format!("{{insert: 'c', documents: [{{t: '{text}'}}]}}")),
                11000
            );
            // Covered: the values come out of the entry.
            let covered = server.docs(&format!(
                "{{find: 'c', filter: {{t: '{text}'}}, hint: 't_1', projection: {{t: 1, _id: 0}}}}"
            ));
            let read = covered[0].as_doc().get("t").and_then(Val::as_str).map(str::to_owned);
            assert_eq!(read.as_deref(), Some(texts()[n].as_str()));
        }
        check_sound(&server, "c");
        server.run("{update: 'c', updates: [{q: {}, u: {$set: {t: null, g: 1}}, multi: false}]}");
        server.run("{delete: 'c', deletes: [{q: {n: {$gt: 30}}, limit: 0}]}");
        check_sound(&server, "c");
        let count = server.run("{count: 'c', query: {t: {$gte: ''}}, hint: 't_1'}");
        assert_eq!(harness::whole(&count, "n"), 30);
    }
}

#[test]
fn a_unique_index_over_equal_long_keys_is_not_built() {
    let server = Server::new();
    let text = "y".repeat(200_000);
    server.run(&format!("{{insert: 'c', documents: [{{t: '{text}'}}, {{t: '{text}z'}}]}}"));
    let index = "{createIndexes: 'c', indexes: [{key: {t: 1}, name: 't_1', unique: true}]}";
    server.run(index);
    assert_eq!(server.code(&format!("{{insert: 'c', documents: [{{t: '{text}z'}}]}}")), 11000);
    server.run("{dropIndexes: 'c', index: 't_1'}");
    server.run(&format!("{{insert: 'c', documents: [{{t: '{text}z'}}]}}"));
    assert_eq!(server.code(index), 11000);
}

#[test]
fn transactions_and_arrays_take_long_keys() {
    let server = Server::new();
    let text = "w".repeat(100_000);
    server.run("{createIndexes: 'c', indexes: [{key: {t: 1}, name: 't_1'}]}");
    let own = harness::within(1, 1, true);
    server.run(&format!(
        "{{insert: 'c', documents: [{{_id: '{text}', t: ['{text}b', '{text}a', 1]}}]{own}}}"
    ));
    let next = harness::within(1, 1, false);
    let filter = format!("{{t: '{text}a'}}");
    let found =
        server.docs(&format!("{{find: 'c', filter: {filter}, projection: {{_id: 1}}{next}}}"));
    assert_eq!(found.len(), 1);
    assert!(server.docs(&format!("{{find: 'c', filter: {filter}}}")).is_empty());
    server.end("commitTransaction", 1, 1);
    assert_eq!(server.docs(&format!("{{find: 'c', filter: {filter}, hint: 't_1'}}")).len(), 1);
    assert_eq!(server.code(&format!("{{insert: 'c', documents: [{{_id: '{text}'}}]}}")), 11000);
    server.run(&format!(
        "{{update: 'c', updates: [{{q: {{_id: '{text}'}}, u: {{$pull: {{t: '{text}a'}}}}}}]}}"
    ));
    assert!(server.docs(&format!("{{find: 'c', filter: {filter}, hint: 't_1'}}")).is_empty());
    check_sound(&server, "c");
}

/// As large as documents may be.
#[test]
fn keys_take_whole_documents() {
    let server = Server::new();
    server.run("{createIndexes: 'c', indexes: [{key: {t: 1}, name: 't_1', unique: true}]}");
    let text = "v".repeat((16 << 20) - 100);
    server.run(&format!("{{insert: 'c', documents: [{{_id: '{text}'}}]}}"));
    server.run(&format!("{{insert: 'c', documents: [{{_id: 1, t: '{text}'}}]}}"));
    assert_eq!(server.code(&format!("{{insert: 'c', documents: [{{_id: '{text}'}}]}}")), 11000);
    assert_eq!(
        server.code(&format!("{{insert: 'c', documents: [{{_id: 2, t: '{text}'}}]}}")),
        11000
    );
    let found = server.docs(&format!(
        "{{find: 'c', filter: {{_id: '{text}'}}, projection: {{_id: {{$strLenBytes: '$_id'}}}}}}"
    ));
    assert_eq!(harness::whole(&found[0], "_id"), text.len() as i64);
    // Entries of an array beside it need too much memory.
    server.run("{createIndexes: 'd', indexes: [{key: {a: 1, t: 1}, name: 'a_1_t_1'}]}");
    let numbers: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let text = "u".repeat(4 << 20);
    let insert =
        format!("{{insert: 'd', documents: [{{t: '{text}', a: [{}]}}]}}", numbers.join(", "));
    assert_eq!(server.code(&insert), 388);
    assert_eq!(harness::whole(&server.run("{count: 'd'}"), "n"), 0);
}
