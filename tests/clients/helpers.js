// mongosh with the file of `motif shell-helpers`: patterns as methods of collections.
/* global db, print, quit, EJSON */
function same(found, expected) {
  const [a, b] = [EJSON.stringify(found), EJSON.stringify(expected)];
  if (a !== b) throw new Error(`expected ${b}, found ${a}`);
}
db.dropDatabase();
db.products.insertOne({ _id: 1 });
db.reviews.insertMany([{ _id: 1, product_id: 1 }, { _id: 2, product_id: 1 }]);
const declaration = { name: "reviews", kind: "computed", from: "reviews", on: { local: "_id", foreign: "product_id" }, fields: { count: { $count: {} } } };
same(db.products.createPattern(declaration).ok, 1);
same(db.products.findOne().count, 2);
same(db.products.getPatterns().map((pattern) => pattern.name), ["reviews"]);
same(db.getPatterns().length, 1);
same(db.reviews.getPatterns(), []);
same(db.products.validatePatterns().ok, 1);
same(db.products.modifyPattern("reviews", { rewrite: false }).ok, 1);
same(db.products.suspendPatterns(["reviews"]).ok, 1);
db.reviews.insertOne({ _id: 3, product_id: 1 });
same(db.products.findOne().count, 2);
same(db.products.resumePatterns(["reviews"]).ok, 1);
same(db.products.findOne().count, 3);
same(db.products.dropPattern("reviews").ok, 1);
same(db.products.findOne(), { _id: 1 });
let refused = "";
try {
  db.products.createPattern({ kind: "nonsense" });
} catch (error) {
  refused = error.message;
}
if (!refused.includes("nonsense")) throw new Error(`an error of the server is shown: ${refused}`);
db.dropDatabase();
print("helpers: passed");
