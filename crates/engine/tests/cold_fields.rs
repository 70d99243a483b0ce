//! The vertical form of `subset`: cold fields are stored apart. Scenario 8 of subset, what is read and
//! written, and what clients might do to it. `layouts.rs` compares such a collection with a plain one.

mod harness;

use harness::{Server, print, text, whole, within};
use motifdb::value::{DocBuf, RawDoc, Val};

const COLD: &str =
    "{name: 'cold', kind: 'subset', cold: ['description', 'details.history'], inlineBelow: 512}";

fn declare(server: &Server, collection: &str) {
    server.run(&format!("{{createPatterns: '{collection}', patterns: [{COLD}]}}"));
}

/// A product with a cold description of so many bytes.
fn product(id: i32, bytes: usize) -> DocBuf {
    DocBuf::build(|out| {
        out.i32("_id", id).str("name", &format!("product {id}"));
        out.str("description", &"lorem ".repeat(bytes / 6));
        out.i32("price", id % 10).doc("details", |out| {
            out.i32("weight", 5).str("history", &"9.99, ".repeat(200)).str("unit", "kg");
        });
        out.array("tags", |list| list.push(Val::String("new")));
    })
}

fn insert(server: &Server, collection: &str, docs: &[DocBuf]) {
    let command = DocBuf::build(|out| {
        out.str("insert", collection);
        out.array("documents", |list| docs.iter().for_each(|doc| list.push_doc_bytes(doc.bytes())));
    });
    let reply = server.0.run_command("t", command.as_doc()).expect("is inserted");
    assert!(reply.as_doc().get("writeErrors").is_none(), "{reply:?}");
}

/// A figure of `executionStats`, wherever the command's explain has it.
fn figure(server: &Server, command: &str, name: &str) -> i64 {
    let reply = server.run(&format!("{{explain: {{{command}}}, verbosity: 'executionStats'}}"));
    let inside =
        |doc: RawDoc<'_>, name: &str| doc.get(name).and_then(Val::as_doc).map(DocBuf::from);
    let stages = reply.as_doc().get("stages").and_then(Val::as_array);
    let first = stages.and_then(RawDoc::first).and_then(|(_, stage)| stage.as_doc());
    let cursor = first.and_then(|stage| inside(stage, "$cursor"));
    let plan = cursor.unwrap_or_else(|| reply.clone());
    let stats = inside(plan.as_doc(), "executionStats");
    let stats = stats.unwrap_or_else(|| panic!("no statistics: {}", print(reply.as_doc())));
    let stats = stats.as_doc();
    let found = stats.get(name).and_then(Val::as_i64_exact);
    found.unwrap_or_else(|| panic!("{command}: no {name}: {}", print(stats)))
}

