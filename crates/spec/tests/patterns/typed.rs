//! Documents of several types under SIGKILL: clients write through the collection and through the views
//! of its types while the pattern is declared, changed and dropped. After every kill the counts are
//! those of the documents.

use crate::hot::{first, must};
use crate::process::{Server, binary, check_folder};
use crate::random::Random;
use client::Client;
use spec::connection::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use value::{DocBuf, Val, ejson};

fn declaration(least: u64) -> String {
    format!(
        "{{name: 'types', kind: 'inheritance', discriminator: 'kind', root: {{name: 'top', abstract: true, required: ['n']}},
          types: {{a: {{properties: {{n: {{minimum: {least}}}}}, indexes: [{{x: 1}}]}}, b: {{extends: 'a', required: ['m']}}, c: {{}}}},
          transitions: {{default: 'allow'}}, views: true}}"
    )
}

/// One random write, also through the views if they are declared: until then an insert would create
/// collections of their names. It may be refused; the connection may break.
fn write(random: &mut Random, client: &mut Client, has_views: bool) -> bool {
    let (id, n) = (random.below(300), random.below(9));
    let kind = ["a", "b", "c", "top"][random.below(4) as usize];
    let name = match random.below(3) {
        1 | 2 if has_views => format!("docs.{kind}"),
        _ => "docs".to_owned(),
    };
    let text = match random.below(5) {
        0 | 1 => format!(
            "{{insert: '{name}', documents: [{{_id: {id}, kind: '{kind}', n: {n}, m: 1}}], $db: 't'}}"
        ),
        2 => format!(
            "{{update: '{name}', updates: [{{q: {{_id: {id}}}, u: {{$set: {{n: {n}, kind: '{kind}'}}}}}}], $db: 't'}}"
        ),
        3 => format!(
            "{{update: '{name}', updates: [{{q: {{n: {n}}}, u: {{$set: {{m: {n}}}}}, multi: true}}], $db: 't'}}"
        ),
        _ => format!("{{delete: '{name}', deletes: [{{q: {{_id: {id}}}, limit: 1}}], $db: 't'}}"),
    };
    Connection::run(client, ejson::parse_doc(&text).expect("test text").as_doc()).is_ok()
}

/// The number of documents that a filter matches, by reading them.
fn count(client: &mut Client, filter: &str) -> u64 {
    let text = format!(
        "{{aggregate: 'docs', pipeline: [{{$match: {filter}}}, {{$group: {{_id: null, n: {{$sum: 1}}}}}}], cursor: {{}}, rewrite: false}}"
    );
    let found = first(&must(client, &text));
    found.as_doc().get("n").and_then(Val::as_i64_exact).unwrap_or(0) as u64
}

/// The pattern, once it is the only version and ready.
fn pattern(client: &mut Client) -> Option<DocBuf> {
    let reply = must(client, "{listPatterns: 'docs'}");
    let versions = value::path::Path::new("cursor.firstBatch").get(reply.as_doc());
    let found = first(&reply);
    let alone = versions.as_array().is_some_and(|versions| versions.count() == 1);
    (alone && found.as_doc().get("state") == Some(Val::String("ready"))).then_some(found)
}

#[test]
fn counts_and_paths_of_types_are_right_whatever_is_killed() {
    let seed = crate::number("PATTERNS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("PATTERNS_SEED={seed}");
    let mut random = Random::new(seed ^ 0x7E7E);
    let folder = tempfile::Builder::new().prefix("motif-types").tempdir().expect("a folder");
    let binary = binary();
    let mut server = Server::start(&binary, folder.path());
    let list: Vec<String> = (0..200)
        .map(|id| {
            format!("{{_id: {id}, kind: '{}', n: {}, m: 1}}", ["a", "b", "c", "d"][id % 4], id % 9)
        })
        .collect();
    must(&mut server.connect(), &format!("{{insert: 'docs', documents: [{}]}}", list.join(",")));
    let written = Arc::new(AtomicU64::new(0));
    for round in 0..6 {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for _ in 0..3 {
            let (uri, stop, written) = (server.uri(), stop.clone(), written.clone());
            let mut random = Random::new(random.next());
            threads.push(std::thread::spawn(move || {
                let Ok(mut client) = Client::connect(&uri) else { return };
                while !stop.load(Ordering::Relaxed) && write(&mut random, &mut client, round > 0) {
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        let mut client = server.connect();
        let least = round % 3;
        let change = match round {
            0 => format!("{{createPatterns: 'docs', patterns: [{}], wait: false}}", declaration(0)),
            _ => format!(
                "{{modifyPattern: 'docs', name: 'types', set: {{types: {{a: {{properties: {{n: {{minimum: {least}}}}}, indexes: [{{x: 1}}]}}, b: {{extends: '{}', required: ['m']}}, c: {{}}}}}}, wait: false}}",
                if round % 2 == 0 { "a" } else { "c" }
            ),
        };
        must(&mut client, &change);
        let before = written.load(Ordering::Relaxed);
        while written.load(Ordering::Relaxed) < before + 20 + random.below(150) {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.kill();
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().expect("no client panics"));
        server = Server::start(&binary, folder.path());
        let mut client = server.connect();
        let listed = loop {
            if let Some(listed) = pattern(&mut client) {
                break listed;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        for kind in ["a", "b", "c"] {
            let path = format!("types.{kind}.documents");
            let expected = count(&mut client, &format!("{{kind: '{kind}'}}"));
            let shown = value::path::Path::new(&path).get(listed.as_doc()).as_i64_exact();
            assert_eq!(shown, Some(expected as i64), "{kind}, PATTERNS_SEED={seed}: {listed:?}");
        }
        let reply = must(&mut client, "{validatePatterns: 'docs'}");
        let checked = value::path::Path::new("patterns").get(reply.as_doc());
        let report = checked.as_array().and_then(|list| list.first()).and_then(|(_, r)| r.as_doc());
        let drift = report.and_then(|report| report.get("drift")).and_then(Val::as_i64_exact);
        assert_eq!(drift, Some(0), "PATTERNS_SEED={seed}: {reply:?}");
        for kind in ["a", "b", "c"] {
            let by_path = count(&mut client, &format!("{{kind: '{kind}', _types: '{kind}'}}"));
            assert_eq!(by_path, count(&mut client, &format!("{{kind: '{kind}'}}")));
        }
    }
    server.stop();
    check_folder(&binary, folder.path());
    assert!(written.load(Ordering::Relaxed) > 100);
}
