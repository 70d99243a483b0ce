"""pymongo: a hierarchy of books. Run: MONGODB_URI=... python inheritance.py"""

import os

import pymongo

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_inheritance"]
db.client.drop_database(db.name)

db.command("createPatterns", "books", patterns=[{
    "name": "media", "kind": "inheritance", "discriminator": "product_type",
    "root": {"name": "book", "abstract": True, "required": ["title"]},
    "types": {
        "printed": {"required": ["isbn"]},
        "ebook": {"required": ["download_url"]},
        "enhanced_ebook": {"extends": "ebook", "required": ["media"]},
    },
}])
db.books.insert_one({"_id": 1, "product_type": "enhanced_ebook", "title": "A", "download_url": "B", "media": "C"})
found = db.books.find_one({"_types": "ebook"})
print(found)
assert found["_types"] == ["book", "ebook", "enhanced_ebook"]
try:
    db.books.insert_one({"_id": 2, "product_type": "book", "title": "A"})
    raise SystemExit("a document of an abstract type was accepted")
except pymongo.errors.WriteError as error:
    print(error)
    assert error.code == 121
