//! An index changes speed, never results: random documents, filters, projections and indexes of
//! every kind, answered by the collection alone and by each index that can be asked.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use motifdb::{Engine, Options};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn value() -> impl Strategy<Value = String> {
    let plain = prop_oneof![
        4 => (-3i32..4).prop_map(|n| n.to_string()),
        1 => (-3i32..4).prop_map(|n| format!("{n}.5")),
        1 => (-3i32..4).prop_map(|n| format!("{n}.0")),
        1 => (-3i32..4).prop_map(|n| format!("NumberLong({n})")),
        2 => prop_oneof![Just("'x'"), Just("'xy'"), Just("''"), Just("'b'")].prop_map(str::to_owned),
        1 => prop_oneof![Just("null"), Just("true"), Just("false"), Just("NaN")].prop_map(str::to_owned),
        1 => prop_oneof![Just("MinKey"), Just("ISODate('2020-01-01T00:00:00Z')")].prop_map(str::to_owned),
        1 => prop_oneof![Just("[]"), Just("{}")].prop_map(str::to_owned),
    ];
    plain.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 0..3).prop_map(|v| format!("[{}]", v.join(", "))),
            2 => prop::collection::btree_map("[xy]", inner, 0..3).prop_map(|fields| {
                let fields: Vec<String> = fields.iter().map(|(n, v)| format!("{n}: {v}")).collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    })
}

/// Values that an expression may be compared with.
fn scalar() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("1"),
        Just("-2"),
        Just("0.5"),
        Just("'x'"),
        Just("''"),
        Just("true"),
        Just("MinKey")
    ]
}

fn document() -> impl Strategy<Value = String> {
    prop::collection::btree_map("[abc]", value(), 0..4).prop_map(|fields| {
        fields.iter().map(|(name, value)| format!(", {name}: {value}")).collect()
    })
}

fn path() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just("a"), 2 => Just("b"), 1 => Just("c"), 2 => Just("a.x"), 1 => Just("b.y"), 1 => Just("a.x.y"), 1 => Just("a.0")]
}

fn condition() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (path(), value()).prop_map(|(p, v)| format!("'{p}': {v}")),
        3 => (path(), prop_oneof![Just("$gt"), Just("$gte"), Just("$lt"), Just("$lte"), Just("$ne")], value())
            .prop_map(|(p, op, v)| format!("'{p}': {{{op}: {v}}}")),
        1 => (path(), value(), value()).prop_map(|(p, v, w)| format!("'{p}': {{$gt: {v}, $lte: {w}}}")),
        2 => (path(), prop::collection::vec(value(), 0..4)).prop_map(|(p, v)| format!("'{p}': {{$in: [{}]}}", v.join(", "))),
        1 => (path(), any::<bool>()).prop_map(|(p, b)| format!("'{p}': {{$exists: {b}}}")),
        1 => (path(), prop_oneof![Just("'number'"), Just("'string'"), Just("'array'")]).prop_map(|(p, t)| format!("'{p}': {{$type: {t}}}")),
        1 => (path(), value()).prop_map(|(p, v)| format!("'{p}': {{$elemMatch: {{$gte: {v}}}}}")),
        1 => (prop_oneof![Just("a"), Just("b")], value(), value()).prop_map(|(p, v, w)| format!("'{p}': {{$elemMatch: {{x: {v}, y: {{$lte: {w}}}}}}}")),
        1 => path().prop_map(|p| format!("'{p}': /^x/")),
        1 => (path(), prop_oneof![Just("/x/"), Just("/^x/i"), Just("/^xy?$/"), Just("/^x.*/")]).prop_map(|(p, r)| format!("'{p}': {r}")),
        1 => (path(), prop::collection::vec(value(), 0..3)).prop_map(|(p, v)| format!("'{p}': {{$nin: [{}]}}", v.join(", "))),
        1 => (path(), prop_oneof![Just("$gt"), Just("$gte"), Just("$lt"), Just("$lte"), Just("$in"), Just("$type"), Just("$mod")], value())
            .prop_map(|(p, op, v)| match op {
                "$in" => format!("'{p}': {{$not: {{$in: [{v}, 'x', /^b/]}}}}"),
                "$type" => format!("'{p}': {{$not: {{$type: 'number'}}}}"),
                "$mod" => format!("'{p}': {{$not: {{$mod: [2, 1]}}}}"),
                op => format!("'{p}': {{$not: {{{op}: {v}}}}}"),
            }),
        1 => (path(), prop_oneof![Just("'int'"), Just("'object'"), Just("'null'"), Just("['bool', 'date']"), Just("['string', 'number']"), Just("'minKey'")])
            .prop_map(|(p, t)| format!("'{p}': {{$type: {t}}}")),
        1 => path().prop_map(|p| format!("'{p}': {{$mod: [2, 1]}}")),
        1 => (path(), value(), value()).prop_map(|(p, v, w)| format!("'{p}': {{$in: [{v}, /^x/, {w}]}}")),
        1 => (path(), value(), value()).prop_map(|(p, v, w)| format!("'{p}': {{$all: [{v}, {w}]}}")),
        1 => path().prop_map(|p| format!("'{p}': {{$size: 2}}")),
        1 => (prop_oneof![Just("a"), Just("b"), Just("a.x")], prop_oneof![Just("$eq"), Just("$gt"), Just("$gte"), Just("$lt"), Just("$lte")], scalar())
            .prop_map(|(p, op, v)| format!("$expr: {{{op}: ['${p}', {{$literal: {v}}}]}}")),
    ]
}

