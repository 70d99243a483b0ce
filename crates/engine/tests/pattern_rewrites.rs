//! Queries that are answered from patterns give what they give without: the same documents at every
//! moment, and explain says where they came from.

mod harness;

use harness::{Dice, Server, batch, print};
use motifdb::value::{DocBuf, RawDoc, Val, ejson};

/// The reply to a command, answered from patterns or not.
fn reply(server: &Server, command: &str, rewrite: bool) -> DocBuf {
    let command = ejson::parse_doc(command).unwrap_or_else(|e| panic!("{command}: {e}"));
    let command = DocBuf::build(|out| {
        out.extend(command.as_doc()).bool("rewrite", rewrite);
    });
    server.0.run_command("t", command.as_doc()).unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// A result with the elements of its top-level arrays in order: `$graphLookup` and `$lookup` promise none.
fn in_order(doc: RawDoc<'_>) -> String {
    let mut parts = Vec::new();
    for (name, value) in doc {
        let text = match value.as_array() {
            Some(array) => {
                let mut list: Vec<String> =
                    array.iter().map(|(_, value)| format!("{:?}", value.get())).collect();
                list.sort();
                format!("{list:?}")
            }
            None => format!("{:?}", value.get()),
        };
        parts.push(format!("{name}: {text}"));
    }
    parts.join(", ")
}

/// Runs a command with and without rewrites and compares: as a set unless it asks for an order.
fn check(server: &Server, command: &str) {
    let [mut with, mut without] = [true, false].map(|rewrite| {
        let reply = reply(server, command, rewrite);
        match reply.as_doc().get("n") {
            Some(n) => vec![format!("{n:?}")],
            None => batch(&reply).into_iter().map(in_order).collect::<Vec<_>>(),
        }
    });
    if !command.contains("sort") {
        with.sort();
        without.sort();
    }
    assert_eq!(with, without, "{command}");
}

/// What explain says that a command is answered from.
fn used(server: &Server, command: &str) -> String {
    let reply = server.run(&format!("{{explain: {command}, verbosity: 'executionStats'}}"));
    let list = reply.as_doc().get("rewrites").and_then(Val::as_array);
    let names = list.into_iter().flat_map(|list| list.iter()).filter_map(|(_, used)| {
        let used = used.as_doc()?;
        Some(format!("{}:{}", used.get("pattern")?.as_str()?, used.get("from")?.as_str()?))
    });
    names.collect::<Vec<_>>().join(",")
}

static FOLDS: &str = "{createPatterns: 'products', patterns: [
    {name: 'sales', kind: 'computed', from: 'orders', on: {foreign: 'p'}, filter: {paid: true},
     fields: {revenue: {$sum: '$price'}, mean: {$avg: '$price'}, most: {$max: '$price'}, kinds: {$addToSet: '$price'}}},
    {name: 'top', kind: 'subset', from: 'orders', into: 'top', on: {foreign: 'p'}, filter: {paid: true},
     sort: {price: -1}, limit: 3, fields: ['price'], idAs: 'order', count: 'n'}]}";
static GROUPS: &str = "{createPatterns: 'orders', patterns: [{name: 'days', kind: 'computed', into: 'by_day',
    groupBy: {d: '$day'}, fields: {revenue: {$sum: '$price'}, 'stats.orders': {$count: {}}, least: {$min: '$price'}}}]}";

