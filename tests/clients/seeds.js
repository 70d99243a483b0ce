// mongosh: the schema design patterns that MotifDB is made for, as their users type them. Every
// pattern starts with an empty database, runs its statements and checks what they answer.
// Prints pass counts; a failure ends with a non-zero status.
//
// Left out until the server has change streams:
// - Computed Pattern: «Automating Computation with a Change Stream»
/* global db, print, quit, EJSON, ISODate, ObjectId */
let passed = 0;
const failures = [];
function check(title, body) {
  try {
    db.dropDatabase();
    body();
    passed++;
  } catch (error) {
    failures.push(title);
    print(`not ok: ${title}: ${error.message}`);
  }
}
function same(found, expected) {
  const [a, b] = [EJSON.stringify(found), EJSON.stringify(expected)];
  if (a !== b) throw new Error(`expected ${b}, found ${a}`);
}
function holds(condition, what) {
  if (!condition) throw new Error(`does not hold: ${what}`);
}
function fails(code, body) {
  try {
    body();
  } catch (error) {
    if (error.code === code) return;
    throw new Error(`expected code ${code}, found ${error.code}: ${error.message}`);
  }
  throw new Error(`expected code ${code}, but it succeeded`);
}
// A readable name stands for the same identifier everywhere.
const identifiers = {};
function oid(name) {
  identifiers[name] ??= new ObjectId();
  return identifiers[name];
}
// The stages of the winning plan from the root down, and the indexes that they read.
function plan(explained) {
  const found = { stages: [], indexes: [], multikey: false };
  const open = [explained.queryPlanner.winningPlan];
  while (open.length > 0) {
    const stage = open.shift();
    if (stage.stage) found.stages.push(stage.stage);
    if (stage.indexName) found.indexes.push(stage.indexName);
    if (stage.isMultiKey) found.multikey = true;
    for (const below of [stage.queryPlan, stage.inputStage, ...(stage.inputStages ?? [])]) {
      if (below) open.push(below);
    }
  }
  return found;
}
function usesIndex(explained, name) {
  const found = plan(explained);
  same(found.indexes, [name]);
  holds(found.stages.includes("IXSCAN") && !found.stages.includes("COLLSCAN"), `an index scan in ${found.stages}`);
}
function scansAll(explained) {
  const found = plan(explained);
  same(found.indexes, []);
  holds(found.stages.includes("COLLSCAN"), `a collection scan in ${found.stages}`);
}
const names = (documents) => documents.map((document) => document.name);
const keys = (documents) => documents.map((document) => document._id);

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

// ---- Extended reference

check("extended reference pattern: suppliers in products", () => {
  // suppliers collection (source of truth)
  db.suppliers.insertOne({
    "_id": oid("sup001"),
    "name": "Acme Corp",
    "contact_name": "Jane Doe",
    "phone": "+1-555-0123",
    "email": "jane@example.com",
    "address": {
      "street": "123 Industrial Blvd",
      "city": "Detroit",
      "state": "MI",
      "zip": "48201"
    },
    "billing_terms": "NET30",
    "contract_expires": ISODate("2027-01-01")
  })
  // products collection (carries frequently-used supplier fields)
  db.products.insertOne({
    "_id": oid("prod001"),
    "name": "Widget X-200",
    "price": 29.99,
    "sku": "WG-X200",
    "supplier": {
      "_id": oid("sup001"),
      "name": "Acme Corp",
      "phone": "+1-555-0123"
    }
  })
  db.products.insertMany([
    { "_id": oid("prod002"), "name": "Widget X-300", "sku": "WG-X300", "supplier": { "_id": oid("sup001"), "name": "Acme Corp", "phone": "+1-555-0123" } },
    { "_id": oid("prod003"), "name": "Gear", "sku": "GR-1", "supplier": { "_id": oid("sup002"), "name": "Gears Ltd", "phone": "+1-555-7777" } }
  ]);

  same(db.products.find({ "sku": "WG-X200" }, {
    "name": 1,
    "price": 1,
    "supplier.name": 1,
    "supplier.phone": 1
  }).toArray(), [{ "_id": oid("prod001"), "name": "Widget X-200", "price": 29.99, "supplier": { "name": "Acme Corp", "phone": "+1-555-0123" } }]);

  const product = db.products.findOne({ "sku": "WG-X200" })
  const fullSupplier = db.suppliers.findOne({ "_id": product.supplier._id })
  same([fullSupplier.contact_name, fullSupplier.address.city, fullSupplier.contract_expires], ["Jane Doe", "Detroit", ISODate("2027-01-01")]);

  // Update the source
  const source = db.suppliers.updateOne(
    { "_id": oid("sup001") },
    { $set: { "phone": "+1-555-9999" } }
  )
  same([source.matchedCount, source.modifiedCount, source.upsertedCount], [1, 1, 0]);
  // Update all product copies (batch or background job)
  const copies = db.products.updateMany(
    { "supplier._id": oid("sup001") },
    { $set: { "supplier.phone": "+1-555-9999" } }
  )
  same([copies.matchedCount, copies.modifiedCount], [2, 2]);
  same(db.suppliers.findOne().phone, "+1-555-9999");
  same(db.products.find().sort({ sku: 1 }).toArray().map((found) => found.supplier.phone), ["+1-555-7777", "+1-555-9999", "+1-555-9999"]);
  // The rest of the copy stays, in its order.
  same(db.products.findOne({ "sku": "WG-X200" }).supplier, { "_id": oid("sup001"), "name": "Acme Corp", "phone": "+1-555-9999" });
});

check("extended reference pattern: an order keeps its shipping address", () => {
  const order = {
    "order_id": "ORD-2026-001",
    "items": [ { "sku": "WG-X200", "qty": 2, "price": 29.99 } ],
    "total": 59.98,
    "customer": {
      "_id": oid("cust001"),
      "name": "Alice Smith",
      "shipping_address": {
        "street": "456 Oak Ave",
        "city": "Portland",
        "state": "OR",
        "zip": "97201"
      }
    },
    "created_at": ISODate("2026-04-20")
  };
  const { insertedId } = db.orders.insertOne(order)
  same(db.orders.findOne({ "customer._id": oid("cust001") }, { _id: 0, "customer.shipping_address.city": 1, items: 1 }),
    { items: [{ sku: "WG-X200", qty: 2, price: 29.99 }], customer: { shipping_address: { city: "Portland" } } });
  same(db.orders.findOne({ "items.sku": "WG-X200" })._id, insertedId);
});

