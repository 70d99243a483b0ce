//! Kills the server while unique indexes are built beside a writer. After each start the build goes on;
//! in the end the index is there and says exactly what the documents say, or, where two documents
//! are equal, it is gone and nothing keeps others from inserting.

use crate::process::{Server, binary, check_folder};
use crate::random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use value::{DocBuf, RawDoc, Val, ejson};

/// Documents that are there before the build.
const DOCUMENTS: i64 = 60_000;
const KILLS: usize = 10;
/// How long a build that goes on after a start may take.
const BUILD_TIMEOUT: Duration = Duration::from_secs(60);

fn parsed(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("the text of a test")
}

fn first_batch(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    batch.iter().filter_map(|(_, doc)| doc.as_doc().map(DocBuf::from)).collect()
}

fn count(client: &mut client::Client, query: &str, hint: &str) -> i64 {
    let command = parsed(&format!("{{count: 'c', query: {query}, hint: {hint}}}"));
    let reply = client.run("t", &command).expect("counts");
    reply.as_doc().get("n").and_then(Val::as_i64_exact).expect("a number")
}

/// Waits until no build is under way; whether the index is there then.
fn is_built(client: &mut client::Client) -> bool {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < BUILD_TIMEOUT, "the build does not end");
        let running = parsed(
            "{aggregate: 1, pipeline: [{$currentOp: {allUsers: true}}, {$match: {msg: \
             {$regex: '^Index Build'}}}], cursor: {}}",
        );
        let running = first_batch(&client.run("admin", &running).expect("lists")).len();
        let listed = client.run("t", &parsed("{listIndexes: 'c'}")).expect("lists");
        let there = first_batch(&listed).len() > 1;
        // One that waits to go on is listed as an index that nobody may use yet.
        let usable = client.run("t", &parsed("{count: 'c', query: {a: -1}, hint: 'a_1'}")).is_ok();
        if running == 0 && there == usable {
            return there;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn unique_builds_survive_kill_nine() {
    let seed = crate::number("CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("CRASH_SEED={seed}");
    let mut random = Random::new(seed);
    let folder =
        tempfile::Builder::new().prefix("motif-builds").tempdir().expect("a folder").keep();
    let binary = binary();
    let mut server = Server::start(&binary, &folder);
    let fill = format!(
        "{{aggregate: 1, pipeline: [{{$documents: {{$map: {{input: {{$range: [0, {DOCUMENTS}]}}, \
         in: {{_id: '$$this', a: '$$this', text: 'some text that takes a little space'}}}}}}}}, \
         {{$out: 'c'}}], cursor: {{}}}}"
    );
    server.connect().run("t", &parsed(&fill)).expect("fills");

    let written = Arc::new(AtomicI64::new(DOCUMENTS));
    let (mut built, mut refused) = (0, 0);
    for round in 0..KILLS {
        // Every third build meets two equal documents, one of which a writer may just have made.
        let twice = round % 3 == 2;
        let stop = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (stop, written) = (stop.clone(), written.clone());
            let mut client = server.connect();
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let n = written.fetch_add(1, Ordering::Relaxed);
                    let insert = format!("{{insert: 'c', documents: [{{_id: {n}, a: {n}}}]}}");
                    let update = format!(
                        "{{update: 'c', updates: [{{q: {{_id: {}}}, u: {{$set: {{a: -{n}}}}}}}]}}",
                        n % DOCUMENTS
                    );
                    for command in [insert, update] {
                        if client.run("t", &parsed(&command)).is_err() {
                            return;
                        }
                    }
                }
            }
        });
        if twice {
            let equal =
                parsed("{insert: 'c', documents: [{_id: 'x', a: 'x'}, {_id: 'y', a: 'x'}]}");
            server.connect().run("t", &equal).expect("inserts");
        }
        let mut client = server.connect();
        let build = std::thread::spawn(move || {
            let build = "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1', unique: true}]}";
            client.run("t", &parsed(build)).is_ok()
        });
        std::thread::sleep(Duration::from_millis(random.below(400)));
        server.kill();
        stop.store(true, Ordering::Relaxed);
        let acknowledged = build.join().expect("the client ends");
        writer.join().expect("the writer ends");
        // Recovery, and a build that goes on, must survive being killed, too.
        if random.below(2) == 0 {
            let starting = Server::start(&binary, &folder);
            std::thread::sleep(Duration::from_millis(random.below(150)));
            starting.kill();
        }

        server = Server::start(&binary, &folder);
        let mut client = server.connect();
        let there = is_built(&mut client);
        assert!(!(there && twice), "equal documents are in a unique index");
        assert!(there || !acknowledged, "an index that was acknowledged is gone");
        if there {
            built += 1;
            let all = count(&mut client, "{}", "{$natural: 1}");
            assert_eq!(count(&mut client, "{a: {$gte: {$minKey: 1}}}", "'a_1'"), all);
            let sums = ["{$natural: 1}", "'a_1'"].map(|hint| {
                let sum = format!(
                    "{{aggregate: 'c', pipeline: [{{$match: {{a: {{$gt: -1e300}}}}}}, {{$group: \
                     {{_id: null, a: {{$sum: '$a'}}, n: {{$sum: 1}}}}}}], hint: {hint}, cursor: {{}}}}"
                );
                first_batch(&client.run("t", &parsed(&sum)).expect("adds"))
            });
            assert_eq!(sums[0], sums[1], "the index says something else than the documents");
            let equal = parsed("{insert: 'c', documents: [{_id: 'second', a: 7}, {a: 7}]}");
            let reply = client.run("t", &equal).expect("replies");
            assert!(reply.as_doc().get("writeErrors").is_some(), "equal values are refused");
            client.run("t", &parsed("{dropIndexes: 'c', index: 'a_1'}")).expect("drops");
        } else {
            refused += 1;
        }
        let clean = parsed("{delete: 'c', deletes: [{q: {_id: {$type: 'string'}}, limit: 0}]}");
        client.run("t", &clean).expect("deletes");
    }
    server.stop();
    check_folder(&binary, &folder);
    eprintln!("{KILLS} kills: {built} indexes were there afterwards, {refused} not");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}