static QUERIES: &[(&str, &str)] = &[
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$group: {_id: {d: '$day'}, r: {$sum: '$price'}, n: {$sum: 1}}}]}",
        "days:$group",
    ),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$group: {_id: {d: '$day'}, n: {$count: {}}}}, {$sort: {n: -1, '_id.d': 1}}, {$limit: 2}]}",
        "days:$group",
    ),
    ("{aggregate: 'orders', cursor: {}, pipeline: [{$group: {_id: {d: '$day'}}}]}", "days:$group"),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$group: {_id: {d: '$day'}, x: {$max: '$price'}}}]}",
        "",
    ),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$match: {paid: true}}, {$group: {_id: {d: '$day'}, r: {$sum: '$price'}}}]}",
        "",
    ),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$match: {p: 1, paid: true}}, {$group: {_id: null, r: {$sum: '$price'}, m: {$avg: '$price'}, n: {$sum: 1}}}]}",
        "sales:$group",
    ),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$match: {$and: [{paid: true}, {p: {$eq: 2.0}}]}}, {$group: {_id: 'x', m: {$max: '$price'}}}, {$project: {m: 1}}]}",
        "sales:$group",
    ),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$match: {p: 1}}, {$group: {_id: null, r: {$sum: '$price'}}}]}",
        "",
    ),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$match: {p: 1, paid: true}}, {$group: {_id: '$p', r: {$sum: '$price'}}}]}",
        "",
    ),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$match: {p: [0, 1], paid: true}}, {$group: {_id: 1, n: {$sum: 1}}}]}",
        "",
    ),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$match: {p: null, paid: true}}, {$group: {_id: 1, n: {$sum: 1}}}]}",
        "",
    ),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$match: {p: 3, paid: true}}, {$group: {_id: 1, n: {$sum: 1}}}]}",
        "sales:$group",
    ),
    ("{count: 'orders', query: {paid: true, p: 0}}", "sales:count"),
    ("{count: 'orders', query: {paid: true, p: 0}, skip: 1, limit: 2}", "sales:count"),
    ("{count: 'orders', query: {paid: false, p: 0}}", ""),
    ("{count: 'orders', query: {paid: true, p: {$gt: 0}}}", ""),
    ("{find: 'orders', filter: {p: 1, paid: true}, sort: {price: -1}, limit: 3}", "top:sort"),
    (
        "{find: 'orders', filter: {paid: true, p: 2}, sort: {price: -1.0}, skip: 1, limit: 2, projection: {day: 1}}",
        "top:sort",
    ),
    ("{find: 'orders', filter: {p: 1, paid: true}, sort: {price: -1}, limit: 4}", ""),
    ("{find: 'orders', filter: {p: 1, paid: true}, sort: {price: 1}, limit: 2}", ""),
    ("{find: 'orders', filter: {p: 1, paid: true}, sort: {price: -1}}", ""),
    ("{find: 'orders', filter: {p: 7, paid: true}, sort: {price: -1}, limit: 1}", "top:sort"),
    (
        "{aggregate: 'orders', cursor: {}, pipeline: [{$match: {p: 1, paid: true}}, {$sort: {price: -1}}, {$limit: 2}, {$project: {price: 1}}]}",
        "top:sort",
    ),
];

#[test]
fn folds_answer_groups_counts_and_the_first_few() {
    let server = Server::new();
    server.run("{insert: 'products', documents: [{_id: 0}, {_id: 1}, {_id: 2}]}");
    server.run(FOLDS);
    server.run(GROUPS);
    let mut dice = Dice(7);
    for round in 0..60 {
        for _ in 0..4 {
            let id = dice.below(25);
            let parent = match dice.below(7) {
                5 => "[0, 1, 1]".to_owned(),
                6 => "null".to_owned(),
                other => (other % 4).to_string(),
            };
            let price = [" 5", "7", "2.5", "NumberLong(9)", "null", "NumberDecimal('1.25')"]
                [dice.below(6) as usize];
            let (day, paid) = (dice.below(4), dice.below(4) > 0);
            if dice.below(6) == 0 {
                server.run(&format!(
                    "{{delete: 'orders', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"
                ));
            } else {
                server.run(&format!("{{update: 'orders', updates: [{{q: {{_id: {id}}}, u: {{p: {parent}, price: {price}, day: {day}, paid: {paid}}}, upsert: true}}]}}"));
            }
        }
        for (query, from) in QUERIES {
            check(&server, query);
            if round == 0 {
                // Two patterns count the same children: either may answer.
                let found = used(&server, query).replace("top:count", "sales:count");
                let found = found.replace("top:$group", "sales:$group");
                assert_eq!(found, *from, "{query}");
            }
        }
    }
}

