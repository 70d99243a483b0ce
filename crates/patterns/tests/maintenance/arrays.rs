//! Documents of any form: arrays, nested arrays, scalars and nothing where other documents have a
//! document. What is kept of children is what a find projection returns, elements of arrays are
//! folded as behind `$unwind`, and fields of one document may be computed from each other.

use crate::memory::Memory;
use bumpalo::Bump;
use patterns::declaration;
use proptest::prelude::*;
use query::ParseContext;
use query::accumulate::AccumulatorSpec;
use query::expr::{Env, Expr};
use query::project::{Mode, Projection};
use value::{DocBuf, OwnedVal, RawDoc, Val, compare, ejson, keys};

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("test text")
}

fn memory(declarations: &[(&str, &str)]) -> Memory {
    let parse = |(collection, text): &(&str, &str)| {
        declaration::parse(collection, doc(text).as_doc()).unwrap_or_else(|e| panic!("{text}: {e}"))
    };
    Memory::new(declarations.iter().map(parse).collect()).expect("they go together")
}

/// A value of any form, in which `name` and `age` may be found.
fn who() -> impl Strategy<Value = String> {
    let person = prop_oneof![
        Just("{}".to_owned()),
        (0_i32..3).prop_map(|n| format!("{{name: {n}, z: 1}}")),
        (0_i32..3).prop_map(|n| format!("{{z: 1, age: {{y: {n}}}, name: {n}}}")),
        (0_i32..3).prop_map(|n| format!("{{age: [{{y: {n}, m: 1}}, {n}], name: [{n}]}}")),
        Just("{age: 5, name: null}".to_owned()),
    ];
    let one = prop_oneof![
        4 => person,
        1 => prop_oneof![Just("5"), Just("null"), Just("'x'"), Just("[]")].prop_map(str::to_owned),
    ];
    let list = prop::collection::vec(one.clone(), 0..3).prop_map(|l| format!("[{}]", l.join(", ")));
    let nested =
        prop::collection::vec(list.clone(), 0..2).prop_map(|l| format!("[{}]", l.join(", ")));
    prop_oneof![4 => one, 3 => list, 1 => nested]
}

fn projected(text: &str, child: RawDoc<'_>) -> DocBuf {
    let projection = Projection::parse(doc(text).as_doc(), &ParseContext::new(0), Mode::Find);
    let mut bytes = Vec::new();
    projection
        .expect("a projection")
        .apply(child, None, &Bump::new(), &mut bytes)
        .expect("can be applied");
    DocBuf::from_bytes(bytes)
}

/// An item of an order, in several forms.
fn item() -> impl Strategy<Value = String> {
    let product = prop_oneof![
        (0_i32..3).prop_map(|p| p.to_string()),
        Just("[0, 1]".to_owned()),
        Just("null".to_owned()),
    ];
    let price = prop_oneof![
        (0_i32..9).prop_map(|n| n.to_string()),
        Just("0.1".to_owned()),
        Just("NumberLong(7)".to_owned())
    ];
    let plain = (product, price, 1_i32..4)
        .prop_map(|(p, price, q)| format!("{{p: {p}, price: {price}, q: {q}}}"));
    prop_oneof![
        8 => plain.clone(),
        1 => Just("{p: 1}".to_owned()),
        1 => Just("5".to_owned()),
        1 => Just("null".to_owned()),
        1 => plain.prop_map(|item| format!("[{item}]")),
    ]
}

/// The items of an order: mostly an array.
fn items() -> impl Strategy<Value = String> {
    let list = prop::collection::vec(item(), 0..5).prop_map(|l| format!("[{}]", l.join(", ")));
    prop_oneof![8 => list, 1 => item(), 1 => Just("null".to_owned())]
}

/// The documents behind `$unwind: "$o.items"`, in order.
fn unwound(orders: &[DocBuf]) -> Vec<DocBuf> {
    let mut all = Vec::new();
    for order in orders {
        let order = order.as_doc();
        let inner = order.get("o").and_then(Val::as_doc);
        let elements: Vec<OwnedVal> = match inner.and_then(|inner| inner.get("items")) {
            Some(Val::Array(list)) => list.iter().map(|(_, e)| OwnedVal::new(e.get())).collect(),
            None | Some(Val::Null) => Vec::new(),
            Some(other) => vec![OwnedVal::new(other)],
        };
        for element in elements {
            all.push(DocBuf::build(|out| {
                for (name, value) in order {
                    if name != "o" {
                        out.raw(name, value);
                        continue;
                    }
                    out.doc("o", |out| {
                        for (name, value) in inner.unwrap_or(RawDoc::empty()) {
                            out.raw(name, if name == "items" { element.raw() } else { value });
                        }
                    });
                }
            }));
        }
    }
    all
}

