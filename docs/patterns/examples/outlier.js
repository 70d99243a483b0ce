// mongosh: the comments of a viral post, in chunks. Run: mongosh <uri>/blog outlier.js
db.posts.drop();
db.runCommand({ createPatterns: "posts", patterns: [{
  name: "comments", kind: "outlier", array: "comments", keep: 50, spillAt: { count: 200 },
  flag: "has_overflow", count: "comment_count"
}] });
db.posts.createIndex({ "comments.author": 1 });
db.posts.insertMany([{ _id: "calm", title: "Tea" }, { _id: "viral", title: "Cats", likes: 0 }]);
const comments = [];
for (let n = 0; n < 20000; n++) comments.push({ author: "u" + n, text: "What a cat! ".repeat(5) });
db.posts.updateOne({ _id: "viral" }, { $push: { comments: { $each: comments } } });
db.posts.updateOne({ _id: "calm" }, { $push: { comments: { author: "u7", text: "Nice." } } });
printjson(db.posts.find({ "comments.author": "u7" }, { title: 1, has_overflow: 1, comment_count: 1 }).toArray());
const read = (projection) =>
  db.posts.find({ _id: "viral" }, projection).explain("executionStats").executionStats.bytesRead;
const [page, all] = [db.posts.findOne({ _id: "viral" }).comments.length, read({ comments: { $slice: 20000 } })];
const listing = read({ title: 1, likes: 1, comment_count: 1 });
print("shown: " + page + " comments; all: " + all + " bytes, the listing: " + listing + " bytes");
const [last] = db.posts.aggregate([{ $match: { _id: "viral" } }, { $unwind: "$comments" }, { $count: "n" }]).toArray();
if (page !== 50 || last.n !== 20000 || listing > all / 50 || db.posts.countDocuments({ has_overflow: true }) !== 1) quit(1);