fn filter() -> impl Strategy<Value = String> {
    let one = condition().prop_map(|c| format!("{{{c}}}")).boxed();
    prop_oneof![
        3 => one.clone(),
        3 => prop::collection::vec(one.clone(), 2..4).prop_map(|all| format!("{{$and: [{}]}}", all.join(", "))),
        1 => prop::collection::vec(one.clone(), 2..3).prop_map(|some| format!("{{$or: [{}]}}", some.join(", "))),
        1 => (one.clone(), one.clone(), one).prop_map(|(a, b, c)| format!("{{$and: [{a}, {{$or: [{b}, {c}]}}]}}")),
    ]
}

/// Specifications without names.
fn index() -> impl Strategy<Value = String> {
    let direction = || prop_oneof![Just("1"), Just("-1")];
    let partial = prop_oneof![
        Just("{a: {$gt: 0}}"),
        Just("{b: {$exists: true}}"),
        Just("{$or: [{a: 1}, {b: {$lt: 2}}]}"),
        Just("{a: {$type: 'number'}, c: {$in: [1, 2, 'x', null]}}"),
        Just("{'a.x': {$gte: 0}}"),
    ];
    let ordered = || {
        prop_oneof![
            (path(), direction()).prop_map(|(p, d)| format!("'{p}': {d}")),
            (direction(), direction()).prop_map(|(d, e)| format!("a: {d}, b: {e}")),
            (direction(), direction()).prop_map(|(d, e)| format!("'a.x': {d}, 'a.y': {e}")),
            (direction(), direction()).prop_map(|(d, e)| format!("c: {d}, a: {e}, _id: 1")),
        ]
    };
    prop_oneof![
        4 => ordered().prop_map(|key| format!("key: {{{key}}}")),
        2 => ordered().prop_map(|key| format!("key: {{{key}}}, sparse: true")),
        3 => (ordered(), partial).prop_map(|(key, f)| format!("key: {{{key}}}, partialFilterExpression: {f}")),
        1 => Just("key: {a: 'hashed'}".to_owned()),
        1 => Just("key: {c: 1, b: 'hashed'}".to_owned()),
        2 => Just("key: {'$**': 1}".to_owned()),
        1 => Just("key: {'a.$**': 1}".to_owned()),
        1 => Just("key: {'$**': 1}, wildcardProjection: {'a.x': 0, _id: 1}".to_owned()),
        1 => Just("key: {'$**': 1}, wildcardProjection: {'a.x': 1, b: 1}".to_owned()),
        1 => Just("key: {b: 1, 'a.$**': 1}".to_owned()),
        1 => Just("key: {'a.$**': 1, c: -1}".to_owned()),
        1 => (direction(), direction(), direction()).prop_map(|(d, e, f)| format!("key: {{a: {d}, b: {e}, c: {f}}}")),
        1 => ordered().prop_map(|key| format!("key: {{{key}}}, collation: {{locale: 'en', strength: 2}}")),
    ]
}

fn run(engine: &Engine, command: &str) -> motifdb::Result<DocBuf> {
    let command = ejson::parse_doc(command).unwrap_or_else(|error| panic!("{command}: {error}"));
    engine.run_command("t", command.as_doc())
}

