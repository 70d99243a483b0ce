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
