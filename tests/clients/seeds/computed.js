// Results kept instead of computed on every read: the computed and the approximation pattern.
// Loaded by ../seeds.js, which has the helpers.
/* global db, oid, same, holds, check, ISODate */

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
