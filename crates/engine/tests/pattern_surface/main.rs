//! What people see of patterns and do to them while they are there: what explain and listPatterns tell,
//! writes that go past them and checks by the clock (`checks`), new versions (`versions`), what becomes of
//! collections (`collections`), trees (`nodes`), builds beside others (`builds`), declarations in time (`moments`).

mod builds;
mod checks;
mod collections;
mod moments;
mod nodes;
mod versions;

use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use motifdb::{Engine, Options, Storage};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

struct Server(Engine);

impl Server {
    fn new() -> Server {
        Server(Engine::open(Options::default()).expect("memory opens"))
    }

    fn try_in(&self, db: &str, text: &str) -> Result<DocBuf, (i32, String)> {
        let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        self.0
            .run_command(db, command.as_doc())
            .map_err(|error| (error.code().0, error.message().to_owned()))
    }

    fn try_run(&self, text: &str) -> Result<DocBuf, (i32, String)> {
        self.try_in("t", text)
    }

    fn run(&self, text: &str) -> DocBuf {
        let reply = self.try_run(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        assert!(reply.as_doc().get("writeErrors").is_none(), "{text}: {reply:?}");
        reply
    }

    /// The code of a statement that is refused; 0 if it works.
    fn run_code(&self, text: &str) -> i64 {
        let reply = self.try_run(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
        let first = errors.and_then(RawDoc::first).and_then(|(_, error)| error.as_doc());
        first.and_then(|error| error.get("code")?.as_i64_exact()).unwrap_or(0)
    }

    fn docs(&self, text: &str) -> Vec<DocBuf> {
        batch(&self.run(text))
    }

    fn shows(&self, find: &str, wanted: &str) {
        let found: Vec<String> =
            self.docs(find).iter().map(|doc| format!("{:?}", doc.as_doc())).collect();
        let wanted = ejson::parse_doc(&format!("{{v: [{wanted}]}}")).expect("test text");
        let wanted = wanted.as_doc().get("v").and_then(Val::as_array).expect("a list");
        let wanted: Vec<String> = wanted
            .iter()
            .filter_map(|(_, doc)| doc.as_doc())
            .map(|doc| format!("{doc:?}"))
            .collect();
        assert_eq!(found, wanted, "{find}");
    }

    fn pattern(&self, collection: &str) -> DocBuf {
        self.docs(&format!("{{listPatterns: '{collection}'}}")).pop().expect("a pattern")
    }

    fn state(&self, collection: &str) -> String {
        let pattern = self.pattern(collection);
        pattern.as_doc().get("state").and_then(Val::as_str).unwrap_or("").to_owned()
    }

    fn validate(&self, text: &str) -> DocBuf {
        let reply = self.run(text);
        let list = reply.as_doc().get("patterns").and_then(Val::as_array).expect("reports");
        list.first().and_then(|(_, report)| report.as_doc()).map(DocBuf::from).expect("a report")
    }
}

fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
    batch.iter().filter_map(|(_, doc)| doc.as_doc()).map(DocBuf::from).collect()
}

fn number(doc: RawDoc<'_>, path: &str) -> i64 {
    let mut at = doc;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        match (at.get(part), parts.peek()) {
            (Some(Val::Document(inner)), Some(_)) => at = inner,
            (Some(value), None) => return value.as_i64_exact().unwrap_or(-1),
            _ => return -1,
        }
    }
    -1
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(90), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

static SALES: &str = "{createPatterns: 'p', patterns: [{name: 'sales', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$sum: '$x'}, n: {$count: {}}}}]}";

fn sales() -> Server {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
    server.run("{insert: 'c', documents: [{_id: 1, p: 1, x: 5}, {_id: 2, p: 1, x: 6}, {_id: 3, p: 2, x: 7}]}");
    server.run(SALES);
    server
}

#[test]
fn explain_of_a_write_tells_what_patterns_would_do_and_does_nothing() {
    let server = sales();
    let explained = server.run(
        "{explain: {update: 'c', updates: [{q: {}, u: {$inc: {x: 1}}, multi: true}]}, verbosity: 'executionStats'}",
    );
    let list = explained.as_doc().get("patterns").and_then(Val::as_array).expect("patterns");
    let first = list.first().and_then(|(_, doc)| doc.as_doc()).expect("one");
    assert_eq!(first.get("name"), Some(Val::String("sales")));
    assert_eq!((number(first, "deltas"), number(first, "fanoutWrites")), (3, 2), "{first:?}");
    assert!(number(first, "micros") >= 0);
    let explained = server.run(
        "{explain: {delete: 'c', deletes: [{q: {_id: 3}, limit: 1}]}, verbosity: 'executionStats'}",
    );
    let list = explained.as_doc().get("patterns").and_then(Val::as_array).expect("patterns");
    let first = list.first().and_then(|(_, doc)| doc.as_doc()).expect("one");
    assert_eq!((number(first, "deltas"), number(first, "fanoutWrites")), (1, 1), "{first:?}");
    // What changes nothing that is read is no delta.
    let explained = server.run(
        "{explain: {update: 'c', updates: [{q: {_id: 1}, u: {$set: {y: 1}}}]}, verbosity: 'executionStats'}",
    );
    let list = explained.as_doc().get("patterns").and_then(Val::as_array).expect("patterns");
    assert!(list.is_empty(), "{list:?}");
    server.shows("{find: 'p'}", "{_id: 1, s: 11, n: 2}, {_id: 2, s: 7, n: 1}");
    // Without patterns there is nothing to tell, and plans alone tell nothing.
    server.run("{insert: 'plain', documents: [{_id: 1}]}");
    let explained =
        server.run("{explain: {update: 'plain', updates: [{q: {}, u: {$set: {y: 1}}}]}}");
    assert!(explained.as_doc().get("patterns").is_none());
}

#[test]
fn list_patterns_tells_what_a_pattern_costs_and_is_good_for() {
    let server = sales();
    let before = server.pattern("p");
    assert_eq!(number(before.as_doc(), "stats.deltas"), 0, "a build is no delta: {before:?}");
    server.run("{insert: 'c', documents: [{_id: 4, p: 1, x: 1}, {_id: 5, p: 1, x: 1}]}");
    server.run("{update: 'c', updates: [{q: {_id: 4}, u: {$set: {x: 2}}}]}");
    server.run("{update: 'c', updates: [{q: {_id: 4}, u: {$set: {other: 2}}}]}");
    server.run("{count: 'c', query: {p: 1}}");
    server.run("{update: 'p', updates: [{q: {_id: 1}, u: {_id: 1, s: 99, n: 2, name: 'one'}}]}");
    server.run("{insert: 'p', documents: [{_id: 3, s: 5}]}");
    let listed = server.pattern("p");
    let stats = listed.as_doc().get("stats").and_then(Val::as_doc).expect("stats");
    assert_eq!((number(stats, "deltas"), number(stats, "fanoutWrites")), (3, 2), "{stats:?}");
    assert_eq!(
        (number(stats, "rewrites"), number(stats, "ignoredClientWrites")),
        (1, 2),
        "{stats:?}"
    );
    assert!(number(stats, "bytes") > 0, "{stats:?}");
    let factor = stats.get("writeAmplification").and_then(Val::as_f64).expect("a factor");
    assert!((factor - (1.0 + 2.0 / 3.0)).abs() < 1e-9, "{stats:?}");
    // What fails is left out and counted.
    server.run("{createPatterns: 'p', patterns: [{name: 'z', kind: 'computed', from: 'c', on: {foreign: 'p'}, onError: 'skip', fields: {z: {$sum: {$multiply: ['$x', '$y']}}}}]}");
    server.run("{insert: 'c', documents: [{_id: 6, p: 1, x: 1, y: 'text'}]}");
    let all = server.docs("{listPatterns: 'p'}");
    let skipping = all.iter().find(|p| p.as_doc().get("name") == Some(Val::String("z")));
    assert_eq!(number(skipping.expect("z").as_doc(), "errors"), 1);
}

#[test]
fn metadata_tell_how_far_a_document_is_behind() {
    let server = sales();
    server
        .run("{modifyPattern: 'p', name: 'sales', set: {mode: {every: '1h'}, maxStalenessMS: 1}}");
    // The first round shows what there is.
    wait_until("the first round", || server.pattern("p").as_doc().get("asOf").is_some());
    server.run("{insert: 'c', documents: [{_id: 4, p: 1, x: 100}]}");
    std::thread::sleep(Duration::from_millis(20));
    let meta = |id: i32| {
        let docs = server.docs(&format!(
            "{{find: 'p', filter: {{_id: {id}}}, projection: {{s: 1, how: {{$meta: 'patterns'}}}}}}"
        ));
        let how = docs[0].as_doc().get("how").and_then(Val::as_doc).expect("metadata");
        DocBuf::from(how.get("sales").and_then(Val::as_doc).expect("the pattern"))
    };
    let (late, exact) = (meta(1), meta(2));
    assert_eq!(late.as_doc().get("exact"), Some(Val::Bool(false)), "{late:?}");
    assert!(number(late.as_doc(), "lagMS") >= 10, "{late:?}");
    assert!(matches!(late.as_doc().get("asOf"), Some(Val::DateTime(_))), "{late:?}");
    assert_eq!(exact.as_doc().get("exact"), Some(Val::Bool(true)), "{exact:?}");
    assert_eq!(number(exact.as_doc(), "lagMS"), 0, "{exact:?}");
    let docs = server.docs("{aggregate: 'p', pipeline: [{$match: {_id: 1}}, {$project: {how: {$meta: 'patterns'}}}], cursor: {}}");
    assert!(format!("{docs:?}").contains("lagMS"), "{docs:?}");
    assert_eq!(server.pattern("p").as_doc().get("overdue"), Some(Val::Bool(true)));
    let overdue = || {
        let status = server.run("{serverStatus: 1}");
        number(status.as_doc(), "patterns.overdue")
    };
    wait_until("an alarm", || overdue() == 1);
    server.docs("{find: 'p', readConcern: {patterns: 'fresh'}}");
    assert_eq!(meta(1).as_doc().get("exact"), Some(Val::Bool(true)));
    wait_until("the end of the alarm", || overdue() == 0);
    // Who maintains in the same commit is never behind; without patterns there is nothing to tell.
    server.run("{insert: 'plain', documents: [{_id: 1}]}");
    server.shows("{find: 'plain', projection: {how: {$meta: 'patterns'}}}", "{_id: 1, how: {}}");
}
