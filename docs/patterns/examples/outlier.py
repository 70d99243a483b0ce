"""pymongo: followers of a star, stored in chunks. Run: MONGODB_URI=... python outlier.py"""

import os

import pymongo

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_outlier"]
db.client.drop_database(db.name)

db.users.insert_many({"_id": f"u{n}", "followers": [f"u{m}" for m in range(n % 20)]} for n in range(50))
db.command(
    "createPatterns",
    "users",
    patterns=[{"name": "followers", "kind": "outlier", "array": "followers", "flag": "is_star", "count": "fans"}],
)
db.users.update_one({"_id": "u3"}, {"$push": {"followers": {"$each": [f"fan{n}" for n in range(5000)]}}})
star = db.users.find_one({"is_star": True}, {"fans": 1})
print(star)
assert star == {"_id": "u3", "fans": 5003}
assert db.users.find_one({"followers": "fan7"})["_id"] == "u3"
head = db.users.find_one({"_id": "u3"})
assert head["followers"] == [f"fan{n}" for n in range(4950, 5000)]
whole = db.command("find", "users", filter={"_id": "u3"}, read="full")["cursor"]["firstBatch"][0]
assert len(whole["followers"]) == 5003

db.users.update_one({"_id": "u3"}, {"$pull": {"followers": {"$regex": "^fan"}}})
assert db.users.find_one({"_id": "u3"}) == {"_id": "u3", "followers": ["u0", "u1", "u2"], "is_star": False, "fans": 3}
