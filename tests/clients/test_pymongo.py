"""pymongo against MONGODB_URI: what an ordinary Python program does."""

import datetime
import os
import sys
import threading
import time
import uuid

import bson
import gridfs
import pymongo
import pytest
from bson.codec_options import CodecOptions
from pymongo import DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne
from pymongo.cursor import CursorType
from pymongo.errors import (
    BulkWriteError,
    CursorNotFound,
    DuplicateKeyError,
    OperationFailure,
    WriteError,
)
from pymongo.write_concern import WriteConcern

URI = os.environ["MONGODB_URI"]


@pytest.fixture
def c(db):
    return db.c


def test_hello(client):
    hello = client.admin.command("hello")
    assert hello["isWritablePrimary"] and hello["setName"]
    assert hello["maxBsonObjectSize"] == 16 * 1024 * 1024
    assert hello["maxWireVersion"] >= 17
    assert client.server_info()["version"]
    assert client.topology_description.topology_type_name == "ReplicaSetWithPrimary"


def test_insert_and_find(c):
    result = c.insert_one({"name": "Ada", "born": datetime.datetime(1815, 12, 10)})
    assert isinstance(result.inserted_id, bson.ObjectId)
    found = c.find_one({"name": "Ada"})
    assert found["_id"] == result.inserted_id
    assert found["born"] == datetime.datetime(1815, 12, 10)
    assert c.find_one({"name": "Bob"}) is None


def test_every_type_round_trips(c):
    document = {
        "_id": 1,
        "double": 1.5,
        "nan_free": -0.0,
        "string": "ünï ☃ \U0001f600",
        "document": {"a": {"b": []}},
        "array": [1, "two", None, [3]],
        "binary": b"\x00\x01",
        "uuid": bson.Binary.from_uuid(uuid.UUID(int=5)),
        "oid": bson.ObjectId(),
        "yes": True,
        "date": datetime.datetime(2020, 1, 2, 3, 4, 5, 6000),
        "null": None,
        "regex": bson.Regex("^a", "i"),
        "code": bson.Code("f()"),
        "scoped": bson.Code("f()", {"x": 1}),
        "int": 5,
        "long": bson.Int64(2**40),
        "timestamp": bson.Timestamp(5, 6),
        "decimal": bson.Decimal128("1.230"),
        "min": bson.MinKey(),
        "max": bson.MaxKey(),
    }
    c.insert_one(document)
    raw = c.with_options(CodecOptions(document_class=bson.raw_bson.RawBSONDocument))
    assert raw.find_one({"_id": 1}).raw == bson.encode(document)


def test_insert_many_and_cursor(c):
    c.insert_many([{"_id": n, "square": n * n} for n in range(1000)])
    assert c.count_documents({}) == 1000
    assert c.estimated_document_count() == 1000
    ids = [doc["_id"] for doc in c.find().sort("_id", -1).batch_size(7)]
    assert ids == list(range(999, -1, -1))
    page = list(c.find({}, {"_id": 1}).sort("square", 1).skip(10).limit(5))
    assert page == [{"_id": n} for n in range(10, 15)]


def test_update_and_replace(c):
    c.insert_many([{"_id": n, "n": n} for n in range(5)])
    one = c.update_one({"_id": 1}, {"$inc": {"n": 10}})
    assert (one.matched_count, one.modified_count) == (1, 1)
    many = c.update_many({"n": {"$lt": 5}}, {"$set": {"small": True}})
    assert many.modified_count == 4
    same = c.update_one({"_id": 1}, {"$set": {"n": 11}})
    assert (same.matched_count, same.modified_count) == (1, 0)
    upserted = c.update_one({"_id": 9}, {"$set": {"n": 9}}, upsert=True)
    assert upserted.upserted_id == 9
    replaced = c.replace_one({"_id": 9}, {"m": 1})
    assert replaced.modified_count == 1
    assert c.find_one({"_id": 9}) == {"_id": 9, "m": 1}
    filtered = c.update_one(
        {"_id": 2}, {"$set": {"a": [1, 5, 9]}}
    ) and c.update_one({"_id": 2}, {"$set": {"a.$[big]": 0}}, array_filters=[{"big": {"$gt": 4}}])
    assert filtered.modified_count == 1
    assert c.find_one({"_id": 2})["a"] == [1, 0, 0]
    c.update_one({"_id": 3}, [{"$set": {"double": {"$multiply": ["$n", 2]}}}])
    assert c.find_one({"_id": 3})["double"] == 6


def test_delete(c):
    c.insert_many([{"_id": n} for n in range(5)])
    assert c.delete_one({"_id": 0}).deleted_count == 1
    assert c.delete_many({"_id": {"$gte": 3}}).deleted_count == 2
    assert [doc["_id"] for doc in c.find()] == [1, 2]


