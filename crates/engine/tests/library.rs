//! The library as its users see it: every verb, types, errors, handles, folders; and the example
//! program.

use motifdb::bson::{Bson, Document, doc, oid::ObjectId};
use motifdb::value::{Code, Val};
use motifdb::{Collection, Cursor, Database, Error, Result, WriteFailure};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Person {
    #[serde(rename = "_id")]
    id: i32,
    name: String,
    age: i32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

fn person(id: i32, name: &str, age: i32) -> Person {
    Person { id, name: name.to_owned(), age, tags: Vec::new() }
}

fn people() -> (Database, Collection<Person>) {
    let db = Database::in_memory().expect("memory opens");
    let people = db.collection("people");
    let all =
        [person(1, "Ada", 36), person(2, "Max", 25), person(3, "Eve", 41), person(4, "Bob", 25)];
    people.insert_many(&all).run().expect("inserts");
    (db, people)
}

fn ids(cursor: Cursor<Person>) -> Vec<i32> {
    cursor.map(|person| person.map(|person| person.id)).collect::<Result<_>>().expect("finds")
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> i32 {
    result.expect_err("fails").code().0
}

/// A field of an error's details.
fn detail(error: &Error, name: &str) -> Option<i64> {
    error.info()?.as_doc().get(name).and_then(Val::as_i64_exact)
}

#[test]
fn handles_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Database>();
    shared::<Collection<Person>>();
    shared::<Cursor<Person>>();

    let db = Database::in_memory().expect("memory opens");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let numbers = db.collection::<Document>("numbers");
            scope.spawn(move || {
                for n in 0..50 {
                    numbers.insert_one(doc! {"_id": thread * 1000 + n}).run().expect("inserts");
                }
            });
        }
    });
    let numbers = db.collection::<Document>("numbers");
    assert_eq!(numbers.estimated_document_count().expect("counts"), 200);
}

#[test]
fn insert_one_returns_the_id_that_was_given_or_made() -> Result<()> {
    let (db, people) = people();
    let own = people.insert_one(person(9, "Ida", 50)).run()?;
    assert_eq!(own.inserted_id, Bson::Int32(9));

    let notes = db.collection::<Document>("notes");
    let made = notes.insert_one(doc! {"text": "hello"}).run()?.inserted_id;
    let id: ObjectId = made.as_object_id().expect("an ObjectId was made");
    let stored = notes.find_one(doc! {"_id": id}).run()?.expect("it is there");
    assert_eq!(stored, doc! {"_id": id, "text": "hello"});
    assert_eq!(stored.keys().next().map(String::as_str), Some("_id"));
    Ok(())
}

#[test]
fn a_duplicate_key_is_an_error_with_code_pattern_and_value() {
    let (_db, people) = people();
    let error = people.insert_one(person(1, "Ann", 20)).run().expect_err("1 is taken");
    assert_eq!(error.code(), Code::DUPLICATE_KEY);
    assert!(error.message().starts_with("E11000 duplicate key error"), "{error}");
    let failure = WriteFailure::of(&error).expect("a statement failed");
    assert_eq!((failure.done, failure.errors.len()), (0, 1));
    let first = &failure.errors[0];
    assert_eq!((first.index, first.code), (0, Code::DUPLICATE_KEY));
    assert_eq!(first.details.get("keyPattern"), Some(&Bson::Document(doc! {"_id": 1})));
    assert_eq!(first.details.get("keyValue"), Some(&Bson::Document(doc! {"_id": 1})));
}

#[test]
fn insert_many_tells_how_many_were_inserted_before_it_failed() -> Result<()> {
    let db = Database::in_memory()?;
    let numbers = db.collection::<Document>("numbers");
    let five = || [1, 2, 1, 3, 2].map(|n| doc! {"_id": n});

    let error = numbers.insert_many(five()).run().expect_err("ordered");
    assert_eq!(
        (error.code().0, detail(&error, "n"), detail(&error, "index")),
        (11000, Some(2), Some(2))
    );
    assert_eq!(numbers.count_documents(doc! {}).run()?, 2);

    numbers.drop()?;
    let error = numbers.insert_many(five()).ordered(false).run().expect_err("unordered");
    let failure = WriteFailure::of(&error).expect("statements failed");
    assert_eq!(failure.done, 3);
    let indexes: Vec<usize> = failure.errors.iter().map(|error| error.index).collect();
    assert_eq!(indexes, [2, 4]);
    assert_eq!(numbers.count_documents(doc! {}).run()?, 3);

    let good = numbers.insert_many([doc! {"_id": 10}, doc! {"_id": 11}]).run()?;
    assert_eq!(good.inserted_ids, [Bson::Int32(10), Bson::Int32(11)]);
    assert_eq!(code(numbers.insert_many(Vec::<Document>::new()).run()), Code::INVALID_LENGTH.0);
    Ok(())
}

