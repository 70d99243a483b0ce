// mongosh: orders that carry the name of their customer. Run: mongosh <uri>/shop extended-reference.js
db.customers.drop();
db.orders.drop();
db.customers.insertMany([{ _id: 1, name: "Ann", email: "a@x" }, { _id: 2, name: "Bob" }]);
db.runCommand({ createPatterns: "orders", patterns: [{
  name: "customer", kind: "extendedReference", ref: "customer._id", from: "customers",
  fields: ["name", "email"], into: "customer", onSourceDelete: "restrict"
}] });

db.orders.insertMany([{ _id: 10, customer: { _id: 1 }, total: 5 }, { _id: 11, customer: { _id: 2 } }]);
db.customers.updateOne({ _id: 1 }, { $set: { name: "Anna" } });
const order = db.orders.findOne({ _id: 10 });
printjson(order);
if (order.customer.name !== "Anna" || order.customer.email !== "a@x") quit(1);

try {
  db.customers.deleteOne({ _id: 1 });
  quit(1);
} catch (error) {
  if (error.code !== 96001) throw error;
  print(error.message);
}