check("extended reference pattern: names copied into orders", () => {
  db.orders.insertMany([
    {
      _id: oid("order1"),
      userId: oid("user1"),
      // Duplicated from users to avoid $lookup on every read
      customerName: "Alice",
      customerEmail: "alice@example.com",
      total: 97.17
    },
    { _id: oid("order2"), userId: oid("user2"), customerName: "Bob", customerEmail: "bob@example.com", total: 5 }
  ]);
  db.users.insertOne({ _id: oid("user1"), name: "Alice" });
  // Both change when the customer's name does.
  same(db.users.updateOne({ _id: oid("user1") }, { $set: { name: "Alicia" } }).modifiedCount, 1);
  same(db.orders.updateMany({ userId: oid("user1") }, { $set: { customerName: "Alicia" } }).modifiedCount, 1);
  same(db.orders.find({}, { _id: 0, customerName: 1 }).sort({ total: 1 }).toArray(), [{ customerName: "Bob" }, { customerName: "Alicia" }]);

  const order = {
    "_id": "order101",
    "customer": {
      "_id": "user123",
      "name": "Alice",
      "email": "alice@example.com"
    },
    "items": [{ "sku": "CHAIR", "qty": 1 }],
    "total": 4999
  };
  db.orders.insertOne(order);
  same(db.orders.findOne({ "customer._id": "user123" }), order);
});

// ---- Subset

check("subset pattern: products with their top reviews", () => {
  // Primary collection — frequently accessed, small documents
  db.products.insertOne({
    "_id": oid("prod001"),
    "name": "UltraBook Pro",
    "price": 1299.99,
    "rating_avg": 4.5,
    "review_count": 10234,
    "top_reviews": [
      {
        "review_id": oid("rev9999"),
        "rating": 5,
        "headline": "Best laptop I have owned",
        "author": "tech_guru",
        "created_at": ISODate("2026-04-01")
      },
      {
        "review_id": oid("rev10000"),
        "rating": 4,
        "headline": "Great but battery could be better",
        "author": "nomad_dev",
        "created_at": ISODate("2026-04-15")
      }
    ]
  })
  // Secondary collection — full details, less frequently accessed
  db.reviews.insertOne({
    "_id": oid("rev9999"),
    "product_id": oid("prod001"),
    "rating": 5,
    "headline": "Best laptop I have owned",
    "body": "I have been using this for three months. The build quality is exceptional...",
    "author": "tech_guru",
    "helpful_count": 342,
    "created_at": ISODate("2026-04-01")
  })
  const top = db.products.findOne({ _id: oid("prod001") }).top_reviews;
  same(top.map((review) => review.rating), [5, 4]);
  same(db.reviews.findOne({ _id: top[0].review_id }).helpful_count, 342);

  // 34 older reviews, one a day, and another product's between them.
  const more = [];
  for (let day = 1; day <= 34; day++) {
    const created_at = new Date(ISODate("2026-04-01").getTime() - day * 86400000);
    more.push({ "product_id": oid("prod001"), "headline": `day ${day}`, created_at });
    more.push({ "product_id": oid("prod002"), "headline": `other ${day}`, created_at });
  }
  // Not in the order of the dates.
  more.sort((a, b) => (a.headline < b.headline ? -1 : 1));
  db.reviews.insertMany(more);

  const page = Array.from({ length: 10 }, (_, n) => `day ${20 + n}`);
  const unindexed = db.reviews.find({ "product_id": oid("prod001") })
    .sort({ "created_at": -1 })
    .skip(20)
    .limit(10)
    .toArray();
  same(unindexed.map((review) => review.headline), page);
  holds(plan(db.reviews.find({ "product_id": oid("prod001") }).sort({ "created_at": -1 }).explain()).stages.includes("SORT"), "a sort without an index");

  // Primary collection index — light, fits in RAM
  same(db.products.createIndex({ "rating_avg": -1 }), "rating_avg_-1");
  // Secondary collection index — supports pagination
  same(db.reviews.createIndex({ "product_id": 1, "created_at": -1 }), "product_id_1_created_at_-1");

  const indexed = db.reviews.find({ "product_id": oid("prod001") })
    .sort({ "created_at": -1 })
    .skip(20)
    .limit(10)
    .toArray();
  same(indexed, unindexed);
  const explained = db.reviews.find({ "product_id": oid("prod001") }).sort({ "created_at": -1 }).skip(20).limit(10).explain("executionStats");
  usesIndex(explained, "product_id_1_created_at_-1");
  holds(!plan(explained).stages.includes("SORT"), "no sort with the index");
  same(explained.executionStats.nReturned, 10);
  same(explained.executionStats.totalKeysExamined, 30);
  // The last page is short, and behind it is nothing.
  same(db.reviews.find({ "product_id": oid("prod001") }).sort({ "created_at": -1 }).skip(30).limit(10).toArray().length, 5);
  same(db.reviews.find({ "product_id": oid("prod001") }).sort({ "created_at": -1 }).skip(40).limit(10).toArray(), []);

  const best = db.products.find().sort({ "rating_avg": -1 }).limit(50).explain();
  usesIndex(best, "rating_avg_-1");
  holds(!plan(best).stages.includes("SORT"), "no sort with the index");
});

// ---- Computed

check("computed pattern: revenue stored on the product", () => {
  db.products.insertMany([{ "_id": oid("prod001"), "name": "UltraBook Pro" }, { "_id": oid("prod002"), "name": "Mouse" }]);
  const result = db.products.updateOne(
    { "_id": oid("prod001") },
    { $set: { "total_revenue": 152340.50, "total_units_sold": 1124 } }
  )
  same([result.matchedCount, result.modifiedCount], [1, 1]);
  same(db.products.find().sort({ _id: 1 }).toArray(), [
    { "_id": oid("prod001"), "name": "UltraBook Pro", "total_revenue": 152340.5, "total_units_sold": 1124 },
    { "_id": oid("prod002"), "name": "Mouse" }
  ].sort((a, b) => (String(a._id) < String(b._id) ? -1 : 1)));
});

