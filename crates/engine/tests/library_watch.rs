//! Change streams of the library: what they watch, transactions, documents, resuming, the end.

use motifdb::bson::{Document, doc};
use motifdb::{
    ChangeStream, ChangeStreamEvent, Collection, Database, FullDocumentBeforeChangeType,
    FullDocumentType, OperationType, Result,
};
use std::time::Duration;

fn open() -> Result<(Database, Collection<Document>)> {
    let db = Database::builder().test_commands(true).in_memory()?;
    let numbers = db.collection("numbers");
    Ok((db, numbers))
}

type Events = ChangeStream<ChangeStreamEvent<Document>>;

fn next(stream: &mut Events) -> ChangeStreamEvent<Document> {
    stream.next().expect("it does not end").expect("an event")
}

fn id(event: &ChangeStreamEvent<Document>) -> i32 {
    let key = event.document_key.as_ref().expect("a document");
    key.get_i32("_id").expect("a number")
}

#[test]
fn streams_watch_a_collection_a_database_or_all() -> Result<()> {
    let (db, numbers) = open()?;
    let other = db.with_name("other").collection::<Document>("numbers");
    let (mut one, mut whole) = (numbers.watch().run()?, db.watch().run()?);
    let mut all = db.watch_all().run()?;
    other.insert_one(doc! {"_id": 1}).run()?;
    db.collection::<Document>("letters").insert_one(doc! {"_id": 2}).run()?;
    numbers.insert_one(doc! {"_id": 3}).run()?;
    assert_eq!(id(&next(&mut one)), 3);
    assert_eq!([next(&mut whole), next(&mut whole)].map(|event| id(&event)), [2, 3]);
    let seen = [next(&mut all), next(&mut all), next(&mut all)];
    assert_eq!(seen.each_ref().map(id), [1, 2, 3]);
    let place = seen[0].ns.as_ref().expect("a namespace");
    assert_eq!((place.db.as_str(), place.coll.as_deref()), ("other", Some("numbers")));
    Ok(())
}

#[test]
fn a_transaction_is_seen_in_one_go_and_a_stream_resumes_inside_it() -> Result<()> {
    let (db, numbers) = open()?;
    db.create_collection("numbers").run()?;
    let mut stream = numbers.watch().max_await_time(Duration::from_millis(1)).run()?;
    let mut session = db.start_session().run()?;
    session.start_transaction().run()?;
    for n in 1..=3 {
        numbers.insert_one(doc! {"_id": n}).session(&mut session).run()?;
    }
    assert_eq!(stream.next_if_any()?, None, "nothing is committed");
    numbers.insert_one(doc! {"_id": 0}).run()?;
    session.commit_transaction().run()?;
    numbers.insert_one(doc! {"_id": 4}).run()?;

    assert_eq!(id(&next(&mut stream)), 0);
    let first = next(&mut stream);
    let token = stream.resume_token().expect("there was an event");
    assert_eq!(token, first.id);
    let rest = [next(&mut stream), next(&mut stream)];
    assert_eq!((id(&first), rest.each_ref().map(id)), (1, [2, 3]));
    for event in &rest {
        assert_eq!(event.cluster_time, first.cluster_time);
        assert_eq!(event.txn_number, Some(1));
        let lsid = event.lsid.as_ref().and_then(|lsid| lsid.get("id"));
        assert_eq!(lsid, session.id().get("id"));
    }
    let last = next(&mut stream);
    assert_eq!((id(&last), last.txn_number), (4, None));
    assert!(last.cluster_time > first.cluster_time);

    let mut resumed = numbers.watch().resume_after(token).run()?;
    assert_eq!(
        [next(&mut resumed), next(&mut resumed), next(&mut resumed)],
        [rest[0].clone(), rest[1].clone(), last]
    );
    Ok(())
}

