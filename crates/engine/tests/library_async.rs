//! The asynchronous library: all operations awaited, streams, transactions, many tasks.

use futures_util::{FutureExt, StreamExt, TryStreamExt};
use motifdb::asynchronous::{Client, Collection, Cursor, Database};
use motifdb::bson::{Document, doc};
use motifdb::value::Code;
use motifdb::{ClientSession, Computed, OperationType, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Number {
    #[serde(rename = "_id")]
    id: i32,
    n: i32,
}

async fn numbers() -> Result<(Client, Collection<Number>)> {
    let client = Client::in_memory().await?;
    let numbers = client.database("test").collection("numbers");
    Ok((client, numbers))
}

fn shared<T: Send + Sync + Clone + 'static>() {}
fn sent<T: Send + 'static>(_: &T) {}

#[tokio::test]
async fn operations_are_awaited() -> Result<()> {
    shared::<Client>();
    shared::<Database>();
    shared::<Collection<Number>>();
    let (client, numbers) = numbers().await?;
    numbers.insert_one(Number { id: 1, n: 1 }).await?;
    numbers.insert_many((2..=5).map(|id| Number { id, n: id % 2 })).await?;
    assert_eq!(numbers.create_index(doc! {"n": 1}).await?, "n_1");
    assert_eq!(numbers.list_index_names().await?, ["_id_", "n_1"]);
    assert_eq!(numbers.list_indexes().await?.count().await, 2);
    assert_eq!(numbers.find_one(doc! {"_id": 2}).await?, Some(Number { id: 2, n: 0 }));
    let updated = numbers.update_many(doc! {"n": 0}, doc! {"$inc": {"n": 10}}).await?;
    assert_eq!(updated.modified_count, 2);
    assert_eq!(numbers.count_documents(doc! {"n": 10}).await?, 2);
    assert_eq!(numbers.estimated_document_count().await?, 5);
    assert_eq!(numbers.distinct("n", doc! {}).await?.len(), 2);
    numbers.replace_one(doc! {"_id": 5}, Number { id: 5, n: 7 }).await?;
    let changed = numbers.find_one_and_update(doc! {"_id": 5}, doc! {"$inc": {"n": 1}});
    assert_eq!(changed.return_new(true).await?, Some(Number { id: 5, n: 8 }));
    assert_eq!(numbers.find_one_and_delete(doc! {"_id": 5}).await?, Some(Number { id: 5, n: 8 }));
    assert_eq!(numbers.delete_one(doc! {"_id": 4}).await?.deleted_count, 1);
    let sums = [doc! {"$group": {"_id": null, "sum": {"$sum": "$n"}}}];
    let sums: Vec<Document> = numbers.aggregate(sums).await?.try_collect().await?;
    assert_eq!(sums[0].get_i32("sum").ok(), Some(12));
    let taken = numbers.insert_one(Number { id: 1, n: 0 }).await.expect_err("1 is taken");
    assert_eq!(taken.code(), Code::DUPLICATE_KEY);

    let db = client.database("test");
    let count = Computed::over("count", "numbers", "n").field("count", doc! {"$count": {}});
    let kinds = db.collection::<Document>("kinds");
    kinds.create_patterns([count]).await?;
    kinds.insert_one(doc! {"_id": 10}).await?;
    assert_eq!(kinds.find_one(doc! {}).await?, Some(doc! {"_id": 10, "count": 1}));
    assert_eq!(kinds.validate_patterns().await?[0].drift, 0);
    assert_eq!(db.list_patterns().await?.len(), 1);
    kinds.drop_patterns(["count"]).await?;
    assert_eq!(db.run_command(doc! {"ping": 1}).await?.get_f64("ok").ok(), Some(1.0));
    assert_eq!(db.list_collection_names().await?.len(), 2);
    numbers.drop_index("n_1").await?;
    numbers.drop().await?;
    db.drop().await?;
    assert!(!client.list_database_names().await?.contains(&"test".to_owned()));
    client.clone().shutdown().await?;
    let closed = numbers.find_one(doc! {}).await.expect_err("it is closed");
    assert_eq!(closed.code(), Code::SHUTDOWN_IN_PROGRESS);
    Ok(())
}

#[tokio::test]
async fn a_cursor_is_a_stream_that_fetches_batch_by_batch() -> Result<()> {
    let (_client, numbers) = numbers().await?;
    numbers.insert_many((0..100).map(|id| Number { id, n: 0 })).await?;
    let mut cursor: Cursor<Number> = numbers.find(doc! {}).batch_size(7).await?;
    sent(&cursor);
    let first = cursor.try_next().await?.expect("there are some");
    let rest: Vec<Number> = cursor.try_collect().await?;
    let ids: Vec<i32> = std::iter::once(&first).chain(&rest).map(|number| number.id).collect();
    assert_eq!(ids, (0..100).collect::<Vec<i32>>());

    let words = numbers.clone_with_type::<Vec<String>>();
    let mut wrong = words.find(doc! {}).batch_size(1).limit(2).await?;
    assert!(wrong.next().await.is_some_and(|word| word.is_err()));
    assert!(wrong.next().await.is_some_and(|word| word.is_err()));
    assert!(wrong.next().await.is_none() && wrong.next().await.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_many_tasks_lose_no_update() -> Result<()> {
    const TASKS: i32 = 4;
    const EACH: i32 = 10;
    let (client, numbers) = numbers().await?;
    numbers.insert_one(Number { id: 0, n: 0 }).await?;
    let tasks = (1..=TASKS).map(|task| {
        let (client, numbers) = (client.clone(), numbers.clone());
        tokio::spawn(async move {
            let mut session = client.start_session().await?;
            for turn in 0..EACH {
                let context = (numbers.clone(), task * 100 + turn);
                let done = session.start_transaction().and_run(context, |session, context| {
                    Box::pin(async move {
                        let (numbers, id) = context;
                        let old = numbers.find_one(doc! {"_id": 0}).session(session).await?;
                        let n = old.map_or(0, |old| old.n) + 1;
                        numbers.insert_one(Number { id: *id, n }).session(session).await?;
                        let set = doc! {"$set": {"n": n}};
                        numbers.update_one(doc! {"_id": 0}, set).session(session).await
                    })
                });
                done.await?;
            }
            Result::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic")?;
    }
    let total = numbers.find_one(doc! {"_id": 0}).await?.expect("it is there").n;
    assert_eq!(total, TASKS * EACH);
    // Each transaction saw another number, and none of them is there twice.
    let seen = numbers.distinct("n", doc! {"_id": {"$gt": 0}}).await?;
    assert_eq!(seen.len(), usize::try_from(TASKS * EACH).expect("small"));
    Ok(())
}

#[tokio::test]
async fn a_failed_body_aborts_and_steps_can_be_awaited() -> Result<()> {
    let (client, numbers) = numbers().await?;
    numbers.insert_one(Number { id: 1, n: 1 }).await?;
    let mut session = client.start_session().await?;
    let duplicate = async |session: &mut ClientSession| {
        numbers.insert_one(Number { id: 2, n: 2 }).session(session).await?;
        numbers.insert_one(Number { id: 1, n: 1 }).session(session).await
    };
    let error = session.start_transaction().and_run2(duplicate).await.expect_err("1 is taken");
    assert_eq!(error.code(), Code::DUPLICATE_KEY);
    assert_eq!(numbers.count_documents(doc! {}).await?, 1);

    session.start_transaction().await?;
    numbers.insert_one(Number { id: 3, n: 3 }).session(&mut session).await?;
    let db = client.database("test");
    let counted = db.run_command_in(&mut session, doc! {"find": "numbers"}).await?;
    let batch = counted.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    assert_eq!(batch.expect("a batch").len(), 2);
    session.abort_transaction().await?;
    session.start_transaction().await?;
    numbers.insert_one(Number { id: 4, n: 4 }).session(&mut session).await?;
    session.commit_transaction().await?;
    assert_eq!(numbers.distinct("_id", doc! {}).await?, [1.into(), 4.into()]);
    Ok(())
}

#[tokio::test]
async fn events_wait_for_other_tasks_and_a_dropped_wait_loses_none() -> Result<()> {
    let (client, numbers) = numbers().await?;
    let mut events = numbers.watch().max_await_time(Duration::from_millis(20)).await?;
    let mut all = client.watch().await?;
    // A future that is dropped while it waits.
    assert!(events.try_next().now_or_never().is_none(), "there is no event yet");
    let writer = numbers.clone();
    let task = tokio::spawn(async move {
        for id in 1..=3 {
            writer.insert_one(Number { id, n: id }).await?;
        }
        Result::Ok(())
    });
    let first = events.try_next().await?.expect("an event");
    assert_eq!(first.operation_type, OperationType::Insert);
    assert_eq!(first.full_document, Some(Number { id: 1, n: 1 }));
    task.await.expect("no panic")?;
    let token = first.id;
    let documents = events.by_ref().take(2).map_ok(|event| event.full_document);
    let rest: Vec<Option<Number>> = documents.try_collect().await?;
    assert_eq!(rest, [2, 3].map(|id| Some(Number { id, n: id })));
    assert!(events.resume_token().is_some());
    let mut resumed = numbers.watch().resume_after(token).await?;
    let second = resumed.try_next().await?.and_then(|event| event.full_document);
    assert_eq!(second, Some(Number { id: 2, n: 2 }));
    assert!(all.try_next().await?.is_some());
    numbers.drop().await?;
    let ends: Vec<_> = events.map_ok(|event| event.operation_type).try_collect().await?;
    assert_eq!(ends, [OperationType::Drop, OperationType::Invalidate]);
    Ok(())
}

#[tokio::test]
async fn a_folder_is_opened_closed_and_opened_again() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path()).await?;
    client.default_database().collection("numbers").insert_one(doc! {"_id": 1}).await?;
    client.shutdown().await?;
    let client = Client::open(folder.path()).await?;
    let numbers = client.default_database().collection::<Document>("numbers");
    assert_eq!(numbers.count_documents(doc! {}).await?, 1);
    client.shutdown().await
}

#[test]
fn without_a_runtime_there_is_an_error() {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut opening = Box::pin(Client::in_memory());
    match opening.as_mut().poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => assert_eq!(error.code().0, 20),
        other => panic!("{other:?}"),
    }
}
