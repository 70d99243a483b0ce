"""pymongo: products with any attributes. Run: MONGODB_URI=... python attribute.py"""

import os

import pymongo

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_attribute"]
db.client.drop_database(db.name)

db.command("createPatterns", "products", patterns=[{
    "name": "specs", "kind": "attribute", "from": "specs", "as": "specs_kv",
}])
db.products.insert_many([
    {"_id": 1, "specs": {"cpu": "i7", "ram": 32}},
    {"_id": 2, "specs_kv": [{"k": "cpu", "v": "i5"}, {"k": "ram", "v": 8}]},
])
db.products.update_one({"_id": 2}, {"$set": {"specs.gpu": "none"}})
found = db.products.find_one({"specs_kv": {"$elemMatch": {"k": "gpu", "v": "none"}}})
print(found)
assert found == {"_id": 2, "specs": {"cpu": "i5", "ram": 8, "gpu": "none"}}
pairs = db.products.find_one({"_id": 1}, {"specs_kv": 1})["specs_kv"]
assert pairs == [{"k": "cpu", "v": "i7"}, {"k": "ram", "v": 32}]
