//! An engine in memory with a few documents and indexes, on which inputs are run.
//!
//! What is found must be found again from the input alone, so an input that may have changed
//! anything leaves the bed `dirty`, and the next one gets a new engine, or the same documents anew.

use motifdb::{Client, Engine, Flow, Options, Peer, Request};
use std::sync::LazyLock;
use value::{DocBuf, RawDoc, Val, ejson};

/// The database that inputs are run in.
pub const DB: &str = "fuzz";
/// How often documents are put back before there is a new engine.
const RESTORED_MAX: u32 = 1000;
/// Documents of a result that is compared.
const FOUND_MAX: usize = 2000;
/// Milliseconds that one command may take.
const TIME_MS_MAX: i64 = 500;
/// ... and one of the target itself.
const PATIENCE_MS: i64 = 30_000;

/// Documents with values of all types, nulls, gaps, arrays and places.
pub static DOCUMENTS: &[&str] = &[
    "{_id: 1, a: 1, b: {c: 'x'}, list: [1, 2, 3], words: 'the quick brown fox'}",
    "{_id: 2, a: NumberLong(2), b: {c: ['x', 'y']}, list: [{x: 1, y: 2}, {x: 3}], when: ISODate('2024-02-29T12:00:00Z')}",
    "{_id: 3, a: 2.5, b: null, list: [], place: {type: 'Point', coordinates: [13.4, 52.5]}}",
    "{_id: 4, a: NumberDecimal('3.50'), b: [{c: 1}, {c: 'z'}, 7], list: [[1, 2], [3]]}",
    "{_id: 5, a: 'text', b: {c: {d: [true, false]}}, list: 'no list', words: 'lazy dogs \u{e9}t\u{e9}'}",
    "{_id: 6, a: [1, 'x', null], b: 5, list: [null, {x: null}]}",
    "{_id: 7, a: null, list: [{x: [1, 2]}, {x: 'a'}], place: {type: 'Polygon', coordinates: [[[0, 0], [3, 0], [3, 3], [0, 0]]]}}",
    "{_id: 'eight', b: {c: -1}, when: ISODate('1969-12-31T23:59:59.999Z'), x: {$numberDouble: 'NaN'}}",
    "{_id: ObjectId('64b7f0a1c2d3e4f5a6b7c8d9'), a: {$minKey: 1}, b: {c: 'X'}, y: BinData(0, 'AAEC')}",
    "{_id: {k: 1}, a: -1, b: {c: /x/i}, list: [1.0, NumberLong(1), '1'], parent: 1}",
];

/// What brings them into the database.
static INSERT: LazyLock<String> =
    LazyLock::new(|| format!("{{insert: 'items', documents: [{}]}}", DOCUMENTS.join(", ")));

/// Indexes come before the documents, because then they are made at once.
static SETUP: &[&str] = &[
    "{createIndexes: 'items', indexes: [{key: {a: 1}, name: 'a'}, {key: {'b.c': -1, a: 1}, name: 'bc'}, \
     {key: {list: 1}, name: 'list'}, {key: {'list.x': 1}, name: 'listx'}, {key: {place: '2dsphere'}, name: 'place'}, \
     {key: {words: 'text'}, name: 'words'}, {key: {'$**': 1}, name: 'all'}, {key: {when: 'hashed'}, name: 'hash'}, \
     {key: {when: 1}, name: 'when', sparse: true}, {key: {b: 1}, name: 'part', partialFilterExpression: {a: {$gt: 1}}}]}",
    "{insert: 'others', documents: [{_id: 1, item: 1, q: 5, up: null}, {_id: 2, item: 2, q: 'x', up: 1}, \
     {_id: 3, item: [1, 2], q: null, up: 2}, {_id: 4, q: {r: 1}, up: [1, 3]}]}",
    "{createIndexes: 'others', indexes: [{key: {item: 1}, name: 'item'}, {key: {up: 1}, name: 'up'}]}",
    "{create: 'view', viewOn: 'items', pipeline: [{$match: {a: {$exists: true}}}, {$addFields: {v: '$a'}}]}",
    "{create: 'capped', capped: true, size: 4096, max: 3}",
];

/// The engine and a client of it.
pub struct Bed {
    engine: Engine,
    client: Client,
    /// Whether the next input needs a new engine.
    pub dirty: bool,
    /// How often it was restored.
    restored: u32,
}

impl Default for Bed {
    fn default() -> Bed {
        Bed::new()
    }
}

impl Bed {
    /// A new engine with the documents.
    ///
    /// # Panics
    /// When the engine refuses what every engine takes.
    #[must_use]
    pub fn new() -> Bed {
        let engine = Engine::open(Options::default()).expect("an engine in memory opens");
        let client = engine.connect(Peer::default());
        let mut bed = Bed { engine, client, dirty: false, restored: 0 };
        SETUP.iter().for_each(|command| bed.must(command));
        bed.must(&INSERT);
        bed
    }

