// mongosh: descriptions stored apart from their products. Run: mongosh <uri>/shop cold-fields.js
db.products.drop();
db.runCommand({ createPatterns: "products", patterns: [{
  name: "cold", kind: "subset", cold: ["description"], inlineBelow: 512
}] });
const products = [];
for (let id = 0; id < 20; id++) products.push({ _id: id, name: "Lamp " + id, description: "bright ".repeat(20000), price: 10 });
db.products.insertMany(products);
db.products.updateOne({ _id: 3 }, { $inc: { price: 1 } });
const read = (projection) =>
  db.products.find({}, projection).explain("executionStats").executionStats.bytesRead;
const [all, listing] = [read({}), read({ name: 1, price: 1 })];
print("all: " + all + " bytes, the listing: " + listing + " bytes");
const lamp = db.products.findOne({ _id: 3 });
if (listing > all / 100 || lamp.price !== 11 || lamp.description.length !== 140000) quit(1);
