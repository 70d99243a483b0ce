//! The official Rust driver, unchanged, against our server: what an application does every day.

mod client;

use client::{SOON, TestServer};
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::{FindOneAndUpdateOptions, IndexOptions, ReturnDocument};
use mongodb::sync::{Client, Collection};
use std::time::{Duration, Instant};

struct Driver {
    client: Client,
    // Behind the client, so that it is dropped after it.
    server: TestServer,
}

impl Driver {
    fn start() -> Driver {
        Driver::with("")
    }

    fn with(parameters: &str) -> Driver {
        let server = TestServer::start();
        let address = server.address;
        let client =
            Client::with_uri_str(format!("mongodb://{address}/?{parameters}")).expect("a client");
        Driver { client, server }
    }

    fn collection(&self, name: &str) -> Collection<Document> {
        self.client.database("shop").collection(name)
    }
}

fn write_code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        ErrorKind::InsertMany(error) => {
            error.write_errors.as_ref().and_then(|errors| errors.first()).map(|error| error.code)
        }
        ErrorKind::Command(error) => Some(error.code),
        _ => None,
    }
}

#[test]
fn the_driver_connects_and_finds_a_primary() {
    let driver = Driver::start();
    let reply =
        driver.client.database("admin").run_command(doc! {"hello": 1}).run().expect("hello");
    assert_eq!(reply.get_bool("isWritablePrimary").ok(), Some(true));
    assert_eq!(reply.get_str("me").ok(), Some(&*driver.server.address.to_string()));
    assert!(reply.get_i32("maxWireVersion").expect("a number") >= 21);
}

#[test]
fn documents_are_inserted_found_changed_and_deleted() {
    let driver = Driver::start();
    let orders = driver.collection("orders");
    let inserted =
        orders.insert_one(doc! {"_id": 1, "item": "tea", "count": 2}).run().expect("insert");
    assert_eq!(inserted.inserted_id, Bson::Int32(1));
    let many: Vec<_> = (2..=20).map(|i| doc! {"_id": i, "item": "cup", "count": i}).collect();
    assert_eq!(orders.insert_many(many).run().expect("insert many").inserted_ids.len(), 19);

    let found = orders.find_one(doc! {"item": "tea"}).run().expect("find").expect("a document");
    assert_eq!(found, doc! {"_id": 1, "item": "tea", "count": 2});
    let counts: Vec<i32> = orders
        .find(doc! {"count": {"$gte": 15}})
        .sort(doc! {"count": -1})
        .skip(1)
        .limit(3)
        .projection(doc! {"count": 1})
        .run()
        .expect("find")
        .map(|found| found.expect("a document").get_i32("count").expect("a number"))
        .collect();
    assert_eq!(counts, [19, 18, 17]);

    let changed =
        orders.update_one(doc! {"_id": 1}, doc! {"$inc": {"count": 5}}).run().expect("update");
    assert_eq!((changed.matched_count, changed.modified_count), (1, 1));
    let changed = orders
        .update_many(doc! {"item": "cup"}, doc! {"$set": {"item": "mug"}})
        .run()
        .expect("update many");
    assert_eq!(changed.modified_count, 19);
    let upserted = orders
        .update_one(doc! {"_id": 99}, doc! {"$set": {"item": "pot"}})
        .upsert(true)
        .run()
        .expect("upsert");
    assert_eq!(upserted.upserted_id, Some(Bson::Int32(99)));
    let replaced =
        orders.replace_one(doc! {"_id": 99}, doc! {"item": "kettle"}).run().expect("replace");
    assert_eq!(replaced.modified_count, 1);

    let options = FindOneAndUpdateOptions::builder().return_document(ReturnDocument::After).build();
    let after = orders
        .find_one_and_update(doc! {"_id": 1}, doc! {"$inc": {"count": 1}})
        .with_options(options)
        .run()
        .expect("find and update");
    assert_eq!(after, Some(doc! {"_id": 1, "item": "tea", "count": 8}));

    assert_eq!(orders.count_documents(doc! {"item": "mug"}).run().expect("count"), 19);
    assert_eq!(orders.estimated_document_count().run().expect("count"), 21);
    let mut items = orders.distinct("item", doc! {}).run().expect("distinct");
    items.sort_by_key(ToString::to_string);
    assert_eq!(items, ["kettle".into(), "mug".into(), Bson::from("tea")]);
    assert_eq!(orders.delete_one(doc! {"_id": 1}).run().expect("delete").deleted_count, 1);
    assert_eq!(orders.delete_many(doc! {}).run().expect("delete many").deleted_count, 20);
    assert_eq!(orders.find_one(doc! {}).run().expect("find"), None);
}