#[test]
fn rewrites_are_switched_off_by_command_declaration_and_state() {
    let server = Server::new();
    server.run("{insert: 'orders', documents: [{_id: 1, p: 1, paid: true, price: 3}]}");
    server.run(FOLDS);
    let count = "{count: 'orders', query: {paid: true, p: 1}}";
    assert!(used(&server, count).ends_with(":count"));
    assert_eq!(used(&server, "{count: 'orders', query: {paid: true, p: 1}, rewrite: false}"), "");
    assert_eq!(used(&server, "{count: 'orders', query: {paid: true, p: 1}, hint: '_id_'}"), "");
    server.run("{modifyPattern: 'products', name: 'sales', set: {rewrite: false}}");
    assert_eq!(used(&server, count), "top:count");
    server.run("{suspendPatterns: 'products', names: ['top']}");
    assert_eq!(used(&server, count), "");
    assert_eq!(server.run(count).as_doc().get("n"), Some(Val::Int32(1)));
    assert_eq!(server.code("{count: 'orders', query: {}, rewrite: 'no'}"), 14);
    // A pipeline that is wrong is refused as it was sent.
    server.run("{modifyPattern: 'products', name: 'sales', set: {rewrite: true}}");
    assert_eq!(server.code("{aggregate: 'orders', cursor: {}, pipeline: [{$match: {paid: true, p: 1}}, {$group: {_id: null, n: {$sum: 1}}}, {$nope: 1}]}"), 40324);
}

