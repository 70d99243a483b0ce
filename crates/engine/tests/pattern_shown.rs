//! Sums and counts that a parent shows whole, so that nothing else is kept of them: whatever makes
//! that no longer enough, values and types stay those of `$group`.

#[path = "harness/mod.rs"]
mod harness;

use harness::{Dice, Server, within};
use motifdb::value::{DocBuf, Val};

const SALES: &str = "{createPatterns: 'p', patterns: [{name: 'sales', kind: 'computed', from: 'c',
    on: {foreign: 'p'}, fields: {'sold.sum': {$sum: '$x'}, twice: {$sum: '$y'}, n: {$count: {}}}}]}";

/// Each parent shows what a sum over its children gives, and so does a query that is answered from it.
fn agrees(server: &Server, trail: &str) {
    for parent in server.docs("{find: 'p'}") {
        let id = parent.as_doc().get("_id").and_then(Val::as_i64_exact).expect("a number");
        let group = |rewrite: bool| {
            let sums = "{$group: {_id: null, s: {$sum: '$x'}, t: {$sum: '$y'}, n: {$count: {}}}}";
            let found = server.docs(&format!(
                "{{aggregate: 'c', pipeline: [{{$match: {{p: {id}}}}}, {sums}], cursor: {{}}, rewrite: {rewrite}}}"
            ));
            found.into_iter().next().unwrap_or_else(|| {
                motifdb::value::ejson::parse_doc("{_id: null, s: 0, t: 0, n: 0}").expect("text")
            })
        };
        let expected = group(false);
        let show = |doc: &DocBuf, path: &str| {
            format!("{:?}", motifdb::value::path::Path::new(path).get(doc.as_doc()))
        };
        for (path, name) in [("sold.sum", "s"), ("twice", "t"), ("n", "n")] {
            assert_eq!(show(&parent, path), show(&expected, name), "{path} of {id}: {trail}");
        }
        assert_eq!(group(true), expected, "{id}: {trail}");
        let count = |more| server.run(&format!("{{count: 'c', query: {{p: {id}}}{more}}}"));
        assert_eq!(count(""), count(", rewrite: false"), "{id}: {trail}");
    }
}

/// Numbers that a parent can show, as long as there are no others: small ones, large sums of them, long
/// ones, and some whose sum is no whole number any more.
const USUAL: [&str; 4] = ["7", "2000000000", "NumberLong(7)", "NumberLong('4000000000000000000')"];

/// A statement about children and parents.
fn statement(dice: &mut Dice, usual: &'static str) -> String {
    let (child, parent) = (dice.below(12), dice.below(3));
    let value = |dice: &mut Dice| match dice.below(18) {
        0 => "NumberLong(5)",
        1 => "2.5",
        2 => "'none'",
        3 => "2000000000",
        4 => "-2000000000",
        5 => "0",
        6 => "-3",
        _ => usual,
    };
    let (x, y) = (value(dice), value(dice));
    match dice.below(12) {
        0..=3 => format!(
            "{{update: 'c', updates: [{{q: {{_id: {child}}}, u: {{p: {parent}, x: {x}, y: {y}}}, upsert: true}}]}}"
        ),
        4 => {
            format!("{{update: 'c', updates: [{{q: {{_id: {child}}}, u: {{$set: {{x: {x}}}}}}}]}}")
        }
        5 => {
            format!("{{update: 'c', updates: [{{q: {{_id: {child}}}, u: {{$unset: {{y: 1}}}}}}]}}")
        }
        6 => format!(
            "{{update: 'c', updates: [{{q: {{}}, u: {{$set: {{x: {usual}, y: {usual}, p: {parent}}}}}, multi: true}}]}}"
        ),
        7 => format!("{{delete: 'c', deletes: [{{q: {{_id: {child}}}, limit: 1}}]}}"),
        8 => format!("{{delete: 'p', deletes: [{{q: {{_id: {parent}}}, limit: 1}}]}}"),
        9 | 10 => format!(
            "{{update: 'p', updates: [{{q: {{_id: {parent}}}, u: {{name: 'new', n: 99, sold: {{sum: 'mine'}}}}, upsert: true}}]}}"
        ),
        _ => format!("{{delete: 'c', deletes: [{{q: {{p: {parent}}}, limit: 0}}]}}"),
    }
}