check("computed pattern: the aggregation that it saves", () => {
  db.orders.insertMany([
    { "product_id": oid("prod001"), "price": 10.5, "quantity": 2 },
    { "product_id": oid("prod002"), "price": 99, "quantity": 9 },
    { "product_id": oid("prod001"), "price": 20.25, "quantity": 3 }
  ]);
  same(db.orders.aggregate([
    { $match: { "product_id": oid("prod001") } },
    { $group: {
        _id: "$product_id",
        total_revenue: { $sum: { $multiply: ["$price", "$quantity"] } },
        total_units: { $sum: "$quantity" }
    }}
  ]).toArray(), [{ _id: oid("prod001"), total_revenue: 81.75, total_units: 5 }]);
});

check("computed pattern: recomputed by a scheduled job", () => {
  db.products.insertMany([
    { "_id": 1, "name": "UltraBook Pro", "total_revenue": 1 },
    { "_id": 2, "name": "Mouse", "price": 5 },
    { "_id": 3, "name": "Never sold" }
  ]);
  db.orders.insertMany([
    { "product_id": 1, "revenue": 100.5, "quantity": 1 },
    { "product_id": 1, "revenue": 200, "quantity": 2 },
    { "product_id": 2, "revenue": 15, "quantity": 3 },
    { "product_id": 9, "revenue": 1000, "quantity": 10 }
  ]);
  // Running it again changes nothing.
  for (let run = 0; run < 2; run++) {
    same(db.products.aggregate([
      { $lookup: {
          from: "orders",
          localField: "_id",
          foreignField: "product_id",
          as: "orders"
      }},
      { $addFields: {
          "total_revenue": { $sum: "$orders.revenue" },
          "total_units_sold": { $sum: "$orders.quantity" }
      }},
      { $unset: "orders" },
      { $merge: { into: "products", on: "_id", whenMatched: "merge" } }
    ]).toArray(), []);
    same(db.products.find().sort({ _id: 1 }).toArray(), [
      { "_id": 1, "name": "UltraBook Pro", "total_revenue": 300.5, "total_units_sold": 3 },
      { "_id": 2, "name": "Mouse", "price": 5, "total_revenue": 15, "total_units_sold": 3 },
      { "_id": 3, "name": "Never sold", "total_revenue": 0, "total_units_sold": 0 }
    ]);
  }
});

check("computed pattern: a leaderboard", () => {
  db.players.insertMany(Array.from({ length: 150 }, (_, n) => ({ "_id": n, "rank_score": (n * 7) % 150, "matches_played": 1 })));
  const match = { winner_id: 0, points_earned: 1000 };
  for (let played = 0; played < 2; played++) {
    // After each match, increment the winner's score atomically
    same(db.players.updateOne(
      { "_id": match.winner_id },
      { $inc: { "rank_score": match.points_earned, "matches_played": 1 } }
    ).modifiedCount, 1);
  }
  // Leaderboard query is now a simple sort
  const leaders = db.players.find().sort({ "rank_score": -1 }).limit(100).toArray();
  same(leaders[0], { "_id": 0, "rank_score": 2000, "matches_played": 3 });
  // 7 has no divisor in common with 150, so that every score from 1 to 149 has one player.
  same(leaders.map((player) => player.rank_score), [2000, ...Array.from({ length: 99 }, (_, n) => 149 - n)]);
});

check("computed pattern: totals of an order", () => {
  const order = {
    _id: oid("order1"),
    userId: oid("user1"),
    items: [{ sku: "A", price: 29.99, qty: 3 }],
    subtotal: 89.97,    // pre-computed
    tax:      7.20,
    total:   97.17      // pre-computed
  };
  db.orders.insertOne(order);
  same(db.orders.findOne({ total: { $gt: 97 } }), order);
  same(db.orders.aggregate([{ $project: { _id: 0, matches: { $eq: ["$total", { $round: [{ $add: ["$subtotal", "$tax"] }, 2] }] } } }]).toArray(), [{ matches: true }]);
});

check("computed pattern: an average rating kept on write", () => {
  db.products.insertOne({
    "_id": "product1",
    "name": "Gaming Chair",
    "review_count": 1482,
    "avg_rating": 4.3,
    "rating_sum": 6373
  });
  // A new review: increment the count and the sum, then recompute the average.
  same(db.products.updateOne({ _id: "product1" }, { $inc: { review_count: 1, rating_sum: 5 } }).modifiedCount, 1);
  same(db.products.updateOne({ _id: "product1" }, [{ $set: { avg_rating: { $round: [{ $divide: ["$rating_sum", "$review_count"] }, 3] } } }]).modifiedCount, 1);
  same(db.products.findOne(), { "_id": "product1", "name": "Gaming Chair", "review_count": 1483, "avg_rating": 4.301, "rating_sum": 6378 });
});

check("computed pattern: monthly revenue for a dashboard", () => {
  db.orders.insertMany([
    { customer_id: 1, total: 10, created_at: ISODate("2026-03-31T23:59:59Z") },
    { customer_id: 2, total: 20.5, created_at: ISODate("2026-04-01T00:00:00Z") },
    { customer_id: 1, total: 30, created_at: ISODate("2026-04-30T12:00:00Z") }
  ]);
  db.orders.aggregate([
    { $group: { _id: { $dateToString: { format: "%Y-%m", date: "$created_at" } }, revenue: { $sum: "$total" }, orders: { $sum: 1 } } },
    { $merge: { into: "monthly_revenue", on: "_id", whenMatched: "replace", whenNotMatched: "insert" } }
  ]);
  // The current month goes on with every order.
  db.monthly_revenue.updateOne({ _id: "2026-04" }, { $inc: { revenue: 9.5, orders: 1 } }, { upsert: true });
  db.monthly_revenue.updateOne({ _id: "2026-05" }, { $inc: { revenue: 1, orders: 1 } }, { upsert: true });
  same(db.monthly_revenue.find().sort({ _id: 1 }).toArray(), [
    { _id: "2026-03", revenue: 10, orders: 1 },
    { _id: "2026-04", revenue: 60, orders: 3 },
    { _id: "2026-05", orders: 1, revenue: 1 }
  ]);
});

// ---- Schema versioning