#[test]
fn insert_many_sends_more_documents_than_one_command_takes() -> Result<()> {
    let db = Database::in_memory()?;
    let numbers = db.collection::<Document>("numbers");
    let all = (0..100_050).map(|n| doc! {"_id": if n == 100_020 { 7 } else { n }});
    let error = numbers.insert_many(all).ordered(false).run().expect_err("7 is there twice");
    let failure = WriteFailure::of(&error).expect("a statement failed");
    assert_eq!(failure.done, 100_049);
    assert_eq!(failure.errors.iter().map(|e| e.index).collect::<Vec<_>>(), [100_020]);
    assert_eq!(numbers.estimated_document_count()?, 100_049);
    Ok(())
}

#[test]
fn find_sorts_skips_limits_projects_and_takes_hints() -> Result<()> {
    let (_db, people) = people();
    assert_eq!(ids(people.find(doc! {"age": 25}).run()?), [2, 4]);
    assert_eq!(ids(people.find(doc! {}).sort(doc! {"age": -1, "_id": 1}).run()?), [3, 1, 2, 4]);
    assert_eq!(ids(people.find(doc! {}).sort(doc! {"_id": -1}).skip(1).limit(2).run()?), [3, 2]);
    assert_eq!(ids(people.find(doc! {}).skip(u64::MAX).run()?), [0; 0]);
    let above = doc! {"$expr": {"$gt": ["$age", "$$least"]}};
    assert_eq!(ids(people.find(above).let_vars(doc! {"least": 35}).run()?), [1, 3]);

    let name = people.create_index(doc! {"age": 1}).run()?;
    assert_eq!(ids(people.find(doc! {}).hint(name).run()?), [2, 4, 1, 3]);
    assert_eq!(ids(people.find(doc! {}).hint(doc! {"age": 1}).run()?), [2, 4, 1, 3]);
    assert_eq!(code(people.find(doc! {}).hint("nothing").run()), Code::BAD_VALUE.0);

    #[derive(Deserialize, PartialEq, Debug)]
    struct Name {
        name: String,
    }
    let names = people.clone_with_type::<Name>();
    let ada = names.find_one(doc! {"_id": 1}).projection(doc! {"name": 1, "_id": 0}).run()?;
    assert_eq!(ada, Some(Name { name: "Ada".to_owned() }));
    assert_eq!(people.find_one(doc! {"_id": 77}).run()?, None);
    assert_eq!(people.find_one(doc! {}).sort(doc! {"age": -1}).run()?.map(|p| p.id), Some(3));
    Ok(())
}

#[test]
fn a_cursor_fetches_batches_and_closes_when_it_is_dropped() -> Result<()> {
    let db = Database::in_memory()?;
    let numbers = db.collection::<Document>("numbers");
    numbers.insert_many((0..1000).map(|n| doc! {"_id": n})).run()?;
    let open = || -> i64 {
        let status = db.run_command(doc! {"serverStatus": 1}).expect("has a status");
        let cursor = status.get_document("metrics").and_then(|m| m.get_document("cursor"));
        let open = cursor.and_then(|c| c.get_document("open")).expect("counts cursors");
        open.get_i64("total").or_else(|_| open.get_i32("total").map(i64::from)).expect("a number")
    };

    for size in [0, 1, 7, 101, 5000] {
        let cursor = numbers.find(doc! {}).sort(doc! {"_id": 1}).batch_size(size).run()?;
        let found =
            cursor.map(|doc| doc?.get_i32("_id").map_err(|e| Error::internal(e.to_string())));
        assert_eq!(found.collect::<Result<Vec<_>>>()?, (0..1000).collect::<Vec<_>>());
    }
    assert_eq!(open(), 0);

    let mut cursor = numbers.find(doc! {}).batch_size(2).no_cursor_timeout(true).run()?;
    assert!(cursor.next().is_some_and(|first| first.is_ok()));
    assert_eq!(open(), 1);
    // What is inserted later is not seen: the cursor reads as of its beginning.
    numbers.insert_one(doc! {"_id": 5000}).run()?;
    assert_eq!(cursor.by_ref().take(10).count(), 10);
    drop(cursor);
    assert_eq!(open(), 0);
    Ok(())
}

