"""pymongo against MONGODB_URI: snapshot sessions, and reads at a time of the past."""

import pymongo
import pytest
from bson import SON
from pymongo.errors import OperationFailure


def at(time):
    return {"level": "snapshot", "atClusterTime": time}


def time_of(db):
    return db.command("ping")["operationTime"]


def test_a_snapshot_session_sees_one_moment_everywhere(client, db):
    db.a.insert_many({"_id": n, "n": 0} for n in range(300))
    db.b.insert_one({"_id": 1, "n": 0})
    with client.start_session(snapshot=True) as session:
        first = db.a.find(batch_size=100, session=session)
        assert next(first)["n"] == 0
        db.a.update_many({}, {"$set": {"n": 1}})
        db.a.delete_many({"_id": {"$gte": 150}})
        db.b.update_one({"_id": 1}, {"$set": {"n": 1}})
        assert [doc["n"] for doc in first] == [0] * 299
        assert db.b.find_one(session=session)["n"] == 0
        assert db.a.count_documents({}, session=session) == 300
        assert db.a.distinct("n", session=session) == [0]
        total = [{"$group": {"_id": None, "n": {"$sum": "$n"}}}]
        assert list(db.a.aggregate(total, session=session))[0]["n"] == 0
    with client.start_session(snapshot=True) as session:
        assert db.a.count_documents({"n": 1}, session=session) == 150


def test_every_time_that_a_client_was_told_can_be_read(db):
    db.c.create_index("n")
    told = []
    for n in range(60):
        db.c.replace_one({"_id": n % 7}, {"n": n}, upsert=True)
        told.append((time_of(db), sorted(doc["n"] for doc in db.c.find())))
    for time, expected in told:
        command = {"find": "c", "sort": {"n": 1}, "readConcern": at(time)}
        reply = db.command(command)["cursor"]
        assert [doc["n"] for doc in reply["firstBatch"]] == expected
        assert reply["atClusterTime"] == time


def test_a_transaction_reads_a_time_and_conflicts_with_what_came_since(client, db):
    db.c.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 1}])
    then = time_of(db)
    db.c.update_one({"_id": 1}, {"$set": {"n": 2}})
    first = SON([("find", "c"), ("readConcern", at(then))])
    with client.start_session() as session:
        session.start_transaction()
        found = db.command(first, session=session)["cursor"]["firstBatch"]
        assert [doc["n"] for doc in found] == [1, 1]
        with pytest.raises(OperationFailure) as failure:
            db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
        assert failure.value.code == 112
        assert failure.value.has_error_label("TransientTransactionError")
        session.abort_transaction()


def test_what_was_not_there_then_is_refused(db):
    db.c.insert_one({"_id": 1})
    then = time_of(db)
    db.later.insert_one({"_id": 1})
    with pytest.raises(OperationFailure) as failure:
        db.command({"find": "later", "readConcern": at(then)})
    assert failure.value.code == 246
    assert db.command({"find": "c", "readConcern": at(then)})["cursor"]["firstBatch"]