function insertUsers() {
  db.users.insertOne({
    "_id": oid("alice"),
    "schema_version": 1,
    "username": "alice",
    "email": "alice@example.com",
    "full_name": "Alice Smith",
    "address": "456 Oak Ave, Portland, OR 97201",
    "created_at": ISODate("2024-01-01")
  })
  db.users.insertOne({
    "_id": oid("bob"),
    "schema_version": 2,
    "username": "bob",
    "email": "bob@example.com",
    "full_name": "Bob Jones",
    "address": {
      "street": "123 Pine St",
      "city": "Seattle",
      "state": "WA",
      "zip": "98101"
    },
    "phone": "+1-555-7777",
    "created_at": ISODate("2026-04-01")
  })
}

check("schema versioning pattern: both versions in one collection", () => {
  insertUsers();
  // Application layer — read both versions transparently
  function formatUserDisplay(user) {
    if (user.schema_version === 1) {
      return {
        displayName: user.full_name,
        location: user.address      // flat string
      }
    }
    if (user.schema_version === 2) {
      return {
        displayName: user.full_name,
        location: `${user.address.city}, ${user.address.state}`
      }
    }
    throw new Error(`Unknown schema version: ${user.schema_version}`)
  }
  same(db.users.find().sort({ username: 1 }).toArray().map((user) => formatUserDisplay(user)), [
    { displayName: "Alice Smith", location: "456 Oak Ave, Portland, OR 97201" },
    { displayName: "Bob Jones", location: "Seattle, WA" }
  ]);
  same(db.users.find({ "address.city": "Seattle" }).toArray().map((user) => user.username), ["bob"]);
});

check("schema versioning pattern: lazy migration", () => {
  insertUsers();
  // On read, migrate in place
  function readUser(userId) {
    const user = db.users.findOne({ "_id": userId })
    if (user.schema_version < 2) {
      const parts = user.address.split(", ")
      db.users.updateOne(
        { "_id": userId },
        { $set: {
            "schema_version": 2,
            "address.street": parts[0],
            "address.city": parts[1],
            "address.state": parts[2].split(" ")[0],
            "address.zip": parts[3]
        }}
      )
    }
    return user
  }
  same(readUser(oid("bob")).address.city, "Seattle");
  // A field cannot be made inside a string: the update is refused, and as a whole.
  fails(28, () => readUser(oid("alice")));
  same(db.users.findOne({ "_id": oid("alice") }, { _id: 0, schema_version: 1, address: 1 }), { schema_version: 1, address: "456 Oak Ave, Portland, OR 97201" });

  // Replacing the string by the new document is what migrates.
  function migrateUser(userId) {
    const user = db.users.findOne({ "_id": userId })
    if (user.schema_version < 2) {
      const [street, city, rest] = user.address.split(", ")
      const [state, zip] = rest.split(" ")
      return db.users.findOneAndUpdate(
        { "_id": userId, "schema_version": user.schema_version },
        { $set: { "schema_version": 2, "address": { street, city, state, zip } } },
        { returnDocument: "after" }
      )
    }
    return user
  }
  same(migrateUser(oid("alice")).address, { street: "456 Oak Ave", city: "Portland", state: "OR", zip: "97201" });
  same(migrateUser(oid("alice")).schema_version, 2);
});

check("schema versioning pattern: batch migration", () => {
  insertUsers();
  db.users.insertMany(Array.from({ length: 2500 }, (_, n) => ({ "_id": n, "schema_version": 1, "address": `${n} Oak Ave, Portland, OR 97201` })));
  // Background job — migrate 1000 documents at a time. The update is the given one or a corrected one.
  function migrateAll(update) {
    let migrated = 0
    const batches = []
    const batchSize = 1000
    while (true) {
      const batch = db.users.find({ "schema_version": { $lt: 2 } }).limit(batchSize).toArray()
      if (batch.length === 0) break
      const operations = []
      for (const user of batch) {
        const parts = user.address.split(", ")
        if (update === "dotted") {
          db.users.updateOne(
            { "_id": user._id },
            { $set: {
                "schema_version": 2,
                "address.street": parts[0],
                "address.city": parts[1],
                "address.state": parts[2].split(" ")[0],
                "address.zip": parts[3]
            }}
          )
        }
        const [state, zip] = parts[2].split(" ")
        operations.push({ updateOne: {
          filter: { "_id": user._id },
          update: { $set: { "schema_version": 2, "address": { street: parts[0], city: parts[1], state, zip } } }
        } })
      }
      db.users.bulkWrite(operations)
      migrated += batch.length
      batches.push(batch.length)
    }
    return { migrated, batches }
  }
  fails(28, () => migrateAll("dotted"));
  same(db.users.countDocuments({ "schema_version": { $lt: 2 } }), 2501);
  same(migrateAll("whole"), { migrated: 2501, batches: [1000, 1000, 501] });
  same(db.users.countDocuments({ "schema_version": 2 }), 2502);
  same(db.users.findOne({ _id: 2499 }).address, { street: "2499 Oak Ave", city: "Portland", state: "OR", zip: "97201" });
  same(db.users.findOne({ _id: oid("alice") }).address.street, "456 Oak Ave");
});

// ---- Bucket

