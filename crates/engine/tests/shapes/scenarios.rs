//! What a reader with a form of its own sees and writes, command by command.

use super::harness::{Server, same, within};
use super::{SHAPE, access, all, at, connect, cursor, docs, events, run, text, whole};
use motifdb::Client;
use motifdb::value::{DocBuf, Val, ejson};

/// A server with the shape over two documents, an old client and a new one.
fn start() -> (Server, Client, Client) {
    let server = Server::new();
    server.run("{create: 'c'}");
    server.run("{insert: 'c', documents: [{_id: 1, name: {first: 'Ada', last: 'Byron', title: 'Lady'}, a: 1}, {_id: 2, name: {first: 'Kurt', last: 'Gödel'}, a: 2}]}");
    server.run(&format!("{{createPatterns: 'c', patterns: [{SHAPE}]}}"));
    let (old, new) = (connect(&server, "old"), connect(&server, "new"));
    (server, old, new)
}

fn one(client: &mut Client, id: i32) -> String {
    let found = docs(client, &format!("{{find: 'c', filter: {{_id: {id}}}}}")).pop();
    super::print(found.unwrap_or_default().as_doc())
}

fn ids(client: &mut Client, command: &str) -> Vec<i64> {
    docs(client, command).iter().map(|doc| whole(doc, "_id")).collect()
}

#[test]
fn each_reader_sees_its_own_form() {
    let (server, mut old, mut new) = start();
    same(&one(&mut old, 1), "{_id: 1, full: 'Ada Byron', a: 1}");
    same(&one(&mut new, 1), "{_id: 1, name: {first: 'Ada', last: 'Byron', title: 'Lady'}, a: 1}");
    // A command goes before the connection.
    let pinned = docs(&mut new, "{find: 'c', filter: {_id: 1}, $schemaVersion: 1}").pop();
    assert_eq!(text(&pinned.expect("is there"), "full"), "Ada Byron");
    let pinned =
        docs(&mut old, "{find: 'c', filter: {_id: 1}, $schemaVersion: NumberLong(2)}").pop();
    assert_eq!(text(&pinned.expect("is there"), "name.first"), "Ada");
    let stored = docs(&mut old, "{find: 'c', filter: {_id: 1}, $schemaVersion: 'asStored'}").pop();
    assert_eq!(text(&stored.expect("is there"), "name.first"), "Ada");
    for (version, code) in [("7", 2), ("'newest'", 2), ("1.5", 14), ("null", 14)] {
        let found = server.code(&format!("{{find: 'c', $schemaVersion: {version}}}"));
        assert_eq!(found, code, "{version}");
    }
    // Collections without versions have one form.
    server.run("{insert: 'plain', documents: [{_id: 1}], $schemaVersion: 1}");
    assert_eq!(server.code("{find: 'plain', $schemaVersion: 9}"), 0);
}

