//! The scenarios of attribute.

use crate::harness::{Server, within};
use motifdb::value::{DocBuf, RawDoc, Val, ejson, path::Path};

fn declare(server: &Server, options: &str) {
    server.run(&format!(
        "{{createPatterns: 'products', patterns: [{{name: 'specs', kind: 'attribute', from: 'specs',
          as: 'specs_kv', {options}}}]}}"
    ));
}

fn insert(server: &Server, docs: &str) {
    server.run(&format!("{{insert: 'products', documents: [{docs}]}}"));
}

/// The `_id`s that a filter finds, in their order.
fn ids(server: &Server, filter: &str) -> Vec<String> {
    let found = server.docs(&format!(
        "{{find: 'products', filter: {filter}, projection: {{_id: 1}}, sort: {{_id: 1}}, batchSize: 1000}}"
    ));
    found.iter().map(|doc| ejson::print(doc.as_doc(), ejson::Format::Shell)).collect()
}

fn all(server: &Server, filter: &str) -> Vec<String> {
    let found = server.docs(&format!("{{find: 'products', filter: {filter}, sort: {{_id: 1}}}}"));
    found.iter().map(text).collect()
}

fn one(server: &Server, id: &str) -> String {
    all(server, &format!("{{_id: {id}}}")).pop().unwrap_or_default()
}

fn text(doc: &DocBuf) -> String {
    ejson::print(doc.as_doc(), ejson::Format::Shell)
}

/// The stage, index, documents read and documents returned of a find.
fn plan(server: &Server, find: &str) -> (String, u64, u64) {
    let reply = server
        .run(&format!("{{explain: {{find: 'products', {find}}}, verbosity: 'executionStats'}}"));
    let number =
        |name: &str| Path::new(name).get(reply.as_doc()).as_i64_exact().unwrap_or(-1) as u64;
    let mut stage = Path::new("queryPlanner.winningPlan").get(reply.as_doc());
    let mut name = "COLLSCAN".to_owned();
    let mut sorts = "";
    while let Val::Document(doc) = stage {
        if doc.get("stage") == Some(Val::String("SORT")) {
            sorts = "SORT ";
        }
        if doc.get("stage") == Some(Val::String("IXSCAN")) {
            name = doc.get("indexName").and_then(Val::as_str).unwrap_or("").to_owned();
        }
        stage = doc.get("inputStage").unwrap_or(Val::Missing);
    }
    let (read, returned) =
        (number("executionStats.totalDocsExamined"), number("executionStats.nReturned"));
    (format!("{sorts}{name}"), read, returned)
}

fn by_index(read: u64) -> (String, u64, u64) {
    ("specs".to_owned(), read, read)
}

/// The pairs that a document shows.
fn pairs(server: &Server, id: i32) -> String {
    let found = server.docs(&format!(
        "{{find: 'products', filter: {{_id: {id}}}, projection: {{_id: 0, specs_kv: 1}}}}"
    ));
    found.first().map(text).unwrap_or_default()
}

#[test]
fn attribute_1_both_faces_find_by_the_index_of_the_pattern() {
    let server = Server::new();
    declare(&server, "index: {suffix: ['price']}");
    insert(
        &server,
        "{_id: 1, specs: {cpu: 'i7', ram: 32}, price: 5}, {_id: 2, specs: {cpu: 'i5', ram: 8}, price: 4}",
    );
    for filter in
        ["{'specs.ram': {$gte: 16}}", "{specs_kv: {$elemMatch: {k: 'ram', v: {$gte: 16}}}}"]
    {
        assert_eq!(ids(&server, filter), ["{ _id: 1 }"], "{filter}");
        assert_eq!(plan(&server, &format!("filter: {filter}")), by_index(1), "{filter}");
        // What only a filter names is not shown.
        assert_eq!(all(&server, filter), [one(&server, "1")]);
    }
    assert!(!one(&server, "1").contains("specs_kv"));
    assert_eq!(
        pairs(&server, 1),
        "{ specs_kv: [{ k: 'cpu', v: 'i7' }, { k: 'ram', v: 32 }] }".replace('\'', "\"")
    );
    server.verify("products");
}