fn batch(reply: &DocBuf) -> Vec<RawDoc<'_>> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap();
    let batch = cursor.get("firstBatch").and_then(Val::as_array).unwrap();
    batch.iter().filter_map(|(_, doc)| doc.as_doc()).collect()
}

/// The documents of a find, each as text with its fields in order of name, sorted.
fn found(engine: &Engine, filter: &str, rest: &str) -> motifdb::Result<Vec<String>> {
    let reply = run(engine, &format!("{{find: 'c', filter: {filter}, batchSize: 1000{rest}}}"))?;
    let mut texts: Vec<String> = batch(&reply)
        .into_iter()
        .map(|doc| {
            let mut fields: Vec<String> = doc
                .iter()
                .map(|(name, value)| {
                    format!("{name}: {}", ejson::print_value(value.get(), ejson::Format::Canonical))
                })
                .collect();
            fields.sort();
            fields.join(", ")
        })
        .collect();
    texts.sort();
    Ok(texts)
}

fn number(engine: &Engine, command: &str) -> i64 {
    let reply = run(engine, command).unwrap();
    reply.as_doc().get("n").and_then(Val::as_i64_exact).unwrap()
}

fn distinct(engine: &Engine, key: &str, filter: &str) -> BTreeSet<Vec<u8>> {
    let reply = run(engine, &format!("{{distinct: 'c', key: '{key}', query: {filter}}}")).unwrap();
    let values = reply.as_doc().get("values").and_then(Val::as_array).unwrap();
    values.iter().map(|(_, v)| motifdb::value::keys::key(v.get())).collect()
}

/// The `_id`s of a find, in the order in which they come.
fn ids(engine: &Engine, filter: &str, rest: &str) -> motifdb::Result<Vec<i64>> {
    let reply = run(engine, &format!("{{find: 'c', filter: {filter}, batchSize: 1000{rest}}}"))?;
    Ok(batch(&reply).iter().filter_map(|doc| doc.get("_id").and_then(Val::as_i64_exact)).collect())
}

/// Whatever plan is taken, each document sorts before the next or equal to it.
fn check_order(
    engine: &Engine,
    filter: &str,
    sort: &str,
) -> std::result::Result<(), TestCaseError> {
    let Ok(by_plan) = ids(engine, filter, &format!(", sort: {sort}")) else { return Ok(()) };
    let Ok(sorted) = ids(engine, filter, &format!(", sort: {sort}, hint: {{$natural: 1}}")) else {
        return Ok(());
    };
    prop_assert_eq!(by_plan.len(), sorted.len(), "{} {}", filter, sort);
    // Documents that sort alike come in the order in which they are read.
    for (plan, natural) in by_plan.iter().zip(&sorted) {
        if plan == natural {
            continue;
        }
        let both = format!("{{_id: {{$in: [{plan}, {natural}]}}}}");
        let forwards =
            ids(engine, &both, &format!(", sort: {sort}, hint: {{$natural: 1}}")).unwrap();
        let backwards =
            ids(engine, &both, &format!(", sort: {sort}, hint: {{$natural: -1}}")).unwrap();
        prop_assert_ne!(
            forwards,
            backwards,
            "{} {}: {:?} instead of {:?}",
            filter,
            sort,
            by_plan,
            sorted
        );
    }
    Ok(())
}

