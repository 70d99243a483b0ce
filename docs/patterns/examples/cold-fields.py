"""pymongo: a long history stored apart from its document. Run: MONGODB_URI=... python cold-fields.py"""

import os

import pymongo

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_cold_fields"]
db.client.drop_database(db.name)

db.orders.insert_many(
    {"_id": n, "state": "new", "history": ["packed, weighed, sent "] * 5000, "total": n} for n in range(10)
)
db.command("createPatterns", "orders", patterns=[{"name": "cold", "kind": "subset", "cold": ["history"]}])
update = {"update": "orders", "updates": [{"q": {"_id": 4}, "u": {"$set": {"state": "sent"}}}]}
stats = db.command("explain", update, verbosity="executionStats")["executionStats"]
print("read:", stats["bytesRead"], "written:", stats["bytesWritten"])
assert stats["bytesRead"] < 1000 and stats["bytesWritten"] < 2000
db.orders.update_one({"_id": 4}, {"$set": {"state": "sent"}})
order = db.orders.find_one({"_id": 4})
assert list(order) == ["_id", "state", "history", "total"]
assert len(order["history"]) == 5000 and order["state"] == "sent"
