// Kinds of indexes, and what explain says about their use.
// Loaded by ../seeds.js, which has the helpers.
/* global db, same, holds, check, plan, usesIndex, scansAll, keys, ISODate */

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