def test_find_and_modify(c):
    c.insert_many([{"_id": n, "n": n} for n in range(3)])
    before = c.find_one_and_update({"n": 1}, {"$inc": {"n": 5}})
    assert before == {"_id": 1, "n": 1}
    after = c.find_one_and_update(
        {}, {"$set": {"top": 1}}, sort=[("n", -1)], return_document=ReturnDocument.AFTER
    )
    assert after == {"_id": 1, "n": 6, "top": 1}
    assert c.find_one_and_delete({"_id": 0}) == {"_id": 0, "n": 0}
    assert c.find_one_and_replace({"_id": 77}, {"x": 1}) is None
    made = c.find_one_and_update(
        {"_id": 8}, {"$setOnInsert": {"x": 1}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    assert made == {"_id": 8, "x": 1}


def test_bulk(c):
    c.insert_many([{"_id": n, "n": n} for n in range(4)])
    result = c.bulk_write(
        [
            InsertOne({"_id": 10}),
            UpdateOne({"_id": 0}, {"$set": {"a": 1}}),
            UpdateMany({"n": {"$gt": 0}}, {"$inc": {"n": 1}}),
            ReplaceOne({"_id": 11}, {"r": 1}, upsert=True),
            DeleteOne({"_id": 3}),
        ]
    )
    assert result.inserted_count == 1
    assert result.modified_count == 4
    assert result.deleted_count == 1
    assert result.upserted_ids == {3: 11}
    with pytest.raises(BulkWriteError) as failed:
        c.bulk_write([InsertOne({"_id": 10}), InsertOne({"_id": 12})], ordered=False)
    details = failed.value.details
    assert details["nInserted"] == 1
    assert details["writeErrors"][0]["code"] == 11000
    assert c.count_documents({"_id": 12}) == 1


def test_large_bulk_is_split(c):
    result = c.insert_many([{"_id": n, "pad": "x" * 1000} for n in range(20000)])
    assert len(result.inserted_ids) == 20000
    assert c.estimated_document_count() == 20000
    assert sum(1 for _ in c.find({}, {"_id": 1})) == 20000


def test_duplicate_key(c):
    c.create_index("email", unique=True)
    c.insert_one({"_id": 1, "email": "a@b"})
    with pytest.raises(DuplicateKeyError) as failed:
        c.insert_one({"_id": 2, "email": "a@b"})
    assert failed.value.code == 11000
    assert failed.value.details["keyPattern"] == {"email": 1}
    assert failed.value.details["keyValue"] == {"email": "a@b"}
    assert "E11000 duplicate key error collection" in str(failed.value)


def test_errors_have_codes(db):
    with pytest.raises(OperationFailure) as failed:
        db.command("noSuchCommand")
    assert failed.value.code == 59
    with pytest.raises(OperationFailure) as failed:
        list(db.c.find({"a": {"$foo": 1}}))
    assert failed.value.code == 2
    with pytest.raises(WriteError) as failed:
        db.c.insert_one({"_id": [1]})
    assert failed.value.code == 53
    with pytest.raises(OperationFailure) as failed:
        list(db.c.aggregate([{"$nope": 1}]))
    assert failed.value.code == 40324


def test_a_document_too_large_is_refused(c):
    c.insert_one({"_id": 1, "pad": "x" * 9_000_000})
    with pytest.raises(pymongo.errors.PyMongoError):
        c.update_one({"_id": 1}, {"$set": {"more": "y" * 9_000_000}})
    assert "more" not in c.find_one({"_id": 1})


def test_indexes(c):
    c.insert_many([{"_id": n, "a": n % 10, "b": [n, n + 1]} for n in range(100)])
    assert c.create_index([("a", 1), ("_id", -1)]) == "a_1__id_-1"
    assert c.create_index("b", name="bees", sparse=True) == "bees"
    information = c.index_information()
    assert set(information) == {"_id_", "a_1__id_-1", "bees"}
    assert information["bees"]["sparse"] is True
    plan = c.find({"a": 3}).explain()["queryPlanner"]["winningPlan"]
    assert plan["stage"] == "FETCH" and plan["inputStage"]["stage"] == "IXSCAN"
    assert [d["_id"] for d in c.find({"b": 50}).sort("_id", 1)] == [49, 50]
    c.drop_index("bees")
    with pytest.raises(OperationFailure) as failed:
        c.drop_index("bees")
    assert failed.value.code == 27
    c.drop_indexes()
    assert list(c.index_information()) == ["_id_"]


def test_explain_counts(c):
    c.insert_many([{"_id": n} for n in range(50)])
    explained = c.database.command(
        "explain", {"find": "c", "filter": {"_id": {"$gte": 40}}}, verbosity="executionStats"
    )
    assert explained["executionStats"]["nReturned"] == 10


def test_aggregate_distinct_count(c):
    c.insert_many([{"_id": n, "k": "ab"[n % 2], "n": n} for n in range(10)])
    groups = list(
        c.aggregate(
            [
                {"$match": {"n": {"$gt": 1}}},
                {"$group": {"_id": "$k", "sum": {"$sum": "$n"}, "many": {"$sum": 1}}},
                {"$sort": {"_id": 1}},
            ]
        )
    )
    assert groups == [
        {"_id": "a", "sum": 20, "many": 4},
        {"_id": "b", "sum": 24, "many": 4},
    ]
    assert c.distinct("k") == ["a", "b"]
    assert c.distinct("n", {"k": "a"}) == [0, 2, 4, 6, 8]
    assert c.count_documents({"k": "a"}, skip=1, limit=2) == 2
    assert [d["_id"] for d in c.aggregate([{"$sort": {"_id": -1}}, {"$limit": 2}], batchSize=1)] == [9, 8]


def test_cursors_can_be_killed(c):
    c.insert_many([{"_id": n} for n in range(10)])
    cursor = c.find(batch_size=2)
    next(cursor)
    killed = c.database.command("killCursors", "c", cursors=[bson.Int64(cursor.cursor_id)])
    assert len(killed["cursorsKilled"]) == 1
    with pytest.raises(CursorNotFound):
        list(cursor)


def test_an_open_cursor_sees_its_snapshot(c):
    c.insert_many([{"_id": n} for n in range(10)])
    cursor = c.find(batch_size=2).sort("_id", 1)
    first = next(cursor)["_id"]
    c.insert_one({"_id": -1})
    rest = [doc["_id"] for doc in cursor]
    assert [first] + rest == list(range(10))


def test_exhaust_cursor(client, c):
    c.insert_many([{"_id": n} for n in range(1000)])
    cursor = c.find(batch_size=10, cursor_type=CursorType.EXHAUST)
    assert [doc["_id"] for doc in cursor] == list(range(1000))
    assert client.admin.command("ping")["ok"] == 1


def test_tailable_cursor(db):
    log = db.create_collection("log", capped=True, size=100000)
    log.insert_one({"n": 1})
    cursor = log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(20000)
    assert next(cursor)["n"] == 1

    def later():
        time.sleep(0.2)
        log.insert_one({"n": 2})

    thread = threading.Thread(target=later)
    thread.start()
    assert next(cursor)["n"] == 2
    thread.join()
    cursor.close()


def test_unacknowledged_writes(c):
    loose = c.with_options(write_concern=WriteConcern(w=0))
    assert loose.insert_one({"_id": 1}).acknowledged is False
    loose.insert_many([{"_id": n} for n in range(2, 50)])
    loose.update_one({"_id": 1}, {"$set": {"a": 1}})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if c.count_documents({}) == 49 and c.find_one({"_id": 1}).get("a") == 1:
            break
        time.sleep(0.02)
    assert c.count_documents({}) == 49


def test_sessions_and_retryable_writes(client, c):
    with client.start_session() as session:
        c.insert_one({"_id": 1, "n": 0}, session=session)
        assert c.find_one({"_id": 1}, session=session)["n"] == 0
        lsid = session.session_id
    command = {
        "update": "c",
        "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}],
        "lsid": {"id": bson.Binary.from_uuid(uuid.uuid4())},
        "txnNumber": bson.Int64(1),
    }
    with pymongo.MongoClient(URI, retryWrites=False) as other:
        raw = other[c.database.name]
        for _ in range(3):
            # A session of our own making: the driver must not add another.
            reply = send_raw(raw, command)
            assert reply["n"] == 1 and reply["nModified"] == 1
    assert c.find_one({"_id": 1})["n"] == 1
    assert lsid


def send_raw(database, command):
    """Sends a command with an lsid of its own, which `command()` would refuse to."""
    import socket
    import struct

    host, port = database.client.address
    body = bson.encode({**command, "$db": database.name})
    message = struct.pack("<iiiiIB", 21 + len(body), 1, 0, 2013, 0, 0) + body
    with socket.create_connection((host, port)) as connection:
        connection.sendall(message)
        data = b""
        while len(data) < 4 or len(data) < struct.unpack("<i", data[:4])[0]:
            data += connection.recv(65536)
    return bson.decode(data[21:])


def test_gridfs(db):
    bucket = gridfs.GridFSBucket(db, chunk_size_bytes=1024)
    content = os.urandom(100_000)
    identifier = bucket.upload_from_stream("file.bin", content, metadata={"k": 1})
    assert bucket.open_download_stream(identifier).read() == content
    stream = bucket.open_download_stream_by_name("file.bin")
    stream.seek(50_000)
    assert stream.read(10) == content[50_000:50_010]
    assert [f.filename for f in bucket.find({"metadata.k": 1})] == ["file.bin"]
    bucket.rename(identifier, "new.bin")
    bucket.delete(identifier)
    assert db.fs.chunks.count_documents({}) == 0
    with pytest.raises(gridfs.errors.NoFile):
        bucket.open_download_stream(identifier)


def test_collections_and_databases(client, db):
    db.create_collection("x")
    with pytest.raises(pymongo.errors.CollectionInvalid):
        db.create_collection("x")
    db.y.insert_one({})
    assert sorted(db.list_collection_names()) == ["x", "y"]
    assert db.name in client.list_database_names()
    db.x.rename("z")
    assert sorted(db.list_collection_names()) == ["y", "z"]
    db.y.drop()
    assert db.list_collection_names() == ["z"]
    assert db.command("collstats", "z")["count"] == 0
    assert db.command("dbstats")["collections"] == 1
    assert db.validate_collection("z")["valid"] is True
    client.drop_database(db.name)
    assert db.name not in client.list_database_names()


def test_many_threads(client, c):
    def work(base):
        for n in range(50):
            c.insert_one({"_id": base * 1000 + n})
            c.update_one({"_id": "counter"}, {"$inc": {"n": 1}}, upsert=True)

    c.insert_one({"_id": "counter", "n": 0})
    threads = [threading.Thread(target=work, args=(base,)) for base in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert c.count_documents({}) == 401
    assert c.find_one({"_id": "counter"})["n"] == 400


@pytest.mark.parametrize("compressor", ["zlib", "snappy", "zstd"])
def test_compression(compressor):
    needed = {"snappy": "snappy", "zstd": "backports.zstd"}.get(compressor)
    if needed and sys.version_info < (3, 14):
        pytest.importorskip(needed)
    separator = "&" if "?" in URI else "/?"
    with pymongo.MongoClient(URI + separator + "compressors=" + compressor) as squeezed:
        name = "clients_py_" + uuid.uuid4().hex[:12]
        collection = squeezed[name].c
        collection.insert_many([{"_id": n, "text": "abc" * 1000} for n in range(200)])
        assert sum(len(doc["text"]) for doc in collection.find()) == 600_000
        squeezed.drop_database(name)


def test_stable_api():
    with pymongo.MongoClient(URI, server_api=pymongo.server_api.ServerApi("1")) as client:
        name = "clients_py_" + uuid.uuid4().hex[:12]
        client[name].c.insert_one({"_id": 1})
        assert client[name].c.find_one() == {"_id": 1}
        client.drop_database(name)


def test_a_write_concern_that_cannot_be_met_is_told_beside_the_error(db):
    db.here.insert_one({})
    db.there.insert_one({})
    concern = WriteConcern(w=2, wtimeout=1)
    with pytest.raises(pymongo.errors.WriteConcernError) as failure:
        db.get_collection("here", write_concern=concern).rename("there")
    assert failure.value.code == 100
    assert failure.value.details["errInfo"]["writeConcern"]["w"] == 2
    assert db.there.count_documents({}) == 1


SLOW = {"$reduce": {"input": {"$range": [0, 5000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}


@pytest.mark.parametrize(
    "pipeline",
    [
        [{"$group": {"_id": "$_id", "sum": {"$sum": SLOW}}}],
        [{"$set": {"y": SLOW}}, {"$sort": {"y": 1, "_id": -1}}],
        [{"$match": {"$expr": {"$lt": [SLOW, 0]}}}],
        [{"$facet": {"all": [{"$group": {"_id": "$_id", "sum": {"$sum": SLOW}}}]}}],
        [{"$sample": {"size": 15000}}, {"$set": {"y": SLOW}}, {"$group": {"_id": "$y"}}],
        [{"$group": {"_id": "$_id"}}, {"$set": {"y": SLOW}}, {"$sort": {"y": 1}}],
    ],
    ids=["group", "sort", "match", "facet", "sample", "behind-group"],
)
def test_kill_op_stops_pipelines(client, db, pipeline):
    db.c.insert_many([{"_id": n} for n in range(20000)])
    outcome = {}

    def run():
        try:
            list(db.c.aggregate(pipeline, comment=db.name))
        except OperationFailure as error:
            outcome["code"] = error.code
        outcome["ended"] = time.monotonic()

    running = threading.Thread(target=run)
    running.start()
    mine = [{"$currentOp": {}}, {"$match": {"command.comment": db.name}}]
    found = wait_for(lambda: list(client.admin.aggregate(mine)))
    killed = time.monotonic()
    client.admin.command({"killOp": 1, "op": found[0]["opid"]})
    running.join(60)
    assert outcome.get("code") == 11601
    # 100 ms on a machine that is not busy with other tests.
    assert outcome["ended"] - killed < 5


def wait_for(look):
    """What `look` finds once it finds something."""
    for _ in range(1000):
        found = look()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("nothing came")
