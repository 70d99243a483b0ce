//! The oracle: after every random write, what patterns maintain equals what a plain recomputation
//! over all documents gives.

use crate::memory::{Memory, Write};
use bumpalo::Bump;
use patterns::declaration;
use proptest::prelude::*;
use query::ParseContext;
use query::accumulate::AccumulatorSpec;
use query::expr::Env;
use query::filter::Filter;
use value::{DocBuf, OwnedVal, RawDoc, Val, compare, ejson};

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("test text")
}

fn memory(declarations: &[(&str, &str)]) -> Memory {
    let patterns = declarations
        .iter()
        .map(|(collection, text)| {
            declaration::parse(collection, doc(text).as_doc()).expect("a declaration")
        })
        .collect();
    Memory::new(patterns).expect("they go together")
}

/// A random write of a child: its id, and its image unless it is deleted.
#[derive(Clone, Debug)]
struct Op {
    collection: &'static str,
    id: i32,
    image: Option<String>,
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        (-5_i32..6).prop_map(|n| n.to_string()),
        (-5_i64..6).prop_map(|n| format!("NumberLong({n})")),
        prop_oneof![Just("0.1"), Just("1e16"), Just("-1e16"), Just("2.5")].prop_map(str::to_owned),
        (-500_i32..500).prop_map(|n| format!("NumberDecimal('{}')", f64::from(n) / 100.0)),
        Just("null".to_owned()),
        Just("'text'".to_owned()),
    ]
}

fn child() -> impl Strategy<Value = Op> {
    let parent = prop_oneof![
        (0_i32..3).prop_map(|p| p.to_string()),
        Just("null".to_owned()),
        Just("[0, 1, 1]".to_owned()),
    ];
    let image =
        (parent, number(), number(), any::<bool>()).prop_map(|(parent, price, rating, paid)| {
            format!("p: {parent}, price: {price}, rating: {rating}, paid: {paid}")
        });
    (0_i32..12, proptest::option::weighted(0.8, image)).prop_map(|(id, image)| Op {
        collection: "children",
        id,
        image: image.map(|image| format!("{{_id: {id}, {image}}}")),
    })
}

