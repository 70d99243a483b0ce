"""pymongo: the schema design patterns that MotifDB is made for, as a Python program writes them."""

from datetime import datetime, timedelta

import pytest


def plan(explained):
    """The stages of the winning plan and the indexes that they read."""
    stages, indexes = [], []
    opened = [explained["queryPlanner"]["winningPlan"]]
    while opened:
        stage = opened.pop()
        if "stage" in stage:
            stages.append(stage["stage"])
        if "indexName" in stage:
            indexes.append(stage["indexName"])
        opened += [stage[below] for below in ("queryPlan", "inputStage") if below in stage]
        opened += stage.get("inputStages", [])
    return stages, indexes


def test_polymorphic_pattern(db):
    db.products.insert_many(
        [
            {
                "type": "clothing",
                "name": "T-Shirt",
                "attributes": {"size": "L", "color": "Red"},
            },
            {
                "type": "electronics",
                "name": "Laptop",
                "attributes": {"cpu": "i7", "ram": "16GB"},
            },
        ]
    )
    assert db.products.count_documents({}) == 2
    shirt = db.products.find_one({"attributes.size": "L"}, {"_id": 0})
    assert shirt == {"type": "clothing", "name": "T-Shirt", "attributes": {"size": "L", "color": "Red"}}
    assert [found["name"] for found in db.products.find({"type": "electronics"})] == ["Laptop"]
    without = db.products.find({"attributes.cpu": {"$exists": False}})
    assert [found["name"] for found in without] == ["T-Shirt"]
    assert sorted(db.products.distinct("type")) == ["clothing", "electronics"]


def test_attribute_pattern(db):
    plain = {"_id": 1, "specs": {"cpu": "i7", "ram": "16GB", "gpu": "RTX 3080"}}
    attributes = {
        "_id": 2,
        "specs": [
            {"k": "cpu", "v": "i7"},
            {"k": "ram", "v": "16GB"},
            {"k": "gpu", "v": "RTX 3080"},
        ],
    }
    # Has the same values under other keys.
    crossed = {"_id": 3, "specs": [{"k": "cpu", "v": "16GB"}, {"k": "ram", "v": "i7"}]}
    db.products.insert_many([plain, attributes, crossed])
    assert db.products.find_one({"specs.cpu": "i7"}) == plain

    # A single multikey index on specs.k and specs.v serves any specification.
    name = db.products.create_index([("specs.k", 1), ("specs.v", 1)])
    assert name == "specs.k_1_specs.v_1"
    for key, value in [("cpu", "i7"), ("ram", "16GB"), ("gpu", "RTX 3080")]:
        query = {"specs": {"$elemMatch": {"k": key, "v": value}}}
        assert list(db.products.find(query)) == [attributes]
        stages, indexes = plan(db.products.find(query).explain())
        assert "IXSCAN" in stages and "COLLSCAN" not in stages
        assert indexes == [name]


def test_hourly_bucket(db):
    bucket = {
        "sensor_id": 101,
        "day": "2023-10-01",
        "hour": 14,
        "readings": [
            {"time": "14:00:01", "temp": 22.5},
            {"time": "14:00:02", "temp": 22.6},
        ],
        "avg_temp": 22.8,  # Pre-aggregated data
    }
    db.sensors.insert_one(bucket)
    db.sensors.insert_one({"sensor_id": 101, "day": "2023-10-01", "hour": 15, "readings": []})
    hour = {"sensor_id": 101, "day": "2023-10-01", "hour": 14}
    assert db.sensors.find_one(hour) == bucket

    # An entire hour is one seek of the index.
    name = db.sensors.create_index([("sensor_id", 1), ("day", 1), ("hour", 1)], unique=True)
    explained = db.sensors.find(hour).explain()
    assert plan(explained)[1] == [name]
    assert explained["executionStats"]["totalKeysExamined"] == 1
    assert explained["executionStats"]["totalDocsExamined"] == 1

    # The pre-aggregated values change with the readings.
    db.sensors.update_one(
        hour,
        {"$push": {"readings": {"time": "14:00:03", "temp": 23.5}}, "$max": {"max_temp": 23.5}},
    )
    db.sensors.update_one(
        hour, [{"$set": {"avg_temp": {"$round": [{"$avg": "$readings.temp"}, 2]}}}]
    )
    found = db.sensors.find_one(hour)
    assert [reading["temp"] for reading in found["readings"]] == [22.5, 22.6, 23.5]
    assert found["max_temp"] == 23.5
    assert found["avg_temp"] == 22.87


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_bucket_pattern_by_upsert(db):
    collection = db.sensor_buckets
    began = datetime.utcnow() - timedelta(milliseconds=1)

    def add():
        # Upsert: Add a reading to an existing bucket or create a new one
        reading = {"t": datetime.utcnow(), "v": 24.1}
        return collection.update_one(
            {
                "sensor_id": 101,
                "bucket_start": "2023-10-01T14:00",  # Unique key for the bucket
            },
            {
                "$push": {"readings": reading},
                "$inc": {"count": 1, "sum": 24.1},  # Keep stats for easy avg
                "$setOnInsert": {"sensor_id": 101, "bucket_start": "2023-10-01T14:00"},
            },
            upsert=True,
        )

    result = add()
    assert (result.matched_count, result.modified_count) == (0, 0)
    created = collection.find_one()
    assert created["_id"] == result.upserted_id
    assert (created["sensor_id"], created["bucket_start"]) == (101, "2023-10-01T14:00")
    assert (created["count"], created["sum"]) == (1, 24.1)
    assert len(created["readings"]) == 1
    assert began <= created["readings"][0]["t"] <= datetime.utcnow()
    assert created["readings"][0]["v"] == 24.1

    for count in (2, 3):
        result = add()
        assert (result.matched_count, result.modified_count) == (1, 1)
        assert result.upserted_id is None
        assert collection.find_one()["count"] == count
    assert collection.count_documents({}) == 1
    bucket = collection.find_one()
    assert bucket["_id"] == created["_id"]
    assert [reading["v"] for reading in bucket["readings"]] == [24.1] * 3
    assert bucket["sum"] == pytest.approx(72.3)
    [average] = collection.aggregate([{"$project": {"_id": 0, "avg": {"$divide": ["$sum", "$count"]}}}])
    assert average["avg"] == pytest.approx(24.1)