#[test]
fn queries_mean_the_reader_s_fields() {
    let (server, mut old, mut new) = start();
    let found = |client: &mut Client, filter: &str| {
        ids(client, &format!("{{find: 'c', filter: {filter}, sort: {{_id: 1}}}}"))
    };
    assert_eq!(found(&mut old, "{full: 'Ada Byron'}"), [1]);
    assert_eq!(found(&mut old, "{'name.first': 'Ada'}"), Vec::<i64>::new());
    assert_eq!(found(&mut new, "{full: 'Ada Byron'}"), Vec::<i64>::new());
    assert_eq!(found(&mut new, "{'name.first': 'Ada'}"), [1]);
    let sorted = "{find: 'c', sort: {full: -1}, projection: {full: 1, _id: 0}}";
    assert_eq!(text(&docs(&mut old, sorted)[0], "full"), "Kurt Gödel");
    let count = run(&mut old, "{count: 'c', query: {full: /^Ada/}}");
    assert_eq!(whole(&count, "n"), 1);
    let values = run(&mut old, "{distinct: 'c', key: 'full'}");
    same(&super::seen(values.as_doc()), "{values: ['Ada Byron', 'Kurt Gödel'], ok: 1.0}");
    let groups =
        "{aggregate: 'c', pipeline: [{$group: {_id: '$full'}}, {$sort: {_id: 1}}], cursor: {}}";
    assert_eq!(text(&docs(&mut old, groups)[0], "_id"), "Ada Byron");
    server.run("{insert: 'other', documents: [{_id: 1, who: 'Kurt Gödel'}]}");
    let joined = "{aggregate: 'other', pipeline: [{$lookup: {from: 'c', localField: 'who', foreignField: 'full', as: 'x'}}, {$unwind: '$x'}, {$replaceWith: '$x'}], cursor: {}}";
    same(&super::print(docs(&mut old, joined)[0].as_doc()), "{_id: 2, full: 'Kurt Gödel', a: 2}");
    assert_eq!(docs(&mut new, joined).len(), 0);
    let by_id = "{aggregate: 'other', pipeline: [{$lookup: {from: 'c', localField: '_id', foreignField: '_id', as: 'x'}}], cursor: {}}";
    assert_eq!(text(&docs(&mut old, by_id)[0], "x.0.full"), "Ada Byron");
    let more = "{aggregate: 'other', pipeline: [{$unionWith: {coll: 'c', pipeline: [{$match: {full: {$exists: true}}}]}}], cursor: {}}";
    assert_eq!((docs(&mut old, more).len(), docs(&mut new, more).len()), (3, 1));
    server.run("{create: 'v', viewOn: 'c', pipeline: [{$project: {full: 1}}]}");
    assert_eq!(text(&docs(&mut old, "{find: 'v', sort: {_id: 1}}")[0], "full"), "Ada Byron");
    assert_eq!(text(&docs(&mut new, "{find: 'v', sort: {_id: 1}}")[0], "full"), "");
}

#[test]
fn writes_are_accepted_in_the_reader_s_form() {
    let (server, mut old, mut new) = start();
    run(&mut old, "{insert: 'c', documents: [{_id: 3, full: 'Emmy Noether', a: 3}]}");
    same(&one(&mut new, 3), "{_id: 3, name: {first: 'Emmy', last: 'Noether'}, a: 3}");
    // What the old form does not show is kept.
    run(
        &mut old,
        "{update: 'c', updates: [{q: {full: 'Ada Byron'}, u: {$set: {full: 'Ada Lovelace'}, $inc: {a: 10}}}]}",
    );
    same(
        &one(&mut new, 1),
        "{_id: 1, name: {first: 'Ada', last: 'Lovelace', title: 'Lady'}, a: 11}",
    );
    run(&mut new, "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {'name.last': 'King'}}}]}");
    same(&one(&mut old, 1), "{_id: 1, full: 'Ada King', a: 11}");
    run(&mut old, "{update: 'c', updates: [{q: {_id: 2}, u: {full: 'Kurt G', b: 1}}]}");
    same(&one(&mut new, 2), "{_id: 2, name: {first: 'Kurt', last: 'G'}, b: 1}");
    let many = run(
        &mut old,
        "{update: 'c', updates: [{q: {full: /^[AE]/}, u: [{$set: {shown: '$full'}}], multi: true}]}",
    );
    assert_eq!((whole(&many, "n"), whole(&many, "nModified")), (2, 2));
    same(
        &one(&mut new, 3),
        "{_id: 3, name: {first: 'Emmy', last: 'Noether'}, a: 3, shown: 'Emmy Noether'}",
    );
    let same_again =
        run(&mut old, "{update: 'c', updates: [{q: {_id: 3}, u: {$set: {full: 'Emmy Noether'}}}]}");
    assert_eq!((whole(&same_again, "n"), whole(&same_again, "nModified")), (1, 0));
    let upserted = "{findAndModify: 'c', query: {_id: 4, full: 'Sofia K'}, update: {$set: {a: 4}}, upsert: true, new: true}";
    let reply = run(&mut old, upserted);
    assert_eq!(text(&reply, "value.full"), "Sofia K");
    same(&one(&mut new, 4), "{_id: 4, name: {first: 'Sofia', last: 'K'}, a: 4}");
    let changed = run(
        &mut old,
        "{findAndModify: 'c', query: {_id: 4}, update: {$set: {full: 'Sofya K'}}, new: true}",
    );
    assert_eq!(text(&changed, "value.full"), "Sofya K");
    let removed = run(&mut old, "{findAndModify: 'c', query: {full: 'Sofya K'}, remove: true}");
    assert_eq!(text(&removed, "value.full"), "Sofya K");
    let gone = run(
        &mut old,
        "{delete: 'c', deletes: [{q: {full: 'Kurt G'}, limit: 1}, {q: {full: /^Emmy/}, limit: 0}]}",
    );
    assert_eq!(whole(&gone, "n"), 2);
    let bulk = "{bulkWrite: 1, ops: [{insert: 0, document: {_id: 5, full: 'Paul E'}}, {update: 0, filter: {full: 'Paul E'}, updateMods: {$set: {full: 'Pál E'}}}], nsInfo: [{ns: 't.c'}]}";
    let command = ejson::parse_doc(bulk).expect("test text");
    old.run_command("admin", command.as_doc()).expect("works");
    same(&one(&mut new, 5), "{_id: 5, name: {first: 'Pál', last: 'E'}}");
    // An image without a canonical form is refused as a whole.
    let mut code = |command: &str| {
        let command = ejson::parse_doc(command).expect("test text");
        let reply = old.run_command("t", command.as_doc()).expect("replies");
        whole(&reply, "writeErrors.0.code")
    };
    assert_eq!(code("{insert: 'c', documents: [{_id: 6, full: 'refused'}]}"), 96001);
    assert_eq!(
        code("{update: 'c', updates: [{q: {_id: 5}, u: {$set: {full: 'refused'}}}]}"),
        96001
    );
    same(&one(&mut new, 5), "{_id: 5, name: {first: 'Pál', last: 'E'}}");
    server.verify("c");
}

