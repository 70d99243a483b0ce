//! Elements of arrays that are folded (`unwind`), and fields of children and sources inside of
//! arrays: every array operator, positional updates, replacements, moves and transactions.

use crate::harness::{Server, print, same, within};

/// Products whose sales are folded from the items of orders; sales by day in a collection.
fn shop() -> Server {
    let server = Server::new();
    server.run("{insert: 'products', documents: [{_id: 1}, {_id: 2}, {_id: 3}]}");
    server.run(
        "{createPatterns: 'products', patterns: [{name: 'sales', kind: 'computed', from: 'orders',
          on: {local: '_id', foreign: 'items.p'}, unwind: 'items', filter: {status: {$ne: 'no'}},
          order: {'items.q': 1}, fields: {revenue: {$sum: {$multiply: ['$items.price', '$items.q']}}, n: {$count: {}},
          dearest: {$max: '$items.price'}, tags: {$addToSet: '$items.tag'}, lines: {$push: {i: '$_id', q: '$items.q'}}}}]}",
    );
    server.run(
        "{createPatterns: 'orders', patterns: [{name: 'days', kind: 'computed', into: 'days', unwind: 'items',
          groupBy: {d: '$day', p: '$items.p'}, fields: {sum: {$sum: '$items.q'}, n: {$count: {}}}}]}",
    );
    server
}

/// Every product and group is what an aggregation without patterns gives.
fn check(server: &Server) {
    for product in 1..=3 {
        let expected = server.docs(&format!(
            "{{aggregate: 'orders', rewrite: false, cursor: {{}}, pipeline: [{{$unwind: '$items'}},
              {{$match: {{'items.p': {product}, status: {{$ne: 'no'}}}}}}, {{$sort: {{'items.q': 1, _id: 1}}}},
              {{$group: {{_id: null, revenue: {{$sum: {{$multiply: ['$items.price', '$items.q']}}}}, n: {{$count: {{}}}},
              dearest: {{$max: '$items.price'}}, lines: {{$push: {{i: '$_id', q: '$items.q'}}}}}}}}, {{$project: {{_id: 0}}}}]}}"
        ));
        let found = server.docs(&format!(
            "{{find: 'products', filter: {{_id: {product}}}, projection: {{_id: 0, revenue: 1, n: 1, dearest: 1, lines: 1}}}}"
        ));
        let none = "{ revenue: 0, n: 0, dearest: null, lines: [] }";
        let expected = expected.first().map_or(none.to_owned(), |doc| print(doc.as_doc()));
        same(&print(found[0].as_doc()), &expected);
    }
    let expected = server.docs(
        "{aggregate: 'orders', rewrite: false, cursor: {}, pipeline: [{$unwind: '$items'}, {$group: {_id: {d: '$day', p: '$items.p'}, sum: {$sum: '$items.q'}, n: {$count: {}}}}, {$sort: {_id: 1}}]}",
    );
    let found = server.docs("{find: 'days', sort: {_id: 1}}");
    let all = |docs: &[value::DocBuf]| docs.iter().map(|d| print(d.as_doc())).collect::<Vec<_>>();
    assert_eq!(all(&found), all(&expected));
}

