//! A collection with attributes and a plain one receive the same random writes. Queries of both faces,
//! sorts, updates, transactions and a restart must agree; the plain collection makes its pairs with
//! `$objectToArray`. `PATTERNS_SEED=7` repeats a run.

mod harness;

use harness::{Dice, Server, batch, within};
use motifdb::value::{Val, ejson};

const KEYS: [&str; 6] = ["a", "b", "c", "ram", "cpu", "gpu"];
const VALUES: [&str; 9] =
    ["1", "2", "3", "16", "'x'", "'y'", "2.5", "true", "{$date: '2026-01-01T00:00:00Z'}"];

fn pick<'t>(dice: &mut Dice, list: &[&'t str]) -> &'t str {
    dice.pick(list)
}

/// The answer to a command on one of the collections: documents, counts or an error's code.
fn answer(server: &Server, text: &str) -> String {
    let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    match server.0.run_command("t", command.as_doc()) {
        Err(error) => format!("error {}", error.code().0),
        Ok(reply) if reply.as_doc().find("cursor").is_some() => {
            format!(
                "{:?}",
                batch(&reply).iter().map(|doc| doc.bytes().to_vec()).collect::<Vec<_>>()
            )
        }
        Ok(reply) => {
            let count = |name: &str| reply.as_doc().get(name).map(|n| format!("{n:?}"));
            format!(
                "{:?} {:?} {:?}",
                count("n"),
                count("nModified"),
                count("writeErrors").is_some()
            )
        }
    }
}

fn object(dice: &mut Dice) -> String {
    let mut fields = Vec::new();
    for key in KEYS {
        if dice.below(3) == 0 {
            fields.push(format!("{key}: {}", pick(dice, &VALUES)));
        }
    }
    format!("{{{}}}", fields.join(", "))
}

/// The predicate of one attribute: on the object, and on the pairs.
fn predicate(dice: &mut Dice) -> (String, String) {
    let (key, value) = (pick(dice, &KEYS), pick(dice, &VALUES));
    match dice.below(6) {
        0 => (
            format!("{{'specs.{key}': {{$gte: {value}}}}}"),
            format!("{{specs_kv: {{$elemMatch: {{k: '{key}', v: {{$gte: {value}}}}}}}}}"),
        ),
        1 => (
            format!("{{'specs.{key}': {{$gt: 1, $lt: {value}}}}}"),
            format!("{{specs_kv: {{$elemMatch: {{k: '{key}', v: {{$gt: 1, $lt: {value}}}}}}}}}"),
        ),
        2 => (
            format!("{{'specs.{key}': {{$in: [{value}, 2, 'x']}}}}"),
            format!("{{specs_kv: {{$elemMatch: {{k: '{key}', v: {{$in: [{value}, 2, 'x']}}}}}}}}"),
        ),
        3 => {
            (format!("{{'specs.{key}': {{$exists: true}}}}"), format!("{{'specs_kv.k': '{key}'}}"))
        }
        _ => (
            format!("{{'specs.{key}': {value}}}"),
            format!("{{specs_kv: {{$elemMatch: {{k: '{key}', v: {value}}}}}}}"),
        ),
    }
}

