// Fields that differ from document to document: the attribute and the polymorphic pattern.
// Loaded by ../seeds.js, which has the helpers.
/* global db, oid, same, holds, check, plan, usesIndex, scansAll, names, keys, ISODate */

// ---- Attribute

check("attribute pattern: sparse fields before it", () => {
  const artwork = {
    "_id": oid("starry night"),
    "title": "Starry Night",
    "artist": "van Gogh",
    "date_acquisition": ISODate("1941-01-01"),
    "location": "Gallery 502",
    "on_display": true,
    "in_house": true,
    "events": {
      "moma": ISODate("1980-06-01"),
      "louvres": ISODate("1985-09-15"),
      "met": ISODate("1990-03-20")
    }
  };
  db.artworks.insertOne(artwork);
  same(db.artworks.findOne(), artwork);
  same(db.artworks.countDocuments({ "events.moma": { $lt: ISODate("1985-01-01") } }), 1);
  same(db.artworks.countDocuments({ "events.moma": { $gte: ISODate("1985-01-01") } }), 0);
});

check("attribute pattern: artworks by event venue", () => {
  db.artworks.insertMany([
    {
      "_id": oid("starry night"),
      "title": "Starry Night",
      "artist": "van Gogh",
      "location": "Gallery 502",
      "on_display": true,
      "in_house": true,
      "events": [
        { "k": "moma", "v": ISODate("1980-06-01") },
        { "k": "louvres", "v": ISODate("1985-09-15") },
        { "k": "met", "v": ISODate("1990-03-20") }
      ]
    },
    // At MOMA after 1985, never at the Louvre.
    { "_id": oid("the scream"), "title": "The Scream", "events": [{ "k": "moma", "v": ISODate("1988-02-01") }] },
    { "_id": oid("mona lisa"), "title": "Mona Lisa", "events": [{ "k": "louvres", "v": ISODate("1797-01-01") }] },
    { "_id": oid("the kiss"), "title": "The Kiss", "events": [] }
  ]);
  const titles = (documents) => documents.map((document) => document.title).sort();
  const asked = [
    { "events.k": "louvres" },
    { "events": { $elemMatch: { k: "moma", v: { $gte: ISODate("1985-01-01") } } } }
  ];
  const expected = [["Mona Lisa", "Starry Night"], ["The Scream"]];
  for (let n = 0; n < asked.length; n++) {
    same(titles(db.artworks.find(asked[n]).toArray()), expected[n]);
    scansAll(db.artworks.find(asked[n]).explain());
  }
  same(db.artworks.createIndex({ "events.k": 1, "events.v": 1 }), "events.k_1_events.v_1");
  for (let n = 0; n < asked.length; n++) {
    same(titles(db.artworks.find(asked[n]).toArray()), expected[n]);
    const explained = db.artworks.find(asked[n]).explain("executionStats");
    usesIndex(explained, "events.k_1_events.v_1");
    same(plan(explained).multikey, true);
    same(explained.executionStats.nReturned, expected[n].length);
    // Both parts of one element bound the scan: no other document is read.
    same(explained.executionStats.totalDocsExamined, expected[n].length);
  }
  // Without $elemMatch, the conditions may be met by different elements.
  same(titles(db.artworks.find({ "events.k": "moma", "events.v": { $gte: ISODate("1985-01-01") } }).toArray()), ["Starry Night", "The Scream"]);
});

check("attribute pattern: specifications of different products", () => {
  const first = db.products.insertOne({
    "sku": "LAP-001",
    "name": "UltraBook Pro",
    "category": "laptop",
    "specs": [
      { "k": "cpu", "v": "Intel i7-13700H" },
      { "k": "ram", "v": "32GB DDR5" },
      { "k": "storage", "v": "1TB NVMe" },
      { "k": "screen", "v": "14-inch 2880x1800" }
    ]
  });
  const second = db.products.insertOne({
    "sku": "SHT-002",
    "name": "Cotton Oxford",
    "category": "shirt",
    "specs": [
      { "k": "material", "v": "100% Cotton" },
      { "k": "size", "v": "M" },
      { "k": "color", "v": "Navy" }
    ]
  });
  same([first.acknowledged, second.acknowledged], [true, true]);
  same(keys(db.products.find().sort({ sku: 1 }).toArray()), [first.insertedId, second.insertedId]);
  same(names(db.products.find({ specs: { $elemMatch: { k: "size", v: "M" } } }).toArray()), ["Cotton Oxford"]);
  same(names(db.products.find({ specs: { $elemMatch: { k: "color", v: "M" } } }).toArray()), []);
});

check("attribute pattern: a chair's specifications and their index", () => {
  const before = { "_id": "product0", "name": "Gaming Chair", "color": "black", "weight_kg": 15, "max_load_kg": 120, "material": "leather" };
  const after = {
    "_id": "product1",
    "name": "Gaming Chair",
    "specs": [
      { "k": "color", "v": "black" },
      { "k": "weight_kg", "v": 15 },
      { "k": "max_load_kg", "v": 120 },
      { "k": "material", "v": "leather" }
    ]
  };
  // Has black, but not as its color.
  const other = { "_id": "product2", "name": "Stool", "specs": [{ "k": "color", "v": "red" }, { "k": "legs", "v": "black" }] };
  db.products.insertMany([before, after, other]);
  db.products.createIndex({ "specs.k": 1, "specs.v": 1 })
  same(db.products.find({ specs: { $elemMatch: { k: "color", v: "black" } } }).toArray(), [after]);
  same(keys(db.products.find({ specs: { $elemMatch: { k: "weight_kg", v: { $gte: 10, $lt: 20 } } } }).toArray()), ["product1"]);
  const explained = db.products.find({ specs: { $elemMatch: { k: "color", v: "black" } } }).explain("executionStats");
  usesIndex(explained, "specs.k_1_specs.v_1");
  same(explained.executionStats.totalDocsExamined, 1);
});

// ---- Polymorphic

check("polymorphic pattern", () => {
  const products = [
    { _id: 1, type: "book",     title: "MongoDB Guide", author: "Joe", pages: 320 },
    { _id: 2, type: "dvd",      title: "MongoDB in Action", duration: 120, region: 1 },
    { _id: 3, type: "clothing", title: "Dev Hoodie", size: "L", color: "black" },
    { _id: 4, type: "book",     title: "Leaflet", pages: 12 }
  ];
  db.products.insertMany(products);
  for (const indexed of [false, true]) {
    // Index on common field
    if (indexed) same(db.products.createIndex({ type: 1, title: 1 }), "type_1_title_1");
    // Query all types by common field
    same(keys(db.products.find({ title: /MongoDB/ }).toArray()).sort(), [1, 2]);
    // Type-specific query
    same(db.products.find({ type: "book", pages: { $gt: 200 } }).toArray(), [products[0]]);
    const explained = db.products.find({ type: "book", pages: { $gt: 200 } }).explain("executionStats");
    if (indexed) usesIndex(explained, "type_1_title_1");
    else scansAll(explained);
    same(explained.executionStats.nReturned, 1);
    same(explained.executionStats.totalDocsExamined, indexed ? 2 : 4);
  }
  same(keys(db.products.find({ type: "book" }).sort({ title: 1 }).toArray()), [4, 1]);
  holds(!plan(db.products.find({ type: "book" }).sort({ title: 1 }).explain()).stages.includes("SORT"), "the index gives the order");
});
