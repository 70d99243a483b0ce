//! `notablescan`: queries that no index answers are refused, as a real MongoDB refuses them. The
//! parameter is one of the whole server, so this is no spec file.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]

use motifdb::{Engine, Options};
use value::{Val, ejson};

/// The code of the error of a command or of its first write; 0 for none.
fn code(engine: &Engine, db: &str, text: &str) -> i32 {
    let command = ejson::parse_doc(text).unwrap();
    match engine.run_command(db, command.as_doc()) {
        Err(error) => error.code().0,
        Ok(reply) => {
            let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
            let first = errors.and_then(|errors| errors.first()?.1.as_doc());
            first.and_then(|error| error.get("code")?.as_i64_exact()).unwrap_or(0) as i32
        }
    }
}

#[test]
fn only_queries_with_an_index_run() {
    let engine = Engine::open(Options::default()).unwrap();
    let run = |text: &str| assert_eq!(code(&engine, "t", text), 0, "{text}");
    run("{insert: 'c', documents: [{_id: 1, a: 1}]}");
    run("{createIndexes: 'c', indexes: [{key: {b: 1}, name: 'b'}]}");
    run("{create: 'v', viewOn: 'c', pipeline: [{$match: {a: 1}}]}");
    let set = |on: bool| {
        let text = format!("{{setParameter: 1, notablescan: {on}}}");
        assert_eq!(code(&engine, "admin", &text), 0);
    };
    set(true);
    let lookup = |field: &str| {
        format!(
            "{{aggregate: 'c', pipeline: [{{$match: {{_id: 1}}}}, {{$lookup: {{from: 'c', \
             localField: 'a', foreignField: '{field}', as: 'x'}}}}], cursor: {{}}}}"
        )
    };
    let by_id = lookup("_id");
    let by_a = lookup("a");
    for allowed in [
        "{find: 'c'}",
        "{find: 'c', filter: {b: 1}}",
        "{find: 'c', filter: {_id: 1}}",
        "{find: 'c', filter: {_id: {$gt: 0}}}",
        "{find: 'c', filter: {$or: [{b: 1}, {_id: 1}]}}",
        "{find: 'c', filter: {b: {$ne: 1}}}",
        "{find: 'c', sort: {a: 1}}",
        "{find: 'c', filter: {a: 1}, sort: {_id: 1}}",
        "{find: 'c', filter: {a: 1}, sort: {b: 1}}",
        "{find: 'c', filter: {a: 1}, hint: '_id_'}",
        "{find: 'none', filter: {a: 1}}",
        "{count: 'c'}",
        "{distinct: 'c', key: 'a'}",
        "{aggregate: 'c', pipeline: [{$group: {_id: '$a'}}], cursor: {}}",
        "{update: 'c', updates: [{q: {}, u: {$set: {z: 1}}, multi: true}]}",
        "{createIndexes: 'c', indexes: [{key: {q: 1}, name: 'q'}]}",
        &by_id,
        &by_a,
    ] {
        run(allowed);
    }
    let refused = [
        "{find: 'c', filter: {a: 1}}",
        "{find: 'c', filter: {$or: [{b: 1}, {a: 1}]}}",
        "{find: 'v'}",
        "{count: 'c', query: {a: 1}}",
        "{distinct: 'c', key: 'b', query: {a: 1}}",
        "{aggregate: 'c', pipeline: [{$match: {a: 1}}], cursor: {}}",
        "{aggregate: 'c', pipeline: [{$match: {_id: 1}}, {$graphLookup: {from: 'c', startWith: '$a', \
         connectFromField: 'a', connectToField: 'a', as: 'x'}}], cursor: {}}",
        "{update: 'c', updates: [{q: {a: 1}, u: {$set: {z: 1}}}]}",
        "{update: 'c', updates: [{q: {none: 1}, u: {$set: {z: 1}}, upsert: true}]}",
        "{delete: 'c', deletes: [{q: {a: 55}, limit: 1}]}",
        "{findAndModify: 'c', query: {a: 1}, update: {$set: {z: 2}}}",
        "{explain: {find: 'c', filter: {a: 1}}}",
    ];
    for text in refused {
        assert_eq!(code(&engine, "t", text), 291, "{text}");
    }
    // Collections of the server are small.
    assert_eq!(code(&engine, "admin", "{find: 'system.version', filter: {a: 1}}"), 0);
    set(false);
    refused.iter().for_each(|text| run(text));
}