#[test]
fn a_document_that_is_no_t_is_an_error_and_the_next_one_comes() -> Result<()> {
    let (db, people) = people();
    db.collection::<Document>("people").insert_one(doc! {"_id": 0, "name": 5}).run()?;
    let mut cursor = people.find(doc! {}).sort(doc! {"_id": 1}).run()?;
    let error = cursor.next().expect("a first one").expect_err("no person");
    assert_eq!(error.code(), Code::FAILED_TO_PARSE);
    assert!(error.message().contains("Person"), "{error}");
    assert_eq!(cursor.next().expect("a second one")?.id, 1);
    Ok(())
}

#[test]
fn updates_tell_what_they_matched_modified_and_made() -> Result<()> {
    let (_db, people) = people();
    let result = people.update_one(doc! {"age": 25}, doc! {"$inc": {"age": 1}}).run()?;
    assert_eq!((result.matched_count, result.modified_count, result.upserted_id), (1, 1, None));
    let result = people.update_many(doc! {}, doc! {"$max": {"age": 30}}).run()?;
    assert_eq!((result.matched_count, result.modified_count), (4, 2));
    let pipeline = vec![doc! {"$set": {"age": {"$add": ["$age", 1]}}}];
    let result = people.update_many(doc! {"_id": {"$lte": 2}}, pipeline).run()?;
    assert_eq!((result.matched_count, result.modified_count), (2, 2));

    let set = doc! {"$set": {"name": "Zoe", "age": 5}};
    let result = people.update_one(doc! {"_id": 8}, set.clone()).upsert(true).run()?;
    assert_eq!((result.matched_count, result.upserted_id), (0, Some(Bson::Int32(8))));
    assert_eq!(people.find_one(doc! {"_id": 8}).run()?, Some(person(8, "Zoe", 5)));
    let result = people.update_one(doc! {"_id": 9}, set).run()?;
    assert_eq!((result.matched_count, result.upserted_id), (0, None));

    let result = people.replace_one(doc! {"_id": 1}, person(1, "Ann", 2)).run()?;
    assert_eq!((result.matched_count, result.modified_count), (1, 1));
    assert_eq!(people.find_one(doc! {"_id": 1}).run()?, Some(person(1, "Ann", 2)));

    people.update_one(doc! {"_id": 2}, doc! {"$set": {"tags": ["a", "b", "a"]}}).run()?;
    let rename = doc! {"$set": {"tags.$[old]": "c"}};
    people.update_one(doc! {"_id": 2}, rename).array_filters([doc! {"old": "a"}]).run()?;
    assert_eq!(people.find_one(doc! {"_id": 2}).run()?.expect("Max").tags, ["c", "b", "c"]);
    Ok(())
}

#[test]
fn a_forgotten_operator_does_not_replace_the_document() -> Result<()> {
    let (_db, people) = people();
    assert_eq!(code(people.update_one(doc! {"_id": 1}, doc! {"age": 1}).run()), 2);
    assert_eq!(code(people.update_one(doc! {"_id": 1}, doc! {}).run()), 2);
    assert_eq!(code(people.find_one_and_update(doc! {"_id": 1}, doc! {"age": 1}).run()), 2);
    let documents = people.clone_with_type::<Document>();
    assert_eq!(code(documents.replace_one(doc! {"_id": 1}, doc! {"$set": {"age": 1}}).run()), 2);
    assert_eq!(people.find_one(doc! {"_id": 1}).run()?, Some(person(1, "Ada", 36)));
    // What the engine refuses comes as an error too, not as a silent reply.
    let error = people.update_one(doc! {"_id": 1}, doc! {"$set": {"_id": 7}}).run();
    assert_eq!(code(error), Code::IMMUTABLE_FIELD.0);
    Ok(())
}

#[test]
fn deletes_tell_how_many_are_gone() -> Result<()> {
    let (_db, people) = people();
    assert_eq!(people.delete_one(doc! {"age": 25}).run()?.deleted_count, 1);
    assert_eq!(people.delete_many(doc! {"age": {"$gt": 30}}).run()?.deleted_count, 2);
    assert_eq!(people.delete_many(doc! {"age": 99}).run()?.deleted_count, 0);
    assert_eq!(ids(people.find(doc! {}).run()?), [4]);
    Ok(())
}