#[test]
fn a_cursor_fetches_batch_after_batch() {
    let driver = Driver::start();
    let numbers = driver.collection("numbers");
    numbers.insert_many((0..1000).map(|i| doc! {"_id": i})).run().expect("insert many");
    let found: Vec<i32> = numbers
        .find(doc! {})
        .sort(doc! {"_id": 1})
        .batch_size(7)
        .run()
        .expect("find")
        .map(|found| found.expect("a document").get_i32("_id").expect("a number"))
        .collect();
    assert_eq!(found, (0..1000).collect::<Vec<_>>());

    // A cursor that is dropped half-way is killed; the server goes on.
    let mut cursor = numbers.find(doc! {}).batch_size(2).run().expect("find");
    assert!(cursor.next().is_some());
    drop(cursor);
    assert_eq!(numbers.count_documents(doc! {}).run().expect("count"), 1000);
}

#[test]
fn aggregation_groups_and_sorts() {
    let driver = Driver::start();
    let sales = driver.collection("sales");
    sales
        .insert_many((0..30).map(|i| doc! {"_id": i, "shop": i % 3, "sum": i}))
        .run()
        .expect("insert");
    let groups: Vec<_> = sales
        .aggregate([
            doc! {"$match": {"sum": {"$lt": 9}}},
            doc! {"$group": {"_id": "$shop", "total": {"$sum": "$sum"}}},
            doc! {"$sort": {"_id": 1}},
        ])
        .run()
        .expect("aggregate")
        .map(|group| group.expect("a document"))
        .collect();
    let expected =
        [doc! {"_id": 0, "total": 9}, doc! {"_id": 1, "total": 12}, doc! {"_id": 2, "total": 15}];
    assert_eq!(groups, expected);
}

#[test]
fn indexes_are_made_listed_and_dropped() {
    let driver = Driver::start();
    let users = driver.collection("users");
    let unique = IndexOptions::builder().unique(true).name("by_mail".to_owned()).build();
    let index = IndexModel::builder().keys(doc! {"mail": 1}).options(unique).build();
    assert_eq!(users.create_index(index).run().expect("create").index_name, "by_mail");
    let second = IndexModel::builder().keys(doc! {"age": -1, "name": 1}).build();
    assert_eq!(users.create_index(second).run().expect("create").index_name, "age_-1_name_1");
    let mut names = users.list_index_names().run().expect("list");
    names.sort();
    assert_eq!(names, ["_id_", "age_-1_name_1", "by_mail"]);

    users.insert_one(doc! {"_id": 1, "mail": "a@b.c"}).run().expect("insert");
    let error = users.insert_one(doc! {"_id": 2, "mail": "a@b.c"}).run().expect_err("a duplicate");
    assert_eq!(write_code(&error), Some(11000));
    users.drop_index("by_mail").run().expect("drop");
    users.insert_one(doc! {"_id": 2, "mail": "a@b.c"}).run().expect("no longer unique");
    let error = users.drop_index("no_such").run().expect_err("unknown");
    assert_eq!(write_code(&error), Some(27));
}

