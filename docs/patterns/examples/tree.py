"""pymongo: an organisation that cannot become a circle. Run: MONGODB_URI=... python tree.py"""

import os

import pymongo
from pymongo.errors import WriteError

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_tree"]
db.client.drop_database(db.name)

db.command("createPatterns", "people", patterns=[{
    "name": "chain", "kind": "tree", "parent": "boss", "maintain": {"ancestors": "chain"},
    "onDelete": "adopt",
}])
db.people.insert_many([{"_id": "ada"}, {"_id": "bob", "boss": "ada"}, {"_id": "cid", "boss": "bob"}])
try:
    db.people.update_one({"_id": "ada"}, {"$set": {"boss": "cid"}})
    raise SystemExit("a circle was accepted")
except WriteError as error:
    print(error)
    assert error.code == 96001
db.people.delete_one({"_id": "bob"})
cid = db.people.find_one({"_id": "cid"})
print(cid)
assert cid == {"_id": "cid", "boss": "ada", "chain": ["ada"]}