#[test]
fn attribute_2_an_update_changes_exactly_the_matching_pairs() {
    let server = Server::new();
    declare(&server, "index: true");
    insert(&server, "{_id: 1, specs: {cpu: 'i7', ram: 32}}");
    server.run("{update: 'products', updates: [{q: {_id: 1}, u: {$set: {'specs.ram': 64}, $unset: {'specs.cpu': ''}}}]}");
    assert_eq!(pairs(&server, 1), "{ specs_kv: [{ k: \"ram\", v: 64 }] }");
    assert_eq!(ids(&server, "{specs_kv: {$elemMatch: {k: 'cpu'}}}").len(), 0);
    assert_eq!(plan(&server, "filter: {specs_kv: {$elemMatch: {k: 'cpu'}}}"), by_index(0));
    server.run("{update: 'products', updates: [{q: {_id: 1}, u: {$rename: {'specs.ram': 'specs.memory'}}}]}");
    assert_eq!(pairs(&server, 1), "{ specs_kv: [{ k: \"memory\", v: 64 }] }");
    assert_eq!(plan(&server, "filter: {'specs_kv.k': 'memory'}"), by_index(1));
    // The pairs may be written too: each change becomes one of the attribute.
    server.run("{update: 'products', updates: [{q: {_id: 1}, u: {$push: {specs_kv: {k: 'gpu', v: 'x'}}}}]}");
    assert_eq!(one(&server, "1"), "{ _id: 1, specs: { memory: 64, gpu: \"x\" } }");
    server.run("{update: 'products', updates: [{q: {specs_kv: {$elemMatch: {k: 'memory', v: 64}}}, u: {$set: {'specs_kv.$.v': 128}}}]}");
    assert_eq!(one(&server, "1"), "{ _id: 1, specs: { memory: 128, gpu: \"x\" } }");
    server.run(
        "{update: 'products', updates: [{q: {_id: 1}, u: {$pull: {specs_kv: {k: 'memory'}}}}]}",
    );
    assert_eq!(one(&server, "1"), "{ _id: 1, specs: { gpu: \"x\" } }");
    server.verify("products");
}

#[test]
fn attribute_3_a_new_key_needs_no_command() {
    let server = Server::new();
    declare(&server, "index: true");
    let docs: Vec<String> =
        (0..50).map(|n| format!("{{_id: {n}, specs: {{a{n}: {n}}}}}")).collect();
    insert(&server, &docs.join(","));
    insert(&server, "{_id: 100, specs: {gpu: 'x'}}");
    assert_eq!(plan(&server, "filter: {'specs.gpu': 'x'}"), by_index(1));
    assert_eq!(plan(&server, "filter: {'specs.a7': 7}"), by_index(1));
    assert_eq!(plan(&server, "filter: {specs_kv: {$elemMatch: {k: 'a8', v: 8}}}"), by_index(1));
}

#[test]
fn attribute_4_arrays_and_objects_make_pairs() {
    let server = Server::new();
    declare(&server, "index: true");
    insert(
        &server,
        "{_id: 1, specs: {ports: ['usb', 'hdmi'], dim: {w: 2, h: 3}, none: null, e: [], o: {}, n: [[1]], list: [{a: 1}, 5]}}",
    );
    assert_eq!(
        pairs(&server, 1),
        "{ specs_kv: [{ k: \"ports\", v: \"usb\" }, { k: \"ports\", v: \"hdmi\" }, { k: \"dim.w\", v: 2 }, \
         { k: \"dim.h\", v: 3 }, { k: \"none\", v: null }, { k: \"list.a\", v: 1 }, { k: \"list\", v: 5 }] }"
    );
    for filter in [
        "{specs_kv: {$elemMatch: {k: 'ports', v: 'hdmi'}}}",
        "{specs_kv: {$elemMatch: {k: 'dim.w', v: {$gt: 1, $lt: 3}}}}",
        "{specs_kv: {$elemMatch: {k: 'list.a', v: 1}}}",
        "{specs_kv: {$elemMatch: {k: 'none', v: null}}}",
        "{specs_kv: {$size: 7}}",
        "{'specs_kv.k': {$all: ['ports', 'dim.h']}}",
        "{$expr: {$in: ['usb', '$specs_kv.v']}}",
        "{specs_kv: {$elemMatch: {k: {$in: ['ports']}, v: /^h/}}}",
    ] {
        assert_eq!(ids(&server, filter), ["{ _id: 1 }"], "{filter}");
    }
    for filter in [
        "{specs_kv: {$elemMatch: {k: 'n', v: 1}}}",
        "{specs_kv: {$elemMatch: {k: 'missing', v: null}}}",
        "{specs_kv: {$elemMatch: {k: 'dim'}}}",
        "{specs_kv: {$elemMatch: {k: 'ports', v: ['usb', 'hdmi']}}}",
        "{specs_kv: {$elemMatch: {k: 'ports', v: {$gt: 'i', $lt: 'h'}}}}",
        "{specs_kv: {$elemMatch: {k: 'dim.w', v: {$gte: 'a'}}}}",
    ] {
        assert_eq!(ids(&server, filter).len(), 0, "{filter}");
    }
}