#[test]
fn stages_that_write_accept_the_reader_s_form() {
    let (server, mut old, mut new) = start();
    run(
        &mut old,
        "{aggregate: 'c', pipeline: [{$set: {full: {$concat: ['$full', 'a']}}}, {$merge: {into: 'c'}}], cursor: {}}",
    );
    same(&one(&mut new, 1), "{_id: 1, name: {first: 'Ada', last: 'Byrona', title: 'Lady'}, a: 1}");
    server.run("{insert: 'other', documents: [{_id: 7, full: 'Max Born'}]}");
    run(
        &mut old,
        "{aggregate: 'other', pipeline: [{$merge: {into: 'c', whenMatched: 'fail'}}], cursor: {}}",
    );
    same(&one(&mut new, 7), "{_id: 7, name: {first: 'Max', last: 'Born'}}");
    run(&mut old, "{aggregate: 'other', pipeline: [{$out: 'c'}], cursor: {}}");
    assert_eq!(all(&mut new).len(), 1);
    same(&one(&mut new, 7), "{_id: 7, name: {first: 'Max', last: 'Born'}}");
    // A unique index over a field that differs does not identify what the reader names.
    server.run("{createIndexes: 'c', indexes: [{key: {full: 1}, name: 'full', unique: true}]}");
    let merge = "{aggregate: 'other', pipeline: [{$merge: {into: 'c', on: 'full'}}], cursor: {}}";
    let command = ejson::parse_doc(merge).expect("test text");
    let refused = old.run_command("t", command.as_doc()).expect_err("is refused");
    assert_eq!(refused.code().0, 51183);
    server.verify("c");
}

