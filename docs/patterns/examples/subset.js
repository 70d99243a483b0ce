// mongosh: the best reviews inside of a product. Run: mongosh <uri>/shop subset.js
db.products.drop();
db.reviews.drop();
db.products.insertOne({ _id: 1, name: "Lamp" });
db.runCommand({ createPatterns: "products", patterns: [{
  name: "top", kind: "subset", into: "top_reviews", from: "reviews", on: { local: "_id", foreign: "product" },
  sort: { rating: -1, _id: -1 }, limit: 2, fields: ["rating"], idAs: "review", count: "reviews"
}] });
db.reviews.insertMany([1, 5, 3, 4].map((rating, at) => ({ _id: at, product: 1, rating })));
db.reviews.deleteOne({ rating: 5 });
const product = db.products.findOne({ _id: 1 });
printjson(product);
if (EJSON.stringify(product.top_reviews.map(r => r.rating)) !== "[4,3]" || product.reviews !== 3) quit(1);
