//! What holds for every kind of pattern, where no scenario of a kind shows it.

use crate::harness::{Server, same, text, whole, within};

static SUMS: &str = "{createPatterns: 'p', patterns: [{name: 'sums', kind: 'computed', from: 'c', on: {foreign: 'p'}, filter: {ok: true}, fields: {n: {$count: {}}, s: {$sum: '$x'}}}]}";

fn parents() -> Server {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
    server.run(SUMS);
    server
}

#[test]
fn contract_2_what_has_no_effect_is_not_followed() {
    let server = parents();
    server.run("{insert: 'c', documents: [{_id: 1, p: 1, ok: true, x: 1, note: 'a'}, {_id: 2, p: 1, ok: false, x: 1}]}");
    let before = server.writes("p");
    for statement in [
        "{delete: 'c', deletes: [{q: {_id: 99}, limit: 1}]}",
        "{delete: 'c', deletes: [{q: {_id: 2}, limit: 1}]}",
        "{update: 'c', updates: [{q: {_id: 99}, u: {$inc: {x: 1}}}]}",
        "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {note: 'b'}}}]}",
        "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {x: 1}}}]}",
        "{update: 'c', updates: [{q: {_id: 1}, u: {_id: 1, p: 1, ok: true, x: 1}}]}",
        "{insert: 'c', documents: [{_id: 3, p: 77, ok: true, x: 1}, {_id: 4, ok: true, x: 1}]}",
    ] {
        server.run(statement);
        assert_eq!(server.writes("p"), before, "{statement}");
    }
    server.verify("p");
}

#[test]
fn contract_3_many_changes_of_one_target_are_one_write() {
    let server = parents();
    let before = server.writes("p");
    let children: Vec<String> =
        (0..9).map(|n| format!("{{_id: {n}, p: 1, ok: true, x: {n}}}")).collect();
    server.run(&format!("{{insert: 'c', documents: [{}]}}", children.join(",")));
    assert_eq!(server.writes("p"), before + 1, "nine children of one statement");
    server.run("{update: 'c', updates: [{q: {}, u: {$inc: {x: 1}}, multi: true}]}");
    assert_eq!(server.writes("p"), before + 2);
    // A transaction of several statements.
    for (number, statement) in [
        "update: 'c', updates: [{q: {_id: 0}, u: {$inc: {x: 5}}}]",
        "update: 'c', updates: [{q: {_id: 1}, u: {$inc: {x: 5}}}]",
        "delete: 'c', deletes: [{q: {_id: 2}, limit: 1}]",
    ]
    .iter()
    .enumerate()
    {
        server.run(&format!("{{{statement}{}}}", within(7, 1, number == 0)));
    }
    assert_eq!(server.end("commitTransaction", 7, 1), 0);
    assert_eq!(whole(&server.get("p", "1"), "s"), 36 + 9 + 10 - 3);
    server.verify("p");
}

#[test]
fn contract_3_targets_in_another_order_hold_nobody_up() {
    let server = parents();
    server.run("{insert: 'c', documents: [{_id: 1, p: 1, ok: true, x: 0}, {_id: 2, p: 2, ok: true, x: 0}, {_id: 3, p: 1, ok: true, x: 0}, {_id: 4, p: 2, ok: true, x: 0}]}");
    // One goes from the first parent to the second, the other the other way round, side by side.
    for number in 1..=20 {
        let step = |session: u8, id: u8, first: bool| {
            server.run(&format!(
                "{{update: 'c', updates: [{{q: {{_id: {id}}}, u: {{$inc: {{x: 1}}}}}}]{}}}",
                within(session, number, first)
            ));
        };
        step(1, 1, true);
        step(2, 4, true);
        step(1, 2, false);
        step(2, 3, false);
        assert_eq!(server.end("commitTransaction", 1, number), 0);
        assert_eq!(server.end("commitTransaction", 2, number), 0);
    }
    assert_eq!(whole(&server.get("p", "1"), "s"), 40);
    assert_eq!(whole(&server.get("p", "2"), "s"), 40);
    server.verify("p");
}

#[test]
fn contract_5_patterns_that_feed_each_other_are_followed_once_and_never_in_a_circle() {
    let server = parents();
    server.run("{createPatterns: 'p', patterns: [{name: 'mean', kind: 'computed', fields: {mean: {$cond: [{$gt: ['$n', 0]}, {$divide: ['$s', '$n']}, null]}}}]}");
    server.run("{insert: 'r', documents: [{_id: 1}]}");
    server.run("{update: 'p', updates: [{q: {}, u: {$set: {r: 1}}, multi: true}]}");
    server.run("{createPatterns: 'r', patterns: [{name: 'best', kind: 'computed', from: 'p', on: {foreign: 'r'}, fields: {best: {$max: '$mean'}}}]}");
    let before = (server.writes("p"), server.writes("r"));
    server.run("{insert: 'c', documents: [{_id: 1, p: 1, ok: true, x: 4}, {_id: 2, p: 1, ok: true, x: 8}, {_id: 3, p: 2, ok: true, x: 5}]}");
    same(&server.one("r", "1"), "{_id: 1, best: 6.0}");
    assert_eq!((server.writes("p"), server.writes("r")), (before.0 + 2, before.1 + 1));
    // Children that follow from what follows from them.
    let command = "{createPatterns: 'c', patterns: [{name: 'round', kind: 'extendedReference', ref: 'p', from: 'p', into: 'parent', fields: ['mean']}, {name: 'again', kind: 'computed', fields: {ok: {$gt: ['$parent.mean', 3]}}}]}";
    let command = motifdb::value::ejson::parse_doc(command).expect("test text");
    let refused = server.0.run_command("t", command.as_doc()).expect_err("a circle");
    assert_eq!(refused.code().0, 2);
    for name in ["sums", "mean", "round", "again"] {
        assert!(refused.message().contains(name), "{}", refused.message());
    }
    assert!(server.docs("{listPatterns: 'c'}").is_empty(), "all or none");
}

#[test]
fn contract_7_a_slow_build_holds_no_other_up_and_writes_each_target_once() {
    let server = Server::new();
    let docs: Vec<String> = (0..2000).map(|n| format!("{{_id: {n}, x: {n}}}")).collect();
    server.run(&format!("{{insert: 'c', documents: [{}]}}", docs.join(",")));
    let before = server.writes("c");
    // Two documents a second: nobody waits for that.
    server.run("{createPatterns: 'c', wait: false, patterns: [{name: 'slow', kind: 'computed', backfill: {rate: 2, batch: 1}, fields: {slow: {$add: ['$x', 1]}}}]}");
    server.run("{createPatterns: 'c', patterns: [{name: 'fast', kind: 'computed', fields: {fast: {$add: ['$x', 2]}}}]}");
    let states = server.docs("{listPatterns: 'c'}");
    let state = |name: &str| {
        let found = states.iter().find(|pattern| text(pattern, "name") == name);
        found.map(|pattern| text(pattern, "state")).unwrap_or_default()
    };
    assert_eq!((state("slow"), state("fast")), ("building", "ready"));
    let written = server.writes("c") - before;
    assert!((2000..2100).contains(&written), "{written}: one for each, and those of the slow one");
    // What is not derived yet is derived for readers.
    assert_eq!(whole(&server.get("c", "1999"), "slow"), 2000);
}
