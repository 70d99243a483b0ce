//! Declarations in time: what was declared is part of the moment that a snapshot read names, be there
//! writes in between or not.

use super::*;

fn time(reply: &DocBuf) -> u64 {
    match reply.as_doc().get("operationTime") {
        Some(Val::Timestamp(time)) => time,
        other => panic!("no operation time: {other:?}"),
    }
}

impl Server {
    /// The sums of all parents at a time.
    fn sums(&self, time: u64) -> Vec<i64> {
        let (seconds, count) = (time >> 32, time & 0xFFFF_FFFF);
        let found = self.docs(&format!("{{find: 'p', sort: {{_id: 1}}, readConcern: {{level: 'snapshot', atClusterTime: Timestamp({seconds}, {count})}}}}"));
        found.iter().map(|doc| number(doc.as_doc(), "s")).collect()
    }

    fn time(&self) -> u64 {
        time(&self.run("{ping: 1}"))
    }
}

#[test]
fn a_time_before_a_change_of_declarations_names_the_old_ones() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
    let bare = time(&server.run(
        "{insert: 'c', documents: [{_id: 1, p: 1, x: 5}, {_id: 2, p: 1, x: 6}, {_id: 3, p: 2, x: 7}]}",
    ));
    server.run(SALES);
    // No client writes from here on.
    let built = server.time();
    server.run("{modifyPattern: 'p', name: 'sales', set: {fields: {s: {$sum: {$multiply: ['$x', 100]}}, n: {$count: {}}}}}");
    let modified = server.time();
    server.run("{dropPatterns: 'p', names: ['sales']}");
    let dropped = server.time();
    server.run("{createPatterns: 'p', patterns: [{name: 'sales', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$max: '$x'}}}]}");
    let again = server.time();
    server.run("{suspendPatterns: 'p', names: ['sales']}");
    let times = [bare, built, modified, dropped, again, server.time()];
    assert!(times.is_sorted_by(|one, next| one < next), "each has a time of its own: {times:?}");
    let expected = [[-1, -1], [11, 7], [1100, 700], [-1, -1], [6, 7], [6, 7]];
    for (time, expected) in times.into_iter().zip(expected) {
        assert_eq!(server.sums(time), expected, "{time}");
    }
    // A write later they are what they were.
    server.run("{insert: 'c', documents: [{_id: 4, p: 1, x: 50}]}");
    for (time, expected) in times.into_iter().zip(expected) {
        assert_eq!(server.sums(time), expected, "{time}");
    }
}

#[test]
fn change_streams_do_not_tell_of_declarations_and_go_on_behind_them() {
    let server = sales();
    let reply = server.run("{aggregate: 'p', pipeline: [{$changeStream: {}}], cursor: {}}");
    let cursor = |reply: &DocBuf| {
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).map(DocBuf::from);
        cursor.expect("a cursor")
    };
    let id = cursor(&reply).as_doc().get("id").and_then(Val::as_i64_exact).expect("an id");
    let next = |id: i64| {
        let reply =
            server.run(&format!("{{getMore: NumberLong('{id}'), collection: 'p', maxTimeMS: 50}}"));
        let cursor = cursor(&reply);
        let batch = cursor.as_doc().get("nextBatch").and_then(Val::as_array).expect("a batch");
        let types = batch.iter().filter_map(|(_, event)| {
            let kind = event.as_doc()?.get("operationType")?.as_str()?;
            Some(kind.to_owned())
        });
        let token = cursor.as_doc().get("postBatchResumeToken").and_then(Val::as_doc);
        (types.collect::<Vec<_>>(), token.map(DocBuf::from).expect("a token"))
    };
    server.run("{dropPatterns: 'p', names: ['sales']}");
    server.run(SALES);
    let (events, token) = next(id);
    assert_eq!(events, [""; 0], "neither declarations nor what is maintained");
    server.run("{insert: 'p', documents: [{_id: 3}]}");
    assert_eq!(next(id).0, ["insert"]);
    // The token that the notes left behind leads to the same.
    let token = token.as_doc().get("_data").and_then(Val::as_str).expect("text").to_owned();
    let reply = server.run(&format!("{{aggregate: 'p', pipeline: [{{$changeStream: {{resumeAfter: {{_data: '{token}'}}}}}}], cursor: {{}}}}"));
    let again = cursor(&reply).as_doc().get("id").and_then(Val::as_i64_exact).expect("an id");
    let first = batch(&reply).len();
    let rest = next(again).0.len();
    assert_eq!(first + rest, 1);
    // The log names the database.
    let notes =
        server.try_in("local", "{find: 'oplog.rs', filter: {op: 'n', 'o.msg': 'patterns of t'}}");
    assert!(
        batch(&notes.expect("works")).len() >= 4,
        "declared, ready, dropped, gone, declared, ready"
    );
}