#[test]
fn find_one_and_modify_returns_the_document_before_or_after() -> Result<()> {
    let (_db, people) = people();
    let older = doc! {"$inc": {"age": 1}};
    let before = people.find_one_and_update(doc! {"_id": 1}, older.clone()).run()?;
    assert_eq!(before.map(|p| p.age), Some(36));
    let after =
        people.find_one_and_update(doc! {"_id": 1}, older.clone()).return_new(true).run()?;
    assert_eq!(after.map(|p| p.age), Some(38));
    let youngest =
        people.find_one_and_update(doc! {}, older.clone()).sort(doc! {"age": 1, "_id": -1});
    assert_eq!(youngest.run()?.map(|p| p.id), Some(4));
    assert_eq!(people.find_one_and_update(doc! {"_id": 99}, older).run()?, None);

    let new = person(7, "Kim", 1);
    let made = people.find_one_and_replace(doc! {"_id": 7}, &new).upsert(true).return_new(true);
    assert_eq!(made.run()?, Some(new.clone()));
    assert_eq!(people.find_one_and_delete(doc! {"_id": 7}).run()?, Some(new));
    assert_eq!(people.find_one_and_delete(doc! {"_id": 7}).run()?, None);

    people.create_index(doc! {"name": 1}).unique(true).run()?;
    let clash = people.find_one_and_update(doc! {"_id": 1}, doc! {"$set": {"name": "Max"}}).run();
    assert_eq!(code(clash), 11000);
    Ok(())
}

#[test]
fn counting_distinct_and_pipelines() -> Result<()> {
    let (db, people) = people();
    assert_eq!(people.count_documents(doc! {}).run()?, 4);
    assert_eq!(people.count_documents(doc! {"age": 25}).run()?, 2);
    assert_eq!(people.count_documents(doc! {"age": 99}).run()?, 0);
    assert_eq!(people.count_documents(doc! {}).skip(1).limit(2).run()?, 2);
    assert_eq!(db.collection::<Person>("nobody").count_documents(doc! {}).run()?, 0);
    assert_eq!(people.estimated_document_count()?, 4);

    let mut ages = people.distinct("age", doc! {"_id": {"$gte": 2}}).run()?;
    ages.sort_by_key(|age| age.as_i32());
    assert_eq!(ages, [Bson::Int32(25), Bson::Int32(41)]);

    #[derive(Deserialize, Debug, PartialEq)]
    struct Group {
        #[serde(rename = "_id")]
        age: i32,
        count: i32,
    }
    let pipeline = [
        doc! {"$group": {"_id": "$age", "count": {"$sum": 1}}},
        doc! {"$sort": {"_id": 1}},
        doc! {"$limit": 2},
    ];
    let documents = people.aggregate(pipeline.clone()).run()?.collect::<Result<Vec<_>>>()?;
    assert_eq!(documents, [doc! {"_id": 25, "count": 2}, doc! {"_id": 36, "count": 1}]);
    let typed = people.aggregate(pipeline).with_type::<Group>().batch_size(1).run()?;
    let typed = typed.collect::<Result<Vec<_>>>()?;
    assert_eq!(typed, [Group { age: 25, count: 2 }, Group { age: 36, count: 1 }]);
    assert_eq!(code(people.aggregate([doc! {"$nonsense": 1}]).run()), 40324);
    Ok(())
}

#[test]
fn indexes_are_made_listed_and_dropped() -> Result<()> {
    let (_db, people) = people();
    assert_eq!(people.create_index(doc! {"name": 1, "age": -1}).run()?, "name_1_age_-1");
    assert_eq!(people.create_index(doc! {"name": 1}).unique(true).name("names").run()?, "names");
    assert_eq!(people.list_index_names()?, ["_id_", "name_1_age_-1", "names"]);
    let unique = people.list_indexes()?.collect::<Result<Vec<_>>>()?;
    assert_eq!(
        unique.iter().filter(|index| index.get_bool("unique").is_ok_and(|unique| unique)).count(),
        1
    );
    assert_eq!(code(people.insert_one(person(50, "Ada", 1)).run()), 11000);
    assert_eq!(code(people.create_index(doc! {"age": 1}).unique(true).run()), 11000);
    people.drop_index("names")?;
    assert_eq!(code(people.drop_index("names")), Code::INDEX_NOT_FOUND.0);
    people.insert_one(person(50, "Ada", 1)).run()?;
    people.drop_indexes()?;
    assert_eq!(people.list_index_names()?, ["_id_"]);
    Ok(())
}

