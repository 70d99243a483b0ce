"""pymongo: readers of articles, with bounds. Run: MONGODB_URI=... python approximation.py"""

import os

import pymongo

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_approximation"]
db.client.drop_database(db.name)

db.articles.insert_one({"_id": "tea"})
db.command("createPatterns", "articles", patterns=[{
    "name": "audience", "kind": "approximation", "from": "views", "on": "article",
    "fields": {"readers": {"distinct": "$user", "error": 0.02}}, "expose": "value+bounds",
}])
db.views.insert_many({"article": "tea", "user": f"user {n}"} for n in range(5000))
readers = db.articles.find_one()["readers"]
print(readers)
assert readers["confidence"] == 0.95
assert readers["low"] <= readers["value"] <= readers["high"]
assert abs(readers["value"] / 5000 - 1) <= 0.06
db.views.delete_many({})
readers = db.articles.find_one()["readers"]
assert (readers["value"], readers["low"], readers["high"]) == (0, 0, 0)
