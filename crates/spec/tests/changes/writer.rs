//! One client: inserts, counts up and deletes documents that all writers share, and goes on after
//! every crash.

use super::random::Random;
use client::Client;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use value::{Val, ejson};

/// Documents that are counted up: few, so that writers meet.
const KEYS: u64 = 20;

/// Writes until it is told to stop.
pub(crate) fn work(
    number: u64,
    seed: u64,
    uri: &Mutex<String>,
    stop: &AtomicBool,
    acknowledged: &AtomicU64,
) {
    let mut random = Random::new(seed);
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let target = uri.lock().expect("not poisoned").clone();
        let Ok(mut client) = Client::connect(&target) else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            next += 1;
            let key = random.below(KEYS);
            let text = match random.below(10) {
                0 => format!("{{insert: 'c', documents: [{{_id: '{number}-{next}', n: 0}}]}}"),
                1 => format!(
                    "{{insert: 'c', documents: [{{_id: '{number}-{next}a', n: 0}}, \
                     {{_id: '{number}-{next}b', n: 0}}]}}"
                ),
                2 => format!("{{delete: 'c', deletes: [{{q: {{_id: {key}}}, limit: 1}}]}}"),
                3 => "{update: 'c', updates: [{q: {n: {$lt: 3}}, u: {$inc: {n: 1}}, multi: true}]}"
                    .to_owned(),
                _ => format!(
                    "{{update: 'c', updates: [{{q: {{_id: {key}}}, u: {{$inc: {{n: 1}}}}, \
                     upsert: true}}]}}"
                ),
            };
            let command = ejson::parse_doc(&text).expect("test text");
            let Ok(reply) = client.run("t", &command) else { break };
            let reply = reply.as_doc();
            assert!(reply.get("writeErrors").is_none(), "{text}: {reply:?}");
            let changed = if text.starts_with("{update") { "nModified" } else { "n" };
            let changed = reply.get(changed).and_then(Val::as_i64_exact).unwrap_or(0);
            acknowledged.fetch_add(changed as u64, Ordering::Relaxed);
        }
    }
}
