// mongosh: a hierarchy of books. Run: mongosh <uri>/shop inheritance.js
db.books.drop();
db.runCommand({ createPatterns: "books", patterns: [{
  name: "media", kind: "inheritance", discriminator: "product_type",
  root: { name: "book", abstract: true, required: ["title"] },
  types: {
    printed: { required: ["isbn"] },
    ebook: { required: ["download_url"] },
    enhanced_ebook: { extends: "ebook", required: ["media"] }
  },
  views: true
}] });
db.books.insertMany([
  { _id: 1, product_type: "printed", title: "A", isbn: "B" },
  { _id: 2, product_type: "ebook", title: "C", download_url: "D" }
]);
db.getCollection("books.enhanced_ebook").insertOne({ _id: 3, title: "E", download_url: "F", media: "G" });
const ebooks = db.getCollection("books.ebook").find().sort({ _id: 1 }).toArray();
printjson(ebooks);
if (EJSON.stringify(ebooks.map(doc => doc._id)) !== "[2,3]") quit(1);
if (EJSON.stringify(ebooks[1]._types) !== '["book","ebook","enhanced_ebook"]') quit(1);
db.getCollection("books.ebook").deleteMany({});
if (db.books.countDocuments({}) !== 1) quit(1);