#[test]
fn elements_follow_every_array_operator() {
    let server = shop();
    server.run("{insert: 'orders', documents: [
        {_id: 1, day: 1, items: [{p: 1, price: 10, q: 2, tag: 'a'}, {p: 2, price: 5, q: 1}]},
        {_id: 2, day: 1, items: [{p: 1, price: 10, q: 1}, {p: 1, price: 7, q: 3, tag: 'b'}]},
        {_id: 3, day: 2, items: {p: 3, price: 2, q: 2}}, {_id: 4, day: 2, items: []}, {_id: 5, day: 2},
        {_id: 6, day: 2, items: [[{x: 1}], 5, null]}]}");
    check(&server);
    let update = |filter: &str, change: &str, more: &str| {
        server.run(&format!(
            "{{update: 'orders', updates: [{{q: {filter}, u: {change}, multi: true{more}}}]}}"
        ));
        check(&server);
    };
    update("{_id: 1}", "{$push: {items: {p: 3, price: 1, q: 9}}}", "");
    update("{_id: 1}", "{$push: {items: {$each: [{p: 2, price: 3, q: 1}], $position: 0}}}", "");
    update("{_id: {$in: [4, 5]}}", "{$push: {items: {p: 1, price: 4, q: 4}}}", "");
    update("{_id: 1}", "{$addToSet: {items: {p: 3, price: 1, q: 9}}}", "");
    update("{_id: 2}", "{$addToSet: {items: {p: 3, price: 1, q: 8}}}", "");
    update("{_id: 1}", "{$pop: {items: -1}}", "");
    update("{_id: 2}", "{$pop: {items: 1}}", "");
    update("{_id: 2, 'items.p': 1}", "{$inc: {'items.$.q': 5}}", "");
    update("{_id: {$in: [1, 2]}}", "{$inc: {'items.$[].price': 1}}", "");
    update("{_id: 2}", "{$set: {'items.$[i].p': 2}}", ", arrayFilters: [{'i.q': {$gt: 3}}]");
    update("{_id: 1}", "{$set: {'items.0.p': 3, 'items.5.p': 1}}", "");
    update("{_id: 1}", "{$unset: {'items.1': ''}}", "");
    update("{_id: 1}", "{$pull: {items: null}}", "");
    update("{_id: 1}", "{$pull: {items: {p: 3}}}", "");
    update("{_id: 2}", "{$push: {items: {$each: [], $sort: {q: -1}, $slice: 1}}}", "");
    update("{_id: 2}", "{$set: {status: 'no'}}", "");
    update("{_id: 2}", "{$unset: {status: ''}}", "");
    update(
        "{_id: 2}",
        "[{$set: {items: {$concatArrays: ['$items', [{p: 1, price: 2, q: 2}]]}}}]",
        "",
    );
    update("{_id: 4}", "{$rename: {items: 'gone'}}", "");
    update("{_id: 4}", "{$rename: {gone: 'items'}}", "");
    update(
        "{_id: 3}",
        "{$set: {items: [{p: 1, price: 2.5, q: 1}, {p: 1, price: NumberDecimal('2.5'), q: 1}]}}",
        "",
    );
    update("{}", "{$mul: {'items.$[i].q': 2}}", ", arrayFilters: [{'i.q': {$exists: true}}]");
    server.run("{update: 'orders', updates: [{q: {_id: 1}, u: {day: 9, items: [{p: 3, price: 3, q: 3}, {p: 3, price: 3, q: 3}]}}]}");
    check(&server);
    server.run("{findAndModify: 'orders', query: {_id: 9}, update: {$push: {items: {p: 2, price: 1, q: 1}}}, upsert: true}");
    check(&server);
    server.run("{delete: 'orders', deletes: [{q: {_id: {$lt: 3}}, limit: 0}]}");
    check(&server);
    server.verify("products");
    server.verify("orders");
}

#[test]
fn elements_follow_transactions_and_a_build_over_existing_orders() {
    let server = Server::new();
    server.run("{insert: 'products', documents: [{_id: 1}, {_id: 2}, {_id: 3}]}");
    let orders: Vec<String> = (0..300)
        .map(|n| format!("{{_id: {n}, day: {}, items: [{{p: {}, price: {n}, q: 2}}, {{p: 1, price: 1, q: {}}}]}}", n % 3, n % 4, n % 5))
        .collect();
    server.run(&format!("{{insert: 'orders', documents: [{}]}}", orders.join(", ")));
    let declared = shop();
    for collection in ["products", "orders"] {
        let pattern = declared.pattern(collection);
        let declaration =
            print(pattern.as_doc().get("declaration").and_then(value::Val::as_doc).expect("one"));
        server.run(&format!("{{createPatterns: '{collection}', patterns: [{declaration}]}}"));
    }
    check(&server);
    for (number, verb) in [(1, "abortTransaction"), (2, "commitTransaction")] {
        let part = |first| within(1, number, first);
        server.run(&format!("{{update: 'orders', updates: [{{q: {{_id: {{$lt: 9}}}}, u: {{$push: {{items: {{p: 2, price: 9, q: 9}}}}}}, multi: true}}]{}}}", part(true)));
        server.run(&format!("{{update: 'orders', updates: [{{q: {{_id: 3}}, u: {{$set: {{'items.0.q': 100}}}}}}]{}}}", part(false)));
        server.run(&format!(
            "{{delete: 'orders', deletes: [{{q: {{_id: 5}}, limit: 1}}]{}}}",
            part(false)
        ));
        assert_eq!(server.end(verb, 1, number), 0);
        check(&server);
    }
    server.verify("products");
    server.verify("orders");
}

