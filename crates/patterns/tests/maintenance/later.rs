//! Trees whose nodes follow later: once the queue is empty they are what trees are whose nodes follow at
//! once, whatever came between; until then every node that is not knows that it waits.

use crate::memory::Memory;
use patterns::{Pattern, declaration};
use proptest::prelude::*;
use value::{DocBuf, Val, ejson};

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn tree(mode: &str, rest: &str) -> Memory {
    let text = format!(
        "{{name: 't', kind: 'tree', {mode} {rest}, maintain: {{ancestors: 'up', depth: 'd', path: {{into: 'path', segment: '$label'}}, childCount: 'c', descendantCount: 'n', nestedSet: {{lft: 'l', rgt: 'r'}}}}}}"
    );
    let declared: Pattern = declaration::parse("nodes", doc(&text).as_doc()).expect("a pattern");
    Memory::new(vec![declared]).expect("one pattern")
}

/// What is done to a node: it goes, or gets a parent (-1 for none), a label and a tree; and how much of
/// the queue is worked at behind it.
type Op = (i32, Option<(i32, i32, i32)>, usize);

fn op() -> impl Strategy<Value = Op> {
    let node = proptest::option::weighted(0.85, (-1_i32..9, 0_i32..3, 0_i32..8));
    // Few nodes belong to another tree.
    (0_i32..9, node, 0_usize..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_tree_that_follows_later_comes_to_the_same(
        ops in prop::collection::vec(op(), 1..60),
        deleted in prop_oneof![Just("adopt"), Just("cascade"), Just("root"), Just("restrict")],
        missing in prop_oneof![Just("defer"), Just("defer"), Just("reject")],
        scoped in any::<bool>(),
        batch in 1_usize..4,
    ) {
        let scope = if scoped { "scope: 's'," } else { "" };
        let rest = format!("{scope} onMissingParent: '{missing}', onDelete: '{deleted}'");
        let mut prompt = tree("", &rest);
        let mut late = tree("mode: {async: {maxLagMS: 5}},", &rest);
        for (id, node, turns) in ops {
            let image = node.map(|(parent, label, tree)| match parent {
                -1 => doc(&format!("{{_id: {id}, label: 'x{label}', s: {}}}", tree / 7)),
                parent => doc(&format!("{{_id: {id}, parent: {parent}, label: 'x{label}', s: {}}}", tree / 7)),
            });
            let code = |outcome: value::Result<()>| outcome.err().map(|error| error.code());
            let wanted = code(prompt.write("nodes", Val::Int32(id), image.as_ref()));
            let found = code(late.write("nodes", Val::Int32(id), image.as_ref()));
            // Nothing is allowed that would be refused otherwise, and nothing else is refused.
            prop_assert_eq!(found, wanted);
            for _ in 0..turns {
                late.work(batch).expect("works");
            }
            let (all, expected) = (late.all("nodes"), prompt.all("nodes"));
            prop_assert_eq!(all.len(), expected.len());
            for (node, expected) in all.iter().zip(&expected) {
                let parent = |doc: &DocBuf| format!("{:?}", doc.as_doc().get("parent"));
                prop_assert_eq!(parent(node), parent(expected), "parents are never behind");
                if !same(node, expected) {
                    prop_assert!(late.is_stale(node).expect("an answer"), "{:?} is not {:?}", node, expected);
                }
            }
        }
        let mut turns = 0;
        while late.work(batch).expect("works") {
            turns += 1;
            prop_assert!(turns < 5000, "the queue never becomes empty");
        }
        for (node, expected) in late.all("nodes").iter().zip(&prompt.all("nodes")) {
            prop_assert!(same(node, expected), "{:?} is not {:?}", node, expected);
            prop_assert!(!late.is_stale(node).expect("an answer"));
        }
        prop_assert_eq!(late.state_count(), prompt.state_count());
    }
}

/// Whether two documents have the same fields, in any order.
fn same(one: &DocBuf, other: &DocBuf) -> bool {
    let fields = |doc: &DocBuf| {
        let mut all: Vec<String> =
            doc.as_doc().iter().map(|(name, value)| format!("{name}: {:?}", value.get())).collect();
        all.sort();
        all
    };
    fields(one) == fields(other)
}

#[test]
fn a_leaf_waits_for_nothing_and_a_subtree_follows_level_by_level() {
    let mut nodes = tree("mode: {every: '1h'},", "onMissingParent: 'reject'");
    let put = |nodes: &mut Memory, text: &str| {
        let node = doc(text);
        let id = node.as_doc().get("_id").expect("an id");
        nodes.write("nodes", id, Some(&node)).expect("is allowed");
    };
    put(&mut nodes, "{_id: 1, label: 'a'}");
    put(&mut nodes, "{_id: 2, parent: 1, label: 'b'}");
    put(&mut nodes, "{_id: 3, parent: 2, label: 'c'}");
    let path = |nodes: &Memory, at: usize| {
        nodes.all("nodes")[at].as_doc().get("path").and_then(Val::as_str).map(str::to_owned)
    };
    // What is written is right at once.
    assert_eq!(path(&nodes, 2).as_deref(), Some(",a,b,c,"));
    while nodes.work(100).expect("works") {}
    put(&mut nodes, "{_id: 1, label: 'z'}");
    assert_eq!(path(&nodes, 0).as_deref(), Some(",z,"));
    assert_eq!(path(&nodes, 1).as_deref(), Some(",a,b,"));
    nodes.work(100).expect("works");
    assert_eq!(path(&nodes, 1).as_deref(), Some(",z,b,"));
    assert_eq!(path(&nodes, 2).as_deref(), Some(",a,b,c,"));
    while nodes.work(100).expect("works") {}
    assert_eq!(path(&nodes, 2).as_deref(), Some(",z,b,c,"));
}