check("bucket pattern: readings by sensor and hour", () => {
  // One document per reading
  db.sensor_data.insertOne({ "sensor_id": "sensor01", "ts": ISODate("2026-04-26T10:00:00Z"), "temp": 22.5 })
  db.sensor_data.insertOne({ "sensor_id": "sensor01", "ts": ISODate("2026-04-26T10:01:00Z"), "temp": 22.7 })
  db.sensor_data.insertOne({ "sensor_id": "sensor01", "ts": ISODate("2026-04-26T10:02:00Z"), "temp": 22.6 })
  same(db.sensor_data.countDocuments({ "sensor_id": "sensor01", "ts": { $gte: ISODate("2026-04-26T10:01:00Z") } }), 2);

  // One document per sensor per hour
  const bucket = db.sensor_data.insertOne({
    "sensor_id": "sensor01",
    "bucket_start": ISODate("2026-04-26T10:00:00Z"),
    "bucket_end": ISODate("2026-04-26T11:00:00Z"),
    "readings_count": 60,
    "readings": [
      { "t": ISODate("2026-04-26T10:00:00Z"), "v": 22.5 },
      { "t": ISODate("2026-04-26T10:01:00Z"), "v": 22.7 },
      { "t": ISODate("2026-04-26T10:02:00Z"), "v": 22.6 },
      { "t": ISODate("2026-04-26T10:05:00Z"), "v": 22.9 },
      { "t": ISODate("2026-04-26T10:15:00Z"), "v": 23 },
      { "t": ISODate("2026-04-26T10:16:00Z"), "v": 22.1 }
    ],
    "stats": {
      "min": 22.1,
      "max": 23.0,
      "avg": 22.6
    }
  }).insertedId;
  db.sensor_data.insertMany([
    // The day before, another sensor.
    { "sensor_id": "sensor01", "bucket_start": ISODate("2026-04-25T10:00:00Z"), "bucket_end": ISODate("2026-04-25T11:00:00Z"), "readings": [{ "t": ISODate("2026-04-26T10:06:00Z"), "v": 1 }] },
    { "sensor_id": "sensor02", "bucket_start": ISODate("2026-04-26T10:00:00Z"), "bucket_end": ISODate("2026-04-26T11:00:00Z"), "readings": [{ "t": ISODate("2026-04-26T10:06:00Z"), "v": 2 }] }
  ]);

  same(keys(db.sensor_data.find({
    "sensor_id": "sensor01",
    "bucket_start": { $gte: ISODate("2026-04-26T00:00:00Z") },
    "bucket_end": { $lte: ISODate("2026-04-27T00:00:00Z") }
  }).toArray()), [bucket]);

  const unwound = db.sensor_data.aggregate([
    { $match: { "sensor_id": "sensor01", "bucket_start": { $gte: ISODate("2026-04-26T10:00:00Z") } } },
    { $unwind: "$readings" },
    { $match: { "readings.t": { $gte: ISODate("2026-04-26T10:05:00Z"), $lte: ISODate("2026-04-26T10:15:00Z") } } }
  ]).toArray();
  same(unwound.map((found) => found.readings), [
    { "t": ISODate("2026-04-26T10:05:00Z"), "v": 22.9 },
    { "t": ISODate("2026-04-26T10:15:00Z"), "v": 23 }
  ]);
  same(unwound.map((found) => [found._id, found.stats.max]), [[bucket, 23], [bucket, 23]]);
});

check("bucket pattern: pre-allocated buckets", () => {
  const inserted = [];
  for (let writer = 0; writer < 2; writer++) {
    // Pre-allocate the hour bucket on first write
    const result = db.sensor_data.updateOne(
      { "sensor_id": "sensor01", "bucket_start": ISODate("2026-04-26T11:00:00Z") },
      { $setOnInsert: {
          "sensor_id": "sensor01",
          "bucket_start": ISODate("2026-04-26T11:00:00Z"),
          "bucket_end": ISODate("2026-04-26T12:00:00Z"),
          "readings": [],
          "readings_count": 0
      }},
      { upsert: true }
    )
    inserted.push([result.matchedCount, result.modifiedCount, result.upsertedCount]);
  }
  same(inserted, [[0, 0, 1], [1, 0, 0]]);
  const empty = db.sensor_data.findOne();
  same([empty.readings, empty.readings_count, empty.bucket_end], [[], 0, ISODate("2026-04-26T12:00:00Z")]);
  const begin = new Date();
  for (let count = 1; count <= 3; count++) {
    // Append reading to existing bucket
    same(db.sensor_data.updateOne(
      { "sensor_id": "sensor01", "bucket_start": ISODate("2026-04-26T11:00:00Z") },
      { $push: { "readings": { "t": new Date(), "v": 22.8 } }, $inc: { "readings_count": 1 } }
    ).modifiedCount, 1);
  }
  same(db.sensor_data.countDocuments(), 1);
  const bucket = db.sensor_data.findOne();
  same([bucket.readings_count, bucket.readings.map((reading) => reading.v)], [3, [22.8, 22.8, 22.8]]);
  holds(bucket.readings.every((reading) => reading.t >= begin && reading.t <= new Date()), "the readings carry their time");
});

check("bucket pattern: buckets bounded by their count", () => {
  db.sensor_data.insertOne({
    _id: oid("bucket"),
    sensorId: "sensor_42",
    bucketStart: ISODate("2024-01-15T10:00:00Z"),
    count: 199,
    readings: [
      { ts: ISODate("2024-01-15T10:00:05Z"), temp: 22.1 },
      { ts: ISODate("2024-01-15T10:01:03Z"), temp: 22.3 },
    ],
    stats: { min: 21.8, max: 22.2, sum: 1335.4 }
  });
  const outcomes = [];
  for (let reading = 0; reading < 3; reading++) {
    // Add a reading to current bucket, or create new bucket
    const result = db.sensor_data.updateOne(
      { sensorId: "sensor_42", count: { $lt: 200 } },
      {
        $push: { readings: { ts: new Date(), temp: 22.5 } },
        $inc:  { count: 1 },
        $min:  { "stats.min": 22.5 },
        $max:  { "stats.max": 22.5 }
      },
      { upsert: true }
    );
    outcomes.push([result.matchedCount, result.modifiedCount, result.upsertedCount]);
  }
  // The first fills the bucket, the second makes one, the third goes into that.
  same(outcomes, [[1, 1, 0], [0, 0, 1], [1, 1, 0]]);
  const full = db.sensor_data.findOne({ _id: oid("bucket") });
  same([full.count, full.stats, full.readings.map((reading) => reading.temp)], [200, { min: 21.8, max: 22.5, sum: 1335.4 }, [22.1, 22.3, 22.5]]);
  const fresh = db.sensor_data.findOne({ _id: { $ne: oid("bucket") } });
  same([fresh.sensorId, fresh.count, fresh.stats, fresh.readings.map((reading) => reading.temp)], ["sensor_42", 2, { max: 22.5, min: 22.5 }, [22.5, 22.5]]);
  // An update makes new fields in the order of their names.
  same(Object.keys(fresh), ["_id", "sensorId", "count", "readings", "stats"]);
});

