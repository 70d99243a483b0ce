// mongosh: products of several types. Run: mongosh <uri>/shop polymorphic.js
db.products.drop();
db.products.insertMany([
  { _id: 1, type: "book", title: "A", author: "B", pages: 320 },
  { _id: 2, type: "dvd", title: "C", duration: 120, region: 1 },
  { _id: 3, title: "D", author: "E", pages: 12 }
]);
db.runCommand({ createPatterns: "products", patterns: [{
  name: "productTypes", kind: "polymorphic", discriminator: "type", common: { required: ["title"] },
  types: {
    book: { required: ["author", "pages"], indexes: [{ pages: 1 }] },
    dvd: { required: ["duration"], properties: { region: { bsonType: "int" } } }
  },
  infer: [{ if: { pages: { $exists: true } }, then: "book" }],
  transitions: { allow: [["dvd", "book"]] },
  views: true
}] });
if (db.products.findOne({ _id: 3 }).type !== "book") quit(1);
try {
  db.products.insertOne({ type: "book", title: "F" });
  quit(1);
} catch (error) {
  printjson(error.errInfo);
  if (error.code !== 121 || error.errInfo.type !== "book") quit(1);
}
db.products.updateOne({ _id: 2 }, { $set: { type: "book", author: "G", pages: 10 } });
if ("region" in db.products.findOne({ _id: 2 })) quit(1);
const listed = db.runCommand({ listPatterns: "products" }).cursor.firstBatch[0];
printjson(listed.types);
if (listed.types.book.documents !== 3 || listed.types.dvd.documents !== 0) quit(1);
const books = db.getCollection("products.book");
books.insertOne({ _id: 9, title: "Y", author: "Z", pages: 5 });
if (db.products.findOne({ _id: 9 }).type !== "book") quit(1);
const plan = db.products.find({ pages: { $gt: 200 } }).explain("executionStats");
if (plan.executionStats.totalKeysExamined !== 1) quit(1);
if (books.countDocuments({}) !== 4) quit(1);
