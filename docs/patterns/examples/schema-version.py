"""pymongo: clients of two versions on the same users. Run: MONGODB_URI=... python schema-version.py"""

import os

import pymongo

uri = os.environ["MONGODB_URI"]
new = pymongo.MongoClient(uri, appname="web")["patterns_schema_version"]
old = pymongo.MongoClient(uri, appname="web-2019")["patterns_schema_version"]
new.client.drop_database(new.name)

new.users.insert_many([{"_id": n, "schema_version": 1, "name": f"User {n}"} for n in range(100)])
new.command("createPatterns", "users", patterns=[{
    "name": "users_v2", "kind": "schemaVersion", "version": 2, "from": 1,
    "up": [{"$set": {"full_name": "$name"}}, {"$unset": "name"}],
    "down": [{"$set": {"name": "$full_name"}}, {"$unset": "full_name"}],
    "clients": {"web-2019": 1},
}])
assert new.users.find_one({"full_name": "User 7"})["schema_version"] == 2
assert old.users.find_one({"name": "User 7"}) == {"_id": 7, "schema_version": 1, "name": "User 7"}
old.users.update_one({"name": "User 7"}, {"$set": {"name": "Ada"}})
assert new.users.find_one({"_id": 7})["full_name"] == "Ada"
listed = new.command("listPatterns", "users")["cursor"]["firstBatch"][0]
print(listed["versions"], listed["olderClients"])
assert listed["versions"] == {"1": 0, "2": 100} and listed["olderClients"]["web-2019"] > 0
try:
    new.command({"applyPatterns": "users", "contract": "users_v2"})
    raise SystemExit("an old client is connected")
except pymongo.errors.OperationFailure as error:
    assert "web-2019" in str(error)