#[test]
fn collections_and_databases_are_made_listed_and_dropped() -> Result<()> {
    let (db, people) = people();
    db.create_collection("log").capped(4096).max_documents(2).run()?;
    db.create_collection("young").view_on("people", [doc! {"$match": {"age": 25}}]).run()?;
    db.create_collection("strict").validator(doc! {"name": {"$type": "string"}}).run()?;
    let mut names = db.list_collection_names()?;
    names.retain(|name| !name.starts_with("system."));
    names.sort();
    assert_eq!(names, ["log", "people", "strict", "young"]);

    let log = db.collection::<Document>("log");
    log.insert_many([3, 1, 2].map(|n| doc! {"_id": n})).run()?;
    let kept = log.find(doc! {}).run()?.collect::<Result<Vec<_>>>()?;
    assert_eq!(kept, [doc! {"_id": 1}, doc! {"_id": 2}]);
    assert_eq!(ids(db.collection::<Person>("young").find(doc! {}).run()?), [2, 4]);
    let strict = db.collection::<Document>("strict");
    let error = strict.insert_one(doc! {"name": 1}).run().expect_err("no string");
    assert_eq!(error.code(), Code(121));
    assert!(error.info().is_some_and(|info| info.as_doc().get("errInfo").is_some()));
    strict.insert_one(doc! {"name": 1}).bypass_document_validation(true).run()?;

    let other = db.with_name("other");
    assert_eq!((db.name(), other.name()), ("test", "other"));
    let others = other.collection::<Person>("people");
    assert_eq!(others.count_documents(doc! {}).run()?, 0);
    others.insert_one(person(1, "Ada", 1)).run()?;
    let databases = db.list_database_names()?;
    assert!(databases.contains(&"test".to_owned()) && databases.contains(&"other".to_owned()));
    other.drop()?;
    assert!(!db.list_database_names()?.contains(&"other".to_owned()));
    assert_eq!(people.count_documents(doc! {}).run()?, 4);

    people.drop()?;
    people.drop()?;
    assert_eq!(people.count_documents(doc! {}).run()?, 0);
    Ok(())
}

#[test]
fn commands_answer_as_over_the_wire() -> Result<()> {
    let (db, _people) = people();
    let reply = db.run_command(doc! {"find": "people", "filter": {"_id": 2}})?;
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let max = doc! {"_id": 2, "name": "Max", "age": 25};
    assert_eq!(batch.expect("a batch"), &[Bson::Document(max)]);
    assert_eq!(reply.get("ok"), Some(&Bson::Double(1.0)));
    let error = db.run_command(doc! {"noSuchCommand": 1}).expect_err("unknown");
    assert_eq!(error.code(), Code::COMMAND_NOT_FOUND);
    let reply = db.run_command(doc! {"insert": "people", "documents": [{"_id": 2}]})?;
    assert_eq!(reply.get_array("writeErrors").expect("errors").len(), 1);
    Ok(())
}

#[test]
fn bad_input_is_refused_and_changes_nothing() -> Result<()> {
    let db = Database::in_memory()?;
    let anything = db.collection::<Document>("anything");
    let mut deep = doc! {};
    for _ in 0..120 {
        deep = doc! {"a": deep};
    }
    assert_eq!(code(anything.insert_one(&deep).run()), Code::OVERFLOW.0);
    for _ in 0..120 {
        deep = doc! {"a": deep};
    }
    assert_eq!(code(anything.insert_one(&deep).run()), Code::OVERFLOW.0);
    assert_eq!(code(anything.find(deep).run()), Code::OVERFLOW.0);
    let large = doc! {"a": "x".repeat(16 * 1024 * 1024)};
    assert_eq!(code(anything.insert_one(&large).run()), Code::BAD_VALUE.0);
    assert_eq!(code(anything.insert_one(doc! {"_id": [1]}).run()), 53);
    assert_eq!(code(anything.insert_one(doc! {"a\0b": 1}).run()), Code::BAD_VALUE.0);
    assert_eq!(code(anything.find(doc! {"$nonsense": 1}).run()), Code::BAD_VALUE.0);
    assert_eq!(code(db.collection::<i32>("anything").insert_one(5).run()), Code::BAD_VALUE.0);
    let invalid = Code::INVALID_NAMESPACE.0;
    assert_eq!(code(db.collection::<Document>("").insert_one(doc! {}).run()), invalid);
    assert_eq!(code(db.with_name("a b").list_collection_names()), invalid);
    assert_eq!(code(Database::builder().name("a.b").in_memory()), invalid);
    let concern = anything.clone().with_write_concern(doc! {"w": 3});
    assert_eq!(code(concern.delete_many(doc! {}).run()), Code::UNSATISFIABLE_WRITE_CONCERN.0);
    assert_eq!(anything.count_documents(doc! {}).run()?, 0);
    Ok(())
}

