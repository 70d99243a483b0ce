//! Random queries over random documents: with rewrites and without they have one answer, for every kind
//! of rewrite, inside of transactions and at the newest state. `PATTERN_QUERIES=100000` asks more of them,
//! `PATTERNS_SEED=7` repeats a run.

mod harness;

use harness::{Dice, Server, batch, within};
use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use std::collections::BTreeMap;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What a command gives: its documents, or its count, or the code of its error.
fn answer(server: &Server, command: &str, more: &str, rewrite: bool) -> (Vec<String>, bool) {
    let text =
        format!("{}, rewrite: {rewrite}{more}}}", command.strip_suffix('}').unwrap_or(command));
    let parsed = ejson::parse_doc(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
    match server.0.run_command("t", parsed.as_doc()) {
        Err(error) => (vec![format!("error {}", error.code().0)], false),
        Ok(reply) => match reply.as_doc().get("n") {
            Some(n) => (vec![format!("{n:?}")], true),
            None => (batch(&reply).into_iter().map(in_order).collect(), true),
        },
    }
}

/// A result with the elements of its top-level arrays in order: `$graphLookup`, `$lookup` and `$addToSet`
/// promise none.
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

/// What explain says that a command is answered from.
fn used(server: &Server, command: &str) -> Vec<String> {
    let text = format!("{{explain: {command}, verbosity: 'queryPlanner'}}");
    let parsed = ejson::parse_doc(&text).expect("test text");
    let Ok(reply) = server.0.run_command("t", parsed.as_doc()) else { return Vec::new() };
    let list = reply.as_doc().get("rewrites").and_then(Val::as_array);
    let names = list
        .into_iter()
        .flat_map(|list| list.iter())
        .filter_map(|(_, used)| Some(used.as_doc()?.get("from")?.as_str()?.to_owned()));
    names.collect()
}

static PATTERNS: &[&str] = &[
    "{createPatterns: 'products', patterns: [
        {name: 'sales', kind: 'computed', from: 'orders', on: {foreign: 'p'}, filter: {paid: true},
         fields: {revenue: {$sum: '$price'}, mean: {$avg: '$price'}, most: {$max: '$price'}, least: {$min: '$price'}, kinds: {$addToSet: '$day'}, n: {$count: {}}}},
        {name: 'top', kind: 'subset', from: 'orders', into: 'top', on: {foreign: 'p'}, filter: {paid: true},
         sort: {price: -1}, limit: 3, fields: ['price'], idAs: 'order', count: 'tops'},
        {name: 'lines', kind: 'computed', from: 'orders', on: 'items.p', unwind: 'items', filter: {paid: true},
         fields: {'lines.q': {$sum: '$items.q'}, 'lines.n': {$count: {}}, 'lines.most': {$max: '$items.q'}}}]}",
    "{createPatterns: 'orders', patterns: [
        {name: 'days', kind: 'computed', into: 'by_day', groupBy: {d: '$day'}, fields: {revenue: {$sum: '$price'}, 'stats.orders': {$count: {}}, least: {$min: '$price'}}},
        {name: 'paid', kind: 'computed', into: 'by_p', groupBy: '$day', filter: {paid: true, day: {$gte: 1}}, fields: {revenue: {$sum: '$price'}, mean: {$avg: '$price'}}},
        {name: 'parts', kind: 'computed', into: 'by_part', unwind: 'items', groupBy: {p: '$items.p'}, fields: {q: {$sum: '$items.q'}, n: {$count: {}}}},
        {name: 'copy', kind: 'extendedReference', ref: 'c._id', from: 'customers', into: 'c', fields: ['name', {as: 'mail', expr: '$email'}, 'tier'], onSourceDelete: 'unset'}]}",
    "{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {ancestors: 'up', path: {into: 'path'}, depth: 'd'}}]}",
    "{createIndexes: 'n', indexes: [{key: {path: 1}, name: 'path'}, {key: {up: 1}, name: 'up'}]}",
];

