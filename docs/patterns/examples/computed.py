"""pymongo: revenue by month in a collection of its own. Run: MONGODB_URI=... python computed.py"""

import datetime
import os

import pymongo

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_computed"]
db.client.drop_database(db.name)

db.command("createPatterns", "orders", patterns=[{
    "name": "months", "kind": "computed", "into": "sales_by_month",
    "groupBy": {"$dateToString": {"date": "$at", "format": "%Y-%m"}},
    "fields": {"revenue": {"$sum": "$price"}, "orders": {"$count": {}}},
}])
db.orders.insert_many(
    {"_id": n, "at": datetime.datetime(2024, n % 3 + 1, 10), "price": n} for n in range(9)
)
db.orders.delete_one({"_id": 8})
found = list(db.sales_by_month.find().sort("_id"))
print(found)
assert found == [
    {"_id": "2024-01", "revenue": 9, "orders": 3},
    {"_id": "2024-02", "revenue": 12, "orders": 3},
    {"_id": "2024-03", "revenue": 7, "orders": 2},
]
