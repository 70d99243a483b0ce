//! What happens around commands: failures on demand, time limits of cursors, profiles, and plans
//! that are kept and given up again.

use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use motifdb::{Engine, Options};

fn engine(test_commands: bool) -> Engine {
    Engine::open(Options { test_commands, ..Options::default() }).expect("memory opens")
}

fn run(engine: &Engine, db: &str, text: &str) -> motifdb::Result<DocBuf> {
    engine.run_command(db, ejson::parse_doc(text).expect("test text").as_doc())
}

fn code(engine: &Engine, db: &str, text: &str) -> i32 {
    run(engine, db, text).map_or_else(|error| error.code().0, |_| 0)
}

fn documents(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").or(cursor.get("nextBatch")).and_then(Val::as_array);
    batch.expect("a batch").iter().filter_map(|(_, doc)| doc.as_doc().map(DocBuf::from)).collect()
}

#[test]
fn fail_points_are_there_for_tests_only() {
    let off = "{configureFailPoint: 'failCommand', mode: 'off'}";
    assert_eq!(code(&engine(false), "admin", off), 59);
    assert_eq!(code(&engine(true), "admin", off), 0);
}

#[test]
fn a_fail_point_fails_a_command_so_many_times() {
    let engine = engine(true);
    let on = "{configureFailPoint: 'failCommand', mode: {times: 2},
        data: {failCommands: ['insert'], errorCode: 91, errorLabels: ['Mine']}}";
    run(&engine, "admin", on).expect("is set");
    let insert = "{insert: 'c', documents: [{_id: 1}]}";
    let error = run(&engine, "t", insert).expect_err("fails");
    assert_eq!(error.code().0, 91);
    let labels = error.info().and_then(|info| info.as_doc().find("errorLabels").map(|_| ()));
    assert!(labels.is_some(), "the labels are in the reply");
    assert_eq!(code(&engine, "t", "{ping: 1}"), 0);
    assert_eq!(code(&engine, "t", insert), 91);
    assert_eq!(code(&engine, "t", insert), 0);
}

#[test]
fn a_fail_point_can_add_a_write_concern_error_or_close_the_connection() {
    let engine = engine(true);
    let on = "{configureFailPoint: 'failCommand', mode: {times: 1},
        data: {failCommands: ['insert'], writeConcernError: {code: 64, errmsg: 'x'}}}";
    run(&engine, "admin", on).expect("is set");
    let reply = run(&engine, "t", "{insert: 'c', documents: [{_id: 1}]}").expect("works");
    assert_eq!(reply.as_doc().get("n"), Some(Val::Int32(1)));
    assert!(reply.as_doc().find("writeConcernError").is_some());
    let on = "{configureFailPoint: 'failCommand', mode: {times: 1},
        data: {failCommands: ['ping'], closeConnection: true}}";
    run(&engine, "admin", on).expect("is set");
    assert_ne!(code(&engine, "t", "{ping: 1}"), 0);
    assert_eq!(code(&engine, "t", "{ping: 1}"), 0);
}

#[test]
fn a_retryable_write_that_lost_its_reply_is_not_repeated() {
    let engine = engine(true);
    let on = "{configureFailPoint: 'onPrimaryTransactionalWrite', mode: {times: 1}}";
    run(&engine, "admin", on).expect("is set");
    let update = "{update: 'c', updates: [{q: {_id: 1}, u: {$inc: {n: 1}}, upsert: true}],
        lsid: {id: UUID('00000000-0000-4000-8000-000000000001')}, txnNumber: NumberLong(1)}";
    assert_ne!(code(&engine, "t", update), 0, "the connection is gone");
    assert_eq!(code(&engine, "t", update), 0);
    let found = run(&engine, "t", "{find: 'c'}").expect("works");
    assert_eq!(documents(&found)[0].as_doc().get("n"), Some(Val::Int32(1)));
}

#[test]
fn a_cursor_keeps_the_time_limit_of_its_command() {
    let engine = engine(true);
    run(&engine, "t", "{insert: 'c', documents: [{_id: 1}, {_id: 2}, {_id: 3}]}").expect("works");
    let find = "{find: 'c', batchSize: 1, maxTimeMS: 100000}";
    let reply = run(&engine, "t", find).expect("works");
    let id = reply.as_doc().get("cursor").and_then(Val::as_doc).and_then(|c| c.get("id"));
    let Some(Val::Int64(id)) = id else { panic!("a cursor") };
    let on = "{configureFailPoint: 'maxTimeAlwaysTimeOut', mode: 'alwaysOn'}";
    run(&engine, "admin", on).expect("is set");
    let more = format!("{{getMore: NumberLong('{id}'), collection: 'c'}}");
    assert_eq!(code(&engine, "t", &more), 50);
    assert_eq!(code(&engine, "t", find), 50);
    assert_eq!(code(&engine, "t", "{find: 'c'}"), 0, "without a limit nothing runs out of time");
}

