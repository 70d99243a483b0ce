//! Kills the server while clients push to one array that is stored in chunks. What was acknowledged is
//! there, in the order of each client, and count, index and chunks agree with it.

use crate::process::{Server, binary, check_folder};
use crate::random::Random;
use client::Client;
use std::time::Duration;
use value::{DocBuf, RawDoc, Val, ejson};

const KILLS: usize = 10;
const WRITERS: usize = 3;

fn parsed(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("the text of a test")
}

fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    batch.iter().filter_map(|(_, doc)| doc.as_doc().map(DocBuf::from)).collect()
}

fn whole(doc: &DocBuf, name: &str) -> i64 {
    doc.as_doc().get(name).and_then(Val::as_i64_exact).expect("a number")
}

/// Pushes numbers from one on until the server is gone. Returns the first that was not acknowledged.
fn push(client: &mut Client, writer: usize, mut number: i64) -> i64 {
    let text = "some text of a comment ".repeat(8);
    loop {
        let change = format!(
            "{{update: 'posts', updates: [{{q: {{_id: 1}}, u: {{$push: {{comments: {{w: {writer}, n: {number}, \
             text: '{text}'}}}}}}}}]}}"
        );
        if client.run("t", &parsed(&change)).is_err() {
            return number;
        }
        number += 1;
    }
}

/// How many elements of each client there are; they are in its order.
fn audit(client: &mut Client) -> [i64; WRITERS] {
    let unwind = parsed(
        "{aggregate: 'posts', pipeline: [{$unwind: '$comments'}, {$project: {w: '$comments.w', n: '$comments.n'}}], \
         cursor: {batchSize: 1000000}}",
    );
    let mut counts = [0; WRITERS];
    for element in batch(&client.run("t", &unwind).expect("unwinds")) {
        let count = &mut counts[usize::try_from(whole(&element, "w")).expect("a writer")];
        assert_eq!(whole(&element, "n"), *count, "in the order of the client");
        *count += 1;
    }
    let total: i64 = counts.iter().sum();
    let post = parsed("{find: 'posts', projection: {comment_count: 1}}");
    let post = batch(&client.run("t", &post).expect("finds")).remove(0);
    assert_eq!(whole(&post, "comment_count"), total);
    for (writer, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let last = format!(
            "{{count: 'posts', query: {{comments: {{$elemMatch: {{w: {writer}, n: {}}}}}}}, hint: 'wn'}}",
            count - 1
        );
        assert_eq!(whole(&client.run("t", &parsed(&last)).expect("counts"), "n"), 1);
    }
    counts
}

#[test]
fn pushes_to_chunks_survive_kill_nine() {
    let seed = crate::number("CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("CRASH_SEED={seed}");
    let mut random = Random::new(seed);
    let folder =
        tempfile::Builder::new().prefix("motif-arrays").tempdir().expect("a folder").keep();
    let binary = binary();
    let mut server = Server::start(&binary, &folder);
    for command in [
        "{createPatterns: 'posts', patterns: [{name: 'comments', kind: 'outlier', array: 'comments', keep: 20, \
         spillAt: {count: 50}, chunk: {count: 60}, flag: 'large', count: 'comment_count'}]}",
        "{createIndexes: 'posts', indexes: [{key: {'comments.w': 1, 'comments.n': 1}, name: 'wn'}]}",
        "{insert: 'posts', documents: [{_id: 1, comments: []}]}",
    ] {
        server.connect().run("t", &parsed(command)).expect("is set up");
    }
    let mut next = [0; WRITERS];
    for _ in 0..KILLS {
        let writers: Vec<_> = next
            .iter()
            .enumerate()
            .map(|(writer, from)| {
                let (mut client, from) = (server.connect(), *from);
                std::thread::spawn(move || push(&mut client, writer, from))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(20 + random.below(300)));
        server.kill();
        let acknowledged: Vec<i64> =
            writers.into_iter().map(|writer| writer.join().expect("the client ends")).collect();
        server = Server::start(&binary, &folder);
        let found = audit(&mut server.connect());
        for (found, acknowledged) in found.iter().zip(acknowledged) {
            // One more may have been written when the server was killed.
            assert!((acknowledged..=acknowledged + 1).contains(found), "{found} {acknowledged}");
        }
        next = found;
    }
    assert!(next.iter().sum::<i64>() > 100, "too little was written: {next:?}");
    let check = parsed("{validatePatterns: 'posts'}");
    let reply = server.connect().run("t", &check).expect("is checked");
    let report = reply.as_doc().get("patterns").and_then(Val::as_array).and_then(RawDoc::first);
    let report = report.and_then(|(_, report)| report.as_doc()).expect("a report");
    assert_eq!(report.get("drift"), Some(Val::Int32(0)));
    server.stop();
    check_folder(&binary, &folder);
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}
