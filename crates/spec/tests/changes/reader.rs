//! The follower: reads a change stream, loses its connection now and then, goes on behind the last
//! event, and keeps what the events make of the collection.

use super::random::Random;
use client::Client;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use value::{DocBuf, RawDoc, Val, ejson};

/// A follower and what it knows.
pub(crate) struct Reader {
    start: u64,
    random: Random,
    token: Option<String>,
    /// The collection as the events tell it: each document's count.
    documents: BTreeMap<String, i64>,
    /// Events so far.
    pub(crate) events: u64,
    /// How often the stream was opened again.
    pub(crate) cuts: u64,
    ended: bool,
}

impl Reader {
    /// A follower of everything that happens after a time.
    pub(crate) fn new(start: u64, seed: u64) -> Reader {
        Reader {
            start,
            random: Random::new(seed),
            token: None,
            documents: BTreeMap::new(),
            events: 0,
            cuts: 0,
            ended: false,
        }
    }

    /// Follows the stream until the last document comes.
    pub(crate) fn follow(&mut self, uri: &Mutex<String>) {
        while !self.ended {
            let target = uri.lock().expect("not poisoned").clone();
            match Client::connect(&target) {
                Ok(mut client) => self.read(&mut client),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// One connection: opens the stream where the last one ended, and reads some batches.
    fn read(&mut self, client: &mut Client) {
        let open = DocBuf::build(|out| {
            out.str("aggregate", "c").array("pipeline", |stages| {
                stages.push_doc(|stage| {
                    stage.doc("$changeStream", |out| {
                        match &self.token {
                            Some(token) => out.doc("resumeAfter", |out| {
                                out.str("_data", token);
                            }),
                            None => out.append("startAtOperationTime", Val::Timestamp(self.start)),
                        };
                    });
                });
            });
            out.doc("cursor", |_| {});
        });
        let Ok(reply) = client.run("t", &open) else { return };
        self.cuts += 1;
        let mut id = self.take(reply.as_doc(), "firstBatch");
        let batches = self.random.below(30);
        for _ in 0..batches {
            if self.ended || id == 0 {
                break;
            }
            let more = DocBuf::build(|out| {
                out.i64("getMore", id).str("collection", "c").i32("maxTimeMS", 100);
                out.i32("batchSize", 1 + self.random.below(50) as i32);
            });
            let Ok(reply) = client.run("t", &more) else { return };
            id = self.take(reply.as_doc(), "nextBatch");
        }
    }

    /// Takes the events of a batch; returns the cursor.
    fn take(&mut self, reply: RawDoc<'_>, name: &str) -> i64 {
        let cursor = reply.get("cursor").and_then(Val::as_doc);
        let cursor = cursor.unwrap_or_else(|| panic!("no cursor in {reply:?}"));
        let batch = cursor.get(name).and_then(Val::as_array).expect("a batch");
        for (_, event) in batch {
            let event = event.as_doc().expect("an event");
            let token = event.get("_id").and_then(Val::as_doc).and_then(|id| id.get("_data"));
            let token = token.and_then(Val::as_str).expect("a token").to_owned();
            // Tokens sort like places: a change that comes twice or late is seen here.
            if let Some(last) = &self.token {
                assert!(token > *last, "{event:?} comes behind {last}");
            }
            self.token = Some(token);
            self.apply(event);
            // A reader that dies in the middle of a batch goes on behind what it has seen.
            if self.random.below(200) == 0 {
                return 0;
            }
        }
        let token = cursor.get("postBatchResumeToken").and_then(Val::as_doc);
        let token = token.and_then(|token| token.get("_data")).and_then(Val::as_str);
        let token = token.expect("every batch says where to go on").to_owned();
        assert!(self.token.as_ref().is_none_or(|last| token >= *last), "the place moved back");
        self.token = Some(token);
        cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(0)
    }

    fn apply(&mut self, event: RawDoc<'_>) {
        self.events += 1;
        let inner = |name: &str| event.get(name).and_then(Val::as_doc);
        let id = inner("documentKey").and_then(|key| key.get("_id")).expect("a key");
        let id = ejson::print_value(id, ejson::Format::Shell);
        let count = |doc: Option<RawDoc<'_>>| {
            doc.and_then(|doc| doc.get("n")).and_then(Val::as_i64_exact).expect("a count")
        };
        match event.get("operationType").and_then(Val::as_str) {
            Some("insert") => {
                let count = count(inner("fullDocument"));
                self.ended |= id.contains("the end");
                assert!(self.documents.insert(id, count).is_none(), "inserted twice: {event:?}");
            }
            Some("update") => {
                let updated = inner("updateDescription").and_then(|d| d.get("updatedFields"));
                let count = count(updated.and_then(Val::as_doc));
                let before = self.documents.insert(id, count);
                assert_eq!(before, Some(count - 1), "an update is missing before {event:?}");
            }
            Some("delete") => {
                assert!(self.documents.remove(&id).is_some(), "deleted twice: {event:?}");
            }
            other => panic!("unexpected event {other:?}"),
        }
    }

    /// Compares what the events made with what the collection holds.
    pub(crate) fn compare(&self, client: &mut Client) {
        let find = ejson::parse_doc("{find: 'c'}").expect("test text");
        let found = client.cursor("t", &find).and_then(client::Cursor::collect).expect("reads");
        let found: BTreeMap<String, i64> = found
            .iter()
            .map(|doc| {
                let id = doc.as_doc().get("_id").expect("an _id");
                let count = doc.as_doc().get("n").and_then(Val::as_i64_exact).expect("a count");
                (ejson::print_value(id, ejson::Format::Shell), count)
            })
            .collect();
        assert!(found == self.documents, "the events tell another collection than there is");
    }
}