#[test]
fn subset_8_reads_and_updates_leave_cold_fields_alone() {
    let server = Server::new();
    declare(&server, "products");
    server.run("{insert: 'o', documents: [{_id: 1, p: 3, n: 4}, {_id: 2, p: 4, n: 5}]}");
    let docs: Vec<DocBuf> = (0..100).map(|id| product(id, 600_000)).collect();
    docs.chunks(10).for_each(|chunk| insert(&server, "products", chunk));
    let size = whole(&server.run("{collStats: 'products'}"), "size");
    assert!(size > 60_000_000, "collStats speaks of whole documents: {size}");

    let read = |command: &str| figure(&server, command, "bytesRead");
    let all = read("find: 'products'");
    assert!(all >= size, "{all} of {size}");
    for command in [
        "find: 'products', projection: {name: 1, price: 1}",
        "find: 'products', filter: {price: {$gt: 3}}, sort: {price: -1}, projection: {name: 1}",
        "find: 'products', projection: {description: 0, 'details.history': 0}",
        "find: 'products', projection: {label: {$concat: ['$name', '!']}}",
        "find: 'products', projection: {details: {weight: 1}}",
        "aggregate: 'products', pipeline: [{$match: {price: 3}}, {$project: {name: 1}}], cursor: {}",
        "aggregate: 'products', pipeline: [{$project: {d: {$add: ['$price', 1]}}}], cursor: {}",
        "aggregate: 'products', pipeline: [{$group: {_id: '$price', n: {$sum: 1}}}], cursor: {}",
        "aggregate: 'products', pipeline: [{$unwind: '$tags'}, {$sort: {name: 1}}, {$set: {x: '$tags'}}, {$project: {x: 1}}], cursor: {}",
        "count: 'products', query: {price: 3}",
        "distinct: 'products', key: 'name'",
        "aggregate: 'products', pipeline: [{$skip: 3}, {$sample: {size: 5}}, {$project: {name: 1}}], cursor: {}",
        "aggregate: 'products', pipeline: [{$facet: {a: [{$match: {price: 3}}, {$count: 'n'}], b: [{$sort: {name: 1}}, {$project: {name: 1}}]}}], cursor: {}",
        "aggregate: 'products', pipeline: [{$lookup: {from: 'o', localField: 'price', foreignField: 'p', as: 'o'}}, {$project: {name: 1, 'o.n': 1}}], cursor: {}",
        "aggregate: 'products', pipeline: [{$lookup: {from: 'o', let: {p: '$price'}, pipeline: [{$match: {$expr: {$eq: ['$p', '$$p']}}}], as: 'o'}}, {$group: {_id: '$price', n: {$sum: {$size: '$o'}}}}], cursor: {}",
        "aggregate: 'products', pipeline: [{$graphLookup: {from: 'o', startWith: '$price', connectFromField: 'n', connectToField: 'p', as: 'o'}}, {$project: {name: 1, o: 1}}], cursor: {}",
        "aggregate: 'products', pipeline: [{$unionWith: 'o'}, {$project: {name: 1}}], cursor: {}",
        "delete: 'products', deletes: [{q: {price: 3}, limit: 0}]",
        "delete: 'products', deletes: [{q: {_id: 3}, limit: 1}]",
        "findAndModify: 'products', query: {_id: 3}, update: {$inc: {price: 1}}, fields: {price: 1, name: 1}, new: true",
        "findAndModify: 'products', query: {price: 3}, sort: {name: 1}, remove: true, fields: {name: 1}",
        "update: 'products', updates: [{q: {price: 3}, u: {$inc: {price: 1}}, multi: true}]",
        "update: 'products', updates: [{q: {_id: 3}, u: {$set: {'details.weight': 9}, $push: {tags: 'x'}}}]",
    ] {
        let bytes = read(command);
        assert!(bytes > 0 && bytes < size / 100, "{command}: {bytes} of {size}");
    }
    // One cold field is loaded without the other.
    let one = read("find: 'products', projection: {'details.history': 1}");
    assert!(one > 100 * 1_200 && one < size / 100, "{one}");
    assert!(
        read("find: 'products', filter: {description: {$regex: 'x'}}, projection: {name: 1}")
            >= 60_000_000
    );

    let written = |update: &str| {
        let update = format!("update: 'products', updates: [{{q: {{_id: 7}}, u: {update}}}]");
        figure(&server, &update, "bytesWritten")
    };
    assert!(written("{$set: {price: 4}}") < 5_000);
    let replaced = "[{$set: {price: 4}}]";
    assert!(written(replaced) < 5_000, "what is equal is not written again");
    assert!(written("{$set: {description: 'short'}}") < 5_000);

    // The update itself, not its explanation: stored records are counted.
    let examined = || {
        let status = server.run("{serverStatus: 1}");
        whole(&status, "metrics.queryExecutor.scannedObjects")
    };
    let before = examined();
    server.run("{update: 'products', updates: [{q: {_id: 7}, u: {$set: {price: 42}, $push: {tags: 'y'}}}]}");
    assert_eq!(examined() - before, 1, "the record of the document alone");
    let before = examined();
    server.run(
        "{update: 'products', updates: [{q: {price: 3}, u: {$inc: {stock: 1}}, multi: true}]}",
    );
    assert_eq!(examined() - before, 100);

    let found = server.docs("{find: 'products', filter: {_id: 8}}");
    assert_eq!(found.first().expect("is there").bytes(), product(8, 600_000).bytes());
    let seven = server.get("products", "7");
    assert_eq!(text(&seven, "description").len(), 600_000);
    assert_eq!((whole(&seven, "price"), text(&seven, "details.unit")), (42, "kg"));
    server.verify("products");
}