#[test]
fn attribute_5_several_predicates_are_intersected_before_documents_are_read() {
    for index in ["true", "{suffix: ['price']}"] {
        let server = Server::new();
        declare(&server, &format!("index: {index}"));
        for from in (0..20_000).step_by(2000) {
            let docs: Vec<String> = (from..from + 2000)
                .map(|n| {
                    let list = if n % 50 == 0 { ", list: [1, {x: 2}]" } else { "" };
                    format!(
                        "{{_id: {n}, specs: {{a: {}, b: {}, c: '{}'{list}}}, price: {}}}",
                        n % 10,
                        n / 10 % 100,
                        n / 7 % 500,
                        n % 13
                    )
                })
                .collect();
            insert(&server, &docs.join(","));
        }
        let expected = |a: i32, b: i32, c: i32| {
            (0..20_000).filter(|n| n % 10 == a && n / 10 % 100 == b && n / 7 % 500 == c).count()
        };
        for (a, b) in [(0, 0), (3, 17), (9, 99)] {
            for c in [0, 3, 28, 142, 499] {
                let few = expected(a, b, c) as u64;
                for filter in [
                    format!("{{'specs.a': {a}, 'specs.b': {b}, 'specs.c': '{c}'}}"),
                    format!(
                        "{{specs_kv: {{$all: [{{$elemMatch: {{k: 'a', v: {a}}}}}, {{$elemMatch: {{k: 'b', v: {b}}}}}, {{$elemMatch: {{k: 'c', v: '{c}'}}}}]}}}}"
                    ),
                    format!(
                        "{{'specs.a': {a}, specs_kv: {{$elemMatch: {{k: 'b', v: {b}}}}}, 'specs.c': {{$in: ['{c}', 'x']}}}}"
                    ),
                ] {
                    let found = plan(&server, &format!("filter: {filter}"));
                    assert_eq!(found, by_index(few), "{index}: {filter}");
                }
            }
        }
        // A range is read or tested; equalities beside it are looked up.
        let (name, read, returned) = plan(&server, "filter: {'specs.a': {$gte: 5}, 'specs.b': 7}");
        assert_eq!((&*name, returned), ("specs", 100));
        assert!(read <= 200, "{read}");
        let both = ids(&server, "{'specs.list': 1, 'specs.list.x': 2, 'specs.a': 0}");
        assert_eq!(both.len(), 400);
        assert_eq!(ids(&server, "{'specs.list': 1, 'specs.list.x': 3}").len(), 0);
    }
}

/// A document as it is stored.
fn stored(server: &Server, id: i32) -> String {
    let found = server
        .docs(&format!("{{find: 'products', filter: {{_id: {id}}}, $schemaVersion: 'asStored'}}"));
    found.first().map(text).unwrap_or_default()
}

