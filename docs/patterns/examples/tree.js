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