#[test]
fn errors_reach_the_application_with_their_codes() {
    let driver = Driver::start();
    let things = driver.collection("things");
    things.insert_one(doc! {"_id": 1}).run().expect("insert");
    let error = things.insert_one(doc! {"_id": 1}).run().expect_err("a duplicate");
    assert_eq!(write_code(&error), Some(11000));
    match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(error)) => {
            assert!(
                error.message.starts_with("E11000 duplicate key error collection: shop.things")
            );
        }
        other => panic!("{other:?}"),
    }
    let error = things.insert_many([doc! {"_id": 2}, doc! {"_id": 1}, doc! {"_id": 3}]).run();
    assert_eq!(write_code(&error.expect_err("a duplicate")), Some(11000));
    assert_eq!(things.count_documents(doc! {}).run().expect("count"), 2, "it stopped at the error");

    let error = things.find_one(doc! {"a": {"$noSuch": 1}}).run().expect_err("unknown operator");
    assert_eq!(write_code(&error), Some(2));
    let error = driver.client.database("shop").run_command(doc! {"noSuch": 1}).run();
    assert_eq!(write_code(&error.expect_err("unknown command")), Some(59));
}

#[test]
fn databases_and_collections_are_listed_and_dropped() {
    let driver = Driver::start();
    let db = driver.client.database("shop");
    db.create_collection("made").run().expect("create");
    driver.collection("other").insert_one(doc! {"a": 1}).run().expect("insert");
    let mut names = db.list_collection_names().run().expect("list");
    names.sort();
    assert_eq!(names, ["made", "other"]);
    assert!(driver.client.list_database_names().run().expect("list").contains(&"shop".to_owned()));
    driver.collection("made").drop().run().expect("drop");
    assert_eq!(db.list_collection_names().run().expect("list"), ["other"]);
    db.drop().run().expect("drop");
    assert!(!driver.client.list_database_names().run().expect("list").contains(&"shop".to_owned()));
}

#[test]
fn explicit_sessions_carry_operations() {
    let driver = Driver::start();
    let things = driver.collection("things");
    let mut session = driver.client.start_session().run().expect("a session");
    things.insert_one(doc! {"_id": 1}).session(&mut session).run().expect("insert");
    let found = things.find_one(doc! {"_id": 1}).session(&mut session).run().expect("find");
    assert!(found.is_some());
    let mut cursor = things.find(doc! {}).session(&mut session).run().expect("find");
    assert!(cursor.next(&mut session).is_some());
    assert!(cursor.next(&mut session).is_none());
}

#[test]
fn replies_travel_compressed_when_the_client_asks() {
    for name in ["snappy", "zlib"] {
        let driver = Driver::with(&format!("compressors={name}"));
        let things = driver.collection("things");
        let many = (0..500).map(|i| doc! {"_id": i, "text": "x".repeat(100)});
        things.insert_many(many).run().expect("insert");
        assert_eq!(things.find(doc! {}).run().expect("find").count(), 500);
    }
}

#[test]
fn many_threads_share_a_client() {
    let driver = Driver::start();
    let counters = driver.collection("counters");
    counters.insert_one(doc! {"_id": "all", "n": 0}).run().expect("insert");
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let counters = counters.clone();
            std::thread::spawn(move || {
                for _ in 0..50 {
                    counters
                        .update_one(doc! {"_id": "all"}, doc! {"$inc": {"n": 1}})
                        .run()
                        .expect("update");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no error"));
    let found = counters.find_one(doc! {"_id": "all"}).run().expect("find").expect("a document");
    assert_eq!(found.get_i32("n").ok(), Some(800));
}

#[test]
fn a_stop_with_a_driver_connected_is_quick() {
    let mut driver = Driver::start();
    driver.collection("things").insert_one(doc! {"a": 1}).run().expect("insert");
    // The driver's monitor is waiting for news by now.
    std::thread::sleep(Duration::from_millis(300));
    let started = Instant::now();
    driver.server.stop();
    assert!(started.elapsed() < SOON);
}