#[test]
fn unwinding_groups_are_answered_from_the_pattern() {
    let server = shop();
    server.run("{insert: 'orders', documents: [{_id: 1, day: 1, items: [{p: 1, price: 10, q: 2}, {p: 2, price: 5, q: 1}]}, {_id: 2, day: 1, items: [{p: 1, price: 3, q: 1}]}]}");
    let one = "[{$unwind: '$items'}, {$match: {'items.p': 1, status: {$ne: 'no'}}}, {$group: {_id: null, r: {$sum: {$multiply: ['$items.price', '$items.q']}}, n: {$sum: 1}}}]";
    let before = "[{$match: {status: {$ne: 'no'}}}, {$unwind: {path: '$items'}}, {$match: {'items.p': 1}}, {$group: {_id: null, n: {$count: {}}}}]";
    let all = "[{$unwind: '$items'}, {$group: {_id: {d: '$day', p: '$items.p'}, n: {$count: {}}}}, {$sort: {_id: 1}}]";
    let rewritten = |pipeline: &str| {
        let text =
            format!("{{explain: {{aggregate: 'orders', pipeline: {pipeline}, cursor: {{}}}}}}");
        print(server.run(&text).as_doc()).contains("\"rewrites\":[")
    };
    let answer = |pipeline: &str, rewrite: bool| -> Vec<String> {
        let docs = server.docs(&format!(
            "{{aggregate: 'orders', pipeline: {pipeline}, cursor: {{}}, rewrite: {rewrite}}}"
        ));
        docs.iter().map(|doc| print(doc.as_doc())).collect()
    };
    for pipeline in [one, before, all] {
        assert!(rewritten(pipeline), "{pipeline}");
        assert_eq!(answer(pipeline, true), answer(pipeline, false), "{pipeline}");
    }
    for other in [
        // A count of documents is not one of elements.
        "[{$match: {'items.p': 1, status: {$ne: 'no'}}}, {$group: {_id: null, n: {$count: {}}}}]",
        "[{$unwind: {path: '$items', preserveNullAndEmptyArrays: true}}, {$group: {_id: {d: '$day', p: '$items.p'}, n: {$count: {}}}}]",
        "[{$unwind: '$day'}, {$group: {_id: {d: '$day', p: '$items.p'}, n: {$count: {}}}}]",
        // It is about other elements of the same order.
        "[{$match: {'items.q': 2}}, {$unwind: '$items'}, {$group: {_id: {d: '$day', p: '$items.p'}, n: {$count: {}}}}]",
        "[{$group: {_id: {d: '$day', p: '$items.p'}, n: {$count: {}}}}]",
    ] {
        assert!(!rewritten(other), "{other}");
        let sorted = |mut list: Vec<String>| {
            list.sort();
            list
        };
        assert_eq!(sorted(answer(other, true)), sorted(answer(other, false)), "{other}");
    }
    let count = "{count: 'orders', query: {'items.p': 1, status: {$ne: 'no'}}}";
    assert_eq!(crate::harness::whole(&server.run(count), "n"), 2);
}

#[test]
fn an_array_with_keys_and_prices_needs_unwind() {
    let server = Server::new();
    let declare = |more: &str| {
        format!(
            "{{createPatterns: 'products', patterns: [{{name: 'r', kind: 'computed', from: 'orders', on: 'items.p', {more}fields: {{r: {{$sum: '$items.price'}}}}}}]}}"
        )
    };
    server.run("{insert: 'products', documents: [{_id: 1}, {_id: 2}]}");
    server.run("{insert: 'orders', documents: [{_id: 1, items: {p: 1, price: 5}}]}");
    server.run(&declare(""));
    let refused =
        "{insert: 'orders', documents: [{_id: 2, items: [{p: 1, price: 10}, {p: 2, price: 5}]}]}";
    assert_eq!(server.code(refused), 2, "each product would get both prices");
    same(&server.one("products", "1"), "{_id: 1, r: 5}");
    server.run("{dropPatterns: 'products', names: ['r']}");
    server.run(refused);
    // Over existing orders the declaration fails, says why, and does not block its name.
    let command = motifdb::value::ejson::parse_doc(&declare("")).expect("test text");
    let error = server.0.run_command("t", command.as_doc()).expect_err("cannot be built");
    for part in ["pattern 'r' of 'products'", "document with _id 2", "unwind: 'items'"] {
        assert!(error.message().contains(part), "{error}");
    }
    server.run(&declare("unwind: 'items', "));
    same(&server.one("products", "1"), "{_id: 1, r: 15}");
    same(&server.one("products", "2"), "{_id: 2, r: 5}");
    server.verify("products");
}