/// The values at `o.items.p`, through an array of items and an array of products.
fn products(order: RawDoc<'_>) -> Vec<i64> {
    let items = value::path::Path::new("o.items").get(order);
    let items: Vec<RawDoc<'_>> = match items {
        Val::Document(item) => vec![item],
        Val::Array(list) => list.iter().filter_map(|(_, item)| item.as_doc()).collect(),
        _ => Vec::new(),
    };
    let mut found: Vec<i64> = Vec::new();
    for item in items {
        match item.get("p") {
            Some(Val::Array(list)) => {
                found.extend(list.iter().filter_map(|(_, p)| p.get().as_i64_exact()));
            }
            Some(p) => found.extend(p.as_i64_exact()),
            None => {}
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

static FIELDS: &[(&str, &str)] = &[
    ("units", "{$sum: '$o.items.q'}"),
    ("n", "{$count: {}}"),
    ("mean", "{$avg: '$o.items.price'}"),
    ("most", "{$max: '$o.items.price'}"),
    ("least", "{$minN: {input: '$o.items.price', n: 2}}"),
    ("all", "{$push: {i: '$_id', q: '$o.items.q'}}"),
    ("last", "{$lastN: {input: {i: '$_id', p: '$o.items.price'}, n: 2}}"),
    ("prices", "{$size: {$addToSet: '$o.items.price'}}"),
    ("middle", "{$median: {input: '$o.items.price', method: 'approximate'}}"),
];

/// What `$group` gives for documents.
fn grouped(docs: &[RawDoc<'_>], spec: &str) -> OwnedVal {
    if let Some(set) = spec.strip_prefix("{$size: ") {
        let set = grouped(docs, set.strip_suffix('}').expect("a document"));
        return OwnedVal::new(Val::Int32(set.get().as_array().expect("a set").count() as i32));
    }
    let spec = doc(spec);
    let context = ParseContext::new(0);
    let spec = AccumulatorSpec::parse("f", Val::Document(spec.as_doc()), &context).expect("known");
    let mut state = spec.start(Val::Null).expect("starts");
    for doc in docs {
        let arena = Bump::new();
        let value = spec.argument(&Env::new(*doc, &arena)).expect("a value");
        state.process(value).expect("folds");
    }
    let arena = Bump::new();
    OwnedVal::new(state.finish(&arena).expect("ends"))
}

fn same(a: Val<'_>, b: Val<'_>) -> bool {
    compare::equal(a, b)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn kept_fields_are_those_of_a_find(
        ops in prop::collection::vec((0_i32..4, proptest::option::weighted(0.85, (who(), 0_i32..3))), 1..25),
    ) {
        let mut memory = memory(&[
            ("parents", "{name: 't', kind: 'subset', from: 'children', into: 'top', on: 'p', sort: {v: 1}, limit: 3, fields: ['v', 'who.name', 'who.age.y']}"),
            ("parents", "{name: 'w', kind: 'subset', from: 'children', into: 'whole', on: {foreign: 'p'}, sort: {v: 1}, limit: 3}"),
            ("parents", "{name: 'r', kind: 'subset', from: 'children', into: 'renamed', on: {foreign: 'p'}, sort: {v: 1}, limit: 3, fields: '*', idAs: 'child'}"),
        ]);
        memory.write("parents", Val::Int32(0), Some(&doc("{_id: 0}"))).expect("is allowed");
        for (id, image) in ops {
            let image = image.map(|(who, v)| doc(&format!("{{_id: {id}, who: {who}, p: 0, v: {v}}}")));
            memory.write("children", Val::Int32(id), image.as_ref()).expect("is allowed");
            let mut children = memory.all("children");
            children.sort_by_key(|c| c.as_doc().get("v").and_then(Val::as_i64_exact));
            children.truncate(3);
            let parents = memory.all("parents");
            let shown = |name: &str| -> Vec<DocBuf> {
                let list = parents[0].as_doc().get(name).and_then(Val::as_array).expect("a list");
                list.iter().map(|(_, row)| DocBuf::from(row.as_doc().expect("a row"))).collect()
            };
            let expected: Vec<DocBuf> =
                children.iter().map(|c| projected("{v: 1, 'who.name': 1, 'who.age.y': 1}", c.as_doc())).collect();
            prop_assert_eq!(shown("top"), expected);
            prop_assert_eq!(shown("whole"), children.clone());
            let renamed = children.iter().map(|c| DocBuf::build(|out| {
                for (name, value) in c.as_doc() {
                    out.raw(if name == "_id" { "child" } else { name }, value);
                }
            }));
            prop_assert_eq!(shown("renamed"), renamed.collect::<Vec<_>>());
        }
    }

    #[test]
    fn copies_have_the_form_of_a_find(
        ops in prop::collection::vec(
            prop_oneof![
                (0_i32..2, proptest::option::weighted(0.9, who())).prop_map(|(id, who)| ("people", id, who)),
                (0_i32..4, proptest::option::weighted(0.9, prop_oneof![
                    Just("{_id: 0}".to_owned()), Just("{_id: 1}".to_owned()), Just("{}".to_owned()),
                    Just("{_id: 0, who: [{name: 7}], mine: 1}".to_owned()),
                    Just("{_id: 1, who: 7}".to_owned()),
                ])).prop_map(|(id, by)| ("posts", id, by)),
            ], 1..30),
    ) {
        let mut memory = memory(&[("posts",
            "{name: 'c', kind: 'extendedReference', ref: 'by._id', from: 'people', into: 'by', fields: ['who.name', 'who.age.y', {as: 'n', expr: '$who.name'}], onSourceDelete: 'unset'}")]);
        for (collection, id, image) in ops {
            let image = image.map(|image| match collection {
                "people" => doc(&format!("{{_id: {id}, who: {image}}}")),
                _ => doc(&format!("{{_id: {id}, by: {image}}}")),
            });
            let outcome = memory.write(collection, Val::Int32(id), image.as_ref());
            if let Err(error) = outcome {
                // A client's scalar is in the way of a copy.
                prop_assert!(error.message().contains("must be a document"), "{error}");
                continue;
            }
            let people = memory.all("people");
            for post in memory.all("posts") {
                let by = post.as_doc().get("by").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
                let source = people.iter().find(|p| p.as_doc().get("_id") == by.get("_id"));
                let copied = source.map(|source| {
                    projected("{_id: 0, 'who.name': 1, 'who.age.y': 1}", source.as_doc())
                });
                let expected = copied.as_ref().and_then(|c| c.as_doc().find("who")).map(|v| OwnedVal::new(v.get()));
                let found = by.find("who").map(|v| OwnedVal::new(v.get()));
                // Null and empty documents are not copied: only arrays have the exact form.
                if let Some(expected) = expected.filter(|v| matches!(v.get(), Val::Array(_))) {
                    prop_assert_eq!(found, Some(expected), "{:?}", source);
                } else {
                    let array = found.as_ref().is_some_and(|v| matches!(v.get(), Val::Array(_)));
                    prop_assert!(!array, "{:?} of {:?}", found, source);
                }
            }
        }
    }

    #[test]
    fn elements_are_folded_as_behind_unwind(
        ops in prop::collection::vec((0_i32..6, proptest::option::weighted(0.85, (items(), any::<bool>()))), 1..30),
    ) {
        let fields: Vec<String> = FIELDS.iter().map(|(path, spec)| format!("'{path}': {spec}")).collect();
        let fields = fields.join(", ");
        let mut memory = memory(&[
            ("products", &format!("{{name: 's', kind: 'computed', from: 'orders', on: {{foreign: 'o.items.p'}}, unwind: 'o.items', filter: {{paid: true}}, order: {{'o.items.q': 1}}, fields: {{{fields}}}}}")),
            ("products", "{name: 'c', kind: 'computed', from: 'orders', on: {foreign: 'o.items.p'}, unwind: '$o.items', filter: {'o.items.q': {$gt: 1}}, fields: {big: {$count: {}}, sum: {$sum: '$o.items.q'}}}"),
            ("orders", "{name: 'g', kind: 'computed', into: 'groups', unwind: 'o.items', groupBy: {$type: '$o.items'}, fields: {n: {$count: {}}, sum: {$sum: '$o.items.q'}}}"),
        ]);
        for id in 0..3 {
            memory.write("products", Val::Int32(id), Some(&doc(&format!("{{_id: {id}}}")))).expect("is allowed");
        }
        for (id, image) in ops {
            let image = image.map(|(items, paid)| doc(&format!("{{_id: {id}, paid: {paid}, o: {{x: 1, items: {items}, y: 2}}, z: 3}}")));
            memory.write("orders", Val::Int32(id), image.as_ref()).expect("is allowed");
            let all = unwound(&memory.all("orders"));
            for product in memory.all("products") {
                let product = product.as_doc();
                let key = product.get("_id").and_then(Val::as_i64_exact).expect("an id");
                let mine: Vec<RawDoc<'_>> = all.iter().map(DocBuf::as_doc).filter(|d| products(*d).contains(&key)).collect();
                let paid: Vec<RawDoc<'_>> = {
                    let mut paid: Vec<RawDoc<'_>> = mine.iter().copied().filter(|d| d.get("paid") == Some(Val::Bool(true))).collect();
                    // Stable: by the order, then by document and position.
                    let q = |d: RawDoc<'_>| {
                        let sort = query::sort::SortSpec::parse(doc("{'o.items.q': 1}").as_doc()).expect("a sort");
                        let mut key = Vec::new();
                        sort.key(d, &mut key).expect("a key");
                        key
                    };
                    paid.sort_by_key(|d| q(*d));
                    paid
                };
                for (path, spec) in FIELDS {
                    let expected = grouped(&paid, spec);
                    let found = product.get(path).expect("a value");
                    prop_assert!(same(found, expected.get()), "{path} of {key}: {found:?}, expected {expected:?}");
                }
                let context = ParseContext::new(0);
                let filter = query::filter::Filter::parse(doc("{'o.items.q': {$gt: 1}}").as_doc(), &context).expect("a filter");
                let big: Vec<RawDoc<'_>> = mine.iter().copied().filter(|d| filter.matches(*d).expect("matches")).collect();
                prop_assert_eq!(product.get("big").and_then(Val::as_i64_exact), Some(big.len() as i64));
                let sum = grouped(&big, "{$sum: '$o.items.q'}");
                prop_assert!(same(product.get("sum").expect("a sum"), sum.get()), "sum of {key}");
            }
            let mut groups: std::collections::BTreeMap<Vec<u8>, Vec<RawDoc<'_>>> = Default::default();
            for element in &all {
                let arena = Bump::new();
                let context = ParseContext::new(0);
                let by = Expr::parse(doc("{e: {$type: '$o.items'}}").as_doc().get("e").expect("e"), &context).expect("an expression");
                let env = Env::new(element.as_doc(), &arena);
                groups.entry(keys::key(by.eval(&env).expect("a type"))).or_default().push(element.as_doc());
            }
            let found = memory.all("groups");
            prop_assert_eq!(found.len(), groups.len());
            for group in found {
                let group = group.as_doc();
                let mine = &groups[&keys::key(group.get("_id").expect("a key"))];
                prop_assert_eq!(group.get("n").and_then(Val::as_i64_exact), Some(mine.len() as i64));
                let sum = grouped(mine, "{$sum: '$o.items.q'}");
                prop_assert!(same(group.get("sum").expect("a sum"), sum.get()), "sum of {group:?}");
            }
        }
        for id in 0..6 {
            memory.write("orders", Val::Int32(id), None).expect("is allowed");
        }
        prop_assert_eq!(memory.state_count(), 0);
    }

    #[test]
    fn elements_count_as_long_as_they_are_in_the_window(
        steps in prop::collection::vec(
            (0_i32..4, proptest::option::weighted(0.8, prop::collection::vec((0_i64..40, 0_i32..2, any::<bool>()), 0..4)), 0_i64..4), 1..40),
    ) {
        let mut memory = memory(&[
            ("p", "{name: 'w', kind: 'computed', from: 'c', on: 'e.p', unwind: 'e', window: {field: 'e.at', last: '10ms'}, order: {'e.at': 1}, fields: {n: {$count: {}}, ids: {$push: '$_id'}}}"),
        ]);
        for id in 0..2 {
            memory.write("p", Val::Int32(id), Some(&doc(&format!("{{_id: {id}}}")))).expect("is allowed");
        }
        let mut time = 0;
        for (id, image, passed) in steps {
            let image = image.map(|list| {
                let elements: Vec<String> = list.iter().map(|(at, p, dated)| match dated {
                    true => format!("{{p: {p}, at: new Date({at})}}"),
                    false => format!("{{p: {p}, at: {at}}}"),
                }).collect();
                doc(&format!("{{_id: {id}, e: [{}]}}", elements.join(", ")))
            });
            memory.write("c", Val::Int32(id), image.as_ref()).expect("is allowed");
            time += passed;
            memory.pass(time).expect("is allowed");
            for parent in 0..2_i64 {
                let mut counted: Vec<(i64, i64, usize)> = Vec::new();
                for child in memory.all("c") {
                    let id = child.as_doc().get("_id").and_then(Val::as_i64_exact).expect("an id");
                    let list = child.as_doc().get("e").and_then(Val::as_array).expect("elements");
                    for (n, (_, element)) in list.iter().enumerate() {
                        let element = element.as_doc().expect("a document");
                        let Some(Val::DateTime(at)) = element.get("at") else { continue };
                        if element.get("p").and_then(Val::as_i64_exact) == Some(parent) && at >= time - 10 {
                            counted.push((at, id, n));
                        }
                    }
                }
                counted.sort_unstable();
                let shown = memory.all("p");
                let shown = shown[parent as usize].as_doc();
                prop_assert_eq!(shown.get("n").and_then(Val::as_i64_exact), Some(counted.len() as i64), "at {}", time);
                let ids = shown.get("ids").and_then(Val::as_array).expect("a list");
                let ids: Vec<i64> = ids.iter().filter_map(|(_, v)| v.get().as_i64_exact()).collect();
                prop_assert_eq!(ids, counted.iter().map(|c| c.1).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn fields_of_one_declaration_may_read_each_other(
        order in Just(vec![0_usize, 1, 2, 3]).prop_shuffle(),
        images in prop::collection::vec((-3_i32..4, proptest::option::of(-3_i32..4), any::<bool>()), 1..6),
        skip in any::<bool>(),
    ) {
        let fields = [
            "subtotal: {$multiply: ['$price', '$q']}",
            "'sums.tax': {$divide: ['$subtotal', 2]}",
            "total: {$add: ['$subtotal', '$sums.tax']}",
            "shown: {$concat: [{$toString: '$total'}, {$ifNull: ['$sums.text', '-']}]}",
        ];
        let fields: Vec<&str> = order.iter().map(|at| fields[*at]).collect();
        let on_error = if skip { "skip" } else { "reject" };
        let mut memory = memory(&[("o", &format!("{{name: 's', kind: 'computed', onError: '{on_error}', fields: {{{}}}}}", fields.join(", ")))]);
        for (at, (price, q, lies)) in images.iter().enumerate() {
            let q_text = q.map_or("'x'".to_owned(), |q| q.to_string());
            let lie = if *lies { ", subtotal: 99, total: 'no', sums: {tax: 1, text: '!'}" } else { "" };
            let id = Val::Int32(at as i32);
            let outcome = memory.write("o", id, Some(&doc(&format!("{{_id: {at}, price: {price}, q: {q_text}{lie}}}"))));
            let Some(q) = q else {
                prop_assert_eq!(outcome.is_ok(), skip);
                if let Err(error) = outcome {
                    prop_assert!(error.message().starts_with(&format!("pattern 's' of 'o', document with _id {at}: field 'subtotal': ")), "{error}");
                }
                continue;
            };
            outcome.expect("is allowed");
            let written = memory.all("o");
            let written = written.iter().find(|d| d.as_doc().get("_id") == Some(id)).expect("written");
            let number = |path: &str| value::path::Path::new(path).get(written.as_doc()).as_f64();
            let subtotal = f64::from(price * q);
            prop_assert_eq!(number("subtotal"), Some(subtotal));
            prop_assert_eq!(number("sums.tax"), Some(subtotal / 2.0));
            prop_assert_eq!(number("total"), Some(subtotal * 1.5));
            let end = if *lies { "!" } else { "-" };
            let shown = written.as_doc().get("shown").and_then(Val::as_str).expect("text");
            prop_assert!(shown.ends_with(end), "{shown}");
        }
    }
}