#[test]
fn attribute_6_the_layout_changes_beside_writers_and_readers() {
    let server = Server::new();
    declare(&server, "backfill: {batch: 10}");
    let doc = |n: i32| format!("{{_id: {n}, specs: {{a: {}, b: 'x{n}', c: [{n}, 1]}}}}", n % 5);
    let docs: Vec<String> = (0..1000).map(doc).collect();
    insert(&server, &docs.join(","));
    let state = |server: &Server| {
        server.pattern("products").as_doc().get("state") == Some(Val::String("ready"))
    };
    for (layout, form) in [("array", "[{ k: \"a\""), ("object", "{ a: "), ("array", "[{ k: \"a\"")]
    {
        server.run(&format!(
            "{{modifyPattern: 'products', name: 'specs', set: {{layout: '{layout}'}}, wait: false}}"
        ));
        let mut at = 0;
        while at < 200 || !state(&server) {
            at += 1;
            let id = at * 7 % 1000;
            server.run(&format!("{{update: 'products', updates: [{{q: {{_id: {id}}}, u: {{$set: {{'specs.d': {at}}}}}}}]}}"));
            assert_eq!(ids(&server, &format!("{{'specs.d': {at}}}")), [format!("{{ _id: {id} }}")]);
            assert_eq!(ids(&server, "{specs_kv: {$elemMatch: {k: 'a', v: 3}}}").len(), 200);
            assert_eq!(ids(&server, &format!("{{'specs.b': 'x{id}', 'specs.c': 1}}")).len(), 1);
            assert_eq!(
                one(&server, &id.to_string()),
                format!(
                    "{{ _id: {id}, specs: {{ a: {}, b: \"x{id}\", c: [{id}, 1], d: {at} }} }}",
                    id % 5
                )
            );
        }
        for id in 0..1000 {
            let found = stored(&server, id);
            assert!(found.contains(&format!("specs: {form}")), "{layout}: {found}");
        }
        server.verify("products");
    }
    insert(&server, "{_id: 2000, specs_kv: [{k: 'a', v: 1}, {k: 'q', v: {r: 2}}]}");
    assert_eq!(one(&server, "2000"), "{ _id: 2000, specs: { a: 1, q: { r: 2 } } }");
    assert_eq!(
        stored(&server, 2000),
        "{ _id: 2000, specs: [{ k: \"a\", v: 1 }, { k: \"q\", v: { r: 2 } }] }"
    );
    let update = "{update: 'products', updates: [{q: {_id: 2000}, u: {$set: {x: 1}}}], $schemaVersion: 'asStored'}";
    assert_eq!(server.code(update), 20, "documents are only read as they are stored");
    // A declaration that documents break says so; they can be read, and the pattern be dropped.
    let broken = "{modifyPattern: 'products', name: 'specs', set: {keys: {max: 2}}}";
    let broken = ejson::parse_doc(broken).expect("test text");
    server.0.run_command("t", broken.as_doc()).expect_err("documents have more");
    assert_eq!(ids(&server, "{'specs.a': 3}").len(), 200);
    server.run("{dropPatterns: 'products', names: ['specs']}");
    assert_eq!(one(&server, "2000"), "{ _id: 2000, specs: { a: 1, q: { r: 2 } } }");
    assert_eq!(ids(&server, "{'specs.a': 3}").len(), 200);
}

#[test]
fn an_object_inside_may_be_one_attribute() {
    let server = Server::new();
    declare(&server, "nested: 'opaque'");
    insert(
        &server,
        "{_id: 1, specs: {dim: {w: 2, h: 3}, list: [{a: 1}, 5, []], e: {}, n: 1}}, {_id: 2, specs_kv: [{k: 'dim', v: {w: 2, h: 4}}]}",
    );
    assert_eq!(
        pairs(&server, 1),
        "{ specs_kv: [{ k: \"dim\", v: { w: 2, h: 3 } }, { k: \"list\", v: { a: 1 } }, \
         { k: \"list\", v: 5 }, { k: \"n\", v: 1 }] }"
    );
    assert_eq!(one(&server, "2"), "{ _id: 2, specs: { dim: { w: 2, h: 4 } } }");
    for (filter, found) in [
        ("{specs_kv: {$elemMatch: {k: 'dim', v: {w: 2, h: 3}}}}", 1),
        ("{specs_kv: {$elemMatch: {k: 'dim', 'v.w': 2}}}", 2),
        ("{specs_kv: {$elemMatch: {k: 'dim.w', v: 2}}}", 0),
        ("{specs_kv: {$elemMatch: {k: 'dim', v: {$gte: {w: 2, h: 4}}}}}", 1),
        ("{specs_kv: {$elemMatch: {k: 'list', v: {$in: [{a: 1}, 7]}}}}", 1),
        ("{specs_kv: {$elemMatch: {k: 'list', v: 5}}}", 1),
        ("{'specs_kv.k': 'dim'}", 2),
        ("{'specs_kv.v.h': 4}", 1),
        ("{'specs.dim.h': 4}", 1),
        ("{'specs.dim': {w: 2, h: 4}}", 1),
    ] {
        assert_eq!(ids(&server, filter).len(), found, "{filter}");
    }
    assert_eq!(plan(&server, "filter: {specs_kv: {$elemMatch: {k: 'list', v: 5}}}"), by_index(1));
    assert_eq!(plan(&server, "filter: {'specs.dim.h': 4}"), by_index(1));
    server.run("{update: 'products', updates: [{q: {'specs_kv.k': 'n'}, u: {$pull: {specs_kv: {k: 'dim'}}}}]}");
    assert_eq!(one(&server, "1"), "{ _id: 1, specs: { list: [{ a: 1 }, 5, []], e: {}, n: 1 } }");
    let inside = "{insert: 'products', documents: [{_id: 3, specs_kv: [{k: 'dim.w', v: 1}]}]}";
    assert_eq!(server.code(inside), 96001);
    server.verify("products");
}