/// The bytes that a stage at this place reads of another collection.
fn joined_bytes(server: &Server, pipeline: &str) -> i64 {
    let reply = server.run(&format!(
        "{{explain: {{aggregate: 'o', pipeline: [{pipeline}], cursor: {{}}}}, verbosity: 'executionStats'}}"
    ));
    let stages = reply.as_doc().get("stages").and_then(Val::as_array).expect("stages");
    let bytes = stages.iter().filter_map(|(_, stage)| stage.as_doc()?.get("bytesRead"));
    bytes.filter_map(Val::as_i64_exact).sum()
}

#[test]
fn joins_load_what_they_need() {
    let server = Server::new();
    server.run("{createIndexes: 'c', indexes: [{key: {price: 1}, name: 'p'}]}");
    declare(&server, "c");
    let docs: Vec<DocBuf> = (0..20).map(|id| product(id, 100_000)).collect();
    insert(&server, "c", &docs);
    server.run("{insert: 'o', documents: [{_id: 1, c: 3, parent: null}, {_id: 2, c: 4, w: 5}]}");
    server.run("{create: 'v', viewOn: 'c', pipeline: [{$match: {price: {$gte: 0}}}]}");
    for (few, all) in [
        (
            "{$lookup: {from: 'c', localField: 'c', foreignField: '_id', pipeline: [{$project: {name: 1}}], as: 'c'}}",
            "{$lookup: {from: 'c', localField: 'c', foreignField: '_id', as: 'c'}}",
        ),
        (
            "{$lookup: {from: 'c', localField: 'c', foreignField: '_id', as: 'c'}}, {$project: {'c.name': 1}}",
            "{$lookup: {from: 'c', localField: 'c', foreignField: '_id', as: 'c'}}, {$project: {'c.description': 1}}",
        ),
        (
            "{$lookup: {from: 'c', localField: 'c', foreignField: 'price', as: 'c'}}, {$unwind: '$c'}, {$group: {_id: '$c.name'}}",
            "{$lookup: {from: 'c', localField: 'c', foreignField: 'price', as: 'c'}}, {$unwind: '$c'}, {$group: {_id: '$c'}}",
        ),
        (
            "{$lookup: {from: 'c', localField: 'w', foreignField: 'details.weight', as: 'c'}}, {$project: {'c.name': 1, 'c.tags': 1}}",
            "{$lookup: {from: 'c', localField: 'w', foreignField: 'details.weight', as: 'c'}}, {$project: {'c.0.name': 1}}",
        ),
        (
            "{$lookup: {from: 'v', localField: 'c', foreignField: '_id', as: 'c'}}, {$project: {'c.name': 1}}",
            "{$lookup: {from: 'v', localField: 'c', foreignField: '_id', as: 'c'}}",
        ),
        (
            "{$lookup: {from: 'c', let: {c: '$c'}, pipeline: [{$match: {$expr: {$eq: ['$_id', '$$c']}}}, {$project: {n: '$name'}}], as: 'c'}}",
            "{$lookup: {from: 'c', let: {c: '$c'}, pipeline: [{$match: {$expr: {$eq: ['$_id', '$$c']}}}, {$project: {n: '$$ROOT'}}], as: 'c'}}",
        ),
        (
            "{$lookup: {from: 'c', let: {c: '$c'}, pipeline: [{$match: {$expr: {$gt: ['$price', '$$c']}}}], as: 'c'}}, {$project: {'c._id': 1}}",
            "{$lookup: {from: 'c', let: {c: '$c'}, pipeline: [{$match: {$expr: {$gt: ['$price', '$$c']}}}], as: 'c'}}",
        ),
    ] {
        let (few_bytes, all_bytes) = (joined_bytes(&server, few), joined_bytes(&server, all));
        assert!(few_bytes > 0 && few_bytes < 40_000, "{few}: {few_bytes}");
        assert!(all_bytes > 100_000, "{all}: {all_bytes}");
        // Without the pattern the answers are the same.
        let plain = |text: &str| text.replace("from: 'c'", "from: 'p'").replace("'v'", "'pv'");
        insert_plain(&server, &docs);
        for pipeline in [few, all] {
            let answer = |pipeline: &str| {
                let text = format!(
                    "{{aggregate: 'o', pipeline: [{pipeline}, {{$sort: {{_id: 1}}}}], cursor: {{}}}}"
                );
                let found = server.docs(&text);
                found.iter().map(|doc| doc.bytes().to_vec()).collect::<Vec<_>>()
            };
            assert_eq!(answer(pipeline), answer(&plain(pipeline)), "{pipeline}");
        }
    }
}