/// A write in terms of `NAME`, and the same for the plain collection.
fn write(dice: &mut Dice) -> (String, String) {
    let (id, key, value) = (dice.below(60), pick(dice, &KEYS), pick(dice, &VALUES));
    let update = |change: &str| {
        let text = format!("{{update: 'NAME', updates: [{{q: {{_id: {id}}}, u: {change}}}]}}");
        (text.clone(), text)
    };
    match dice.below(9) {
        0 | 1 => {
            let text = format!(
                "{{insert: 'NAME', documents: [{{_id: {id}, specs: {}, price: {}}}]}}",
                object(dice),
                dice.below(5)
            );
            (text.clone(), text)
        }
        2 => {
            let text = format!("{{delete: 'NAME', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}");
            (text.clone(), text)
        }
        3 => update(&format!("{{$unset: {{'specs.{key}': ''}}}}")),
        4 => {
            update(&format!("{{$rename: {{'specs.{key}': 'specs.{}'}}}}", pick(dice, &["a", "z"])))
        }
        5 => update(&format!("{{specs: {}, price: 1}}", object(dice))),
        // A pair that is pulled is a field that is removed.
        6 => (
            format!(
                "{{update: 'NAME', updates: [{{q: {{_id: {id}}}, u: {{$pull: {{specs_kv: {{k: '{key}'}}}}}}}}]}}"
            ),
            format!(
                "{{update: 'NAME', updates: [{{q: {{_id: {id}}}, u: {{$unset: {{'specs.{key}': ''}}}}}}]}}"
            ),
        ),
        // The value of a pair that a filter on pairs finds.
        7 => (
            format!(
                "{{update: 'NAME', updates: [{{q: {{specs_kv: {{$elemMatch: {{k: '{key}', v: {{$type: 'number'}}}}}}}}, u: {{$set: {{'specs_kv.$.v': {value}}}}}, multi: true}}]}}"
            ),
            format!(
                "{{update: 'NAME', updates: [{{q: {{'specs.{key}': {{$type: 'number'}}}}, u: {{$set: {{'specs.{key}': {value}}}}}, multi: true}}]}}"
            ),
        ),
        _ => update(&format!("{{$set: {{'specs.{key}': {value}}}}}")),
    }
}

fn compare(server: &Server, dice: &mut Dice, more: &str) {
    let whole = |name: &str| {
        answer(server, &format!("{{find: '{name}', sort: {{_id: 1}}, batchSize: 1000{more}}}"))
    };
    assert_eq!(whole("with"), whole("plain"), "all documents");
    let mut predicates = vec![predicate(dice)];
    while dice.below(2) == 0 {
        predicates.push(predicate(dice));
    }
    let all = |face: usize| {
        let list: Vec<&str> =
            predicates.iter().map(|both| if face == 0 { &*both.0 } else { &*both.1 }).collect();
        format!("{{$and: [{}]}}", list.join(", "))
    };
    let find = |name: &str, filter: &str| {
        answer(
            server,
            &format!(
                "{{find: '{name}', filter: {filter}, sort: {{_id: 1}}, batchSize: 1000{more}}}"
            ),
        )
    };
    let expected = find("plain", &all(0));
    assert_eq!(find("with", &all(0)), expected, "{}", all(0));
    assert_eq!(find("with", &all(1)), expected, "{}", all(1));
    let count = |name: &str, face: usize| {
        answer(
            server,
            &format!(
                "{{aggregate: '{name}', pipeline: [{{$match: {}}}, {{$count: 'n'}}], cursor: {{}}{more}}}",
                all(face)
            ),
        )
    };
    assert_eq!(count("with", 1), count("plain", 0), "{}", all(1));
    let sort =
        pick(dice, &["{'specs.ram': 1, _id: 1}", "{price: 1, _id: 1}", "{price: -1, _id: 1}"]);
    let sorted = |name: &str| {
        answer(
            server,
            &format!("{{find: '{name}', filter: {}, sort: {sort}, batchSize: 1000{more}}}", all(0)),
        )
    };
    assert_eq!(sorted("with"), sorted("plain"), "{} {sort}", all(0));
    let pairs = "{$addFields: {specs_kv: {$objectToArray: '$specs'}}}";
    let rest = "{$project: {specs_kv: 1}}, {$sort: {_id: 1}}";
    assert_eq!(
        answer(
            server,
            &format!(
                "{{aggregate: 'with', pipeline: [{rest}], cursor: {{batchSize: 1000}}{more}}}"
            )
        ),
        answer(
            server,
            &format!(
                "{{aggregate: 'plain', pipeline: [{pairs}, {rest}], cursor: {{batchSize: 1000}}{more}}}"
            )
        ),
        "pairs"
    );
}