const NAMES: &[&str] = &["'a'", "'a.b'", "'axb'", "'ab'", "'b'", "'(c)'", "7", "'A'", "'d|e'"];

fn some<'w>(dice: &mut Dice, words: &[&'w str]) -> Vec<&'w str> {
    words.iter().copied().filter(|_| dice.below(3) == 0).collect()
}

/// The items of an order: mostly an array.
fn items(dice: &mut Dice) -> String {
    let forms = [
        "{p: 0, q: 2}",
        "{p: 1, q: 1}",
        "{p: 3.0, q: 2.5}",
        "{p: 2, q: 'two'}",
        "{p: [0, 1], q: 3}",
        "{q: 4}",
        "5",
        "null",
        "[{p: 1, q: 6}]",
    ];
    let one = |dice: &mut Dice| forms[dice.below(forms.len() as u64) as usize];
    match dice.below(8) {
        0 => one(dice).to_owned(),
        1 => "null".to_owned(),
        _ => {
            let list: Vec<&str> = (0..dice.below(4)).map(|_| one(dice)).collect();
            format!("[{}]", list.join(", "))
        }
    }
}

/// A random query over the items of orders.
fn item_query(dice: &mut Dice) -> String {
    let before = dice.pick(&["", "", "{$match: {paid: true}}, ", "{$match: {'items.p': 1}}, "]);
    let unwind = dice.pick(&[
        "{$unwind: '$items'}, ",
        "{$unwind: {path: '$items'}}, ",
        "{$unwind: {path: '$items', preserveNullAndEmptyArrays: true}}, ",
        "",
    ]);
    let paid = if before.contains("paid") { "" } else { "paid: true, " };
    let p = dice.pick(&["0", "1", "2", "1.0", "{$eq: 1}", "{$gt: 0}", "null", "7"]);
    let (behind, key) = match dice.below(4) {
        0 => (String::new(), "{p: '$items.p'}"),
        1 => (String::new(), "'$day'"),
        _ => (format!("{{$match: {{{paid}'items.p': {p}}}}}, "), "null"),
    };
    let fields = some(
        dice,
        &[
            "a: {$sum: '$items.q'}",
            "b: {$sum: 1}",
            "c: {$max: '$items.q'}",
            "d: {$count: {}}",
            "e: {$sum: '$price'}",
        ],
    );
    let fields: String = fields.iter().map(|field| format!(", {field}")).collect();
    if dice.below(5) == 0 {
        return format!("{{count: 'orders', query: {{{paid}'items.p': {p}}}}}");
    }
    format!(
        "{{aggregate: 'orders', cursor: {{batchSize: 1000}}, pipeline: [{before}{unwind}{behind}{{$group: {{_id: {key}{fields}}}}}]}}"
    )
}