#[test]
fn parents_show_sums_of_all_types_whatever_happens_to_them() {
    for seed in 0..80 {
        let (server, mut dice) = (Server::new(), Dice(seed));
        let usual = USUAL[seed as usize % USUAL.len()];
        server.run("{insert: 'p', documents: [{_id: 0}, {_id: 1}]}");
        server.run(SALES);
        let mut trail = String::new();
        for number in 0..60 {
            match dice.below(20) {
                // Later and at once again: what is queued is followed before anybody looks.
                0 => {
                    for mode in ["{async: {maxLagMS: 1000}}", "'sync'"] {
                        server.run(&format!(
                            "{{modifyPattern: 'p', name: 'sales', set: {{mode: {mode}}}}}"
                        ));
                        let one = statement(&mut dice, usual);
                        trail.push_str(&format!("\n{mode}: {one}"));
                        server.run(&one);
                    }
                    let fresh = "{find: 'p', readConcern: {level: 'local', patterns: 'fresh'}}";
                    server.run(fresh);
                }
                // All or nothing.
                1 | 2 => {
                    let verb = dice.pick(&["commitTransaction", "abortTransaction"]);
                    for first in [true, false, false] {
                        let one = statement(&mut dice, usual);
                        let within = within(1, number, first);
                        trail.push_str(&format!("\n{verb}: {one}"));
                        server.run(&format!("{}{within}}}", &one[..one.len() - 1]));
                    }
                    assert_eq!(server.end(verb, 1, number), 0, "{trail}");
                }
                // Past the pattern, which is repaired.
                3 => {
                    let one = statement(&mut dice, usual);
                    trail.push_str(&format!("\npast: {one}"));
                    server.run(&format!("{}, bypassPatterns: true}}", &one[..one.len() - 1]));
                    let one = statement(&mut dice, usual);
                    trail.push_str(&format!("\n{one}"));
                    server.run(&one);
                    server.run("{validatePatterns: 'p', repair: true}");
                }
                // All parents anew, but for one, with sums of their own.
                4 => {
                    let parent = dice.below(3);
                    let stage =
                        dice.pick(&["$out: 'p'", "$merge: {into: 'p', whenMatched: 'replace'}"]);
                    let one = format!(
                        "{{aggregate: 'p', pipeline: [{{$match: {{_id: {{$ne: {parent}}}}}}}, {{$set: {{n: 5}}}}, {{{stage}}}], cursor: {{}}}}"
                    );
                    trail.push_str(&format!("\n{one}"));
                    server.run(&one);
                }
                _ => {
                    let one = statement(&mut dice, usual);
                    trail.push_str(&format!("\n{one}"));
                    server.run(&one);
                }
            }
            agrees(&server, &format!("seed {seed}{trail}"));
        }
        server.verify("p");
    }
}

#[test]
fn a_parent_that_comes_back_has_the_sums_of_its_children() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}]}");
    server.run(SALES);
    for id in 0..5 {
        server.run(&format!("{{insert: 'c', documents: [{{_id: {id}, p: 1, x: {id}, y: 1}}]}}"));
    }
    server.run("{delete: 'p', deletes: [{q: {}, limit: 0}]}");
    server.run("{insert: 'c', documents: [{_id: 9, p: 1, x: 90, y: 1}]}");
    server.run("{insert: 'p', documents: [{_id: 1}]}");
    agrees(&server, "back");
    assert_eq!(harness::whole(&server.get("p", "1"), "sold.sum"), 100);
    // What somebody writes past the pattern does not count, even before it is repaired.
    server.run(
        "{update: 'p', updates: [{q: {_id: 1}, u: {$set: {n: 'lost'}}}], bypassPatterns: true}",
    );
    server.run("{insert: 'c', documents: [{_id: 10, p: 1, x: 1, y: 1}]}");
    agrees(&server, "maintained on");
    server.run("{validatePatterns: 'p', repair: true}");
    agrees(&server, "repaired");
    server.verify("p");
}

#[test]
fn documents_of_groups_show_sums_of_all_types_too() {
    for seed in 0..40 {
        let (server, mut dice) = (Server::new(), Dice(seed));
        let usual = USUAL[seed as usize % USUAL.len()];
        server.run("{createPatterns: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {s: {$sum: '$x'}, n: {$count: {}}}}]}");
        let mut trail = format!("seed {seed}");
        for number in 0..60 {
            let mut one = statement(&mut dice, usual);
            while one.contains("'p', ") {
                one = statement(&mut dice, usual);
            }
            trail.push_str(&format!("\n{one}"));
            if dice.below(8) == 0 {
                let verb = dice.pick(&["commitTransaction", "abortTransaction"]);
                trail.push_str(verb);
                server.run(&format!("{}{}}}", &one[..one.len() - 1], within(1, number, true)));
                assert_eq!(server.end(verb, 1, number), 0, "{trail}");
            } else {
                server.run(&one);
            }
            let shown = server.docs("{find: 'g', sort: {_id: 1}, projection: {s: 1, n: 1}}");
            let sums = "{$group: {_id: '$p', s: {$sum: '$x'}, n: {$count: {}}}}";
            let expected = server.docs(&format!("{{aggregate: 'c', pipeline: [{sums}, {{$sort: {{_id: 1}}}}], cursor: {{}}, rewrite: false}}"));
            assert_eq!(shown, expected, "{trail}");
        }
        server.verify("c");
    }
}