/// The same documents without a pattern.
fn insert_plain(server: &Server, docs: &[DocBuf]) {
    if server.docs("{find: 'p', limit: 1}").is_empty() {
        insert(server, "p", docs);
        server.run("{create: 'pv', viewOn: 'p', pipeline: [{$match: {price: {$gte: 0}}}]}");
    }
}

#[test]
fn deletes_leave_nothing_behind() {
    let server = Server::new();
    server.run("{createIndexes: 'c', indexes: [{key: {description: 1, name: 1}, name: 'dn'}, {key: {price: 1}, name: 'p', partialFilterExpression: {'details.history': {$gt: 'a'}}}]}");
    declare(&server, "c");
    let docs: Vec<DocBuf> = (0..30).map(|id| product(id, 2_400)).collect();
    insert(&server, "c", &docs);
    server.run("{delete: 'c', deletes: [{q: {price: 3}, limit: 0}, {q: {_id: 4}, limit: 1}]}");
    let reply =
        server.run("{findAndModify: 'c', query: {_id: 5}, remove: true, fields: {name: 1}}");
    assert_eq!(text(&reply, "value.name"), "product 5");
    assert!(reply.as_doc().get("value").and_then(Val::as_doc).is_some_and(|doc| doc.count() == 2));
    let reply = server.run("{findAndModify: 'c', query: {_id: 6}, update: {$inc: {price: 50}}, new: true, fields: {price: 1, _id: 0}}");
    assert_eq!(whole(&reply, "value.price"), 56);
    let reply = server.run("{findAndModify: 'c', query: {_id: 7}, update: {$inc: {price: 50}}}");
    assert_eq!(text(&reply, "value.description").len(), 2_400);
    let reply = server.run("{findAndModify: 'c', query: {_id: 8}, remove: true}");
    assert_eq!(
        reply.as_doc().get("value").and_then(Val::as_doc).map(|doc| doc.bytes().to_vec()),
        Some(product(8, 2_400).bytes().to_vec())
    );
    server.verify("c");
    server.run("{delete: 'c', deletes: [{q: {}, limit: 0}]}");
    let stats = server.run("{collStats: 'c'}");
    assert_eq!((whole(&stats, "size"), whole(&stats, "count")), (0, 0));
    server.verify("c");
}