#[test]
fn indexes_over_other_paths_are_used() {
    let (server, mut old, mut new) = start();
    for (key, name) in [
        ("{'name.first': 1}", "first"),
        ("{full: 1}", "full"),
        ("{a: 1}", "a"),
        ("{a: 1, name: 1}", "a_name"),
        ("{'b.$**': 1}", "below"),
    ] {
        server.run(&format!("{{createIndexes: 'c', indexes: [{{key: {key}, name: '{name}'}}]}}"));
    }
    server.run("{createIndexes: 'c', indexes: [{key: {z: 1}, name: 'part', partialFilterExpression: {full: 1}}]}");
    let find = |filter: &str| format!("{{find: 'c', filter: {filter}}}");
    assert_eq!(access(&mut new, &find("{'name.first': 'Ada'}")), ["first"]);
    assert_eq!(access(&mut new, &find("{full: 'Ada Byron'}")), ["full"]);
    assert_eq!(access(&mut old, &find("{'name.first': 'Ada'}")), ["COLLSCAN"]);
    assert_eq!(access(&mut old, &find("{full: 'Ada Byron'}")), ["COLLSCAN"]);
    assert_eq!(access(&mut old, &find("{a: 1}")), ["a"]);
    assert_eq!(access(&mut old, &find("{a: 1, full: 'Ada Byron'}")), ["a"]);
    assert_eq!(access(&mut old, &find("{'b.c': 1}")), ["below"]);
    assert_eq!(access(&mut old, &find("{z: 1, full: 1}")), ["COLLSCAN"]);
    assert_eq!(access(&mut old, "{find: 'c', sort: {full: 1}}"), ["COLLSCAN"]);
    assert_eq!(access(&mut old, "{find: 'c', sort: {a: 1}}"), ["a"]);
    assert_eq!(access(&mut old, "{distinct: 'c', key: 'full'}"), ["COLLSCAN"]);
    assert_eq!(access(&mut old, "{distinct: 'c', key: 'a'}"), ["a"]);
    assert_eq!(access(&mut old, "{count: 'c', query: {full: 'Ada Byron'}}"), ["COLLSCAN"]);
    assert_eq!(
        access(&mut old, "{update: 'c', updates: [{q: {full: 'x'}, u: {$set: {b: 1}}}]}"),
        ["COLLSCAN"]
    );
    server.run("{createIndexes: 'c', indexes: [{key: {'$**': 1}, name: 'wild'}]}");
    assert_eq!(access(&mut old, &find("{other: 1}")), ["COLLSCAN"]);
    assert_eq!(access(&mut new, &find("{other: 1}")), ["wild"]);
    let pinned = "{find: 'c', filter: {full: 'Ada Byron'}, $schemaVersion: 1}";
    assert_eq!(access(&mut new, pinned), ["COLLSCAN"]);
    // Covered by an index, for a reader with a form of its own.
    let covered =
        docs(&mut old, "{find: 'c', filter: {a: {$gt: 0}}, projection: {a: 1, _id: 0}, hint: 'a'}");
    assert_eq!(covered.iter().map(|doc| whole(doc, "a")).collect::<Vec<_>>(), [1, 2]);
    let hinted =
        ejson::parse_doc("{find: 'c', filter: {full: 'x'}, hint: 'full'}").expect("test text");
    let refused = old.run_command("t", hinted.as_doc()).expect_err("is refused");
    assert_eq!(refused.code().0, 2, "{refused}");
    // Entries of all indexes follow the writes of all readers.
    run(&mut old, "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {full: 'Augusta Byron'}}}]}");
    assert_eq!(ids(&mut new, "{find: 'c', filter: {'name.first': 'Augusta'}, hint: 'first'}"), [1]);
    assert_eq!(
        ids(&mut new, "{find: 'c', filter: {'name.first': 'Ada'}, hint: 'first'}"),
        Vec::<i64>::new()
    );
    server.verify("c");
}

