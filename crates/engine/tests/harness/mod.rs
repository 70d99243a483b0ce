//! What tests of patterns share: an engine that takes commands as text.
#![allow(dead_code, reason = "not every test uses all of it")]

use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use motifdb::{Engine, Options, Storage};

/// An engine with commands as text.
pub struct Server(pub Engine);

impl Server {
    pub fn new() -> Server {
        Server(Engine::open(Options::default()).expect("memory opens"))
    }

    pub fn on(path: &std::path::Path) -> Server {
        // Threads of an engine that was closed may hold the folder for a moment.
        for _ in 0..200 {
            let storage = Storage::Disk(path.to_owned());
            match Engine::open(Options { storage, ..Options::default() }) {
                Ok(engine) => return Server(engine),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(50)),
            }
        }
        panic!("the folder stays in use");
    }

    pub fn close(self) {
        self.0.close().expect("closes");
    }

    pub fn run(&self, text: &str) -> DocBuf {
        let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let reply =
            self.0.run_command("t", command.as_doc()).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(reply.as_doc().get("writeErrors").is_none(), "{text}: {reply:?}");
        reply
    }

    /// The code of a command that fails, as a whole or in a statement; 0 if it works.
    pub fn code(&self, text: &str) -> i64 {
        let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        match self.0.run_command("t", command.as_doc()) {
            Err(error) => i64::from(error.code().0),
            Ok(reply) => {
                let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
                let first = errors.and_then(RawDoc::first).and_then(|(_, e)| e.as_doc());
                first.and_then(|e| e.get("code")).and_then(Val::as_i64_exact).unwrap_or(0)
            }
        }
    }

    pub fn find(&self, collection: &str, filter: &str) -> Vec<String> {
        let reply =
            self.run(&format!("{{find: '{collection}', filter: {filter}, sort: {{_id: 1}}}}"));
        batch(&reply).into_iter().map(|doc| print(doc)).collect()
    }

    pub fn one(&self, collection: &str, id: &str) -> String {
        self.find(collection, &format!("{{_id: {id}}}")).pop().unwrap_or_default()
    }

    /// The documents that a find or an aggregate returns in its first batch.
    pub fn docs(&self, text: &str) -> Vec<DocBuf> {
        batch(&self.run(text)).into_iter().map(DocBuf::from).collect()
    }

    /// The document with this `_id`, which must be there.
    pub fn get(&self, collection: &str, id: &str) -> DocBuf {
        let found = self.docs(&format!("{{find: '{collection}', filter: {{_id: {id}}}}}")).pop();
        found.unwrap_or_else(|| panic!("{collection} has no {id}"))
    }

    /// What `listPatterns` says of the first pattern of a collection.
    pub fn pattern(&self, collection: &str) -> DocBuf {
        let found = self.docs(&format!("{{listPatterns: '{collection}'}}"));
        found.into_iter().next().expect("a pattern")
    }

    /// How often documents of a collection were written, by clients and patterns: what the log of
    /// changes says.
    pub fn writes(&self, collection: &str) -> usize {
        let text =
            format!("{{find: 'oplog.rs', filter: {{ns: 't.{collection}'}}, batchSize: 1000000}}");
        let command = ejson::parse_doc(&text).expect("test text");
        let reply = self.0.run_command("local", command.as_doc()).expect("the log can be read");
        batch(&reply).len()
    }

    /// Ends a transaction; the code of the failure, 0 if it works.
    pub fn end(&self, verb: &str, session: u8, number: i64) -> i64 {
        let text = format!("{{{verb}: 1{}}}", within(session, number, false));
        let command = ejson::parse_doc(&text).expect("test text");
        let outcome = self.0.run_command("admin", command.as_doc());
        outcome.map_or_else(|error| i64::from(error.code().0), |_| 0)
    }

    /// No pattern of the collection differs from a recomputation.
    pub fn verify(&self, collection: &str) {
        let reply = self.run(&format!("{{validatePatterns: '{collection}'}}"));
        let list = reply.as_doc().get("patterns").and_then(Val::as_array).expect("reports");
        assert!(!list.is_empty(), "no patterns");
        for (_, report) in list {
            let report = report.as_doc().expect("a report");
            assert_eq!(report.get("drift"), Some(Val::Int32(0)), "{report:?}");
        }
        assert_eq!(self.0.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
    }
}

/// The fields that make a command part of a session's transaction.
pub fn within(session: u8, number: i64, first: bool) -> String {
    let start = if first { ", startTransaction: true" } else { "" };
    let id = format!("{session:02x}").repeat(16);
    let id = format!("{}-{}-4{}-8{}-{}", &id[..8], &id[8..12], &id[13..16], &id[17..20], &id[20..]);
    format!(
        ", lsid: {{id: UUID('{id}')}}, txnNumber: NumberLong({number}), autocommit: false{start}"
    )
}

/// A whole number of a document; -1 if it is not there.
pub fn whole(doc: &DocBuf, path: &str) -> i64 {
    motifdb::value::path::Path::new(path).get(doc.as_doc()).as_i64_exact().unwrap_or(-1)
}

/// A text of a document; empty if it is not there.
pub fn text<'d>(doc: &'d DocBuf, path: &str) -> &'d str {
    match motifdb::value::path::Path::new(path).get(doc.as_doc()) {
        Val::String(text) => text,
        _ => "",
    }
}

/// Numbers that look like chance, the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    pub fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.below(words.len() as u64) as usize]
    }
}

pub fn batch(reply: &DocBuf) -> Vec<RawDoc<'_>> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
    batch.iter().filter_map(|(_, doc)| doc.as_doc()).collect()
}

pub fn same(found: &str, expected: &str) {
    let expected = ejson::parse_doc(expected).expect("test text");
    let found_doc = ejson::parse_doc(found).unwrap_or_else(|e| panic!("{found}: {e}"));
    assert_eq!(found_doc, expected, "{found}");
}

pub fn print(doc: RawDoc<'_>) -> String {
    ejson::print(doc, ejson::Format::Canonical)
}