/// How many cases are tried: `PROPTEST_CASES`, for a long run.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn indexes_do_not_change_results(
        before in prop::collection::vec(document(), 0..12),
        after in prop::collection::vec(document(), 0..12),
        changed in prop::collection::vec(document(), 0..6),
        indexes in prop::collection::vec(index(), 1..4),
        filters in prop::collection::vec(filter(), 1..8),
        sort in prop_oneof![Just(""), Just(", sort: {a: 1}"), Just(", sort: {b: -1, a: 1}"), Just(", sort: {'a.x': 1}")],
    ) {
        let engine = Engine::open(Options::default()).unwrap();
        run(&engine, "{create: 'c'}").unwrap();
        for (id, doc) in before.iter().enumerate() {
            run(&engine, &format!("{{insert: 'c', documents: [{{_id: {id}{doc}}}]}}")).unwrap();
        }
        let mut names = Vec::new();
        for (at, index) in indexes.iter().enumerate() {
            // Documents that an index refuses (parallel arrays, hashed arrays) refuse the index.
            let text = format!("{{createIndexes: 'c', indexes: [{{{index}, name: 'i{at}'}}]}}");
            if run(&engine, &text).is_ok() {
                names.push(format!("i{at}"));
            }
        }
        for (id, doc) in after.iter().enumerate() {
            run(&engine, &format!("{{insert: 'c', documents: [{{_id: {}{doc}}}]}}", 100 + id)).unwrap();
        }
        for (id, doc) in changed.iter().enumerate() {
            run(&engine, &format!("{{update: 'c', updates: [{{q: {{_id: {}}}, u: {{_id: {}{doc}}}}}]}}", id * 2, id * 2)).unwrap();
        }
        prop_assert_eq!(engine.check(&mut |_, _, _| {}).unwrap(), Vec::<String>::new());
        for filter in &filters {
            for projection in ["", ", projection: {a: 1, _id: 0}", ", projection: {'a.x': 1, _id: 0}", ", projection: {a: 1, b: 1, _id: 0}"] {
                let scan = found(&engine, filter, &format!("{projection}, hint: {{$natural: 1}}")).unwrap();
                // Only a sort by parallel arrays fails.
                let chosen = match found(&engine, filter, &format!("{projection}{sort}")) {
                    Err(error) if error.message().contains("parallel arrays") => continue,
                    chosen => chosen.unwrap(),
                };
                prop_assert_eq!(&chosen, &scan, "{} {} {}: {:?}", filter, projection, sort, indexes);
            }
            let all = found(&engine, filter, ", hint: {$natural: 1}").unwrap().len() as i64;
            prop_assert_eq!(number(&engine, &format!("{{count: 'c', query: {filter}}}")), all, "{}", filter);
            for sort in ["{a: 1}", "{a: -1}", "{b: 1, a: -1}", "{'a.x': 1, 'a.y': 1}", "{c: 1, a: 1}"] {
                check_order(&engine, filter, sort)?;
            }
            for skipped in [1, 3] {
                let some = found(&engine, filter, &format!(", skip: {skipped}")).unwrap();
                prop_assert_eq!(some.len() as i64, (all - skipped).max(0), "{} skip {}: {:?}", filter, skipped, indexes);
            }
            prop_assert_eq!(number(&engine, &format!("{{count: 'c', query: {filter}, skip: 1, limit: 4}}")), (all - 1).clamp(0, 4), "{}", filter);
            // A hint on an index that lacks documents may give fewer, and on a wildcard index
            // without a path an error; never more or other ones.
            let scan: BTreeSet<String> = found(&engine, filter, ", hint: {$natural: 1}").unwrap().into_iter().collect();
            for name in &names {
                if let Ok(hinted) = found(&engine, filter, &format!(", hint: '{name}'")) {
                    let whole = indexes.iter().enumerate().any(|(at, index)| {
                        format!("i{at}") == *name && !index.contains("sparse") && !index.contains("partial")
                    });
                    if whole {
                        prop_assert_eq!(hinted.len(), scan.len(), "{} hint {}: {:?}", filter, name, indexes);
                    }
                    prop_assert!(hinted.iter().all(|doc| scan.contains(doc)), "{} hint {}", filter, name);
                }
            }
            for key in ["a", "a.x"] {
                let by_plan = distinct(&engine, key, filter);
                let natural = run(&engine, &format!("{{distinct: 'c', key: '{key}', query: {filter}, hint: {{$natural: 1}}}}"));
                let natural = natural.unwrap();
                let values = natural.as_doc().get("values").and_then(Val::as_array).unwrap();
                let natural: BTreeSet<Vec<u8>> = values.iter().map(|(_, v)| motifdb::value::keys::key(v.get())).collect();
                prop_assert_eq!(by_plan, natural, "distinct {} {}: {:?}", key, filter, indexes);
            }
        }
        for key in ["a", "b", "a.x"] {
            let by_plan = distinct(&engine, key, "{}");
            let natural = run(&engine, &format!("{{distinct: 'c', key: '{key}', hint: {{$natural: 1}}}}")).unwrap();
            let values = natural.as_doc().get("values").and_then(Val::as_array).unwrap();
            let natural: BTreeSet<Vec<u8>> = values.iter().map(|(_, v)| motifdb::value::keys::key(v.get())).collect();
            prop_assert_eq!(by_plan, natural, "distinct {}: {:?}", key, indexes);
        }
    }
}