#[test]
fn attribute_7_pairs_with_the_same_key() {
    let server = Server::new();
    declare(&server, "duplicates: 'reject'");
    let twice =
        "{insert: 'products', documents: [{_id: 1, specs_kv: [{k: 'a', v: 1}, {k: 'a', v: 2}]}]}";
    assert_eq!(server.code(twice), 96001);
    assert_eq!(all(&server, "{}").len(), 0);
    server.run("{modifyPattern: 'products', name: 'specs', set: {duplicates: 'keep'}}");
    server.run(twice);
    assert_eq!(all(&server, "{}"), ["{ _id: 1, specs: { a: [1, 2] } }"]);
    server.verify("products");
}

#[test]
fn attribute_8_dropping_changes_no_document() {
    let server = Server::new();
    declare(&server, "index: true");
    insert(
        &server,
        "{_id: 1, x: 1, specs_kv: [{k: 'a', v: 1}, {k: 'b.c', v: 'd'}], y: 2}, {_id: 2, specs: 5}, {_id: 3}",
    );
    let before = all(&server, "{}");
    assert_eq!(before[0], "{ _id: 1, x: 1, specs: { a: 1, b: { c: \"d\" } }, y: 2 }");
    server.run("{dropPatterns: 'products', names: ['specs']}");
    assert_eq!(all(&server, "{}"), before);
    assert_eq!(ids(&server, "{specs_kv: {$elemMatch: {k: 'a'}}}").len(), 0);
    assert_eq!(pairs(&server, 1), "{}");
    let indexes = server.docs("{listIndexes: 'products'}");
    assert_eq!(indexes.len(), 1, "the index goes with the pattern");
    insert(&server, "{_id: 9, specs_kv: 'free again'}");
}

#[test]
fn a_sort_by_an_attribute_or_a_suffix_follows_the_index() {
    let server = Server::new();
    declare(&server, "index: {suffix: ['price', 'name']}");
    let docs: Vec<String> = (0..200)
        .map(|n| {
            format!(
                "{{_id: {n}, specs: {{ram: {}, cpu: 'c{}'}}, price: {}, name: 'n{}'}}",
                n % 7,
                n % 3,
                n % 11,
                n % 5
            )
        })
        .collect();
    insert(&server, &docs.join(","));
    for (find, sorted) in [
        ("filter: {'specs.ram': 3}, sort: {price: 1}", true),
        ("filter: {'specs.ram': 3}, sort: {price: -1, name: -1}", true),
        ("filter: {'specs.ram': 3}, sort: {'specs.ram': -1, price: 1}", true),
        ("filter: {'specs.ram': {$gte: 3}}, sort: {'specs.ram': 1}", true),
        ("filter: {'specs.ram': {$gte: 3}}, sort: {'specs.ram': -1, price: -1}", true),
        ("filter: {specs_kv: {$elemMatch: {k: 'ram', v: 3}}}, sort: {price: 1}", true),
        ("filter: {'specs.ram': 3}, sort: {price: 1, name: -1}", false),
        ("filter: {'specs.ram': 3}, sort: {name: 1}", false),
        ("filter: {'specs.ram': {$gte: 3}}, sort: {price: 1}", false),
        ("filter: {'specs.ram': {$in: [3, 4]}}, sort: {price: 1}", false),
    ] {
        let (plan, _, _) = plan(&server, find);
        let expected = if sorted { "specs" } else { "SORT specs" };
        assert_eq!(plan, expected, "{find}");
        let fast = server.docs(&format!("{{find: 'products', {find}}}"));
        let plain = server.docs(&format!("{{find: 'products', {find}, hint: {{$natural: 1}}}}"));
        let keys = |docs: &[DocBuf]| -> Vec<String> {
            let key = |doc: RawDoc<'_>, path: &str| format!("{:?}", Path::new(path).get(doc));
            let by = find.split("sort:").nth(1).unwrap_or("");
            let sort = ["price", "name", "specs.ram"].into_iter().filter(|path| by.contains(path));
            let sort: Vec<&str> = sort.collect();
            docs.iter()
                .map(|doc| sort.iter().map(|path| key(doc.as_doc(), path)).collect())
                .collect()
        };
        assert_eq!(keys(&fast), keys(&plain), "{find}");
    }
}

