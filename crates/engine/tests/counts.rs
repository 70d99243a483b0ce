//! Counting all documents of a large collection, which two threads do if a core is free.

mod harness;

use harness::{Server, whole};
use std::fmt::Write as _;

const DOCUMENTS: usize = 60_000;

fn fill(server: &Server) {
    for from in (0..DOCUMENTS).step_by(10_000) {
        let mut docs = String::new();
        for id in from..from + 10_000 {
            let _ = write!(docs, "{{_id: {id}, r: {}, last: {}}}, ", id % 7, id + 1 < DOCUMENTS);
        }
        server.run(&format!("{{insert: 'c', documents: [{docs}]}}"));
    }
}

fn check(server: &Server) {
    let expected = (0..DOCUMENTS).filter(|id| id % 7 == 3).count() as i64;
    let counted = server.run("{count: 'c', query: {r: 3}}");
    assert_eq!(whole(&counted, "n"), expected);
    let count = |stages: &str| {
        let text = format!("{{aggregate: 'c', pipeline: [{stages}{{$count: 'n'}}], cursor: {{}}}}");
        server.docs(&text).first().map_or(0, |doc| whole(doc, "n"))
    };
    assert_eq!(count("{$match: {r: 3}}, "), expected);
    assert_eq!(count("{$match: {r: {$gte: 0}}}, {$match: {$expr: {$eq: ['$r', 3]}}}, "), expected);
    assert_eq!(count("{$match: {r: 3, _id: {$lt: 70}}}, "), 10);
    assert_eq!(count("{$match: {r: 8}}, "), 0);
    let limited = server.run("{count: 'c', query: {r: 3}, limit: 5}");
    assert_eq!(whole(&limited, "n"), 5);
}

#[test]
fn every_document_counts_once() {
    let server = Server::new();
    fill(&server);
    check(&server);
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::on(folder.path());
    fill(&server);
    check(&server);
    // From tables, without pages.
    server.close();
    check(&Server::on(folder.path()));
}

#[test]
fn an_error_in_any_part_is_the_result() {
    let server = Server::new();
    fill(&server);
    for id in [1, DOCUMENTS / 2, DOCUMENTS - 1] {
        let text = format!(
            "{{aggregate: 'c', pipeline: [{{$match: {{$expr: {{$or: [{{$ne: ['$_id', {id}]}}, \
             {{$divide: [1, {{$subtract: ['$_id', {id}]}}]}}]}}}}}}, {{$count: 'n'}}], cursor: {{}}}}"
        );
        assert_eq!(server.code(&text), 2, "{id}");
    }
}