/// A random write.
fn write(dice: &mut Dice) -> String {
    let id = dice.below(25);
    match dice.below(12) {
        0 => format!("{{delete: 'orders', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"),
        1 => format!("{{delete: 'customers', deletes: [{{q: {{_id: {}}}, limit: 1}}]}}", id % 4),
        2 | 3 => {
            let name = dice.pick(&["'Ann'", "null", "5", "['x', 'y']", "{of: 1}"]);
            format!(
                "{{update: 'customers', updates: [{{q: {{_id: {}}}, u: {{email: 'e{id}', name: {name}, age: {id}, tier: [{{of: {id}}}]}}, upsert: true}}]}}",
                id % 4
            )
        }
        4 => format!(
            "{{update: 'products', updates: [{{q: {{_id: {}}}, u: {{x: {id}}}, upsert: true}}]}}",
            id % 4
        ),
        5 | 6 => {
            let (node, parent) = (dice.pick(NAMES), dice.pick(NAMES));
            let parent = if dice.below(4) == 0 { "null" } else { parent };
            format!(
                "{{update: 'n', updates: [{{q: {{_id: {node}}}, u: {{$set: {{parent: {parent}}}}}, upsert: true}}]}}"
            )
        }
        7 if dice.below(3) == 0 => {
            format!("{{delete: 'n', deletes: [{{q: {{_id: {}}}, limit: 1}}]}}", dice.pick(NAMES))
        }
        _ => {
            let p = dice.pick(&["0", "1", "2", "3.0", "NumberLong(1)", "[0, 1, 1]", "null", "'1'"]);
            let price = dice.pick(&[
                "5",
                "7",
                "2.5",
                "NumberLong(9)",
                "null",
                "NumberDecimal('1.25')",
                "0.1",
                "'dear'",
                "[1, 2]",
            ]);
            let c = dice.pick(&["1", "2.0", "3", "null", "[1, 2]", "9"]);
            let day = dice.pick(&["0", "1", "2.0", "3", "null"]);
            let paid = dice.pick(&["true", "true", "true", "false", "null"]);
            let items = items(dice);
            format!(
                "{{update: 'orders', updates: [{{q: {{_id: {id}}}, u: {{p: {p}, price: {price}, day: {day}, paid: {paid}, c: {{_id: {c}}}, items: {items}}}, upsert: true}}]}}"
            )
        }
    }
}

/// Conditions that name one parent, as a filter, in one of its forms.
fn of_parent(dice: &mut Dice) -> String {
    let p = dice.pick(&[
        "0",
        "1",
        "2",
        "3",
        "1.0",
        "NumberLong(2)",
        "7",
        "null",
        "[0, 1]",
        "{$gt: 0}",
        "{$eq: 1}",
        "{$in: [1]}",
        "'1'",
    ]);
    let paid = dice.pick(&[
        "paid: true",
        "paid: true",
        "paid: true",
        "paid: {$eq: true}",
        "paid: false",
        "price: 5",
    ]);
    match dice.below(6) {
        0 => format!("{{{paid}, p: {p}}}"),
        1 => format!("{{$and: [{{{paid}}}, {{p: {p}}}]}}"),
        2 => format!("{{$and: [{{p: {p}, {paid}}}]}}"),
        3 => format!("{{p: {p}}}"),
        _ => format!("{{p: {p}, {paid}}}"),
    }
}

fn accumulators(dice: &mut Dice) -> String {
    let all = [
        "a: {$sum: '$price'}",
        "b: {$avg: '$price'}",
        "c: {$sum: 1}",
        "d: {$count: {}}",
        "e: {$min: '$price'}",
        "f: {$max: '$price'}",
        "g: {$addToSet: '$day'}",
        "h: {$sum: '$day'}",
        "i: {$sum: 2}",
        "j: {$first: '$_id'}",
    ];
    // Those at the end have no answer in any pattern.
    let end = if dice.below(5) == 0 { all.len() } else { 7 };
    let chosen = some(dice, &all[..end]);
    chosen.iter().map(|field| format!(", {field}")).collect()
}

fn tail(dice: &mut Dice, fields: &[&str]) -> String {
    let field = dice.pick(fields);
    let stages = [
        "{$sort: {_id: 1}}".to_owned(),
        "{$sort: {_id: -1}}, {$limit: 2}".to_owned(),
        "{$project: {_id: 0, a: 1, d: 1}}".to_owned(),
        format!("{{$match: {{{field}: {{$gte: 1}}}}}}"),
        format!("{{$set: {{y: {{$ifNull: ['${field}', 'none']}}}}}}"),
        "{$count: 'z'}".to_owned(),
    ];
    match dice.below(3) {
        0 => String::new(),
        _ => format!(", {}", stages[dice.below(stages.len() as u64) as usize]),
    }
}

