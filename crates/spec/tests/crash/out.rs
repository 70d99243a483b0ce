//! Kills the server while `$out` replaces a collection: what is there afterwards is the old one or
//! the new one, whole, and nothing that was on its way is left.

use crate::process::{Server, binary, check_folder};
use crate::random::Random;
use std::time::Duration;
use value::{DocBuf, RawDoc, Val, ejson};

/// Documents of each result.
const DOCUMENTS: i64 = 20_000;
const KILLS: i64 = 12;

fn parsed(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("the text of a test")
}

fn first_batch(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    batch.iter().filter_map(|(_, doc)| doc.as_doc().map(DocBuf::from)).collect()
}

#[test]
fn out_replaces_a_collection_whole_or_not_at_all() {
    let seed = crate::number("CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("CRASH_SEED={seed}");
    let mut random = Random::new(seed);
    let folder = tempfile::Builder::new().prefix("motif-out").tempdir().expect("a folder").keep();
    let binary = binary();
    let mut server = Server::start(&binary, &folder);
    let mut client = server.connect();
    let range = format!("{{$range: [0, {DOCUMENTS}]}}");
    let fill = format!(
        "{{aggregate: 1, pipeline: [{{$documents: {{$map: {{input: {range}, in: {{_id: '$$this', \
         text: 'some text that takes a little space'}}}}}}}}, {{$out: 'a'}}], cursor: {{}}}}"
    );
    client.run("t", &parsed(&fill)).expect("fills");
    client.run("t", &parsed("{insert: 'b', documents: [{_id: 0, round: -1}]}")).expect("inserts");
    let index = "{createIndexes: 'b', indexes: [{key: {round: 1}, name: 'round_1'}]}";
    client.run("t", &parsed(index)).expect("makes an index");

    let (mut replaced, mut kept) = (0, 0);
    for round in 0..KILLS {
        let mut client = server.connect();
        let replace = parsed(&format!(
            "{{aggregate: 'a', pipeline: [{{$addFields: {{round: {round}}}}}, {{$out: 'b'}}], \
             cursor: {{}}}}"
        ));
        let thread = std::thread::spawn(move || client.run("t", &replace).is_ok());
        std::thread::sleep(Duration::from_millis(random.below(500)));
        server.kill();
        let acknowledged = thread.join().expect("the client ends");

        server = Server::start(&binary, &folder);
        let mut client = server.connect();
        let listed = client.run("t", &parsed("{listCollections: 1, nameOnly: true}"));
        let listed = first_batch(&listed.expect("lists"));
        let mut names: Vec<&str> =
            listed.iter().filter_map(|doc| doc.as_doc().get("name")?.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "b"], "nothing else is left");
        let grouped = "{aggregate: 'b', pipeline: [{$group: {_id: '$round', n: {$sum: 1}}}], \
                       cursor: {}}";
        let rounds = first_batch(&client.run("t", &parsed(grouped)).expect("groups"));
        assert_eq!(rounds.len(), 1, "all of one result: {rounds:?}");
        let number = |name| rounds[0].as_doc().get(name).and_then(Val::as_i64_exact);
        let (found, count) = (number("_id").expect("a round"), number("n").expect("a count"));
        assert_eq!(count, if found < 0 { 1 } else { DOCUMENTS }, "the whole result of {found}");
        assert!(
            found == round || !acknowledged,
            "round {round} was acknowledged, {found} is there"
        );
        if found == round {
            replaced += 1
        } else {
            kept += 1
        }
        let indexes = first_batch(&client.run("t", &parsed("{listIndexes: 'b'}")).expect("lists"));
        assert_eq!(indexes.len(), 2, "the index is there");
    }
    server.stop();
    check_folder(&binary, &folder);
    eprintln!("{KILLS} kills: {replaced} times the new one was there, {kept} times the old one");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}