#[test]
fn rules_of_the_collection_hold_for_canonical_documents() {
    let (server, mut old, mut new) = start();
    server.run(
        "{createIndexes: 'c', indexes: [{key: {'name.last': 1}, name: 'last', unique: true}]}",
    );
    server.run("{collMod: 'c', validator: {'name.first': {$ne: 'Nobody'}}}");
    let code = |client: &mut Client, command: &str| {
        let command = ejson::parse_doc(command).expect("test text");
        let reply = client.run_command("t", command.as_doc()).expect("replies");
        whole(&reply, "writeErrors.0.code")
    };
    assert_eq!(code(&mut old, "{insert: 'c', documents: [{_id: 3, full: 'Anne Byron'}]}"), 11000);
    assert_eq!(code(&mut old, "{insert: 'c', documents: [{_id: 3, full: 'Nobody Else'}]}"), 121);
    assert_eq!(
        code(&mut old, "{update: 'c', updates: [{q: {_id: 2}, u: {$set: {full: 'K Byron'}}}]}"),
        11000
    );
    assert_eq!(
        code(&mut old, "{update: 'c', updates: [{q: {_id: 2}, u: {$set: {full: 'Nobody G'}}}]}"),
        121
    );
    // A pattern computes from canonical fields, whoever writes them.
    server.run("{createPatterns: 'c', patterns: [{name: 'sorted', kind: 'computed', fields: {by: {$concat: ['$name.last', ', ', '$name.first']}}}]}");
    run(&mut old, "{insert: 'c', documents: [{_id: 4, full: 'Emmy Noether'}]}");
    same(
        &one(&mut new, 4),
        "{_id: 4, name: {first: 'Emmy', last: 'Noether'}, by: 'Noether, Emmy'}",
    );
    same(&one(&mut old, 4), "{_id: 4, full: 'Emmy Noether', by: 'Noether, Emmy'}");
    let updated = run(
        &mut old,
        "{findAndModify: 'c', query: {_id: 4}, update: {$set: {full: 'E Noether'}}, new: true}",
    );
    assert_eq!(
        (text(&updated, "value.full"), text(&updated, "value.by")),
        ("E Noether", "Noether, E")
    );
    assert_eq!(
        code(&mut old, "{update: 'c', updates: [{q: {_id: 4}, u: {$set: {by: 'x'}}}]}"),
        96001
    );
    // Answers from maintained values are those of canonical documents.
    server.run("{create: 'p'}");
    server.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'name.first'}, onMissingParent: 'create', fields: {n: {$count: {}}}}]}");
    let group = "{aggregate: 'c', pipeline: [{$match: {'name.first': 'Ada'}}, {$group: {_id: null, n: {$count: {}}}}], cursor: {}}";
    let joined = "{aggregate: 'orders', pipeline: [{$lookup: {from: 'c', localField: 'who._id', foreignField: '_id', as: 'x'}}, {$project: {'x.name': 1}}], cursor: {}}";
    server.run("{insert: 'orders', documents: [{_id: 1, who: {_id: 1}}]}");
    server.run("{createPatterns: 'orders', patterns: [{name: 'copy', kind: 'extendedReference', ref: 'who._id', from: 'c', into: 'who', fields: ['name']}]}");
    let answered = |client: &mut Client, command: &str| {
        let reply = run(client, &format!("{{explain: {command}, verbosity: 'queryPlanner'}}"));
        text(&reply, "rewrites.0.pattern").to_owned()
    };
    assert_eq!(answered(&mut new, group), "n");
    assert_eq!(answered(&mut old, group), "");
    assert_eq!((docs(&mut new, group).len(), docs(&mut old, group).len()), (1, 0));
    assert_eq!(answered(&mut new, joined), "copy");
    assert_eq!(answered(&mut old, joined), "");
    assert_eq!(text(&docs(&mut new, joined)[0], "x.0.name.first"), "Ada");
    assert_eq!(at(&docs(&mut old, joined)[0], "x.0.name"), Val::Missing);
    server.verify("c");
    server.verify("p");
}