/// A random query that some pattern may answer, or nearly.
fn query(dice: &mut Dice) -> String {
    let aggregate = |collection: &str, stages: String| {
        format!("{{aggregate: '{collection}', cursor: {{batchSize: 1000}}, pipeline: [{stages}]}}")
    };
    match dice.below(9) {
        8 => item_query(dice),
        0 | 1 => {
            let (filter, key) = match dice.below(6) {
                0 => ("{$match: {}}, ", "{d: '$day'}"),
                1 => ("{$match: {paid: true, day: {$gte: 1}}}, ", "'$day'"),
                2 => ("{$match: {day: {$gte: 1}, paid: true}}, ", "'$day'"),
                3 => ("{$match: {day: {$gte: 1}}}, {$match: {paid: true}}, ", "'$day'"),
                4 => ("{$match: {paid: true}}, ", "{d: '$day'}"),
                _ => ("", "{d: '$day'}"),
            };
            let tail = tail(dice, &["a", "b", "d", "_id"]);
            aggregate(
                "orders",
                format!("{filter}{{$group: {{_id: {key}{}}}}}{tail}", accumulators(dice)),
            )
        }
        2 => {
            let (filter, key) = (of_parent(dice), dice.pick(&["null", "1", "'x'", "'$p'", "{}"]));
            let tail = tail(dice, &["a", "b", "d"]);
            aggregate(
                "orders",
                format!(
                    "{{$match: {filter}}}, {{$group: {{_id: {key}{}}}}}{tail}",
                    accumulators(dice)
                ),
            )
        }
        3 => {
            let more = dice.pick(&["", "", ", skip: 1", ", limit: 2", ", skip: 1, limit: 2"]);
            format!("{{count: 'orders', query: {}{more}}}", of_parent(dice))
        }
        4 => {
            let filter = of_parent(dice);
            let sort = dice.pick(&[
                "{price: -1}",
                "{price: -1}",
                "{price: -1}",
                "{price: 1}",
                "{price: -1, _id: 1}",
                "{price: -1, _id: -1}",
            ]);
            let (limit, skip) = (1 + dice.below(4), dice.below(3));
            let projection = dice.pick(&["", ", projection: {price: 1}", ", projection: {day: 0}"]);
            match dice.below(3) {
                0 => aggregate(
                    "orders",
                    format!("{{$match: {filter}}}, {{$sort: {sort}}}, {{$limit: {limit}}}"),
                ),
                1 => format!(
                    "{{find: 'orders', filter: {filter}, sort: {sort}, skip: {skip}, limit: {limit}{projection}}}"
                ),
                _ => format!(
                    "{{find: 'orders', filter: {filter}, sort: {sort}, limit: {limit}{projection}}}"
                ),
            }
        }
        5 => {
            let unwind = dice.pick(&[
                "",
                "{$unwind: '$j'}, ",
                "{$unwind: {path: '$j', preserveNullAndEmptyArrays: true}}, ",
            ]);
            let tail = dice.pick(&[
                "{$project: {name: '$j.name'}}",
                "{$project: {t: {$ifNull: ['$j.name', 'none']}, mail: '$j.email'}}",
                "{$project: {tier: '$j.tier.of', x: 1}}",
                "{$project: {'j.name': 1}}",
                "{$group: {_id: '$j.name', n: {$sum: 1}}}",
                "{$group: {_id: '$j.email'}}",
                "{$project: {j: 1}}",
                "{$project: {age: '$j.age'}}",
                "{$project: {n: {$size: '$j'}}}",
                "{$match: {'j.name': 'Ann'}}, {$project: {'j.name': 1}}",
                "{$set: {k: '$j.name'}}, {$project: {k: 1}}",
                "{$project: {name: {$first: '$j.name'}, day: 1}}",
                "{$project: {both: ['$j.name', '$c.name']}}",
            ]);
            let filter = dice.pick(&[
                "",
                "{$match: {day: 1}}, ",
                "{$match: {'c.name': 'Ann'}}, ",
                "{$sort: {_id: 1}}, {$limit: 5}, ",
            ]);
            aggregate(
                "orders",
                format!(
                    "{filter}{{$lookup: {{from: 'customers', localField: 'c._id', foreignField: '_id', as: 'j'}}}}, {unwind}{tail}"
                ),
            )
        }
        6 => {
            let (start, from, to) = match dice.below(5) {
                0 | 1 => ("$parent", "parent", "_id"),
                2 | 3 => ("$_id", "_id", "parent"),
                _ => ("$_id", "parent", "_id"),
            };
            let more = dice.pick(&[
                "",
                "",
                "",
                ", maxDepth: 1",
                ", depthField: 'deep'",
                ", restrictSearchWithMatch: {d: {$gte: 1}}",
            ]);
            let filter = dice.pick(&["", "{$match: {_id: 'a'}}, ", "{$match: {d: {$lt: 2}}}, "]);
            let tail = dice.pick(&[
                "",
                ", {$project: {ids: '$w._id'}}",
                ", {$project: {n: {$size: '$w'}}}",
            ]);
            aggregate(
                "n",
                format!(
                    "{filter}{{$graphLookup: {{from: 'n', startWith: '{start}', connectFromField: '{from}', connectToField: '{to}', as: 'w'{more}}}}}{tail}"
                ),
            )
        }
        _ => {
            let pattern = dice.pick(&[
                ",a,",
                ",a\\\\.b,",
                ",a.b,",
                ",ab,",
                "a,",
                ",b",
                ",7,",
                ",\\\\(c\\\\),",
                ",A,",
                ",,",
                ",d|e,",
                ",d\\\\|e,",
                "^,a,",
                ",a,$",
                ",a,b,",
                ",nobody,",
            ]);
            let flags = dice.pick(&["", "", "", ", $options: 'i'"]);
            let test = format!("path: {{$regex: '{pattern}'{flags}}}");
            match dice.below(4) {
                0 => format!("{{count: 'n', query: {{{test}}}}}"),
                1 => format!("{{find: 'n', filter: {{{test}, d: {{$gte: 1}}}}}}"),
                2 => aggregate(
                    "n",
                    format!("{{$match: {{{test}}}}}, {{$group: {{_id: '$d', n: {{$sum: 1}}}}}}"),
                ),
                _ => format!("{{find: 'n', filter: {{{test}}}, sort: {{_id: 1}}}}"),
            }
        }
    }
}