#[test]
fn what_only_ranks_its_children_counts_none() {
    let server = Server::new();
    server.run("{insert: 'products', documents: [{_id: 0}]}");
    server.run(
        "{createPatterns: 'products', patterns: [{name: 'top', kind: 'subset', from: 'orders', into: 'top', on: {foreign: 'p'}, \
         sort: {price: -1}, limit: 2, fields: ['price'], idAs: 'order'}]}",
    );
    let orders: Vec<String> = (0..9).map(|n| format!("{{_id: {n}, p: 0, price: {n}}}")).collect();
    server.run(&format!("{{insert: 'orders', documents: [{}]}}", orders.join(", ")));
    let count = "{count: 'orders', query: {p: 0}}";
    let group = "{aggregate: 'orders', cursor: {}, pipeline: [{$match: {p: 0}}, {$group: {_id: null, n: {$sum: 1}}}]}";
    let first = "{find: 'orders', filter: {p: 0}, sort: {price: -1}, limit: 2}";
    // Children behind the ranks, in them, and the last ones.
    for gone in [0, 8, 3, 7, 1, 2, 6, 4, 5] {
        assert_eq!((used(&server, count), used(&server, group)), (String::new(), String::new()));
        assert_eq!(used(&server, first), "top:sort");
        [count, group, first].iter().for_each(|command| check(&server, command));
        server.run(&format!("{{delete: 'orders', deletes: [{{q: {{_id: {gone}}}, limit: 1}}]}}"));
    }
    check(&server, first);
    let reply = server.run("{find: 'products'}");
    assert_eq!(
        batch(&reply).first().map(|doc| format!("{doc:?}")).as_deref(),
        Some(r#"{"_id": Int32(0), "top": Array({})}"#)
    );
}

#[test]
fn trees_answer_walks_and_searches_in_paths() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {ancestors: 'up', path: {into: 'path'}}}]}");
    server.run("{createIndexes: 'n', indexes: [{key: {path: 1}, name: 'path'}, {key: {up: 1}, name: 'up'}]}");
    server.run("{insert: 'n', documents: [{_id: 'tech'}, {_id: 'databases', parent: 'tech'}, {_id: 'mongodb', parent: 'databases'}, {_id: 'software'}, {_id: 5, parent: 'mongodb'}]}");
    let up = "{aggregate: 'n', cursor: {}, pipeline: [{$match: {_id: {$ne: 'x'}}}, {$graphLookup: {from: 'n', startWith: '$parent', connectFromField: 'parent', connectToField: '_id', as: 'chain'}}]}";
    let down = "{aggregate: 'n', cursor: {}, pipeline: [{$graphLookup: {from: 'n', startWith: '$_id', connectFromField: '_id', connectToField: 'parent', as: 'below'}}]}";
    let queries = [
        (up, "t:$graphLookup"),
        (down, "t:$graphLookup"),
        (
            "{aggregate: 'n', cursor: {}, pipeline: [{$graphLookup: {from: 'n', startWith: '$_id', connectFromField: '_id', connectToField: 'parent', as: 'below', maxDepth: 0}}]}",
            "",
        ),
        (
            "{aggregate: 'n', cursor: {}, pipeline: [{$project: {parent: 1}}, {$graphLookup: {from: 'n', startWith: '$parent', connectFromField: 'parent', connectToField: '_id', as: 'chain'}}]}",
            "",
        ),
        ("{find: 'n', filter: {path: /,databases,/}}", "t:path"),
        ("{find: 'n', filter: {path: {$regex: ',databases,'}, _id: {$ne: 5}}}", "t:path"),
        ("{find: 'n', filter: {path: /,nothing,/}}", "t:path"),
        ("{count: 'n', query: {path: /,tech,/}}", "t:path"),
        ("{find: 'n', filter: {path: /,5,/}}", ""),
        ("{find: 'n', filter: {path: /,DATABASES,/i}}", ""),
        (
            "{aggregate: 'n', cursor: {}, pipeline: [{$match: {path: /,tech,/}}, {$count: 'n'}]}",
            "t:path",
        ),
    ];
    for (query, from) in queries {
        assert_eq!(used(&server, query), from, "{query}");
    }
    let mut dice = Dice(3);
    let names = ["'tech'", "'databases'", "'mongodb'", "'software'", "5", "'new'", "null"];
    for _ in 0..80 {
        let (node, parent) = (names[dice.below(6) as usize], names[dice.below(7) as usize]);
        // What would be a cycle is refused, and so is what has children.
        if dice.below(5) == 0 {
            server.code(&format!("{{delete: 'n', deletes: [{{q: {{_id: {node}}}, limit: 1}}]}}"));
        } else {
            server.code(&format!("{{update: 'n', updates: [{{q: {{_id: {node}}}, u: {{$set: {{parent: {parent}}}}}, upsert: true}}]}}"));
        }
        queries.iter().for_each(|(query, _)| check(&server, query));
    }
    // The index is read where the answer stands, and nowhere else.
    server.code("{update: 'n', updates: [{q: {_id: 'databases'}, u: {$set: {parent: null}}, upsert: true}]}");
    let reply = server
        .run("{explain: {find: 'n', filter: {path: /,databases,/}}, verbosity: 'executionStats'}");
    let stats = reply.as_doc().get("executionStats").and_then(Val::as_doc).expect("stats");
    let number = |name| stats.get(name).and_then(Val::as_i64_exact).expect("a number");
    assert!(number("totalKeysExamined") <= number("nReturned") + 1, "{stats:?}");
    assert!(print(reply.as_doc()).contains("IXSCAN"));
}