    /// Puts the documents of `items` back where nothing but updates were run: much cheaper than a
    /// new engine, which follows now and then all the same.
    pub fn restore(&mut self) {
        self.restored += 1;
        if self.restored >= RESTORED_MAX {
            *self = Bed::new();
        } else {
            self.must("{delete: 'items', deletes: [{q: {}, limit: 0}]}");
            self.must(&INSERT);
            self.dirty = false;
        }
    }

    /// Runs a command of the target itself, which may take long on a busy machine.
    pub fn ask(&mut self, command: &str) -> DocBuf {
        let command = ejson::parse_doc(command).expect("readable");
        run_within(&mut self.client, command.as_doc(), PATIENCE_MS)
    }

    /// Runs a command that cannot fail.
    fn must(&mut self, command: &str) {
        let reply = self.ask(command);
        assert!(
            motifdb::is_ok(reply.as_doc()) && reply.as_doc().find("writeErrors").is_none(),
            "{command}: {}",
            crate::laws::show(reply.as_doc())
        );
    }

    /// A bed without documents.
    ///
    /// # Panics
    /// When the engine does not open.
    #[must_use]
    pub fn empty() -> Bed {
        let engine = Engine::open(Options::default()).expect("an engine in memory opens");
        let client = engine.connect(Peer::default());
        Bed { engine, client, dirty: false, restored: 0 }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs a command as a client would, for a bounded time; the reply is proper BSON.
    pub fn run(&mut self, command: RawDoc<'_>) -> DocBuf {
        run_as(&mut self.client, command)
    }

    /// All documents that a `find` or `aggregate` gives, by batches of so many; nothing when it
    /// fails, or gives more than anybody wants to compare.
    pub fn all(&mut self, command: RawDoc<'_>, batch: i32) -> Option<Vec<DocBuf>> {
        let with_batch = DocBuf::build(|out| {
            for (name, value) in command.iter().filter(|(name, _)| *name != "batchSize") {
                out.raw(name, value);
            }
            if command.find("find").is_some() {
                out.i32("batchSize", batch);
            } else {
                out.doc("cursor", |out| {
                    out.i32("batchSize", batch);
                });
            }
        });
        let mut reply = self.run(with_batch.as_doc());
        let mut found = Vec::new();
        loop {
            if !motifdb::is_ok(reply.as_doc()) {
                return None;
            }
            let cursor = reply.as_doc().get("cursor")?.as_doc()?;
            let list = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch"))?.as_array()?;
            for (_, value) in list.iter() {
                found.push(DocBuf::from_bytes(value.as_doc()?.bytes().to_vec()));
            }
            let id = cursor.get("id")?.as_i64_exact()?;
            if id == 0 {
                return Some(found);
            }
            let namespace = cursor.get("ns")?.as_str()?.split_once('.')?.1.to_owned();
            if found.len() > FOUND_MAX {
                let kill = DocBuf::build(|out| {
                    out.str("killCursors", &namespace);
                    out.array("cursors", |list| list.push(Val::Int64(id)));
                });
                self.run(kill.as_doc());
                return None;
            }
            let more = DocBuf::build(|out| {
                out.append("getMore", Val::Int64(id))
                    .str("collection", &namespace)
                    .i32("batchSize", batch);
            });
            reply = self.run(more.as_doc());
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Its threads end with it.
        self.engine.close().expect("an engine in memory closes");
    }
}

/// Runs a command of any client for a bounded time; the reply is proper BSON.
pub fn run_as(client: &mut Client, command: RawDoc<'_>) -> DocBuf {
    run_within(client, command, TIME_MS_MAX)
}

fn run_within(client: &mut Client, command: RawDoc<'_>, time_ms_max: i64) -> DocBuf {
    let has_limit = command.find("maxTimeMS").is_some();
    let body = DocBuf::build(|out| {
        for (name, value) in command.iter() {
            match name {
                "maxTimeMS" | "maxAwaitTimeMS" => {
                    let time = value.get().as_i64_exact().map(|time| time.min(time_ms_max));
                    match time {
                        Some(time) => out.i64(name, time),
                        None => out.raw(name, value),
                    };
                }
                _ => {
                    out.raw(name, value);
                }
            }
        }
        if !has_limit && !matches!(command.first(), Some(("getMore", _))) {
            out.i64("maxTimeMS", time_ms_max);
        }
        if command.find("$db").is_none() {
            out.str("$db", DB);
        }
    });
    let mut reply = Vec::new();
    let flow = client.run(&Request::new(body.as_doc()), &mut reply);
    if flow == Flow::Abort {
        return DocBuf::new();
    }
    crate::laws::is_proper(&reply);
    DocBuf::from_bytes(reply)
}