#[test]
fn answers_from_patterns_are_the_answers() {
    let seed = number("PATTERNS_SEED", u64::from(std::process::id()));
    let queries = number("PATTERN_QUERIES", 8000);
    let mut dice = Dice(seed);
    let mut taken: BTreeMap<String, u64> = BTreeMap::new();
    let (mut asked, mut failed) = (0, 0);
    while asked < queries {
        let server = Server::new();
        PATTERNS.iter().for_each(|text| {
            server.run(text);
        });
        for round in 0..40_i64 {
            for _ in 0..8 {
                server.code(&write(&mut dice));
            }
            // Half of the rounds ask in a transaction that wrote something.
            let inside = round % 2 == 1;
            let mut place = String::new();
            if inside {
                let first = within(1, round, true);
                let text = write(&mut dice);
                let text = format!("{}{first}}}", text.strip_suffix('}').unwrap_or(&text));
                if server.code(&text) == 0 {
                    place = within(1, round, false);
                }
            }
            for _ in 0..10 {
                let query = query(&mut dice);
                let (mut with, mut worked) = answer(&server, &query, &place, true);
                if !worked && !place.is_empty() {
                    // An error ends a transaction; what it is without one has to be the same, too.
                    place.clear();
                    (with, worked) = answer(&server, &query, &place, true);
                }
                let (mut without, _) = answer(&server, &query, &place, false);
                if !query.contains("ort: {") {
                    with.sort();
                    without.sort();
                }
                assert_eq!(with, without, "PATTERNS_SEED={seed}: {query}");
                asked += 1;
                failed += u64::from(!worked);
                for from in used(&server, &query) {
                    let unwound = if query.contains("'$items'") { " of elements" } else { "" };
                    *taken.entry(format!("{from}{unwound}")).or_default() += 1;
                }
            }
            if inside {
                let verb = if round % 4 == 1 { "commitTransaction" } else { "abortTransaction" };
                server.end(verb, 1, round);
            }
        }
    }
    eprintln!(
        "PATTERNS_SEED={seed}: {asked} queries, {failed} with an error, answered from patterns: {taken:?}"
    );
    for from in ["$group", "$group of elements", "count", "sort", "$lookup", "$graphLookup", "path"]
    {
        assert!(taken.get(from).is_some_and(|n| *n > 20), "{from} was hardly taken: {taken:?}");
    }
}