#[test]
fn whatever_is_declared_beside_it_cold_fields_stay_whole() {
    let server = Server::new();
    server.run("{create: 'c', validator: {description: {$type: 'string'}}}");
    server.run("{createIndexes: 'c', indexes: [{key: {description: 1, price: 1}, name: 'dp'}, {key: {price: 1}, name: 'p', partialFilterExpression: {description: {$gt: 'm'}}}]}");
    declare(&server, "c");
    let docs: Vec<DocBuf> = (0..5).map(|id| product(id, 3_000)).collect();
    insert(&server, "c", &docs);
    server.run("{update: 'c', updates: [{q: {_id: 2}, u: {$inc: {price: 100}}}]}");
    assert_eq!(
        server.code("{update: 'c', updates: [{q: {_id: 2}, u: {$set: {description: 5}}}]}"),
        121
    );
    server.run("{collMod: 'c', validator: {}}");
    server.run("{update: 'c', updates: [{q: {price: 102}, u: {$inc: {price: 1}}}]}");
    let found = server
        .docs("{find: 'c', filter: {description: {$regex: '^lorem'}, price: 103}, hint: 'dp'}");
    assert_eq!(found.len(), 1);
    assert_eq!(text(found.first().expect("one"), "description").len(), 3_000);
    // A pattern that reads a cold field, and one that copies it.
    server.run("{createPatterns: 'c', patterns: [{name: 'n', kind: 'computed', fields: {length: {$strLenBytes: '$description'}}}]}");
    server.run("{insert: 'o', documents: [{_id: 1, c: {_id: 2}}]}");
    server.run("{createPatterns: 'o', patterns: [{name: 'r', kind: 'extendedReference', ref: 'c._id', from: 'c', fields: ['price', 'description'], into: 'c'}]}");
    server.run("{update: 'c', updates: [{q: {_id: 2}, u: {$inc: {price: 1}}}]}");
    server.run("{update: 'c', updates: [{q: {_id: 2}, u: {$set: {description: 'now short'}}}]}");
    let order = server.get("o", "1");
    assert_eq!((whole(&order, "c.price"), text(&order, "c.description")), (104, "now short"));
    assert_eq!(whole(&server.get("c", "2"), "length"), 9);
    // A transaction, and one that is given up.
    for (number, verb) in [(1, "abortTransaction"), (2, "commitTransaction")] {
        server.run(&format!("{{update: 'c', updates: [{{q: {{_id: 3}}, u: {{$inc: {{price: 10}}, $set: {{'details.history': 'h'}}}}}}]{}}}", within(1, number, true)));
        assert_eq!(server.end(verb, 1, number), 0);
    }
    assert_eq!(whole(&server.get("c", "3"), "price"), 13);
    server.verify("c");
}

#[test]
fn the_logical_document_keeps_its_limit() {
    let (plain, cold) = (Server::new(), Server::new());
    declare(&cold, "c");
    for server in [&plain, &cold] {
        insert(server, "c", &[product(1, 16_600_000)]);
        let push = format!(
            "{{update: 'c', updates: [{{q: {{_id: 1}}, u: {{$set: {{hot: '{}'}}}}}}]}}",
            "x".repeat(300_000)
        );
        assert_eq!(server.code(&push), 10334);
        assert!(server.get("c", "1").as_doc().get("hot").is_none());
        server.run("{update: 'c', updates: [{q: {_id: 1}, u: {$set: {hot: 'x'}}}]}");
    }
    assert_eq!(plain.get("c", "1").bytes(), cold.get("c", "1").bytes());
    cold.verify("c");
}

/// A value that looks like those that stand in for cold values.
fn lookalike(slot: u8, size: u8) -> DocBuf {
    let mut bytes = b"\xC0\x1Dcold field\0\xB7\x91\x5E".to_vec();
    bytes.extend_from_slice(&[0, 0, 0, slot, 0, 0, 0, size]);
    DocBuf::build(|out| {
        out.i32("_id", i32::from(slot))
            .append("description", Val::Binary(0x80, &bytes))
            .i32("n", 1);
    })
}