#[test]
fn a_transaction_may_have_several_forms() {
    let (server, mut old, mut new) = start();
    let in_it = |first| within(1, 1, first);
    run(
        &mut old,
        &format!("{{insert: 'c', documents: [{{_id: 3, full: 'Max Born'}}]{}}}", in_it(true)),
    );
    let seen =
        docs(&mut new, &format!("{{find: 'c', filter: {{'name.last': 'Born'}}{}}}", in_it(false)));
    assert_eq!(seen.len(), 1);
    run(
        &mut new,
        &format!(
            "{{update: 'c', updates: [{{q: {{_id: 3}}, u: {{$set: {{'name.title': 'Prof'}}}}}}]{}}}",
            in_it(false)
        ),
    );
    run(
        &mut old,
        &format!(
            "{{update: 'c', updates: [{{q: {{full: 'Max Born'}}, u: {{$set: {{full: 'M Born'}}}}}}]{}}}",
            in_it(false)
        ),
    );
    assert_eq!(all(&mut new).len(), 2);
    assert_eq!(server.end("commitTransaction", 1, 1), 0);
    same(&one(&mut new, 3), "{_id: 3, name: {first: 'M', last: 'Born', title: 'Prof'}}");
    server.verify("c");
}

#[test]
fn a_retried_write_gives_the_first_reply() {
    let (_server, mut old, mut new) = start();
    let retried = "{findAndModify: 'c', query: {full: 'Ada Byron'}, update: {$set: {full: 'A Byron'}}, new: true, lsid: {id: UUID('00112233-4455-4677-8899-aabbccddeeff')}, txnNumber: NumberLong(1)}";
    let first = super::seen(run(&mut old, retried).as_doc());
    assert_eq!(super::seen(run(&mut old, retried).as_doc()), first);
    assert!(first.contains("A Byron"), "{first}");
    same(&one(&mut new, 1), "{_id: 1, name: {first: 'A', last: 'Byron', title: 'Lady'}, a: 1}");
}

#[test]
fn cursors_keep_the_form_of_the_command_that_opened_them() {
    let (server, _old, mut new) = start();
    let reply = run(&mut new, "{find: 'c', sort: {_id: 1}, batchSize: 0, $schemaVersion: 1}");
    let more = format!("{{getMore: NumberLong({}), collection: 'c'}}", cursor(&reply));
    let reply = run(&mut new, &more);
    assert_eq!(text(&reply, "cursor.nextBatch.0.full"), "Ada Byron");
    server.run("{insert: 'other', documents: [{_id: 1}]}");
    let reply = run(
        &mut new,
        "{aggregate: 'other', pipeline: [{$lookup: {from: 'c', localField: '_id', foreignField: '_id', pipeline: [{$lookup: {from: 'c', localField: 'a', foreignField: 'a', as: 'y'}}], as: 'x'}}], cursor: {batchSize: 0}, $schemaVersion: 1}",
    );
    let more = format!("{{getMore: NumberLong({}), collection: 'other'}}", cursor(&reply));
    let reply = run(&mut new, &more);
    assert_eq!(text(&reply, "cursor.nextBatch.0.x.0.y.0.full"), "Ada Byron");
    let reply = run(
        &mut new,
        "{aggregate: 'c', pipeline: [{$changeStream: {fullDocument: 'updateLookup'}}], cursor: {}, $schemaVersion: 1}",
    );
    run(&mut new, "{update: 'c', updates: [{q: {_id: 2}, u: {$set: {'name.first': 'K'}}}]}");
    let event = events(&mut new, cursor(&reply)).pop().expect("an event");
    assert_eq!(text(&event, "fullDocument.full"), "K Gödel");
}

