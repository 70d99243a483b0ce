"""pymongo: products of several types. Run: MONGODB_URI=... python polymorphic.py"""

import os

import pymongo

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_polymorphic"]
db.client.drop_database(db.name)

db.command("createPatterns", "products", patterns=[{
    "name": "productTypes", "kind": "polymorphic", "discriminator": "type",
    "common": {"required": ["title"]},
    "types": {
        "book": {"required": ["author", "pages"]},
        "dvd": {"required": ["duration"], "properties": {"region": {"bsonType": "int"}}},
    },
}])
db.products.insert_one({"_id": 1, "type": "book", "title": "A", "author": "B", "pages": 320})
try:
    db.products.insert_one({"_id": 2, "type": "dvd", "title": "C", "duration": 1, "region": "one"})
    raise SystemExit("a dvd with a wrong region was accepted")
except pymongo.errors.WriteError as error:
    print(error.details["errInfo"])
    assert error.code == 121 and error.details["errInfo"]["type"] == "dvd"
listed = db.command("listPatterns", "products")["cursor"]["firstBatch"][0]
assert listed["types"]["book"]["documents"] == 1 and listed["unresolved"] == 0