check("bucket pattern: device and hour as the identifier", () => {
  db.readings.insertMany([
    { "_id": "a", "device_id": "sensor1", "temp": 22.5, "ts": "2026-05-25T10:00:00Z" },
    { "_id": "b", "device_id": "sensor1", "temp": 22.7, "ts": "2026-05-25T10:01:00Z" }
  ]);
  const bucket = {
    "_id": { "device_id": "sensor1", "hour": "2026-05-25T10:00:00Z" },
    "readings": [
      { "temp": 22.5, "ts": "2026-05-25T10:00:00Z" },
      { "temp": 22.7, "ts": "2026-05-25T10:01:00Z" }
    ],
    "count": 2,
    "avg_temp": 22.6
  };
  db.buckets.insertOne(bucket);
  same(db.buckets.findOne({ "_id": { "device_id": "sensor1", "hour": "2026-05-25T10:00:00Z" } }), bucket);
  same(db.buckets.findOne({ "_id.device_id": "sensor1" }), bucket);
  // A document is equal only with its fields in the same order.
  same(db.buckets.findOne({ "_id": { "hour": "2026-05-25T10:00:00Z", "device_id": "sensor1" } }), null);
  fails(11000, () => db.buckets.insertOne({ "_id": { "device_id": "sensor1", "hour": "2026-05-25T10:00:00Z" } }));
  // The same bucket out of the single readings.
  same(db.readings.aggregate([
    { $sort: { ts: 1 } },
    { $group: {
        _id: { device_id: "$device_id", hour: { $concat: [{ $substr: ["$ts", 0, 13] }, ":00:00Z"] } },
        readings: { $push: { temp: "$temp", ts: "$ts" } },
        count: { $sum: 1 },
        avg_temp: { $avg: "$temp" }
    } },
    { $set: { avg_temp: { $round: ["$avg_temp", 1] } } }
  ]).toArray(), [bucket]);
});

// ---- Approximation

check("approximation pattern: a count computed daily", () => {
  db.posts.insertMany([{ "_id": 1, "author": "alice" }, { "_id": 2, "author": "alice" }, { "_id": 3, "author": "bob" }]);
  same(db.posts.countDocuments({ "author": "alice" }), 2);
  const result = db.posts.updateOne(
    { "author": "alice" },
    { $set: { "approx_post_count": 342 } }  // real count was 347
  )
  same([result.matchedCount, result.modifiedCount], [1, 1]);
  same(db.posts.countDocuments({ "author": "alice", "approx_post_count": 342 }), 1);
  same(db.posts.countDocuments({ "author": "bob", "approx_post_count": { $exists: true } }), 0);
});

check("approximation pattern: an average from a sample", () => {
  function approximate() {
    // Approximate the average order value without scanning all orders
    return db.orders.aggregate([
      { $sample: { size: 10000 } },          // random sample of 10k orders
      { $group: {
          _id: null,
          approx_avg_value: { $avg: "$total" },
          approx_total_count: { $sum: 1 }
      }},
      { $project: {
          approx_avg_value: 1,
          // Scale up the count estimate
          approx_total_orders: { $multiply: ["$approx_total_count", 100] }
      }}
    ]).toArray()
  }
  same(approximate(), []);
  // Fewer orders than the sample takes: all of them.
  db.orders.insertMany(Array.from({ length: 500 }, (_, n) => ({ "total": n + 1 })));
  same(approximate(), [{ _id: null, approx_avg_value: 250.5, approx_total_orders: 50000 }]);
  db.orders.insertMany(Array.from({ length: 11500 }, (_, n) => ({ "total": n + 501 })));
  const [sampled] = approximate();
  same(sampled.approx_total_orders, 1000000);
  // 14 standard deviations on either side of the exact 6000.5.
  holds(sampled.approx_avg_value > 5800 && sampled.approx_avg_value < 6200, `an average near 6000, found ${sampled.approx_avg_value}`);
});

// ---- Outlier

check("outlier pattern: comments of a viral post", () => {
  // Normal post — comments embedded (99.9% of posts)
  db.posts.insertOne({
    "_id": oid("post001"),
    "title": "My first day with Go",
    "content": "I started learning Go today...",
    "comments": [
      { "author": "dev_guru", "text": "Welcome to Go!", "created_at": ISODate("2026-04-26") },
      { "author": "rust_fan", "text": "You should try Rust too.", "created_at": ISODate("2026-04-26") }
    ],
    "comment_count": 2
  })
  // Viral post — outlier detected, comments stored separately
  db.posts.insertOne({
    "_id": oid("post002"),
    "title": "How I deployed to production on a Friday",
    "content": "It was a calm afternoon...",
    "comments": [],                         // no embedded comments
    "comment_count": 143892,
    "outlier": true,                        // flag for the application
    "comments_ref": "post002_comments"      // reference to separate collection
  })
  // Separate collection for outlier comments
  db.post002_comments.insertOne({
    "post_id": oid("post002"),
    "author": "sre_ninja",
    "text": "This is why we have change advisory boards.",
    "created_at": ISODate("2026-04-26")
  })
  db.post002_comments.insertMany(Array.from({ length: 30 }, (_, n) => ({
    "post_id": oid("post002"), "author": `reader ${n}`, "created_at": new Date(ISODate("2026-04-25").getTime() - n * 60000)
  })));

  function getComments(postId) {
    const post = db.posts.findOne({ "_id": postId })
    if (post.outlier) {
      // Use paginated query for viral posts
      return db[post.comments_ref].find({ "post_id": postId })
        .sort({ "created_at": -1 })
        .limit(20)
        .toArray()
    }
    // Normal post — return embedded comments directly
    return post.comments
  }
  const authors = (comments) => comments.map((comment) => comment.author);
  same(authors(getComments(oid("post001"))), ["dev_guru", "rust_fan"]);
  same(authors(getComments(oid("post002"))), ["sre_ninja", ...Array.from({ length: 19 }, (_, n) => `reader ${n}`)]);
  same(keys(db.posts.find({ outlier: true }).toArray()), [oid("post002")]);
});

check("outlier pattern: followers that overflow", () => {
  db.users.insertMany([
    // Typical user — followers embedded directly
    {
      "_id": "user789",
      "name": "Bob",
      "followers": ["user1", "user2", "user3"],
      "has_overflow": false
    },
    // Celebrity — first N embedded, rest in overflow collection
    {
      "_id": "user001",
      "name": "Priya",
      "followers": ["user1", "user2"],
      "has_overflow": true
    }
  ]);
  // followers_overflow collection
  db.followers_overflow.insertOne({ "user_id": "user001", "followers": ["user3", "user4", "user5"] });
  same(names(db.users.find({ has_overflow: true }).toArray()), ["Priya"]);
  same(names(db.users.find({ followers: "user3" }).toArray()), ["Bob"]);
  same(db.users.aggregate([
    { $lookup: { from: "followers_overflow", localField: "_id", foreignField: "user_id", as: "overflow" } },
    { $project: { count: { $add: [{ $size: "$followers" }, { $sum: { $map: { input: "$overflow", in: { $size: "$$this.followers" } } } }] } } },
    { $sort: { _id: 1 } }
  ]).toArray(), [{ _id: "user001", count: 5 }, { _id: "user789", count: 3 }]);
});