#[test]
fn operations_are_profiled_by_level_and_filter() {
    let engine = engine(false);
    run(&engine, "t", "{insert: 'c', documents: [{_id: 1}, {_id: 2}]}").expect("works");
    run(&engine, "t", "{find: 'c'}").expect("works");
    assert!(engine.inner().data.collection("t", "system.profile").is_none());
    run(&engine, "t", "{profile: 1, filter: {nreturned: 2}}").expect("works");
    run(&engine, "t", "{find: 'c'}").expect("works");
    run(&engine, "t", "{find: 'c', filter: {_id: 1}}").expect("works");
    run(&engine, "t", "{profile: 0, filter: 'unset'}").expect("works");
    let noted = run(&engine, "t", "{find: 'system.profile'}").expect("works");
    let noted = documents(&noted);
    assert_eq!(noted.len(), 1);
    let doc: RawDoc<'_> = noted[0].as_doc();
    assert_eq!(doc.get("nreturned"), Some(Val::Int32(2)));
    assert_eq!(doc.get("planSummary"), Some(Val::String("COLLSCAN")));
}

#[test]
fn a_kept_plan_is_given_up_when_it_reads_far_more() {
    let engine = engine(false);
    run(
        &engine,
        "t",
        "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}, {key: {b: 1}, name: 'b'}]}",
    )
    .expect("works");
    // `a: 0` is rare, `a: 1` common; `b` is the other way round.
    let docs: Vec<String> = (0..400)
        .map(|n| format!("{{_id: {n}, a: {}, b: {}}}", i32::from(n > 0), i32::from(n < 399)))
        .collect();
    run(&engine, "t", &format!("{{insert: 'c', documents: [{}]}}", docs.join(","))).expect("works");
    let index = |filter: &str| {
        let text =
            format!("{{explain: {{find: 'c', filter: {filter}}}, verbosity: 'queryPlanner'}}");
        let reply = run(&engine, "t", &text).expect("works");
        let plan = reply.as_doc().get("queryPlanner").and_then(Val::as_doc).expect("a plan");
        let fetch = plan.get("winningPlan").and_then(Val::as_doc).expect("a plan");
        let scan = fetch.get("inputStage").and_then(Val::as_doc).expect("a scan");
        scan.get("indexName").and_then(Val::as_str).map(str::to_owned)
    };
    assert_eq!(index("{a: 0, b: 1}").as_deref(), Some("a"));
    assert_eq!(index("{a: 0, b: 2}").as_deref(), Some("a"), "the kept plan is good enough");
    assert_eq!(index("{a: 1, b: 0}").as_deref(), Some("b"), "the kept plan would read everything");
}

#[test]
fn a_waiting_get_more_ends_when_its_cursor_is_killed() {
    let engine = engine(false);
    let opened =
        run(&engine, "t", "{aggregate: 'c', pipeline: [{$changeStream: {}}], cursor: {}}").unwrap();
    let cursor = opened.as_doc().get("cursor").and_then(Val::as_doc).unwrap();
    let id = cursor.get("id").and_then(Val::as_i64_exact).unwrap();
    let waiting = std::thread::spawn({
        let engine = engine.clone();
        move || {
            let begun = std::time::Instant::now();
            let more = format!("{{getMore: NumberLong({id}), collection: 'c', maxTimeMS: 60000}}");
            (code(&engine, "t", &more), begun.elapsed())
        }
    });
    let kill = format!("{{killCursors: 'c', cursors: [NumberLong({id})]}}");
    // It is known to wait when it is seen to run.
    while !format!("{:?}", run(&engine, "admin", "{currentOp: 1}").unwrap()).contains("getMore") {
        assert!(!waiting.is_finished(), "it waits for changes");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    run(&engine, "t", &kill).unwrap();
    let (code, took) = waiting.join().unwrap();
    assert_eq!(code, 237);
    assert!(took < std::time::Duration::from_secs(20), "{took:?}");
}

#[test]
fn a_stream_does_not_go_on_from_the_token_of_another_one() {
    let engine = engine(false);
    run(&engine, "t", "{insert: 'a', documents: [{_id: 1}]}").unwrap();
    let begun = run(&engine, "t", "{insert: 'b', documents: [{_id: 1}]}").unwrap();
    let Some(Val::Timestamp(begun)) = begun.as_doc().get("operationTime") else { panic!() };
    run(&engine, "t", "{insert: 'a', documents: [{_id: 2}, {_id: 3}]}").unwrap();
    run(&engine, "t", "{insert: 'b', documents: [{_id: 2}]}").unwrap();
    let open = |name: &str, place: &str| {
        let text = format!(
            "{{aggregate: '{name}', pipeline: [{{$changeStream: {{{place}}}}}], cursor: {{}}}}"
        );
        run(&engine, "t", &text)
    };
    let (seconds, count) = (begun >> 32, begun & 0xFFFF_FFFF);
    let place = format!("startAtOperationTime: Timestamp({seconds}, {count})");
    let events = documents(&open("a", &place).unwrap());
    assert_eq!(events.len(), 2);
    let token = events[0].as_doc().get("_id").and_then(Val::as_doc).unwrap();
    let token = ejson::print_value(Val::Document(token), ejson::Format::Shell);
    let resume = format!("resumeAfter: {token}");
    assert_eq!(documents(&open("a", &resume).unwrap()).len(), 1);
    let whole = "{aggregate: 1, pipeline: [{$changeStream: {PLACE}}], cursor: {}}";
    let whole = run(&engine, "t", &whole.replace("PLACE", &resume)).unwrap();
    assert_eq!(documents(&whole).len(), 2, "a token of one collection is one of its database");
    assert_eq!(open("b", &resume).unwrap_err().code().0, 280);
    assert_eq!(open("b", &format!("startAfter: {token}")).unwrap_err().code().0, 280);
}