#[test]
fn watchers_see_changes_in_their_form() {
    let (_server, mut old, mut new) = start();
    let watch = "{aggregate: 'c', pipeline: [{$changeStream: {fullDocument: 'whenAvailable', fullDocumentBeforeChange: 'whenAvailable'}}], cursor: {}}";
    let (of_old, of_new) = (cursor(&run(&mut old, watch)), cursor(&run(&mut new, watch)));
    let long = "x".repeat(200);
    run(
        &mut new,
        &format!(
            "{{insert: 'c', documents: [{{_id: 3, name: {{first: 'Max', last: 'Born'}}, long: '{long}'}}]}}"
        ),
    );
    run(&mut new, "{update: 'c', updates: [{q: {_id: 3}, u: {$set: {'name.first': 'M'}}}]}");
    run(&mut new, "{update: 'c', updates: [{q: {_id: 3}, u: {$set: {'name.title': 'Prof'}}}]}");
    run(&mut old, "{update: 'c', updates: [{q: {_id: 3}, u: {$set: {full: 'Max B'}}}]}");
    run(&mut old, "{update: 'c', updates: [{q: {_id: 3}, u: {full: 'Max C'}}]}");
    run(&mut old, "{delete: 'c', deletes: [{q: {full: 'Max C'}, limit: 1}]}");
    let kinds = |events: &[DocBuf]| {
        events.iter().map(|e| text(e, "operationType").to_owned()).collect::<Vec<_>>().join(" ")
    };
    let seen = events(&mut old, of_old);
    // The title does not show in the old form.
    assert_eq!(kinds(&seen), "insert update update replace delete");
    assert_eq!(text(&seen[0], "fullDocument.full"), "Max Born");
    assert_eq!(text(&seen[1], "updateDescription.updatedFields.full"), "M Born");
    assert_eq!(text(&seen[2], "updateDescription.updatedFields.full"), "Max B");
    assert_eq!(text(&seen[3], "fullDocument.full"), "Max C");
    // The collection keeps no images for clients.
    assert_eq!(at(&seen[1], "fullDocument"), Val::Null);
    let seen = events(&mut new, of_new);
    assert_eq!(kinds(&seen), "insert update update update replace delete");
    let changed = at(&seen[1], "updateDescription.updatedFields");
    assert_eq!(changed.as_doc().and_then(|doc| doc.get("name.first")), Some(Val::String("M")));
    assert_eq!(at(&seen[1], "fullDocument"), Val::Null);
}

#[test]
fn shapes_are_stacked_by_version() {
    let (server, mut old, mut new) = start();
    server.run("{createPatterns: 'c', patterns: [{name: 'towns', kind: 'testShape', version: 3, field: 'town', as: 'city'}]}");
    run(
        &mut new,
        "{insert: 'c', documents: [{_id: 3, name: {first: 'Max', last: 'Born'}, town: {first: 'Bad', last: 'Pyrmont', zip: '31812'}}]}",
    );
    let form = |client: &mut Client, version: i32| {
        let found =
            docs(client, &format!("{{find: 'c', filter: {{_id: 3}}, $schemaVersion: {version}}}"));
        super::print(found[0].as_doc())
    };
    same(&form(&mut new, 1), "{_id: 3, full: 'Max Born', city: 'Bad Pyrmont'}");
    same(&form(&mut new, 2), "{_id: 3, name: {first: 'Max', last: 'Born'}, city: 'Bad Pyrmont'}");
    same(
        &form(&mut new, 3),
        "{_id: 3, name: {first: 'Max', last: 'Born'}, town: {first: 'Bad', last: 'Pyrmont', zip: '31812'}}",
    );
    same(
        &one(&mut old, 3),
        "{_id: 3, full: 'Max Born', town: {first: 'Bad', last: 'Pyrmont', zip: '31812'}}",
    );
    run(
        &mut new,
        "{update: 'c', updates: [{q: {full: 'Max Born', city: /^Bad/}, u: {$set: {city: 'Bad Homburg', full: 'M Born'}}}], $schemaVersion: 1}",
    );
    same(
        &form(&mut new, 3),
        "{_id: 3, name: {first: 'M', last: 'Born'}, town: {first: 'Bad', last: 'Homburg', zip: '31812'}}",
    );
    assert_eq!(server.code("{find: 'c', $schemaVersion: 4}"), 2);
}