#[test]
fn a_folder_keeps_its_documents_and_opens_again_after_close() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made/by/open");
    for round in 0..3 {
        let db = Database::builder().cache_bytes(8 << 20).name("app").open(&path)?;
        assert_eq!(db.name(), "app");
        let numbers = db.collection::<Document>("numbers");
        assert_eq!(numbers.count_documents(doc! {}).run()?, round);
        numbers.insert_one(doc! {"_id": round as i64}).run()?;
        let fast = numbers.clone().with_write_concern(doc! {"j": false});
        fast.update_one(doc! {"_id": round as i64}, doc! {"$set": {"seen": true}}).run()?;
        assert!(Database::open(&path).is_err(), "one process opens a folder once");
        if round == 1 {
            drop((db, numbers, fast));
        } else {
            // Other handles are still there, and a cursor with more to come.
            numbers.insert_many((100..300).map(|n| doc! {"_id": n})).run()?;
            let mut cursor = numbers.find(doc! {}).batch_size(2).run()?;
            assert!(cursor.next().is_some_and(|first| first.is_ok()));
            numbers.delete_many(doc! {"_id": {"$gte": 100}}).run()?;
            db.clone().close()?;
            db.close()?;
            let closed = Code::SHUTDOWN_IN_PROGRESS.0;
            assert_eq!(code(numbers.find_one(doc! {}).run()), closed);
            assert!(cursor.by_ref().last().is_some_and(|last| code(last) == closed));
            assert!(cursor.next().is_none());
        }
    }
    let db = Database::builder().name("app").read_only(true).open(&path)?;
    let numbers = db.collection::<Document>("numbers");
    assert_eq!(numbers.count_documents(doc! {"seen": true}).run()?, 3);
    assert_eq!(code(numbers.insert_one(doc! {}).run()), Code::ILLEGAL_OPERATION.0);
    Ok(())
}

#[test]
fn a_time_limit_stops_a_long_search() -> Result<()> {
    let db = Database::in_memory()?;
    let numbers = db.collection::<Document>("numbers");
    numbers.insert_many((0..100_000).map(|n| doc! {"_id": n, "text": "x".repeat(50)})).run()?;
    let slow =
        numbers.find(doc! {"text": {"$regex": "y.*y.*y$"}}).max_time(Duration::from_millis(1));
    assert_eq!(code(slow.run()), Code::MAX_TIME_MS_EXPIRED.0);
    Ok(())
}

/// The example program, built by cargo together with this test, prints the same every time.
#[test]
fn the_example_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let tests = std::env::current_exe().expect("this program has a path");
    let examples = tests.parent().and_then(|deps| deps.parent()).expect("a target folder");
    let example = examples.join("examples").join("orders");
    if !example.exists() {
        // Only when this test was built alone.
        let cargo = std::process::Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--example", "orders"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(cargo.expect("cargo runs").success());
    }
    for _ in 0..2 {
        let run = std::process::Command::new(&example).arg(folder.path()).output().expect("runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let expected = "unpaid:\n  2 for Max: 1 items\n  3 for Ada: 1 items\n\
                        spent:\n  { \"_id\": \"Ada\", \"cents\": 2100 }\n  \
                        { \"_id\": \"Max\", \"cents\": 600 }\n";
        assert_eq!(String::from_utf8_lossy(&run.stdout), expected);
    }
}

#[test]
fn the_readme_shows_the_example_that_is_run() {
    let example = include_str!("../examples/orders.rs");
    let start = example.find("use motifdb").expect("the example uses the library");
    let readme = include_str!("../../../README.md");
    assert!(readme.contains(&example[start..]), "copy examples/orders.rs into the README");
}
