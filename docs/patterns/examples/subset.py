"""pymongo: the newest comments inside of a post. Run: MONGODB_URI=... python subset.py"""

import os

import pymongo

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_subset"]
db.client.drop_database(db.name)

db.posts.insert_one({"_id": "hello"})
db.command("createPatterns", "posts", patterns=[{
    "name": "newest", "kind": "subset", "into": "newest", "from": "comments",
    "on": {"local": "_id", "foreign": "post"}, "filter": {"spam": {"$ne": True}},
    "sort": {"at": -1}, "limit": 3, "fields": ["text"], "count": "comments",
}])
db.comments.insert_many(
    {"_id": n, "post": "hello", "at": n, "text": f"comment {n}"} for n in range(10)
)
db.comments.update_one({"_id": 9}, {"$set": {"spam": True}})
post = db.posts.find_one()
print(post)
assert [comment["_id"] for comment in post["newest"]] == [8, 7, 6]
assert post["comments"] == 9
