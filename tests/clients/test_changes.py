"""pymongo against MONGODB_URI: change streams and the oplog."""

import threading
import time

import pymongo
import pytest
from pymongo.cursor import CursorType
from pymongo.errors import OperationFailure


def test_computed_values_are_kept_by_a_change_stream(db):
    db.products.insert_one({"_id": "prod001", "total_revenue": 0, "total_units_sold": 0})
    pipeline = [{"$match": {"operationType": {"$in": ["insert", "update"]}}}]
    with db.orders.watch(pipeline, full_document="updateLookup") as stream:
        for quantity in range(1, 6):
            order = {"product_id": "prod001", "price": 10, "quantity": quantity}
            db.orders.insert_one(order)
        for _ in range(5):
            order = stream.next()["fullDocument"]
            change = {
                "total_revenue": order["price"] * order["quantity"],
                "total_units_sold": order["quantity"],
            }
            db.products.update_one({"_id": order["product_id"]}, {"$inc": change})
    product = db.products.find_one()
    assert (product["total_revenue"], product["total_units_sold"]) == (150, 15)


def test_a_waiting_reader_hears_of_a_write_at_once(db):
    with db.c.watch(max_await_time_ms=10000) as stream:
        stream.try_next()
        heard = []

        def read():
            heard.append((stream.next()["documentKey"], time.monotonic()))

        reader = threading.Thread(target=read)
        reader.start()
        time.sleep(0.2)
        db.c.insert_one({"_id": 1})
        written = time.monotonic()
        reader.join(30)
        assert heard[0][0] == {"_id": 1}
        assert heard[0][1] - written < 8


def test_tokens_go_on_in_another_stream(db):
    with db.c.watch() as stream:
        db.c.insert_many([{"_id": n} for n in range(10)])
        tokens = [stream.next()["_id"] for _ in range(10)]
    assert tokens == sorted(tokens, key=lambda token: token["_data"])
    for at in (0, 5, 8):
        with db.c.watch(resume_after=tokens[at]) as stream:
            assert stream.next()["documentKey"] == {"_id": at + 1}


def test_an_ended_stream_starts_after_its_end(db):
    with db.c.watch() as stream:
        db.c.insert_one({"_id": 1})
        db.c.drop()
        kinds = [event["operationType"] for event in stream]
        assert kinds == ["insert", "drop", "invalidate"]
        token = stream.resume_token
    with pytest.raises(OperationFailure) as error:
        db.c.watch(resume_after=token)
    assert error.value.code == 260
    with db.c.watch(start_after=token) as stream:
        db.c.insert_one({"_id": 2})
        assert stream.next()["documentKey"] == {"_id": 2}


def test_a_transaction_is_one_entry_of_the_oplog(client, db):
    db.create_collection("c")
    with client.start_session() as session, session.start_transaction():
        db.c.insert_one({"_id": 1}, session=session)
        db.c.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
    entry = client.local["oplog.rs"].find_one({"o.applyOps.ns": db.name + ".c"})
    operations = entry["o"]["applyOps"]
    assert [operation["op"] for operation in operations] == ["i", "u"]
    assert entry["txnNumber"] and entry["lsid"]


def test_the_oplog_can_be_tailed(client, db):
    oplog = client.local["oplog.rs"]
    last = oplog.find().sort("$natural", -1).limit(1).next()["ts"]
    cursor = oplog.find(
        {"ts": {"$gt": last}, "ns": db.name + ".c"},
        cursor_type=CursorType.TAILABLE_AWAIT,
        oplog_replay=True,
    ).max_await_time_ms(1000)
    db.c.insert_one({"_id": 1})
    assert cursor.next()["o"] == {"_id": 1}
    db.c.delete_one({"_id": 1})
    assert cursor.next()["op"] == "d"
    assert cursor.alive