// ---- Embedding and referencing

check("embedding: data read together", () => {
  const alice = {
    _id: oid("alice"),
    name: "Alice",
    address: {
      street: "123 Main St",
      city: "Anytown",
      zip: "12345"
    },
    phones: [
      { type: "mobile", number: "555-1234" },
      { type: "work",   number: "555-5678" }
    ]
  };
  const user = {
    "_id": "user123",
    "name": "Alice",
    "address": {
      "street": "123 Main St",
      "city": "Mumbai",
      "pin": "400001"
    },
    "preferences": {
      "theme": "dark",
      "notifications": true
    }
  };
  db.users.insertMany([alice, user]);
  same(db.users.find({ "address.city": "Anytown" }).toArray(), [alice]);
  same(db.users.find({ phones: { $elemMatch: { type: "work", number: /^555-5/ } } }).toArray(), [alice]);
  same(db.users.find({ "preferences.theme": "dark", "preferences.notifications": true }).toArray(), [user]);
  same(db.users.find({ address: { street: "123 Main St", city: "Mumbai", pin: "400001" } }).toArray(), [user]);
});

check("referencing: fetched with $lookup", () => {
  db.orders.insertMany([
    { _id: oid("order1"), userId: oid("user1"), total: 99.99 },
    { _id: oid("order2"), userId: oid("nobody"), total: 1 }
  ]);
  db.users.insertOne({ _id: oid("user1"), name: "Alice" });
  const joined = db.orders.aggregate([
    { $lookup: { from: "users", localField: "userId", foreignField: "_id", as: "user" } }
  ]).toArray();
  joined.sort((a, b) => b.total - a.total);
  same(joined, [
    { _id: oid("order1"), userId: oid("user1"), total: 99.99, user: [{ _id: oid("user1"), name: "Alice" }] },
    { _id: oid("order2"), userId: oid("nobody"), total: 1, user: [] }
  ]);
});

check("referencing: posts and their authors", () => {
  db.posts.insertOne({
    "_id": "post456",
    "title": "Getting Started with MongoDB",
    "author_id": "user123",
    "body": "..."
  });
  db.users.insertOne({
    "_id": "user123",
    "name": "Alice"
  });
  const post = db.posts.findOne({ _id: "post456" });
  same(db.users.findOne({ _id: post.author_id }), { "_id": "user123", "name": "Alice" });
});