/// What is answered while a pattern is not ready, and what explain says then.
#[test]
fn only_patterns_that_are_ready_answer() {
    let server = Server::new();
    PATTERNS.iter().for_each(|text| {
        server.run(text);
    });
    let mut dice = Dice(1);
    for _ in 0..200 {
        server.code(&write(&mut dice));
    }
    let queries = [
        ("products", "sales", "{count: 'orders', query: {p: 1, paid: true}}"),
        (
            "products",
            "top",
            "{find: 'orders', filter: {p: 1, paid: true}, sort: {price: -1}, limit: 2}",
        ),
        (
            "orders",
            "days",
            "{aggregate: 'orders', cursor: {}, pipeline: [{$group: {_id: {d: '$day'}, a: {$sum: '$price'}}}]}",
        ),
        (
            "orders",
            "copy",
            "{aggregate: 'orders', cursor: {}, pipeline: [{$lookup: {from: 'customers', localField: 'c._id', foreignField: '_id', as: 'j'}}, {$project: {name: '$j.name'}}]}",
        ),
    ];
    for (collection, name, query) in queries {
        let plain = || {
            let mut found = answer(&server, query, "", false).0;
            found.sort();
            found
        };
        let answered = || {
            let mut found = answer(&server, query, "", true).0;
            found.sort();
            found
        };
        // Both count the same children: one of them must not stand in for the other here.
        if name == "sales" {
            server.run("{modifyPattern: 'products', name: 'top', set: {rewrite: false}}");
        } else if name == "top" {
            server.run("{modifyPattern: 'products', name: 'top', set: {rewrite: true}}");
        }
        assert_eq!(used(&server, query).len(), 1, "{query}");
        server.run(&format!("{{suspendPatterns: '{collection}', names: ['{name}']}}"));
        assert!(used(&server, query).is_empty(), "{query}");
        for _ in 0..30 {
            server.code(&write(&mut dice));
        }
        assert_eq!(answered(), plain(), "{query}");
        server.run(&format!("{{modifyPattern: '{collection}', name: '{name}', set: {{backfill: {{rate: 40, batch: 1}}}}}}"));
        server.run(&format!("{{resumePatterns: '{collection}', names: ['{name}'], wait: false}}"));
        let mut looks = 0;
        loop {
            let listed = server.docs(&format!("{{listPatterns: '{collection}'}}"));
            let state = |doc: &DocBuf| harness::text(doc, "state").to_owned();
            let found = listed.iter().find(|doc| harness::text(doc, "name") == name).map(state);
            if found.as_deref() == Some("ready") {
                break;
            }
            if used(&server, query).is_empty() {
                looks += 1;
            }
            assert_eq!(answered(), plain(), "{query} while it is {found:?}");
            server.code(&write(&mut dice));
        }
        assert!(looks > 0, "{name} was never seen building");
        assert_eq!(used(&server, query).len(), 1, "{query}");
        assert_eq!(answered(), plain(), "{query}");
    }
}
