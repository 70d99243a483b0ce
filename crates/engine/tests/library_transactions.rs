//! Sessions and transactions of the library: commit, abort, conflicts, repetition, cursors.

use motifdb::bson::{Document, doc};
use motifdb::value::Code;
use motifdb::{ClientSession, Collection, Database, Error, Result};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

fn numbers() -> Result<(Database, Collection<Document>)> {
    let db = Database::builder().test_commands(true).in_memory()?;
    let numbers = db.collection("numbers");
    numbers.insert_one(doc! {"_id": 1, "n": 0}).run()?;
    Ok((db, numbers))
}

fn value(numbers: &Collection<Document>) -> Result<i32> {
    let one = numbers.find_one(doc! {"_id": 1}).run()?.expect("it is there");
    Ok(one.get_i32("n").expect("a number"))
}

fn add(numbers: &Collection<Document>, session: &mut ClientSession) -> Result<()> {
    let done =
        numbers.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(session).run()?;
    assert_eq!(done.modified_count, 1);
    Ok(())
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> i32 {
    result.expect_err("fails").code().0
}

#[test]
fn a_commit_shows_all_writes_at_once_and_an_abort_none() -> Result<()> {
    let (db, numbers) = numbers()?;
    let mut session = db.start_session().run()?;
    assert!(!session.in_transaction());

    session.start_transaction().run()?;
    assert!(session.in_transaction());
    add(&numbers, &mut session)?;
    numbers.insert_many([doc! {"_id": 2}, doc! {"_id": 3}]).session(&mut session).run()?;
    numbers.delete_one(doc! {"_id": 3}).session(&mut session).run()?;
    let find = numbers.find_one_and_update(doc! {"_id": 2}, doc! {"$set": {"x": 1}});
    assert_eq!(find.session(&mut session).run()?, Some(doc! {"_id": 2}));
    assert_eq!(numbers.count_documents(doc! {}).session(&mut session).run()?, 2);
    assert_eq!(numbers.distinct("_id", doc! {}).session(&mut session).run()?.len(), 2);
    let own = numbers.find_one(doc! {"_id": 1}).session(&mut session).run()?;
    assert_eq!(own, Some(doc! {"_id": 1, "n": 1}));
    assert_eq!((value(&numbers)?, numbers.count_documents(doc! {}).run()?), (0, 1));
    session.commit_transaction().run()?;
    assert!(!session.in_transaction());
    assert_eq!((value(&numbers)?, numbers.count_documents(doc! {}).run()?), (1, 2));
    // A commit can be sent again.
    session.commit_transaction().run()?;

    session.start_transaction().run()?;
    add(&numbers, &mut session)?;
    numbers.find_one_and_delete(doc! {"_id": 2}).session(&mut session).run()?;
    session.abort_transaction().run()?;
    assert_eq!((value(&numbers)?, numbers.count_documents(doc! {}).run()?), (1, 2));

    // Outside of a transaction operations of the session are as any other.
    add(&numbers, &mut session)?;
    assert_eq!(value(&numbers)?, 2);
    Ok(())
}

#[test]
fn steps_in_the_wrong_order_are_refused() -> Result<()> {
    let (db, numbers) = numbers()?;
    let mut session = db.start_session().run()?;
    assert_eq!(code(session.commit_transaction().run()), 2);
    assert_eq!(code(session.abort_transaction().run()), 2);
    session.start_transaction().run()?;
    assert_eq!(code(session.start_transaction().run()), 2);
    // Nothing was sent: nothing is to be committed or aborted.
    session.commit_transaction().run()?;
    assert_eq!(code(session.abort_transaction().run()), 2);
    session.start_transaction().run()?;
    session.abort_transaction().run()?;
    assert_eq!(code(session.commit_transaction().run()), 2);

    let other = Database::in_memory()?;
    let mut foreign = other.start_session().run()?;
    assert_eq!(code(numbers.find_one(doc! {}).session(&mut foreign).run()), 2);

    db.clone().close()?;
    assert_eq!(code(db.start_session().run()), Code::SHUTDOWN_IN_PROGRESS.0);
    assert_eq!(code(add(&numbers, &mut session)), Code::SHUTDOWN_IN_PROGRESS.0);
    Ok(())
}

#[test]
fn dropping_a_session_aborts_its_transaction() -> Result<()> {
    let (db, numbers) = numbers()?;
    let mut session = db.start_session().run()?;
    session.start_transaction().run()?;
    add(&numbers, &mut session)?;
    drop(session);
    // An open transaction would make this wait for it.
    numbers.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 10}}).run()?;
    assert_eq!(value(&numbers)?, 10);
    let status = db.with_name("admin").run_command(doc! {"serverStatus": 1})?;
    let transactions = status.get_document("transactions").expect("counters");
    assert_eq!(transactions.get_i64("currentOpen").expect("a counter"), 0);
    assert_eq!(transactions.get_i64("totalAborted").expect("a counter"), 1);
    Ok(())
}