#[test]
fn the_index_lives_and_dies_with_its_pattern() {
    let server = Server::new();
    insert(&server, "{_id: 1, specs: {a: 1, hidden: 2}}");
    declare(&server, "index: {suffix: ['price']}, keys: {exclude: ['hidden']}");
    assert_eq!(server.code("{dropIndexes: 'products', index: 'specs'}"), 72);
    server.run("{dropIndexes: 'products', index: '*'}");
    assert_eq!(plan(&server, "filter: {'specs.a': 1}"), by_index(1));
    assert_eq!(plan(&server, "filter: {'specs.hidden': 2}").0, "COLLSCAN");
    assert_eq!(pairs(&server, 1), "{ specs_kv: [{ k: \"a\", v: 1 }] }");
    server.run("{modifyPattern: 'products', name: 'specs', set: {keys: {include: ['hidden']}}}");
    assert_eq!(plan(&server, "filter: {'specs.hidden': 2}"), by_index(1));
    assert_eq!(plan(&server, "filter: {'specs.a': 1}").0, "COLLSCAN");
    server.run("{modifyPattern: 'products', name: 'specs', set: {index: false}}");
    assert_eq!(server.docs("{listIndexes: 'products'}").len(), 1);
    server.run("{modifyPattern: 'products', name: 'specs', set: {index: true, keys: null}}");
    assert_eq!(plan(&server, "filter: {'specs.a': 1}"), by_index(1));
    for rename in [
        "{renameCollection: 't.products', to: 't.other'}",
        "{renameCollection: 't.other', to: 't.products'}",
    ] {
        let command = ejson::parse_doc(rename).expect("test text");
        server.0.run_command("admin", command.as_doc()).expect("renames");
    }
    assert_eq!(plan(&server, "filter: {'specs.a': 1}"), by_index(1));
}

#[test]
fn single_fields_may_be_the_attributes() {
    let server = Server::new();
    server.run("{createPatterns: 'products', patterns: [{name: 'specs', kind: 'attribute', fields: ['color', 'size.w'], as: 'specs_kv'}]}");
    insert(
        &server,
        "{_id: 1, color: ['red', 'blue'], size: {w: 3, h: 4}, other: 1}, {_id: 2, other: 2}",
    );
    assert_eq!(
        pairs(&server, 1),
        "{ specs_kv: [{ k: \"color\", v: \"red\" }, { k: \"color\", v: \"blue\" }, { k: \"size.w\", v: 3 }] }"
    );
    assert_eq!(pairs(&server, 2), "{}");
    assert_eq!(plan(&server, "filter: {color: 'blue'}"), by_index(1));
    assert_eq!(plan(&server, "filter: {specs_kv: {$elemMatch: {k: 'size.w', v: 3}}}"), by_index(1));
    assert_eq!(plan(&server, "filter: {other: 2}").0, "COLLSCAN");
    insert(&server, "{_id: 3, specs_kv: [{k: 'size.w', v: 9}]}");
    assert_eq!(one(&server, "3"), "{ _id: 3, size: { w: 9 } }");
    assert_eq!(
        server.code("{insert: 'products', documents: [{specs_kv: [{k: 'other', v: 9}]}]}"),
        96001
    );
    server.verify("products");
}