#[test]
fn a_value_that_looks_stored_apart_is_a_value() {
    let server = Server::new();
    let check = |ids: &[u8]| {
        for id in ids {
            assert_eq!(server.get("c", &id.to_string()).bytes(), lookalike(*id, 9).bytes());
        }
    };
    insert(&server, "c", &[lookalike(0, 9), lookalike(1, 9)]);
    declare(&server, "c");
    insert(&server, "c", &[lookalike(2, 9)]);
    check(&[0, 1, 2]);
    server.run("{update: 'c', updates: [{q: {}, u: {$inc: {n: 1}}, multi: true}]}");
    server.run("{update: 'c', updates: [{q: {}, u: {$inc: {n: -1}}, multi: true}]}");
    check(&[0, 1, 2]);
    server.verify("c");
    server.run("{dropPatterns: 'c', names: '*'}");
    check(&[0, 1, 2]);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let server = Server::new();
    let refused = |collection: &str, pattern: &str, code: i32, reason: &str| {
        let command = format!("{{createPatterns: '{collection}', patterns: [{pattern}]}}");
        let command = motifdb::value::ejson::parse_doc(&command).expect("test text");
        let error = server.0.run_command("t", command.as_doc()).expect_err("is refused");
        assert_eq!(error.code().0, code, "{error}");
        assert!(error.message().contains(reason), "{error}");
    };
    server.run("{create: 'capped', capped: true, size: 10000}");
    server.run("{create: 'view', viewOn: 'c', pipeline: []}");
    refused("capped", COLD, 72, "is capped");
    refused("view", COLD, 72, "is a view");
    refused("c", "{kind: 'subset', cold: ['_id']}", 2, "'cold' cannot name '_id'");
    declare(&server, "c");
    refused(
        "c",
        "{name: 'other', kind: 'subset', cold: ['details']}",
        2,
        "the patterns 'cold' and 'other' would both decide how 'details.history' of 'c' is stored",
    );
    // Disjoint paths share a collection.
    server
        .run("{createPatterns: 'c', patterns: [{name: 'other', kind: 'subset', cold: ['notes']}]}");
    insert(&server, "c", &[product(1, 5_000)]);
    server.run(&format!(
        "{{update: 'c', updates: [{{q: {{_id: 1}}, u: {{$set: {{notes: '{}'}}}}}}]}}",
        "n".repeat(900)
    ));
    server.run("{update: 'c', updates: [{q: {_id: 1}, u: {$inc: {price: 1}}}]}");
    let doc = server.get("c", "1");
    assert_eq!((text(&doc, "notes").len(), text(&doc, "description").len()), (900, 4_998));
    assert!(figure(&server, "find: 'c', projection: {price: 1}", "bytesRead") < 500);
    server.verify("c");
}

#[test]
fn readers_during_a_conversion_see_whole_documents() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::on(folder.path());
    let docs: Vec<DocBuf> = (0..300).map(|id| product(id, 2_400)).collect();
    insert(&server, "c", &docs);
    let same = |server: &Server| {
        let found = server.docs("{find: 'c', sort: {_id: 1}, batchSize: 1000}");
        assert_eq!(found.len(), docs.len());
        for (found, doc) in found.iter().zip(&docs) {
            assert_eq!(found.bytes(), doc.bytes());
        }
    };
    let slow = COLD.replace("inlineBelow", "backfill: {batch: 10}, inlineBelow");
    server.run(&format!("{{createPatterns: 'c', patterns: [{slow}], wait: false}}"));
    same(&server);
    server.close();
    // What was converted stays, the rest goes on.
    let server = Server::on(folder.path());
    same(&server);
    while text(&server.pattern("c"), "state") != "ready" {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    same(&server);
    server.run(
        "{modifyPattern: 'c', name: 'cold', set: {cold: ['name', 'description'], inlineBelow: 5}}",
    );
    same(&server);
    server.run("{suspendPatterns: 'c'}");
    same(&server);
    server.run("{resumePatterns: 'c'}");
    same(&server);
    server.verify("c");
    server.run("{dropPatterns: 'c', names: ['cold']}");
    same(&server);
    assert_eq!(server.docs("{listPatterns: 'c'}").len(), 0);
}