#[test]
fn a_cursor_of_a_transaction_reads_its_snapshot() -> Result<()> {
    let (db, numbers) = numbers()?;
    numbers.insert_many((2..10).map(|n| doc! {"_id": n})).run()?;
    let mut session = db.start_session().run()?;
    session.start_transaction().read_concern(doc! {"level": "snapshot"}).run()?;
    let mut cursor = numbers.find(doc! {}).batch_size(2).session(&mut session).run()?;
    assert_eq!(cursor.next().transpose()?, Some(doc! {"_id": 1, "n": 0}));
    numbers.delete_many(doc! {"_id": {"$gt": 5}}).run()?;
    assert_eq!(cursor.count(), 8);
    let half = numbers.find(doc! {}).batch_size(2).session(&mut session).run()?;
    session.commit_transaction().run()?;
    let ends = half.collect::<Result<Vec<_>>>();
    assert!(ends.is_err(), "the cursor ended with its transaction: {ends:?}");
    Ok(())
}

#[test]
fn a_conflict_is_labelled_and_with_transaction_runs_again() -> Result<()> {
    let (db, numbers) = numbers()?;
    let (mut first, mut second) = (db.start_session().run()?, db.start_session().run()?);
    first.start_transaction().run()?;
    numbers.find_one(doc! {"_id": 1}).session(&mut first).run()?;
    second.start_transaction().run()?;
    add(&numbers, &mut second)?;
    second.commit_transaction().run()?;
    let error = add(&numbers, &mut first).expect_err("the snapshot is older");
    assert_eq!(error.code(), Code::WRITE_CONFLICT);
    assert!(error.contains_label("TransientTransactionError"), "{:?}", error.labels());
    first.abort_transaction().run()?;

    let mut runs = 0;
    let result = first.with_transaction(|first| {
        runs += 1;
        let seen = numbers.find_one(doc! {"_id": 1}).session(first).run()?;
        if runs < 3 {
            second.with_transaction(|second| add(&numbers, second))?;
        }
        add(&numbers, first)?;
        Ok(seen.and_then(|seen| seen.get_i32("n").ok()))
    })?;
    assert_eq!((runs, result, value(&numbers)?), (3, Some(3), 4));
    Ok(())
}

#[test]
fn with_transaction_returns_other_errors_and_aborts() -> Result<()> {
    let (db, numbers) = numbers()?;
    let mut session = db.start_session().run()?;
    let mut runs = 0;
    let error = session.with_transaction(|session| {
        runs += 1;
        add(&numbers, session)?;
        Err::<(), Error>(Error::bad_value("no"))
    });
    assert_eq!((code(error), runs, value(&numbers)?), (2, 1, 0));
    let duplicate = session.with_transaction(|session| {
        add(&numbers, session)?;
        numbers.insert_one(doc! {"_id": 1}).session(session).run()
    });
    assert_eq!((code(duplicate), value(&numbers)?), (11000, 0));
    // The body may end the transaction itself.
    session.with_transaction(|session| {
        add(&numbers, session)?;
        session.abort_transaction().run()
    })?;
    assert_eq!(value(&numbers)?, 0);
    Ok(())
}

#[test]
fn a_commit_with_an_unknown_result_is_sent_again() -> Result<()> {
    let (db, numbers) = numbers()?;
    let mut session = db.start_session().run()?;
    let fail = |label: &str| {
        db.with_name("admin").run_command(doc! {
            "configureFailPoint": "failCommand", "mode": {"times": 2},
            "data": {"failCommands": ["commitTransaction"], "errorCode": 189, "errorLabels": [label]},
        })
    };
    let mut runs = 0;
    fail("UnknownTransactionCommitResult")?;
    session.with_transaction(|session| {
        runs += 1;
        add(&numbers, session)
    })?;
    assert_eq!((runs, value(&numbers)?), (1, 1));
    fail("TransientTransactionError")?;
    session.with_transaction(|session| {
        runs += 1;
        add(&numbers, session)
    })?;
    assert_eq!((runs, value(&numbers)?), (4, 2));
    Ok(())
}

#[test]
fn two_writers_lose_no_update() -> Result<()> {
    const EACH: usize = 25;
    let (db, numbers) = numbers()?;
    let (start, runs) = (Barrier::new(2), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut session = db.start_session().run().expect("a session");
                start.wait();
                for _ in 0..EACH {
                    let done = session.with_transaction(|session| {
                        runs.fetch_add(1, Ordering::Relaxed);
                        let one = numbers.find_one(doc! {"_id": 1}).session(session).run()?;
                        let n = one.and_then(|one| one.get_i32("n").ok()).unwrap_or(0);
                        let set = doc! {"$set": {"n": n + 1}};
                        numbers.update_one(doc! {"_id": 1}, set).session(session).run().map(drop)
                    });
                    done.expect("commits");
                }
            });
        }
    });
    assert_eq!(value(&numbers)?, 2 * i32::try_from(EACH).expect("small"));
    assert!(runs.load(Ordering::Relaxed) >= 2 * EACH);
    Ok(())
}