#[test]
fn every_kind_of_statement_may_name_the_pairs() {
    let server = Server::new();
    declare(&server, "index: true");
    insert(
        &server,
        "{_id: 1, specs: {a: 1, b: 2}}, {_id: 2, specs: {a: 3}}, {_id: 3, specs: 'none'}",
    );
    let show = |text: &str| -> Vec<String> { server.docs(text).iter().map(self::text).collect() };
    assert_eq!(
        show(
            "{aggregate: 'products', pipeline: [{$unwind: '$specs_kv'}, {$group: {_id: '$specs_kv.k', n: {$sum: '$specs_kv.v'}}}, {$sort: {_id: 1}}], cursor: {}}"
        ),
        ["{ _id: \"a\", n: 4 }", "{ _id: \"b\", n: 2 }"]
    );
    assert_eq!(
        show("{aggregate: 'products', pipeline: [{$match: {'specs_kv.k': 'b'}}], cursor: {}}"),
        ["{ _id: 1, specs: { a: 1, b: 2 } }"]
    );
    assert_eq!(
        show(
            "{aggregate: 'products', pipeline: [{$match: {'specs_kv.k': 'a'}}, {$count: 'n'}], cursor: {}}"
        ),
        ["{ n: 2 }"]
    );
    assert_eq!(
        show(
            "{aggregate: 'products', pipeline: [{$match: {_id: 1}}, {$lookup: {from: 'products', localField: 'specs.a', foreignField: 'specs_kv.v', as: 'same'}}, {$project: {n: {$size: '$same'}}}], cursor: {}}"
        ),
        ["{ _id: 1, n: 1 }"]
    );
    assert_eq!(
        show(
            "{aggregate: 'products', pipeline: [{$match: {_id: 3}}, {$lookup: {from: 'products', pipeline: [{$match: {'specs_kv.v': 3}}], as: 'found'}}], cursor: {}}"
        ),
        ["{ _id: 3, specs: \"none\", found: [{ _id: 2, specs: { a: 3 } }] }"]
    );
    let number = |text: &str, field: &str| {
        server.run(text).as_doc().get(field).and_then(Val::as_i64_exact).unwrap_or(-1)
    };
    assert_eq!(number("{count: 'products', query: {'specs_kv.k': 'a'}}", "n"), 2);
    let distinct = server.run("{distinct: 'products', key: 'specs_kv.k'}");
    assert!(text(&distinct).contains("[\"a\", \"b\"]"), "{distinct:?}");
    assert_eq!(
        show(
            "{find: 'products', filter: {}, projection: {_id: 1}, sort: {'specs_kv.v': -1}, limit: 1}"
        ),
        ["{ _id: 2 }"]
    );
    let changed = server.run(
        "{findAndModify: 'products', query: {'specs_kv.v': 3}, update: {$set: {x: 1}}, new: true}",
    );
    assert!(text(&changed).contains("{ _id: 2, specs: { a: 3 }, x: 1 }"), "{changed:?}");
    server.run("{create: 'seen', viewOn: 'products', pipeline: [{$match: {'specs_kv.k': 'b'}}]}");
    assert_eq!(
        server.docs("{find: 'seen'}").iter().map(self::text).collect::<Vec<_>>(),
        ["{ _id: 1, specs: { a: 1, b: 2 } }"]
    );
    assert_eq!(
        number(
            "{delete: 'products', deletes: [{q: {specs_kv: {$elemMatch: {k: 'b'}}}, limit: 0}]}",
            "n"
        ),
        1
    );
    // In a transaction, and again at its end.
    server.run(&format!("{{update: 'products', updates: [{{q: {{_id: 2}}, u: {{$push: {{specs_kv: {{k: 'z', v: 0}}}}}}}}]{}}}", within(1, 1, true)));
    server
        .0
        .run_command(
            "admin",
            ejson::parse_doc(&format!("{{commitTransaction: 1{}}}", within(1, 1, false)))
                .expect("test text")
                .as_doc(),
        )
        .expect("commits");
    assert_eq!(one(&server, "2"), "{ _id: 2, specs: { a: 3, z: 0 }, x: 1 }");
    assert_eq!(
        server.code("{update: 'products', updates: [{q: {_id: 2}, u: {$unset: {specs_kv: ''}}}]}"),
        96001
    );
    server.run("{insert: 'products', documents: [{_id: 7, specs: {q: 1}, x: 1}]}");
    server
        .run("{update: 'products', updates: [{q: {'specs_kv.k': 'q'}, u: {$unset: {specs: ''}}}]}");
    assert_eq!(one(&server, "7"), "{ _id: 7, x: 1 }");
    server.run("{update: 'products', updates: [{q: {_id: 7}, u: {specs_kv: [{k: 'q', v: 1}]}}]}");
    assert_eq!(one(&server, "7"), "{ _id: 7, specs: { q: 1 } }");
    server.run("{update: 'products', updates: [{q: {_id: 7}, u: {specs: {q: 2}, specs_kv: [{k: 'q', v: 1}]}}]}");
    assert_eq!(one(&server, "7"), "{ _id: 7, specs: { q: 2 } }");
    server.run("{update: 'products', updates: [{q: {_id: 7}, u: [{$set: {specs_kv: {$concatArrays: ['$specs_kv', [{k: 'r', v: 5}]]}}}]}]}");
    assert_eq!(one(&server, "7"), "{ _id: 7, specs: { q: 2, r: 5 } }");
    // A replacement that brings no pairs keeps what it says itself.
    server
        .run("{update: 'products', updates: [{q: {'specs_kv.k': 'z'}, u: {specs: {a: 3, z: 0}}}]}");
    assert_eq!(one(&server, "2"), "{ _id: 2, specs: { a: 3, z: 0 } }");
    server.run("{aggregate: 'products', pipeline: [{$match: {_id: 2}}, {$project: {specs_kv: 1}}, {$merge: {into: 'products', whenMatched: 'replace'}}], cursor: {}}");
    assert_eq!(one(&server, "2"), "{ _id: 2, specs: { a: 3, z: 0 } }");
    server.verify("products");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let server = Server::new();
    declare(&server, "keys: {max: 3}");
    for documents in [
        "{specs_kv: 5}",
        "{specs_kv: [5]}",
        "{specs_kv: [{k: 1, v: 1}]}",
        "{specs_kv: [{k: 'a'}]}",
        "{specs_kv: [{k: 'a', v: 1, w: 2}]}",
        "{specs_kv: [{k: '', v: 1}]}",
        "{specs_kv: [{k: '$a', v: 1}]}",
        "{specs_kv: [{k: 'a..b', v: 1}]}",
        "{specs_kv: [{k: 'a', v: 1}, {k: 'a.b', v: 1}]}",
        "{specs: {a: 1}, specs_kv: [{k: 'a', v: 2}]}",
        "{specs: 'x', specs_kv: [{k: 'a', v: 2}]}",
        "{specs: {a: 1, b: 1, c: {d: 1, e: 1}}}",
        "{specs_kv: [{k: 'a', v: 1}, {k: 'b', v: 1}, {k: 'c', v: 1}, {k: 'd', v: 1}]}",
    ] {
        let code = server.code(&format!("{{insert: 'products', documents: [{documents}]}}"));
        assert_eq!(code, 96001, "{documents}");
    }
    assert_eq!(all(&server, "{}").len(), 0);
    // What is no object is stored as it came.
    insert(
        &server,
        "{_id: 1, specs: [1, {a: 2}]}, {_id: 2, specs: 'x'}, {_id: 3, specs: {'a.b': 1, '': 2, $c: 3, '5': 4}}, {_id: 4, specs: {a: [1, 2, 3, 4, 5]}}, {_id: 5, specs: {a: 1}, specs_kv: [{k: 'a', v: 1}]}",
    );
    assert_eq!(one(&server, "1"), "{ _id: 1, specs: [1, { a: 2 }] }");
    assert_eq!(pairs(&server, 3), "{ specs_kv: [{ k: \"$c\", v: 3 }, { k: \"5\", v: 4 }] }");
    assert_eq!(one(&server, "5"), "{ _id: 5, specs: { a: 1 } }");
    for filter in [
        "{'specs.5': 4}",
        "{specs_kv: {$elemMatch: {k: '5', v: 4}}}",
        "{specs_kv: {$elemMatch: {k: '$c', v: 3}}}",
    ] {
        assert_eq!(ids(&server, filter), ["{ _id: 3 }"], "{filter}");
    }
    // Declarations over documents that break them fail, and say so.
    insert(&server, "{_id: 9, specs: {a: 1, b: 1, c: 1}}");
    server
        .0
        .run_command(
            "t",
            ejson::parse_doc("{modifyPattern: 'products', name: 'specs', set: {keys: {max: 2}}}")
                .expect("test text")
                .as_doc(),
        )
        .expect_err("a document has more");
    assert_eq!(server.pattern("products").as_doc().get("state"), Some(Val::String("failed")));
    for (other, code) in [
        ("{name: 'b', kind: 'attribute', from: 'specs'}", 2),
        ("{name: 'b', kind: 'attribute', from: 'specs.deep'}", 2),
        ("{name: 'b', kind: 'attribute', fields: ['specs']}", 2),
        ("{name: 'b', kind: 'attribute', from: 'x', as: 'specs_kv'}", 2),
        ("{name: 'b', kind: 'computed', fields: {specs_kv: {$add: [1, 1]}}}", 2),
    ] {
        let text = format!("{{createPatterns: 'products', patterns: [{other}]}}");
        assert_eq!(server.code(&text), code, "{other}");
    }
    server.run("{create: 'capped', capped: true, size: 4096}");
    assert_eq!(
        server.code("{createPatterns: 'capped', patterns: [{kind: 'attribute', from: 'a'}]}"),
        72
    );
    assert_eq!(server.code("{createIndexes: 'free', indexes: [{key: {b: 1}, name: 'b'}]}"), 0);
    assert_eq!(
        server.code(
            "{createPatterns: 'free', patterns: [{name: 'b', kind: 'attribute', from: 'a'}]}"
        ),
        86
    );
}
