//! Kills the server while points are written into buckets, while a collection is converted to
//! buckets, and while the buckets are dropped. Every acknowledged point is there afterwards, once, and
//! what was begun goes on.

use crate::process::{Server, binary, check_folder};
use crate::random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use value::{DocBuf, RawDoc, Val, ejson};

const KILLS: usize = 9;
/// How long a conversion that goes on after a start may take.
const TIMEOUT: Duration = Duration::from_secs(60);
const DECLARE: &str = "{createPatterns: 'c', patterns: [{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h', maxCount: 200, rollup: {fields: {v: ['sum', 'count']}, levels: ['1h', '1d']}}]}";

fn parsed(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("the text of a test")
}

fn first_batch(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    batch.iter().filter_map(|(_, doc)| doc.as_doc().map(DocBuf::from)).collect()
}

/// Waits until nothing is converted any more; the states of the patterns.
fn settled(client: &mut client::Client) -> Vec<String> {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < TIMEOUT, "the conversion does not end");
        let listed = client.run("t", &parsed("{listPatterns: 'c'}")).expect("lists");
        let states: Vec<String> = first_batch(&listed)
            .iter()
            .filter_map(|doc| Some(doc.as_doc().get("state")?.as_str()?.to_owned()))
            .collect();
        if states.iter().all(|state| state == "ready") {
            return states;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The number of points and the sum of their numbers, in three ways that do not share a plan.
fn totals(client: &mut client::Client) -> Vec<Vec<DocBuf>> {
    let group = "{$group: {_id: null, n: {$sum: 1}, v: {$sum: '$v'}}}";
    let pipelines = [
        format!("[{group}]"),
        format!("[{{$match: {{_id: {{$gte: 0}}}}}}, {{$sort: {{_id: 1}}}}, {group}]"),
        format!("[{{$sort: {{ts: 1}}}}, {{$match: {{v: {{$gte: 0}}}}}}, {group}]"),
    ];
    pipelines
        .iter()
        .map(|pipeline| {
            let command = format!("{{aggregate: 'c', pipeline: {pipeline}, cursor: {{}}}}");
            first_batch(&client.run("t", &parsed(&command)).expect("adds"))
        })
        .collect()
}

#[test]
fn buckets_survive_kill_nine() {
    let seed = crate::number("CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("CRASH_SEED={seed}");
    let mut random = Random::new(seed);
    let folder =
        tempfile::Builder::new().prefix("motif-buckets").tempdir().expect("a folder").keep();
    let binary = binary();
    let mut server = Server::start(&binary, &folder);
    server.connect().run("t", &parsed("{create: 'c'}")).expect("creates");
    let next = Arc::new(AtomicI64::new(0));
    let acknowledged = Arc::new(AtomicI64::new(0));
    let (mut with, mut without) = (0, 0);
    for round in 0..KILLS {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (stop, next, acknowledged) = (stop.clone(), next.clone(), acknowledged.clone());
            let mut client = server.connect();
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let from = next.fetch_add(50, Ordering::Relaxed);
                    let docs: Vec<String> = (from..from + 50)
                        .map(|n| {
                            let ts = (n / 5) * 20_000 - (n % 7) * 900_000;
                            format!(
                                "{{_id: {n}, s: {}, ts: {{$date: {{$numberLong: '{ts}'}}}}, v: {n}}}",
                                n % 5
                            )
                        })
                        .collect();
                    let insert = format!("{{insert: 'c', documents: [{}]}}", docs.join(", "));
                    if client.run("t", &parsed(&insert)).is_err() {
                        return;
                    }
                    acknowledged.fetch_add(50, Ordering::Relaxed);
                }
            }
        });
        let before = acknowledged.load(Ordering::Relaxed);
        let begin = Instant::now();
        while acknowledged.load(Ordering::Relaxed) < before + 1000 && begin.elapsed() < TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Converted in the first round of three, written to in the second, dropped in the third.
        let change = match round % 3 {
            0 => Some(DECLARE),
            1 => None,
            _ => Some("{dropPatterns: 'c', names: '*'}"),
        };
        let changing = change.map(|command| {
            let mut client = server.connect();
            std::thread::spawn(move || client.run("t", &parsed(command)).is_ok())
        });
        std::thread::sleep(Duration::from_millis(random.below(150)));
        server.kill();
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("the writer ends");
        let done = changing.map(|thread| thread.join().expect("the client ends"));

        server = Server::start(&binary, &folder);
        let mut client = server.connect();
        let states = settled(&mut client);
        match (round % 3, done) {
            (0, Some(true)) => assert_eq!(states, ["ready"], "an acknowledged pattern is gone"),
            (2, Some(true)) => assert!(states.is_empty(), "a dropped pattern is back"),
            _ => {}
        }
        match states.is_empty() {
            true => without += 1,
            false => with += 1,
        }
        let all = totals(&mut client);
        assert!(all.windows(2).all(|pair| pair.first() == pair.last()), "{all:?}");
        let n = all[0][0].as_doc().get("n").and_then(Val::as_i64_exact).expect("a number");
        let least = acknowledged.load(Ordering::Relaxed);
        assert!(n >= least, "{n} points are there, {least} were acknowledged");
        // What was not acknowledged may be there; from here on it counts.
        acknowledged.store(n, Ordering::Relaxed);
        if round % 3 == 0 && states.is_empty() {
            client.run("t", &parsed(DECLARE)).expect("declares");
        }
    }
    server.stop();
    check_folder(&binary, &folder);
    eprintln!("{KILLS} kills: {with} times with buckets afterwards, {without} without");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}