check("document growth: comments in an array and in their own collection", () => {
  db.posts.insertOne({ _id: "post456", title: "Getting Started with MongoDB" });
  const comments = ["first", "second"];
  for (const body of comments) {
    const newComment = { author_id: "user123", body };
    same(db.posts.updateOne(
      { _id: "post456" },
      { $push: { comments: newComment } }
    ).modifiedCount, 1);
  }
  same(db.posts.findOne().comments, [{ author_id: "user123", body: "first" }, { author_id: "user123", body: "second" }]);
  // No document grows over 16 MB.
  const large = "x".repeat(9 * 1024 * 1024);
  same(db.posts.updateOne({ _id: "post456" }, { $set: { large } }).modifiedCount, 1);
  fails(10334, () => db.posts.updateOne({ _id: "post456" }, { $push: { comments: { body: large } } }));
  same(db.posts.findOne({}, { comments: 1 }).comments.length, 2);

  const comment = {
    "_id": "comment789",
    "post_id": "post456",
    "author_id": "user123",
    "body": "Great article!",
    "created_at": "2026-05-25T10:00:00Z"
  };
  db.comments.insertOne(comment);
  same(db.comments.find({ post_id: "post456" }).toArray(), [comment]);
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

// ---- Trees

check("tree structures: parent reference", () => {
  db.categories.insertMany([
    { _id: "mongodb", parent: "databases", name: "MongoDB" },
    { _id: "databases", parent: "tech", name: "Databases" },
    { _id: "tech", parent: null, name: "Technology" }
  ]);
  // Find children of "databases"
  same(db.categories.find({ parent: "databases" }).toArray(), [{ _id: "mongodb", parent: "databases", name: "MongoDB" }]);
  same(keys(db.categories.find({ parent: null }).toArray()), ["tech"]);
  // All descendants, by following the references
  const [root] = db.categories.aggregate([
    { $match: { _id: "tech" } },
    { $graphLookup: { from: "categories", startWith: "$_id", connectFromField: "_id", connectToField: "parent", as: "below", depthField: "depth" } }
  ]).toArray();
  same(root.below.map((found) => [found._id, Number(found.depth)]).sort(), [["databases", 0], ["mongodb", 1]]);
});

check("tree structures: array of ancestors", () => {
  db.categories.insertMany([
    { _id: "mongodb", name: "MongoDB", ancestors: ["tech", "databases"] },
    { _id: "databases", name: "Databases", ancestors: ["tech"] },
    { _id: "tech", name: "Technology", ancestors: [] },
    { _id: "art", name: "Art", ancestors: [] }
  ]);
  // Find all descendants of "tech"
  same(keys(db.categories.find({ ancestors: "tech" }).toArray()).sort(), ["databases", "mongodb"]);
  db.categories.createIndex({ ancestors: 1 });
  same(keys(db.categories.find({ ancestors: "tech" }).toArray()).sort(), ["databases", "mongodb"]);
  const explained = db.categories.find({ ancestors: "tech" }).explain("executionStats");
  usesIndex(explained, "ancestors_1");
  same(explained.executionStats.totalDocsExamined, 2);
});

check("tree structures: materialized path", () => {
  db.categories.insertMany([
    { _id: "mongodb", path: ",tech,databases,mongodb,", name: "MongoDB" },
    { _id: "databases", path: ",tech,databases,", name: "Databases" },
    { _id: "tech", path: ",tech,", name: "Technology" },
    { _id: "old", path: ",tech,olddatabases,", name: "Old" }
  ]);
  // Find subtree
  same(keys(db.categories.find({ path: /,databases,/ }).toArray()).sort(), ["databases", "mongodb"]);
  // A path from the root on is a range of an index.
  db.categories.createIndex({ path: 1 });
  same(keys(db.categories.find({ path: /^,tech,databases,/ }).toArray()).sort(), ["databases", "mongodb"]);
  const explained = db.categories.find({ path: /^,tech,databases,/ }).explain("executionStats");
  usesIndex(explained, "path_1");
  same(explained.executionStats.totalDocsExamined, 2);
});

check("tree structures: nested sets", () => {
  db.categories.insertMany([
    { _id: "tech", name: "Technology", lft: 1, rgt: 10 },
    { _id: "languages", name: "Languages", lft: 2, rgt: 3 },
    { _id: "databases", name: "Databases", lft: 4, rgt: 9 },
    { _id: "mongodb", name: "MongoDB", lft: 5, rgt: 6 },
    { _id: "sqlite", name: "SQLite", lft: 7, rgt: 8 }
  ]);
  // Find all ancestors: find where lft < 5 AND rgt > 6
  same(keys(db.categories.find({ lft: { $lt: 5 }, rgt: { $gt: 6 } }).sort({ lft: 1 }).toArray()), ["tech", "databases"]);
  same(keys(db.categories.find({ lft: { $gt: 4 }, rgt: { $lt: 9 } }).sort({ lft: 1 }).toArray()), ["mongodb", "sqlite"]);
});

// ---- Indexes

check("indexing: single, compound, multikey, partial, and what explain says", () => {
  const statuses = ["pending", "shipped", "delivered", "cancelled"];
  db.orders.insertMany(Array.from({ length: 200 }, (_, n) => ({
    _id: n, customer_id: `user${120 + (n % 5)}`, status: statuses[Math.floor(n / 5) % 4], created_at: new Date(ISODate("2026-05-01").getTime() + ((n * 37) % 200) * 60000)
  })));
  const wanted = db.orders.find({ customer_id: "user123", status: "pending" }).toArray();
  same(wanted.length, 10);
  const unindexed = db.orders.find({ customer_id: "user123", status: "pending" }).explain("executionStats");
  scansAll(unindexed);
  same([unindexed.executionStats.nReturned, unindexed.executionStats.totalKeysExamined, unindexed.executionStats.totalDocsExamined], [10, 0, 200]);

  // Single field index
  same(db.orders.createIndex({ customer_id: 1 }), "customer_id_1");
  const single = db.orders.find({ customer_id: "user123", status: "pending" }).explain("executionStats");
  usesIndex(single, "customer_id_1");
  same([single.executionStats.nReturned, single.executionStats.totalKeysExamined, single.executionStats.totalDocsExamined], [10, 40, 40]);

  // Compound index — follow the ESR rule: Equality fields first, then Sort, then Range
  same(db.orders.createIndex({ customer_id: 1, status: 1, created_at: -1 }), "customer_id_1_status_1_created_at_-1");
  // Multikey index — automatically used when indexing an array field
  db.products.insertOne({ specs: [{ k: "color", v: "black" }] });
  same(db.products.createIndex({ "specs.k": 1, "specs.v": 1 }), "specs.k_1_specs.v_1");
  same(plan(db.products.find({ "specs.k": "color" }).explain()).multikey, true);
  // Partial index — only indexes documents matching a condition
  same(db.orders.createIndex(
    { created_at: -1 },
    { partialFilterExpression: { status: "pending" } }
  ), "created_at_-1");
  same(db.orders.getIndexes().map((index) => [index.name, index.key, index.partialFilterExpression ?? null]), [
    ["_id_", { _id: 1 }, null],
    ["customer_id_1", { customer_id: 1 }, null],
    ["customer_id_1_status_1_created_at_-1", { customer_id: 1, status: 1, created_at: -1 }, null],
    ["created_at_-1", { created_at: -1 }, { status: "pending" }]
  ]);

  // Use explain() to verify a query hits an index
  const explained = db.orders.find({ customer_id: "user123", status: "pending" }).explain("executionStats")
  usesIndex(explained, "customer_id_1_status_1_created_at_-1");
  same([explained.executionStats.nReturned, explained.executionStats.totalKeysExamined, explained.executionStats.totalDocsExamined], [10, 10, 10]);
  same(keys(db.orders.find({ customer_id: "user123", status: "pending" }).toArray()).sort(), keys(wanted).sort());

  // Equality, sort, range: the index gives the order.
  const since = ISODate("2026-05-01T01:00:00Z");
  const sorted = db.orders.find({ customer_id: "user123", status: "pending", created_at: { $gte: since } }).sort({ created_at: -1 });
  const expected = wanted.filter((order) => order.created_at >= since).sort((a, b) => b.created_at - a.created_at);
  holds(expected.length > 2 && expected.length < 10, "the range takes a part");
  same(sorted.toArray(), expected);
  const ordered = plan(db.orders.find({ customer_id: "user123", status: "pending" }).sort({ created_at: -1 }).explain());
  holds(!ordered.stages.includes("SORT"), `no sort in ${ordered.stages}`);

  // The partial index serves the queries that its condition covers, and no other.
  const pending = db.orders.find({ status: "pending", created_at: { $gte: since } }).sort({ created_at: -1 });
  const dates = pending.toArray().map((order) => order.created_at.getTime());
  same(dates, [...dates].sort((a, b) => b - a));
  same(dates.length, db.orders.find({ status: "pending" }).toArray().filter((order) => order.created_at >= since).length);
  usesIndex(db.orders.find({ status: "pending", created_at: { $gte: since } }).sort({ created_at: -1 }).explain(), "created_at_-1");
  scansAll(db.orders.find({ status: "shipped", created_at: { $gte: since } }).explain());
  scansAll(db.orders.find({ created_at: { $gte: since } }).explain());
  // A document enters the partial index when it comes to meet the condition, and leaves it after.
  db.orders.updateOne({ _id: 0 }, { $set: { status: "shipped" } });
  db.orders.updateOne({ _id: 5 }, { $set: { status: "pending" } });
  const hinted = keys(db.orders.find({ status: "pending", created_at: { $gte: ISODate("2026-05-01") } }).hint("created_at_-1").toArray());
  same([hinted.includes(0), hinted.includes(5), hinted.length], [false, true, 50]);
});

db.dropDatabase();
print(`${passed} passed, ${failures.length} failed`);
if (failures.length > 0) quit(1);