#[test]
fn copies_stand_in_for_lookups() {
    let lookup =
        "{$lookup: {from: 'customers', localField: 'c._id', foreignField: '_id', as: 'j'}}";
    let tails = [
        ("{$project: {name: '$j.name'}}", "copy:$lookup"),
        (
            "{$unwind: '$j'}, {$project: {t: {$ifNull: ['$j.name', 'none']}, mail: '$j.email'}}",
            "copy:$lookup",
        ),
        (
            "{$unwind: {path: '$j', preserveNullAndEmptyArrays: true}}, {$project: {tier: '$j.tier.of', x: 1}}",
            "copy:$lookup",
        ),
        ("{$project: {'j.name': 1}}", "copy:$lookup"),
        ("{$unwind: '$j'}, {$group: {_id: '$j.name', n: {$sum: 1}}}", "copy:$lookup"),
        // All of the document, the order of its fields, a field that is not copied, whether there is one.
        ("{$project: {j: 1}}", ""),
        ("{$project: {'j.name': 1, 'j.email': 1}}", ""),
        ("{$project: {age: '$j.age'}}", ""),
        ("{$project: {n: {$size: '$j'}}}", ""),
        ("{$project: {all: '$$ROOT'}}", ""),
        ("{$addFields: {name: '$j.name'}}", ""),
    ];
    for deleted in ["unset", "keep"] {
        let server = Server::new();
        // A copy from before the declaration whose source is not there any more.
        server.run("{insert: 'orders', documents: [{_id: 1, c: {_id: 1}}]}");
        server.run(&format!("{{createPatterns: 'orders', patterns: [{{name: 'copy', kind: 'extendedReference', ref: 'c._id', from: 'customers', into: 'c', fields: ['name', {{as: 'mail', expr: '$email'}}, 'tier'], onSourceDelete: '{deleted}'}}]}}"));
        let query = |tail: &str| {
            format!(
                "{{aggregate: 'orders', cursor: {{}}, pipeline: [{{$match: {{x: {{$ne: 99}}}}}}, {lookup}, {tail}]}}"
            )
        };
        // That source was never there: with `keep` nobody knows what became of its copies.
        let missing = server.code("{insert: 'customers', documents: [{_id: 1, name: 'Ann', email: 'a', age: 3, tier: {of: 'gold'}}]}");
        assert_eq!(missing, 0);
        for (tail, from) in tails {
            let expected = if deleted == "keep" { "" } else { from };
            assert_eq!(used(&server, &query(tail)), expected, "{tail} {deleted}");
        }
        let mut dice = Dice(11);
        for _ in 0..40 {
            for _ in 0..3 {
                let (id, customer) = (dice.below(8), dice.below(4));
                let name = ["'Ann'", "null", "5", "['x', 'y']"][dice.below(4) as usize];
                let reference = ["1", "2.0", "3", "null", "[1, 2]", "9"][dice.below(6) as usize];
                server.run(&match dice.below(5) {
                    0 => format!("{{delete: 'customers', deletes: [{{q: {{_id: {customer}}}, limit: 1}}]}}"),
                    1 | 2 => format!("{{update: 'customers', updates: [{{q: {{_id: {customer}}}, u: {{email: 'e{id}', name: {name}, age: {id}, tier: [{{of: {id}}}]}}, upsert: true}}]}}"),
                    _ => format!("{{update: 'orders', updates: [{{q: {{_id: {id}}}, u: {{c: {{_id: {reference}}}, x: {customer}}}, upsert: true}}]}}"),
                });
            }
            tails.iter().for_each(|(tail, _)| check(&server, &query(tail)));
        }
    }
    // Kept copies stand in until the first of them outlives its source.
    let server = Server::new();
    server.run("{insert: 'customers', documents: [{_id: 1, name: 'Ann'}, {_id: 2, name: 'Bob'}]}");
    server.run("{createPatterns: 'orders', patterns: [{name: 'copy', kind: 'extendedReference', ref: 'c._id', from: 'customers', into: 'c', fields: ['name']}]}");
    server.run("{insert: 'orders', documents: [{_id: 1, c: {_id: 1}}]}");
    let query = format!(
        "{{aggregate: 'orders', cursor: {{}}, pipeline: [{lookup}, {{$project: {{name: '$j.name'}}}}]}}"
    );
    assert_eq!(used(&server, &query), "copy:$lookup");
    server.run("{delete: 'customers', deletes: [{q: {_id: 2}, limit: 1}]}");
    assert_eq!(used(&server, &query), "copy:$lookup");
    server.run("{delete: 'customers', deletes: [{q: {_id: 1}, limit: 1}]}");
    assert_eq!(used(&server, &query), "");
    check(&server, &query);
    // Only a rewrite can say what stands in.
    assert_eq!(server.code("{aggregate: 'orders', cursor: {}, pipeline: [{$lookup: {from: 'customers', localField: 'c._id', foreignField: '_id', as: 'j', $copied: {ref: 'x', fields: {}}}}]}"), 9);
}
