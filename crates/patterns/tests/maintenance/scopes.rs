//! Trees whose names are unique within a scope only: the same names in two scopes are different
//! nodes, at once and later.

use crate::memory::Memory;
use patterns::declaration;
use proptest::prelude::*;
use value::{DocBuf, OwnedVal, Val, ejson};

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("test text")
}

fn whole(doc: &DocBuf, name: &str) -> Option<i64> {
    doc.as_doc().get(name).and_then(Val::as_i64_exact)
}

/// What a walk over all nodes says about one of them: its ancestors, root first, or `None` while
/// one is missing; its children and its descendants.
fn walked(nodes: &[DocBuf], node: &DocBuf) -> (Option<Vec<i64>>, i64, i64) {
    let (scope, name) = (whole(node, "s"), whole(node, "n"));
    let find =
        |name: i64| nodes.iter().find(|n| whole(n, "s") == scope && whole(n, "n") == Some(name));
    let mut chain = Vec::new();
    let mut next = whole(node, "parent");
    let mut complete = true;
    while let Some(name) = next {
        assert!(chain.len() < 30, "a cycle");
        chain.insert(0, name);
        match find(name) {
            Some(parent) => next = whole(parent, "parent"),
            None => {
                complete = false;
                break;
            }
        }
    }
    let below = |name: i64| {
        nodes.iter().filter(move |n| whole(n, "s") == scope && whole(n, "parent") == Some(name))
    };
    let mut level: Vec<i64> = name.into_iter().collect();
    let (mut children, mut descendants) = (None, 0);
    while !level.is_empty() {
        level = level.iter().flat_map(|name| below(*name)).filter_map(|n| whole(n, "n")).collect();
        descendants += level.len() as i64;
        children.get_or_insert(level.len() as i64);
    }
    (complete.then_some(chain), children.unwrap_or(0), descendants)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn names_belong_to_their_scope(
        ops in prop::collection::vec(
            (0_i32..8, proptest::option::weighted(0.9, (0_i32..2, 0_i32..5, -1_i32..5))), 1..50),
        deleted in prop_oneof![Just("adopt"), Just("cascade"), Just("root"), Just("restrict")],
        dense in any::<bool>(),
        defer in any::<bool>(),
        later in any::<bool>(),
    ) {
        let later = later && !dense;
        let mode = if later { "mode: {async: {}}, " } else { "" };
        let missing = if defer { "defer" } else { "reject" };
        let text = format!("{{name: 't', kind: 'tree', id: 'n', scope: 's', onMissingParent: '{missing}', onDelete: '{deleted}', {mode}maintain: {{ancestors: 'up', depth: 'd', path: 'path', childCount: 'c', descendantCount: 'below', nestedSet: {{lft: 'l', rgt: 'r', dense: {dense}}}}}}}");
        let pattern = declaration::parse("nodes", doc(&text).as_doc()).expect("a declaration");
        let mut memory = Memory::new(vec![pattern]).expect("alone");
        for (id, image) in ops {
            let nodes = memory.all("nodes");
            let image = image.map(|(s, n, parent)| {
                let parent = if parent < 0 { String::new() } else { format!(", parent: {parent}") };
                doc(&format!("{{_id: {id}, s: {s}, n: {n}{parent}}}"))
            });
            // A unique index on both would refuse it.
            let taken = image.as_ref().is_some_and(|image| nodes.iter().any(|n| {
                whole(n, "_id") != Some(i64::from(id)) && whole(n, "s") == whole(image, "s") && whole(n, "n") == whole(image, "n")
            }));
            if taken {
                continue;
            }
            if memory.write("nodes", Val::Int32(id), image.as_ref()).is_err() {
                prop_assert_eq!(memory.all("nodes"), nodes);
            }
            while later && memory.work(2).expect("is allowed") {}
            let nodes = memory.all("nodes");
            for node in &nodes {
                let (chain, children, descendants) = walked(&nodes, node);
                let up = node.as_doc().get("up").and_then(Val::as_array);
                let Some(chain) = chain else {
                    prop_assert!(defer && up.is_none(), "{node:?}");
                    continue;
                };
                let up: Vec<i64> = up.expect("ancestors").iter().filter_map(|(_, v)| v.get().as_i64_exact()).collect();
                prop_assert_eq!(&up, &chain);
                prop_assert_eq!(whole(node, "d"), Some(chain.len() as i64));
                prop_assert_eq!(whole(node, "c"), Some(children));
                prop_assert_eq!(whole(node, "below"), Some(descendants));
            }
            if dense {
                for scope in 0..2 {
                    let ends = |n: &DocBuf| ["l", "r"].map(|name| whole(n, name));
                    let mine = nodes.iter().filter(|n| whole(n, "s") == Some(scope));
                    let mut ends: Vec<i64> = mine.flat_map(ends).flatten().collect();
                    ends.sort_unstable();
                    prop_assert_eq!(&ends, &(1..=ends.len() as i64).collect::<Vec<_>>());
                }
            }
        }
    }
}

#[test]
fn a_parent_is_looked_for_in_its_scope() {
    let text = "{name: 't', kind: 'tree', id: 'n', scope: 's', maintain: {path: {into: 'path', segment: '$n'}}}";
    let pattern = declaration::parse("nodes", doc(text).as_doc()).expect("a declaration");
    let mut memory = Memory::new(vec![pattern]).expect("alone");
    let mut write = |id: i32, image: &str| {
        memory.write("nodes", Val::Int32(id), Some(&doc(image))).map(|()| {
            let all = memory.all("nodes");
            let node = all.iter().find(|n| n.as_doc().get("_id") == Some(Val::Int32(id)));
            node.and_then(|n| n.as_doc().get("path")).map(OwnedVal::new)
        })
    };
    let path = |text: &str| Some(OwnedVal::new(Val::String(text)));
    assert_eq!(write(1, "{_id: 1, s: 'a', n: 'home'}").expect("a root"), path(",home,"));
    assert_eq!(write(2, "{_id: 2, s: 'b', n: 'home'}").expect("a root"), path(",home,"));
    let child = write(3, "{_id: 3, s: 'b', n: 'x', parent: 'home'}").expect("a child");
    assert_eq!(child, path(",home,x,"));
    let lost =
        write(4, "{_id: 4, s: 'c', n: 'x', parent: 'home'}").expect_err("has no parent there");
    assert!(lost.message().contains("is not there"), "{lost}");
}