/// The stage that reads, with the name of its index.
fn reads_by(engine: &Engine, filter: &str, rest: &str) -> String {
    let explained = run(
        engine,
        &format!("{{explain: {{find: 'c', filter: {filter}{rest}}}, verbosity: 'queryPlanner'}}"),
    );
    let explained = explained.unwrap();
    let planner = explained.as_doc().get("queryPlanner").and_then(Val::as_doc).unwrap();
    let mut stage = planner.get("winningPlan").and_then(Val::as_doc).unwrap();
    while let Some(input) = stage.get("inputStage").and_then(Val::as_doc) {
        stage = input;
    }
    let name = stage.get("stage").and_then(Val::as_str).unwrap();
    let index = stage.get("indexName").and_then(Val::as_str).unwrap_or("");
    format!("{name} {index}").trim().to_owned()
}

/// Plans that only pay in collections of some size: reading everything instead of most of it by an
/// index, and jumping over the few values of a leading field. Results stay the same.
#[test]
fn large_collections_choose_by_what_is_read() {
    let engine = Engine::open(Options::default()).unwrap();
    for chunk in 0..8 {
        let docs: Vec<String> = (chunk * 500..chunk * 500 + 500)
            .map(|n: i32| {
                let kind = ["x", "y", "z"][(n % 3) as usize];
                format!(
                    "{{_id: {n}, kind: '{kind}', n: {}, w: {}, t: [{}, {}]}}",
                    n % 1000,
                    n % 4,
                    n % 7,
                    n % 11
                )
            })
            .collect();
        run(&engine, &format!("{{insert: 'c', documents: [{}]}}", docs.join(", "))).unwrap();
    }
    for key in ["kind: 1, n: 1", "w: 1", "t: 1", "w: 1, n: -1, t: 1"] {
        let name = key.replace(": ", "_").replace(", ", "_");
        run(
            &engine,
            &format!("{{createIndexes: 'c', indexes: [{{key: {{{key}}}, name: '{name}'}}]}}"),
        )
        .unwrap();
    }
    let n = "IXSCAN kind_1_n_1";
    for (filter, rest, expected) in [
        ("{n: 17}", "", n),
        ("{n: {$gte: 17, $lt: 20}}", "", n),
        ("{n: {$in: [1, 500, 999]}}", ", sort: {kind: 1}", n),
        ("{n: {$gt: 100}}", "", "COLLSCAN"),
        ("{w: {$ne: 1}}", "", "COLLSCAN"),
        ("{w: {$gt: 0}}", ", sort: {w: 1}", "IXSCAN w_1"),
        ("{w: {$gt: 0}}", ", projection: {w: 1, _id: 0}", "IXSCAN w_1"),
        ("{w: 1}", "", "IXSCAN w_1"),
    ] {
        if expected.starts_with("IXSCAN w_1") {
            assert!(reads_by(&engine, filter, rest).starts_with("IXSCAN w_1"), "{filter} {rest}");
        } else {
            assert_eq!(reads_by(&engine, filter, rest), expected, "{filter} {rest}");
        }
    }
    for filter in [
        "{n: 17}",
        "{n: {$gte: 17, $lt: 20}}",
        "{n: {$in: [1, 500, 999]}, kind: {$ne: 'y'}}",
        "{n: {$gt: 990}, t: 3}",
        "{w: {$ne: 1}, n: {$lt: 9}}",
        "{kind: {$in: ['x', 'z']}, n: {$mod: [250, 3]}}",
        "{kind: /^[xy]/, n: 8}",
        "{w: {$gte: 2}, n: {$in: [2, 3]}, t: {$gt: 5}}",
        "{$or: [{n: 4, kind: 'x'}, {w: 3, n: 7}]}",
    ] {
        for rest in [
            "",
            ", sort: {n: -1}",
            ", sort: {kind: -1, n: -1}",
            ", projection: {kind: 1, n: 1, _id: 0}",
        ] {
            let scan = found(&engine, filter, &format!("{rest}, hint: {{$natural: 1}}")).unwrap();
            assert_eq!(found(&engine, filter, rest).unwrap(), scan, "{filter} {rest}");
        }
        let all = found(&engine, filter, ", hint: {$natural: 1}").unwrap().len() as i64;
        assert_eq!(number(&engine, &format!("{{count: 'c', query: {filter}}}")), all, "{filter}");
    }
}