#[test]
fn events_carry_the_documents_that_were_asked_for() -> Result<()> {
    let (db, numbers) = open()?;
    db.create_collection("numbers").change_stream_pre_and_post_images(true).run()?;
    numbers.insert_one(doc! {"_id": 1, "n": 0, "list": [1, 2, 3]}).run()?;
    let mut plain = numbers.watch().run()?;
    let mut lookup = numbers.watch().full_document(FullDocumentType::UpdateLookup).run()?;
    let mut images = numbers
        .watch()
        .full_document(FullDocumentType::Required)
        .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable)
        .run()?;
    numbers.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 1}, "$unset": {"list": 1}}).run()?;
    numbers.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 2}}).run()?;

    let event = next(&mut plain);
    assert_eq!((event.operation_type, event.full_document), (OperationType::Update, None));
    let change = event.update_description.expect("a description");
    assert_eq!(
        (change.updated_fields, change.removed_fields),
        (doc! {"n": 1}, vec!["list".into()])
    );
    assert_eq!(next(&mut lookup).full_document, Some(doc! {"_id": 1, "n": 2}), "the newest state");
    let event = next(&mut images);
    assert_eq!(event.full_document, Some(doc! {"_id": 1, "n": 1}));
    let before = doc! {"_id": 1, "n": 0, "list": [1, 2, 3]};
    assert_eq!(event.full_document_before_change, Some(before));
    Ok(())
}

#[test]
fn pipelines_change_events_and_their_type() -> Result<()> {
    let (_db, numbers) = open()?;
    let stages = [
        doc! {"$match": {"fullDocument.n": {"$gt": 1}}},
        doc! {"$project": {"n": "$fullDocument.n"}},
    ];
    let mut stream = numbers.watch().pipeline(stages).with_type::<Document>().run()?;
    numbers.insert_many((0..4).map(|n| doc! {"_id": n, "n": n})).run()?;
    let mut seen = || stream.next().expect("it goes on").expect("an event").get_i32("n").ok();
    assert_eq!([seen(), seen()], [Some(2), Some(3)]);
    Ok(())
}

#[test]
fn a_stream_resumes_by_itself_and_ends_with_its_collection() -> Result<()> {
    let (db, numbers) = open()?;
    let mut stream = numbers.watch().batch_size(1).run()?;
    numbers.insert_many((1..=3).map(|n| doc! {"_id": n})).run()?;
    assert_eq!(id(&next(&mut stream)), 1);
    let admin = db.with_name("admin");
    admin.run_command(doc! {
        "configureFailPoint": "failCommand", "mode": {"times": 1},
        "data": {"failCommands": ["getMore"], "errorCode": 189,
                 "errorLabels": ["ResumableChangeStreamError"]},
    })?;
    assert_eq!([next(&mut stream), next(&mut stream)].map(|event| id(&event)), [2, 3]);
    let open = admin.run_command(doc! {"serverStatus": 1})?;
    let cursors = open.get_document("metrics").and_then(|all| all.get_document("cursor"));
    let cursors = cursors.and_then(|cursor| cursor.get_document("open")).expect("counters");
    assert_eq!(cursors.get_i64("total").expect("a counter"), 1, "the first cursor is closed");

    // Any other error ends it.
    admin.run_command(doc! {
        "configureFailPoint": "failCommand", "mode": {"times": 1},
        "data": {"failCommands": ["getMore"], "errorCode": 8},
    })?;
    let mut failing = numbers.watch().run()?;
    assert_eq!(failing.next().expect("an error").expect_err("an error").code().0, 8);
    assert!(!failing.is_alive() && failing.next().is_none());

    numbers.drop()?;
    let kinds = [next(&mut stream), next(&mut stream)].map(|event| event.operation_type);
    assert_eq!(kinds, [OperationType::Drop, OperationType::Invalidate]);
    assert!(stream.next().is_none() && !stream.is_alive());
    let end = stream.resume_token().expect("a place");
    numbers.insert_one(doc! {"_id": 9}).run()?;
    assert_eq!(id(&next(&mut numbers.watch().start_after(end).run()?)), 9);
    Ok(())
}

#[test]
fn closing_the_database_ends_a_stream_that_waits() -> Result<()> {
    let (db, numbers) = open()?;
    let mut stream = numbers.watch().run()?;
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(move || (stream.next().map(|event| event.is_err()), stream.next()));
        db.close().expect("closes");
        let (first, second) = waiting.join().expect("no panic");
        assert_eq!((first, second.is_none()), (Some(true), true));
    });
    Ok(())
}
