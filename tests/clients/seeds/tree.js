// Four ways to keep a tree.
// Loaded by ../seeds.js, which has the helpers.
/* global db, same, check, usesIndex, keys */

check("tree structures: parent reference", () => {
  db.categories.insertMany([
    { _id: "mongodb", parent: "databases", name: "MongoDB" },
    { _id: "databases", parent: "tech", name: "Databases" },
    { _id: "tech", parent: null, name: "Technology" }
  ]);
  // Find children of "databases"
  same(db.categories.find({ parent: "databases" }).toArray(), [{ _id: "mongodb", parent: "databases", name: "MongoDB" }]);
  same(keys(db.categories.find({ parent: null }).toArray()), ["tech"]);
  // All descendants, by following the references
  const [root] = db.categories.aggregate([
    { $match: { _id: "tech" } },
    { $graphLookup: { from: "categories", startWith: "$_id", connectFromField: "_id", connectToField: "parent", as: "below", depthField: "depth" } }
  ]).toArray();
  same(root.below.map((found) => [found._id, Number(found.depth)]).sort(), [["databases", 0], ["mongodb", 1]]);
});

check("tree structures: array of ancestors", () => {
  db.categories.insertMany([
    { _id: "mongodb", name: "MongoDB", ancestors: ["tech", "databases"] },
    { _id: "databases", name: "Databases", ancestors: ["tech"] },
    { _id: "tech", name: "Technology", ancestors: [] },
    { _id: "art", name: "Art", ancestors: [] }
  ]);
  // Find all descendants of "tech"
  same(keys(db.categories.find({ ancestors: "tech" }).toArray()).sort(), ["databases", "mongodb"]);
  db.categories.createIndex({ ancestors: 1 });
  same(keys(db.categories.find({ ancestors: "tech" }).toArray()).sort(), ["databases", "mongodb"]);
  const explained = db.categories.find({ ancestors: "tech" }).explain("executionStats");
  usesIndex(explained, "ancestors_1");
  same(explained.executionStats.totalDocsExamined, 2);
});

check("tree structures: materialized path", () => {
  db.categories.insertMany([
    { _id: "mongodb", path: ",tech,databases,mongodb,", name: "MongoDB" },
    { _id: "databases", path: ",tech,databases,", name: "Databases" },
    { _id: "tech", path: ",tech,", name: "Technology" },
    { _id: "old", path: ",tech,olddatabases,", name: "Old" }
  ]);
  // Find subtree
  same(keys(db.categories.find({ path: /,databases,/ }).toArray()).sort(), ["databases", "mongodb"]);
  // A path from the root on is a range of an index.
  db.categories.createIndex({ path: 1 });
  same(keys(db.categories.find({ path: /^,tech,databases,/ }).toArray()).sort(), ["databases", "mongodb"]);
  const explained = db.categories.find({ path: /^,tech,databases,/ }).explain("executionStats");
  usesIndex(explained, "path_1");
  same(explained.executionStats.totalDocsExamined, 2);
});

check("tree structures: nested sets", () => {
  db.categories.insertMany([
    { _id: "tech", name: "Technology", lft: 1, rgt: 10 },
    { _id: "languages", name: "Languages", lft: 2, rgt: 3 },
    { _id: "databases", name: "Databases", lft: 4, rgt: 9 },
    { _id: "mongodb", name: "MongoDB", lft: 5, rgt: 6 },
    { _id: "sqlite", name: "SQLite", lft: 7, rgt: 8 }
  ]);
  // Find all ancestors: find where lft < 5 AND rgt > 6
  same(keys(db.categories.find({ lft: { $lt: 5 }, rgt: { $gt: 6 } }).sort({ lft: 1 }).toArray()), ["tech", "databases"]);
  same(keys(db.categories.find({ lft: { $gt: 4 }, rgt: { $lt: 9 } }).sort({ lft: 1 }).toArray()), ["mongodb", "sqlite"]);
});
