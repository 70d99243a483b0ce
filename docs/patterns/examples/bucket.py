"""pymongo: trades of a customer in pages of ten. Run: MONGODB_URI=... python bucket.py"""

import datetime
import os

import pymongo

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_bucket"]
db.client.drop_database(db.name)

db.create_collection("trades")
db.command("createPatterns", "trades", patterns=[{
    "name": "pages", "kind": "bucket", "key": ["customer"], "time": "at", "span": {"count": 10},
}])
start = datetime.datetime(2026, 1, 1)
db.trades.insert_many(
    {"customer": "c", "at": start + datetime.timedelta(minutes=n), "n": n} for n in range(95)
)
reply = db.command("find", "trades", rawBuckets=True, sort={"start": 1}, skip=9, limit=1)
page = reply["cursor"]["firstBatch"][0]
print(page["count"], page["start"], page["end"])
assert [trade["n"] for trade in page["points"]] == [90, 91, 92, 93, 94]
assert db.trades.count_documents({}) == 95
