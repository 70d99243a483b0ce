// mongosh: sales figures of products that follow every order. Run: mongosh <uri>/shop computed.js
db.products.drop();
db.orders.drop();
db.products.insertMany([{ _id: "pen", name: "Pen" }, { _id: "ink", name: "Ink" }]);
db.runCommand({ createPatterns: "products", patterns: [{
  name: "sales", kind: "computed", from: "orders", on: { local: "_id", foreign: "product" },
  filter: { status: { $ne: "cancelled" } },
  fields: { revenue: { $sum: { $multiply: ["$price", "$quantity"] } }, orders: { $count: {} }, best: { $max: "$price" } }
}] });

db.orders.insertMany([
  { _id: 1, product: "pen", price: 10, quantity: 2 },
  { _id: 2, product: "pen", price: 5, quantity: 1 }
]);
printjson(db.products.findOne({ _id: "pen" }));
db.orders.updateOne({ _id: 1 }, { $set: { status: "cancelled" } });
const pen = db.products.findOne({ _id: "pen" });
printjson(pen);
if (pen.revenue !== 5 || pen.orders !== 1 || pen.best !== 5) quit(1);

// Maintained fields belong to the database.
try {
  db.products.updateOne({ _id: "pen" }, { $set: { revenue: 1000000 } });
  quit(1);
} catch (error) {
  if (error.code !== 96001) throw error;
  print(error.message);
}