fn declare(server: &Server, index: &str, layout: &str) {
    server.run(&format!("{{createPatterns: 'with', patterns: [{{name: 'specs', kind: 'attribute', from: 'specs', as: 'specs_kv', index: {index}, layout: '{layout}'}}]}}"));
}

/// Changes the layout, with writes and queries while documents are converted.
fn change_layout(server: &Server, dice: &mut Dice, layout: &str) {
    server.run(&format!("{{modifyPattern: 'with', name: 'specs', set: {{layout: '{layout}', backfill: {{batch: 3}}}}, wait: false}}"));
    run(server, dice, 15);
    while server.pattern("with").as_doc().get("state") != Some(Val::String("ready")) {
        run(server, dice, 1);
    }
    compare(server, dice, "");
}

fn run(server: &Server, dice: &mut Dice, steps: usize) {
    for step in 0..steps {
        let (with, plain) = write(dice);
        let (with, plain) = (with.replace("NAME", "with"), plain.replace("NAME", "plain"));
        assert_eq!(answer(server, &with), answer(server, &plain), "step {step}: {with}");
        compare(server, dice, "");
    }
}

#[test]
fn a_collection_with_attributes_is_like_a_plain_one() {
    let seed = std::env::var("PATTERNS_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("PATTERNS_SEED={seed}");
    let forms = [
        ("true", ["object", "array"]),
        ("{suffix: ['price']}", ["array", "object"]),
        ("false", ["array", "array"]),
    ];
    for (at, (index, [first, second])) in forms.iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::on(folder.path());
        let mut dice = Dice(seed + at as u64);
        server.run("{create: 'plain'}");
        server.run("{create: 'with'}");
        // Documents that are there before the declaration.
        for _ in 0..30 {
            let (with, plain) = loop {
                let (with, plain) = write(&mut dice);
                if !with.contains("specs_kv") {
                    break (with.replace("NAME", "with"), plain.replace("NAME", "plain"));
                }
            };
            assert_eq!(answer(&server, &with), answer(&server, &plain), "{with}");
        }
        declare(&server, index, first);
        compare(&server, &mut dice, "");
        run(&server, &mut dice, 80);
        change_layout(&server, &mut dice, second);
        run(&server, &mut dice, 40);
        // A transaction sees its own writes, and its end makes them everybody's.
        for (number, end) in [(1, "commitTransaction"), (2, "abortTransaction")] {
            server.run(&format!("{{find: 'plain', limit: 1{}}}", within(1, number, true)));
            for _ in 0..8 {
                let (with, plain) = write(&mut dice);
                // A failed statement would end the transaction.
                if with.contains("insert:") || with.contains("$rename") {
                    continue;
                }
                let [with, plain] = [with.replace("NAME", "with"), plain.replace("NAME", "plain")]
                    .map(|text| {
                        let text = text.strip_suffix('}').unwrap_or("").to_owned();
                        format!("{text}{}}}", within(1, number, false))
                    });
                assert_eq!(answer(&server, &with), answer(&server, &plain), "{with}");
                compare(&server, &mut dice, &within(1, number, false));
            }
            let finish = format!("{{{end}: 1{}}}", within(1, number, false));
            let finish = ejson::parse_doc(&finish).expect("test text");
            server.0.run_command("admin", finish.as_doc()).expect("ends");
            compare(&server, &mut dice, "");
        }
        server.verify("with");
        server.close();
        let server = Server::on(folder.path());
        compare(&server, &mut dice, "");
        run(&server, &mut dice, 40);
        change_layout(&server, &mut dice, first);
        server.run("{dropPatterns: 'with', names: ['specs']}");
        let whole = |name: &str| {
            answer(&server, &format!("{{find: '{name}', sort: {{_id: 1}}, batchSize: 1000}}"))
        };
        assert_eq!(whole("with"), whole("plain"), "after the drop");
        server.close();
    }
}
