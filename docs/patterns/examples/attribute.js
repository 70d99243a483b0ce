// mongosh: products with any attributes. Run: mongosh <uri>/shop attribute.js
db.products.drop();
db.runCommand({ createPatterns: "products", patterns: [{
  name: "specs", kind: "attribute", from: "specs", as: "specs_kv", index: { suffix: ["price"] }
}] });
db.products.insertMany([
  { _id: 1, price: 900, specs: { cpu: "i7", ram: 32, ports: ["usb", "hdmi"] } },
  { _id: 2, price: 500, specs: { cpu: "i5", ram: 8 } },
  { _id: 3, price: 70, specs_kv: [{ k: "watt", v: 40 }] }
]);
const filter = { specs_kv: { $elemMatch: { k: "ram", v: { $gte: 16 } } } };
const plan = db.products.find(filter).explain("executionStats");
const keys = db.products.distinct("specs_kv.k").sort();
printjson(keys);
if (plan.executionStats.totalDocsExamined !== 1) quit(1);
if (db.products.findOne({ _id: 3 }).specs.watt !== 40) quit(1);
if (EJSON.stringify(keys) !== '["cpu","ports","ram","watt"]') quit(1);
