// What belongs together and what is apart: embedding and referencing, the extended reference,
// subset and outlier patterns.
// Loaded by ../seeds.js, which has the helpers.
/* global db, oid, same, holds, fails, check, plan, usesIndex, names, keys, ISODate */

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