#[test]
fn stored_documents_can_be_read_as_they_are() {
    let server = Server::new();
    server.run("{create: 'c'}");
    let shape = SHAPE.replace("clients", "storedOlder: true, clients");
    server.run(&format!(
        "{{createPatterns: 'c', patterns: [{shape}, {{name: 'chunks', kind: 'testChunks'}}]}}"
    ));
    server.run("{createIndexes: 'c', indexes: [{key: {'name.first': 1}, name: 'first'}, {key: {a: 1}, name: 'a'}]}");
    let (mut old, mut new) = (connect(&server, "old"), connect(&server, "new"));
    run(&mut old, "{insert: 'c', documents: [{_id: 1, full: 'Ada Byron', a: 1}]}");
    run(
        &mut new,
        "{insert: 'c', documents: [{_id: 2, name: {first: 'Max', last: 'Born', title: 'Prof'}, a: 2}]}",
    );
    let stored = |client: &mut Client, rest: &str| {
        docs(client, &format!("{{find: 'c', {rest}$schemaVersion: 'asStored'}}"))
    };
    for client in [&mut old, &mut new] {
        let found = stored(client, "sort: {_id: 1}, ");
        same(&super::print(found[0].as_doc()), "{_id: 1, full: 'Ada Byron', a: 1, _v: 1}");
        same(
            &super::print(found[1].as_doc()),
            "{_id: 2, name: {first: 'Max', last: 'Born', title: 'Prof'}, a: 2}",
        );
        assert_eq!(stored(client, "filter: {full: 'Ada Byron'}, ").len(), 1);
        assert_eq!(stored(client, "filter: {'name.first': 'Ada'}, ").len(), 0);
        assert_eq!(stored(client, "filter: {a: 1}, ").len(), 1);
    }
    // Whatever is stored, an index over the canonical form finds it.
    assert_eq!(ids(&mut new, "{find: 'c', filter: {'name.first': 'Ada'}, hint: 'first'}"), [1]);
    same(&one(&mut new, 1), "{_id: 1, name: {first: 'Ada', last: 'Byron'}, a: 1}");
    same(&one(&mut old, 1), "{_id: 1, full: 'Ada Byron', a: 1}");
    for write in [
        "{insert: 'c', documents: [{_id: 3}], $schemaVersion: 'asStored'}",
        "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {a: 3}}}], $schemaVersion: 'asStored'}",
        "{update: 'c', updates: [{q: {}, u: {$set: {a: 3}}, multi: true}], $schemaVersion: 'asStored'}",
        "{delete: 'c', deletes: [{q: {}, limit: 0}], $schemaVersion: 'asStored'}",
        "{delete: 'c', deletes: [{q: {_id: 1}, limit: 1}], $schemaVersion: 'asStored'}",
        "{findAndModify: 'c', query: {_id: 1}, remove: true, $schemaVersion: 'asStored'}",
        "{aggregate: 'c', pipeline: [{$merge: {into: 'c'}}], cursor: {}, $schemaVersion: 'asStored'}",
        "{aggregate: 'c', pipeline: [{$out: 'c'}], cursor: {}, $schemaVersion: 'asStored'}",
    ] {
        assert_eq!(server.code(write), 20, "{write}");
    }
    assert_eq!(all(&mut new).len(), 2);
    server.verify("c");
    server.run("{dropPatterns: 'c', names: ['names']}");
    same(&one(&mut old, 1), "{_id: 1, name: {first: 'Ada', last: 'Byron'}, a: 1}");
    server.verify("c");
}

#[test]
fn without_the_pattern_there_is_one_form() {
    let (server, mut old, mut new) = start();
    run(&mut old, "{insert: 'c', documents: [{_id: 3, full: 'Max Born'}]}");
    let before = all(&mut new);
    server.run("{suspendPatterns: 'c'}");
    assert_eq!(text(&all(&mut old)[2], "full"), "Max Born");
    server.run("{resumePatterns: 'c'}");
    server.run("{modifyPattern: 'c', name: 'names', set: {clients: {other: 1}}}");
    assert_eq!(all(&mut old), before);
    assert_eq!(text(&all(&mut connect(&server, "other"))[2], "full"), "Max Born");
    server.run("{dropPatterns: 'c', names: '*'}");
    assert_eq!(all(&mut connect(&server, "other")), before);
    run(&mut old, "{insert: 'c', documents: [{_id: 4, full: 'Max Born'}]}");
    assert_eq!(text(&all(&mut new)[3], "full"), "Max Born");
    assert_eq!(server.code("{find: 'c', $schemaVersion: 1}"), 0);
}
