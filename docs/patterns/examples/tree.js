// mongosh: categories that know their ancestors. Run: mongosh <uri>/shop tree.js
db.categories.drop();
db.runCommand({ createPatterns: "categories", patterns: [{
  name: "tree", kind: "tree", parent: "parent",
  maintain: { ancestors: "ancestors", path: { into: "path" }, depth: "depth" }, onMissingParent: "defer"
}] });
// In any order: nodes that come before their parent wait for it.
db.categories.insertMany([
  { _id: "mongodb", parent: "databases" }, { _id: "databases", parent: "tech" }, { _id: "tech" }, { _id: "software" }
]);
db.categories.updateOne({ _id: "databases" }, { $set: { parent: "software" } });
const node = db.categories.findOne({ _id: "mongodb" });
printjson(node);
if (node.path !== ",software,databases,mongodb," || node.depth !== 2) quit(1);

// The same, resolved when it is read: a move writes one document, whatever stands below it.
db.runCommand({ modifyPattern: "categories", name: "tree", set: { strategy: "pointer" } });
db.categories.updateOne({ _id: "databases" }, { $set: { parent: "tech" } });
const moved = db.categories.find({ ancestors: "tech" }).sort({ _id: 1 }).toArray();
printjson(moved);
if (moved.length !== 2 || moved[1].path !== ",tech,databases,mongodb,") quit(1);