#[test]
fn subsets_and_copies_keep_what_a_find_gives() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}]}");
    server.run("{createPatterns: 'p', patterns: [{name: 't', kind: 'subset', into: 'top', from: 'c', on: 'p', sort: {_id: 1}, limit: 9, fields: ['v', 'who.name']}, {name: 'w', kind: 'subset', into: 'all', from: 'c', on: {foreignField: 'p'}, sort: {_id: 1}, limit: 9}]}");
    server.run("{insert: 'c', documents: [{_id: 1, p: 1, who: {name: 'a', x: 1}, v: 1}, {_id: 2, p: 1, v: 2}, {_id: 3, p: 1, who: 5}, {_id: 4, p: 1, who: [{name: 'a', x: 1}, 5, [{name: 'b', x: 1}]]}]}");
    let check = || {
        let rows = server
            .docs("{find: 'c', filter: {p: 1}, projection: {v: 1, 'who.name': 1}, sort: {_id: 1}}");
        let rows: Vec<String> = rows.iter().map(|row| print(row.as_doc())).collect();
        let all: Vec<String> = server
            .docs("{find: 'c', filter: {p: 1}, sort: {_id: 1}}")
            .iter()
            .map(|row| print(row.as_doc()))
            .collect();
        let shown = |name: &str| {
            let find = format!("{{find: 'p', projection: {{_id: 0, {name}: 1}}}}");
            print(server.docs(&find)[0].as_doc())
        };
        same(&shown("top"), &format!("{{top: [{}]}}", rows.join(", ")));
        same(&shown("all"), &format!("{{all: [{}]}}", all.join(", ")));
    };
    check();
    for change in [
        "{$set: {'who.0.name': 'z'}}",
        "{$push: {who: {name: 'n', y: 1}}}",
        "{$set: {who: {name: {deep: [1]}}}}",
        "{$rename: {'who.name': 'who.x'}}",
        "{$unset: {who: ''}}",
        "{$set: {other: 1}}",
        "{$set: {who: [[]], v: [{}]}}",
    ] {
        server.run(&format!("{{update: 'c', updates: [{{q: {{_id: 4}}, u: {change}}}]}}"));
        check();
    }
    server.verify("p");
    server.run("{createPatterns: 'o', patterns: [{name: 'c', kind: 'extendedReference', ref: 'by._id', from: 'c', into: 'by', fields: ['who.name', 'v']}]}");
    server.run("{insert: 'o', documents: [{_id: 1, by: {_id: 4}}]}");
    let holds = |who: &str, shown: &str| {
        server.run(&format!(
            "{{update: 'c', updates: [{{q: {{_id: 4}}, u: {{$set: {{v: 1, who: {who}}}}}}}]}}"
        ));
        same(&server.one("o", "1"), &format!("{{_id: 1, by: {shown}}}"));
        server.verify("o");
    };
    holds("[{name: 'a', x: 1}, 5]", "{_id: 4, who: [{name: 'a'}], v: 1}");
    holds("{name: 'b', x: 1}", "{_id: 4, v: 1, who: {name: 'b'}}");
    holds("[{x: 1}, [{name: 'c', z: 1}]]", "{_id: 4, v: 1, who: [{}, [{name: 'c'}]]}");
    holds("5", "{_id: 4, v: 1}");
    holds("[]", "{_id: 4, v: 1, who: []}");
    // The array is the database's, whatever a client writes there.
    server.run("{update: 'o', updates: [{q: {_id: 1}, u: {by: {_id: 4, who: [{name: 'lie'}]}}}]}");
    same(&server.one("o", "1"), "{_id: 1, by: {_id: 4, who: [], v: 1}}");
    assert_eq!(
        server.code("{update: 'o', updates: [{q: {_id: 1}, u: {$set: {'by.who.0.name': 1}}}]}"),
        96001
    );
    server.run("{dropPatterns: 'o', names: ['c']}");
    same(&server.one("o", "1"), "{_id: 1, by: {_id: 4}}");
}