fn parent() -> impl Strategy<Value = Op> {
    let image = (0_i32..5).prop_map(|n| format!("name: {n}, stats: {{n: {n}}}, total: 'client'"));
    (0_i32..3, proptest::option::weighted(0.7, image)).prop_map(|(id, image)| Op {
        collection: "parents",
        id,
        image: image.map(|image| format!("{{_id: {id}, {image}}}")),
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![4 => child(), 1 => parent()]
}

static FIELDS: &[(&str, &str)] = &[
    ("total", "{$sum: '$price'}"),
    ("stats.mean", "{$avg: '$price'}"),
    ("n", "{$count: {}}"),
    ("least", "{$min: '$rating'}"),
    ("most", "{$max: '$rating'}"),
    ("two", "{$maxN: {input: '$rating', n: 2}}"),
    ("best", "{$topN: {n: 2, sortBy: {rating: -1, _id: 1}, output: ['$_id', '$price']}}"),
    ("worst", "{$bottom: {sortBy: {rating: -1, _id: 1}, output: '$_id'}}"),
    ("prices", "{$addToSet: '$price'}"),
    ("distinct", "{$size: {$addToSet: '$price'}}"),
    ("population", "{$stdDevPop: '$price'}"),
    ("sample", "{$stdDevSamp: '$price'}"),
    ("opening", "{$first: '$price'}"),
    ("closing", "{$lastN: {input: '$price', n: 2}}"),
    ("all", "{$push: '$price'}"),
    ("middle", "{$median: {input: '$price', method: 'approximate'}}"),
    ("parts", "{$percentile: {input: '$rating', p: [0, 0.3, 0.9, 1], method: 'approximate'}}"),
    ("one", "{$mergeObjects: {a: '$price', b: '$rating'}}"),
    ("row", "{$concatArrays: {$ifNull: ['$none', ['$price', '$rating']]}}"),
];

/// What `$group` gives for the children that belong to a parent.
fn recomputed(children: &[DocBuf], parent: Val<'_>, spec: &str) -> OwnedVal {
    let context = ParseContext::new(0);
    let filter = Filter::parse(doc("{paid: true}").as_doc(), &context).expect("a filter");
    if let Some(set) = spec.strip_prefix("{$size: ") {
        let set = recomputed(children, parent, set.strip_suffix('}').expect("a document"));
        let count = set.get().as_array().expect("a set").count();
        return OwnedVal::new(Val::Int32(count as i32));
    }
    let spec = doc(spec);
    let spec = AccumulatorSpec::parse("f", Val::Document(spec.as_doc()), &context).expect("known");
    let mut state = spec.start(Val::Null).expect("starts");
    for child in children {
        let child = child.as_doc();
        let belongs = match child.get("p") {
            Some(Val::Array(list)) => list.iter().any(|(_, v)| compare::equal(v.get(), parent)),
            Some(value) => compare::equal(value, parent),
            None => false,
        };
        if belongs && filter.matches(child).expect("matches") {
            let arena = Bump::new();
            state
                .process(spec.argument(&Env::new(child, &arena)).expect("a value"))
                .expect("folds");
        }
    }
    let arena = Bump::new();
    OwnedVal::new(state.finish(&arena).expect("ends"))
}

fn same(path: &str, a: Val<'_>, b: Val<'_>) -> bool {
    if path == "prices" {
        // A set has no order.
        let sorted = |v: Val<'_>| {
            let list = v.as_array().expect("a set").iter().map(|(_, v)| value::keys::key(v.get()));
            let mut list: Vec<Vec<u8>> = list.collect();
            list.sort();
            list
        };
        return sorted(a) == sorted(b);
    }
    if matches!(path, "population" | "sample") {
        // What is exact here depends on the order of the input there.
        return match (a, b) {
            (Val::Double(a), Val::Double(b)) => {
                (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * b.abs().max(1.0)
            }
            _ => a == b,
        };
    }
    let loose = matches!(path, "least" | "most" | "two");
    // Among equal values of several types any may stand for them.
    if loose {
        compare::equal(a, b)
    } else {
        OwnedVal::new(a) == OwnedVal::new(b) || (compare::equal(a, b) && a.kind() == b.kind())
    }
}

/// Fields that are kept in ways of their own when there are no others: rankings in which each child
/// has a place, sums of whole numbers, rankings without some.
static ALONE: &[&[&str]] = &[
    &["best"],
    &["best", "worst", "opening", "closing"],
    &["total", "n"],
    &["least", "two"],
    &["all"],
];

fn declaration_of_fields(chosen: impl Fn(&str) -> bool) -> String {
    let fields: Vec<String> = FIELDS
        .iter()
        .filter(|(path, _)| chosen(path))
        .map(|(path, spec)| format!("'{path}': {spec}"))
        .collect();
    // Where nothing needs an order, none may be declared.
    let ordered = ["opening", "closing", "all"].into_iter().any(chosen);
    let order = if ordered { "order: {_id: 1}, " } else { "" };
    format!(
        "{{name: 'sums', kind: 'computed', from: 'children', on: {{local: '_id', foreign: 'p'}}, filter: {{paid: true}}, {order}fields: {{{}}}}}",
        fields.join(", ")
    )
}

/// A field of a parent that is not what `$group` gives.
fn wrong(memory: &Memory, chosen: impl Fn(&str) -> bool) -> Option<String> {
    let children = memory.all("children");
    for parent in memory.all("parents") {
        let parent = parent.as_doc();
        let id = parent.get("_id").expect("an id");
        for (path, spec) in FIELDS.iter().filter(|(path, _)| chosen(path)) {
            let expected = recomputed(&children, id, spec);
            let found = value::path::Path::new(path).get(parent);
            if !same(path, found, expected.get()) {
                return Some(format!("{path} of {id:?}: {found:?}, expected {expected:?}"));
            }
        }
    }
    None
}

fn folds_equal_group(ops: &[Op], chosen: impl Fn(&str) -> bool) -> Result<(), TestCaseError> {
    let mut memory = memory(&[("parents", &declaration_of_fields(&chosen))]);
    for op in ops {
        let image = op.image.as_deref().map(doc);
        memory.write(op.collection, Val::Int32(op.id), image.as_ref()).expect("is allowed");
        if let Some(wrong) = wrong(&memory, &chosen) {
            prop_assert!(false, "{wrong} after {op:?}");
        }
    }
    for id in 0..12 {
        memory.write("children", Val::Int32(id), None).expect("is allowed");
    }
    prop_assert_eq!(memory.state_count(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn folds_over_children_equal_group(ops in prop::collection::vec(op(), 1..60)) {
        folds_equal_group(&ops, |_| true)?;
    }

    #[test]
    fn folds_of_few_fields_equal_group(
        ops in prop::collection::vec(op(), 1..60),
        chosen in prop::sample::select(ALONE),
    ) {
        folds_equal_group(&ops, |path| chosen.contains(&path))?;
    }

    #[test]
    fn statements_that_change_many_children_equal_group(
        statements in prop::collection::vec(prop::collection::vec(op(), 1..60), 1..6),
        few in proptest::option::of(prop::sample::select(ALONE)),
    ) {
        let chosen = |path: &str| few.is_none_or(|few| few.contains(&path));
        let mut memory = memory(&[("parents", &declaration_of_fields(chosen))]);
        for statement in &statements {
            let images: Vec<Option<DocBuf>> =
                statement.iter().map(|op| op.image.as_deref().map(doc)).collect();
            let writes: Vec<Write<'_>> = statement
                .iter()
                .zip(&images)
                .map(|(op, image)| (op.collection, Val::Int32(op.id), image.as_ref()))
                .collect();
            memory.write_all(&writes).expect("is allowed");
            if let Some(wrong) = wrong(&memory, chosen) { prop_assert!(false, "{wrong} after {statement:?}"); }
        }
        let deletes: Vec<Write<'_>> = (0..12).map(|id| ("children", Val::Int32(id), None)).collect();
        memory.write_all(&deletes).expect("is allowed");
        prop_assert_eq!(memory.state_count(), 0);
    }

    #[test]
    fn children_count_as_long_as_they_are_in_the_window(
        steps in prop::collection::vec(
            (0_i32..10, proptest::option::weighted(0.8, (0_i64..60, 0_i32..3, any::<bool>())), 0_i64..4), 1..60),
    ) {
        let mut memory = memory(&[
            ("parents", "{name: 'w', kind: 'computed', from: 'children', on: {foreign: 'p'}, window: {field: 'at', last: '10ms'}, order: {at: 1}, fields: {n: {$count: {}}, ids: {$push: '$_id'}, late: {$max: '$at'}}}"),
            ("parents", "{name: 't', kind: 'subset', from: 'children', into: 'top', on: {foreign: 'p'}, window: {field: 'at', last: '10ms'}, sort: {at: -1}, limit: 2, fields: ['at']}"),
            ("children", "{name: 'g', kind: 'computed', into: 'groups', groupBy: {$isArray: '$p'}, window: {field: 'at', last: '10ms'}, fields: {n: {$count: {}}}}"),
        ]);
        for id in 0..2 {
            memory.write("parents", Val::Int32(id), Some(&doc(&format!("{{_id: {id}}}")))).expect("is allowed");
        }
        let mut time = 0;
        for (id, image, passed) in steps {
            let image = image.map(|(at, p, dated)| match dated {
                true => doc(&format!("{{_id: {id}, p: {}, at: new Date({at})}}", if p == 2 { "[0, 1]".to_owned() } else { p.to_string() })),
                false => doc(&format!("{{_id: {id}, p: {p}, at: {at}}}")),
            });
            memory.write("children", Val::Int32(id), image.as_ref()).expect("is allowed");
            time += passed;
            memory.pass(time).expect("is allowed");
            for parent in 0..2_i64 {
                let mut counted: Vec<(i64, i64)> = memory.all("children").iter().filter_map(|child| {
                    let child = child.as_doc();
                    let Some(Val::DateTime(at)) = child.get("at") else { return None };
                    let belongs = match child.get("p")? {
                        Val::Array(list) => list.iter().any(|(_, p)| p.get().as_i64_exact() == Some(parent)),
                        p => p.as_i64_exact() == Some(parent),
                    };
                    (belongs && at >= time - 10).then(|| (at, child.get("_id").and_then(Val::as_i64_exact).expect("an id")))
                }).collect();
                counted.sort_unstable();
                let shown = memory.all("parents");
                let shown = shown[parent as usize].as_doc();
                let ids = |name: &str, of: &dyn Fn(Val<'_>) -> Option<i64>| -> Vec<i64> {
                    shown.get(name).and_then(Val::as_array).expect("a list").iter().filter_map(|(_, v)| of(v.get())).collect()
                };
                prop_assert_eq!(shown.get("n").and_then(Val::as_i64_exact), Some(counted.len() as i64), "at {}", time);
                prop_assert_eq!(ids("ids", &|v| v.as_i64_exact()), counted.iter().map(|c| c.1).collect::<Vec<_>>());
                let mut best = counted.clone();
                best.sort_by_key(|(at, id)| (-at, *id));
                prop_assert_eq!(
                    ids("top", &|v| v.as_doc()?.get("_id")?.as_i64_exact()),
                    best.iter().take(2).map(|c| c.1).collect::<Vec<_>>()
                );
                let late = counted.last().map_or(OwnedVal::new(Val::Null), |c| OwnedVal::new(Val::DateTime(c.0)));
                prop_assert_eq!(shown.get("late").map(OwnedVal::new), Some(late));
            }
        }
        memory.pass(1000).expect("is allowed");
        prop_assert_eq!(memory.all("groups").len(), 0);
        // Where each window begins is all that is left.
        prop_assert!(memory.state_count() <= 3, "{} records are left", memory.state_count());
    }

    #[test]
    fn groups_of_their_own_equal_group(ops in prop::collection::vec(child(), 1..40)) {
        let mut memory = memory(&[("children",
            "{name: 'g', kind: 'computed', into: 'groups', groupBy: {r: '$rating'}, fields: {n: {$count: {}}, sum: {$sum: '$price'}, top: {$max: '$_id'}}}"),
            ("children",
            "{name: 'b', kind: 'computed', into: 'bests', groupBy: {r: '$rating'}, fields: {best: {$top: {sortBy: {_id: -1}, output: '$_id'}}}}")]);
        for op in &ops {
            let image = op.image.as_deref().map(doc);
            memory.write(op.collection, Val::Int32(op.id), image.as_ref()).expect("is allowed");
            let mut groups: std::collections::BTreeMap<Vec<u8>, (i32, i32)> = Default::default();
            for child in memory.all("children") {
                let rating = child.as_doc().get("rating").unwrap_or(Val::Null);
                let key = doc("{}");
                let key = DocBuf::build(|out| { out.extend(key.as_doc()).append("r", rating); });
                let group = groups.entry(value::keys::key(Val::Document(key.as_doc()))).or_default();
                let id = child.as_doc().get("_id").and_then(Val::as_i64_exact).expect("an id") as i32;
                *group = (group.0 + 1, group.1.max(id));
            }
            let bests = memory.all("bests");
            prop_assert_eq!(bests.len(), groups.len());
            for group in bests {
                let (_, top) = groups[&value::keys::key(group.as_doc().get("_id").expect("an id"))];
                prop_assert_eq!(group.as_doc().get("best"), Some(Val::Int32(top)));
            }
            let found = memory.all("groups");
            prop_assert_eq!(found.len(), groups.len());
            for group in found {
                let group = group.as_doc();
                let (n, top) = groups[&value::keys::key(group.get("_id").expect("an id"))];
                prop_assert_eq!(group.get("n"), Some(Val::Int32(n)));
                prop_assert_eq!(group.get("top"), Some(Val::Int32(top)));
            }
        }
    }

    #[test]
    fn chains_and_same_documents_follow(ops in prop::collection::vec(op(), 1..40)) {
        let mut memory = memory(&[
            ("parents", "{name: 'twice', kind: 'computed', fields: {twice: {$multiply: ['$n', 2]}}}"),
            ("parents", "{name: 'n', kind: 'computed', from: 'children', on: {foreign: 'p'}, fields: {n: {$count: {}}}}"),
            ("children", "{name: 'copy', kind: 'extendedReference', ref: 'p', from: 'parents', into: 'parent', fields: ['name']}"),
        ]);
        for op in &ops {
            let image = op.image.as_deref().map(doc);
            memory.write(op.collection, Val::Int32(op.id), image.as_ref()).expect("is allowed");
            let parents = memory.all("parents");
            for parent in &parents {
                let n = parent.as_doc().get("n").and_then(Val::as_i64_exact).expect("a count");
                prop_assert_eq!(parent.as_doc().get("twice").and_then(Val::as_i64_exact), Some(2 * n));
            }
            let name = |id: Val<'_>| {
                let found = parents.iter().find(|p| p.as_doc().get("_id").is_some_and(|p| compare::equal(p, id)));
                found.and_then(|p| p.as_doc().get("name")).map(OwnedVal::new)
            };
            for child in memory.all("children") {
                let child = child.as_doc();
                let copied = child.get("parent");
                match child.get("p") {
                    Some(Val::Array(list)) => {
                        let copies = copied.and_then(Val::as_array).expect("copies in a row");
                        for ((_, id), (_, copy)) in list.iter().zip(copies) {
                            let copy = copy.as_doc().unwrap_or(RawDoc::empty()).get("name").map(OwnedVal::new);
                            // The copies of a parent that went stay.
                            if let Some(name) = name(id.get()) { prop_assert_eq!(copy, Some(name)); }
                        }
                    }
                    Some(id) if !id.is_nullish() => {
                        let copy = copied.and_then(Val::as_doc).and_then(|d| d.get("name")).map(OwnedVal::new);
                        if let Some(name) = name(id) { prop_assert_eq!(copy, Some(name)); }
                    }
                    _ => prop_assert!(copied.is_none(), "{copied:?}"),
                }
            }
        }
    }

    #[test]
    fn references_inside_of_one_collection_follow(
        ops in prop::collection::vec((0_i32..6, proptest::option::weighted(0.85, (-1_i32..6, 0_i32..3))), 1..50),
        cascade in any::<bool>(),
    ) {
        let deleted = if cascade { "cascade" } else { "unset" };
        let mut memory = memory(&[("people", &format!(
            "{{name: 'boss', kind: 'extendedReference', ref: 'boss._id', from: 'people', into: 'boss', fields: ['name'], onSourceDelete: '{deleted}'}}"))]);
        for (id, image) in ops {
            let image = image.map(|(boss, name)| match boss {
                -1 => doc(&format!("{{_id: {id}, name: {name}}}")),
                boss => doc(&format!("{{_id: {id}, name: {name}, boss: {{_id: {boss}}}}}")),
            });
            memory.write("people", Val::Int32(id), image.as_ref()).expect("is allowed");
            let people = memory.all("people");
            let name_of = |id: Val<'_>| {
                let found = people.iter().find(|p| p.as_doc().get("_id") == Some(id));
                found.and_then(|p| p.as_doc().get("name")).map(OwnedVal::new)
            };
            for person in &people {
                let Some(boss) = person.as_doc().get("boss").and_then(Val::as_doc) else { continue };
                let expected = name_of(boss.get("_id").expect("a reference"));
                prop_assert_eq!(boss.get("name").map(OwnedVal::new), expected);
            }
        }
    }

    #[test]
    fn trees_follow_their_parents(
        ops in prop::collection::vec((0_i32..8, proptest::option::weighted(0.9, -1_i32..8), 0_i32..3), 1..60),
        deleted in prop_oneof![Just("adopt"), Just("cascade"), Just("root"), Just("restrict")],
        dense in any::<bool>(),
    ) {
        let mut memory = memory(&[("nodes",
            &format!("{{name: 't', kind: 'tree', order: 'at', onMissingParent: 'defer', onDelete: '{deleted}', maintain: {{ancestors: 'up', depth: 'd', path: {{into: 'path'}}, childCount: 'c', descendantCount: 'n', nestedSet: {{lft: 'l', rgt: 'r', dense: {dense}}}}}}}"))]);
        for (id, parent, at) in ops {
            let image = parent.map(|parent| match parent {
                -1 => doc(&format!("{{_id: {id}, at: {at}}}")),
                parent => doc(&format!("{{_id: {id}, parent: {parent}, at: {at}}}")),
            });
            // A cycle is refused and leaves everything as it was.
            let _ = memory.write("nodes", Val::Int32(id), image.as_ref());
            let nodes = memory.all("nodes");
            let find = |id: i64| nodes.iter().find(|n| n.as_doc().get("_id").and_then(Val::as_i64_exact) == Some(id));
            let parent_of = |n: &DocBuf| n.as_doc().get("parent").and_then(Val::as_i64_exact);
            let id_of = |n: &DocBuf| n.as_doc().get("_id").and_then(Val::as_i64_exact).expect("an id");
            for node in &nodes {
                let mut chain = Vec::new();
                let mut next = parent_of(node);
                let mut whole = true;
                while let Some(id) = next {
                    prop_assert!(chain.len() < 20, "a cycle");
                    chain.insert(0, id);
                    match find(id) {
                        Some(parent) => next = parent_of(parent),
                        None => { whole = false; break; }
                    }
                }
                let up = node.as_doc().get("up").and_then(Val::as_array);
                if !whole {
                    let shown = ["up", "l", "r", "c", "n"].map(|name| node.as_doc().get(name));
                    prop_assert_eq!(shown, [None; 5]);
                    continue;
                }
                let up: Vec<i64> = up.expect("ancestors").iter().filter_map(|(_, v)| v.get().as_i64_exact()).collect();
                prop_assert_eq!(&up, &chain);
                let id = node.as_doc().get("_id").and_then(Val::as_i64_exact).expect("an id");
                let path: String = chain.iter().chain([&id]).map(|id| format!(",{id}")).collect();
                prop_assert_eq!(node.as_doc().get("path").and_then(Val::as_str), Some(&*format!("{path},")));
                prop_assert_eq!(node.as_doc().get("d"), Some(Val::Int32(chain.len() as i32)));
                // Counts are those of a plain walk.
                let below = |id: i64| nodes.iter().filter(move |n| parent_of(n) == Some(id));
                let mut level = vec![id];
                let (mut children, mut descendants) = (None, 0);
                while !level.is_empty() {
                    level = level.iter().flat_map(|id| below(*id)).map(id_of).collect();
                    descendants += level.len() as i32;
                    children.get_or_insert(level.len() as i32);
                }
                prop_assert_eq!(node.as_doc().get("c").map(OwnedVal::new), children.map(|n| OwnedVal::new(Val::Int32(n))));
                prop_assert_eq!(node.as_doc().get("n"), Some(Val::Int32(descendants)));
                // A node stands inside of another one exactly if it is below it; siblings stand in their order.
                let end = |n: &DocBuf, name: &str| match n.as_doc().get(name)? {
                    Val::Int32(number) => dense.then(|| format!("{number:05}")),
                    other => other.as_str().filter(|_| !dense).map(str::to_owned),
                };
                for other in nodes.iter().filter(|other| end(other, "l").is_some() && id_of(other) != id) {
                    let inside = end(node, "l") < end(other, "l") && end(other, "r") < end(node, "r");
                    let up = other.as_doc().get("up").and_then(Val::as_array).expect("ancestors");
                    prop_assert_eq!(inside, up.iter().any(|(_, v)| v.get().as_i64_exact() == Some(id)));
                    let place = |n: &DocBuf| (n.as_doc().get("at").and_then(Val::as_i64_exact), id_of(n));
                    if parent_of(node) == parent_of(other) {
                        prop_assert_eq!(end(node, "l") < end(other, "l"), place(node) < place(other));
                    }
                }
            }
            if dense {
                let ends = |n: &DocBuf| ["l", "r"].map(|name| n.as_doc().get(name).and_then(Val::as_i64_exact));
                let mut ends: Vec<i64> = nodes.iter().flat_map(ends).flatten().collect();
                ends.sort_unstable();
                prop_assert_eq!(&ends, &(1..=ends.len() as i64).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn contradictions_are_refused_by_name() {
    for (text, expected) in [
        ("{kind: 'computed'}", "'fields' is missing"),
        ("{kind: 'compute', fields: {}}", "not a kind of pattern"),
        ("{kind: 'archive'}", "'archive' is not available"),
        ("{kind: 'computed', fields: {a: '$b'}, colour: 1}", "'colour' is not an option"),
        ("{kind: 'computed', fields: {a: '$b'}, filter: {}}", "'filter' needs 'from'"),
        ("{kind: 'computed', fields: {a: '$a'}}", "maintains itself"),
        ("{kind: 'computed', fields: {a: '$$ROOT'}}", "maintains itself"),
        ("{kind: 'computed', fields: {a: '$$NOW'}}", "$$NOW"),
        ("{kind: 'computed', fields: {_id: '$b'}}", "'_id' cannot be maintained"),
        ("{kind: 'computed', fields: {a: 1, 'a.b': 2}}", "conflict with each other"),
        ("{kind: 'computed', from: 'c', fields: {a: {$sum: 1}}}", "'on' is missing"),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {a: {$mergeObjects: '$x'}}}",
            "'fields.a' uses $mergeObjects, which needs an order",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {a: {$first: '$x'}}}",
            "needs an order",
        ),
        ("{kind: 'computed', groupBy: '$x', fields: {a: {$sum: 1}}}", "'groupBy' needs 'into'"),
        ("{kind: 'computed', fields: {a: '$b'}, mode: {every: '1h'}}", "must be 'sync' here"),
        ("{kind: 'computed', fields: {a: '$b'}, duringBuild: 'wait'}", "must be one of"),
        (
            "{kind: 'extendedReference', ref: 'c._id', from: 'x', into: 'c', fields: ['_id']}",
            "the reference itself",
        ),
        (
            "{kind: 'extendedReference', ref: 'c', from: 'x', into: 'c.d', fields: ['n']}",
            "belongs to the client",
        ),
        (
            "{kind: 'subset', from: 'x', into: 't', on: {foreign: 'p'}, limit: 3, fields: ['a']}",
            "'sort' is missing",
        ),
        (
            "{kind: 'subset', from: 'x', into: 't', on: {foreign: 'p'}, sort: {a: 1}, limit: 0, fields: ['a']}",
            "above zero",
        ),
        ("{kind: 'tree', maintain: {}}", "must ask for"),
        ("{kind: 'tree', maintain: {nestedSet: {lft: 'l'}}}", "'rgt' is missing"),
        ("{kind: 'tree', order: 'at', maintain: {depth: 'd'}}", "'nestedSet'"),
        ("{kind: 'tree', id: 'parent', maintain: {depth: 'd'}}", "different fields"),
    ] {
        let error = declaration::parse("t", doc(text).as_doc()).map(|p| p.name).expect_err(text);
        assert!(error.message().contains(expected), "{text}: {error}");
    }
}

#[test]
fn cycles_are_named_and_crossed_references_are_legal() {
    let parse = |collection: &str, text: &str| {
        declaration::parse(collection, doc(text).as_doc()).expect("fine alone")
    };
    let a = parse("x", "{name: 'a', kind: 'computed', fields: {b: '$a'}}");
    let b = parse("x", "{name: 'b', kind: 'computed', fields: {c: '$b'}}");
    let c = parse("x", "{name: 'c', kind: 'computed', fields: {a: '$c.d'}}");
    assert_eq!(patterns::graph::order(&[&b, &a]).expect("a chain"), [1, 0]);
    let error = patterns::graph::order(&[&a, &b, &c]).expect_err("a cycle");
    assert!(
        error.message().contains("'a' -> 'b' -> 'c' -> 'a'")
            || error.message().contains("'b' -> 'c' -> 'a' -> 'b'")
            || error.message().contains("'c' -> 'a' -> 'b' -> 'c'"),
        "{error}"
    );
    let copies = parse(
        "orders",
        "{name: 'copy', kind: 'extendedReference', ref: 'c', from: 'clients', into: 'client', fields: ['name']}",
    );
    let counts = parse(
        "clients",
        "{name: 'n', kind: 'computed', from: 'orders', on: {foreign: 'c'}, fields: {n: {$count: {}}}}",
    );
    patterns::graph::order(&[&copies, &counts]).expect("they read other fields than they maintain");
}
