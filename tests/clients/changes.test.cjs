// The Node driver against MONGODB_URI: change streams, and the oplog as Meteor reads it.
"use strict";
const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { MongoClient, Timestamp } = require("mongodb");

const client = new MongoClient(process.env.MONGODB_URI, { serverSelectionTimeoutMS: 60000 });
const db = client.db("clients_changes_" + process.pid);

before(() => client.connect());
after(async () => {
  await db.dropDatabase();
  await client.close();
});

// Waits until something holds.
const until = async (holds) => {
  for (let n = 0; n < 6000; n++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail("waited in vain");
};

describe("change streams in the node driver", () => {
  it("keeps computed values fresh by a change stream", async () => {
    const products = db.collection("products");
    const orders = db.collection("orders");
    await products.insertOne({ _id: "prod001", total_revenue: 0, total_units_sold: 0 });
    const stream = orders.watch([{ $match: { operationType: { $in: ["insert", "update"] } } }]);
    stream.on("change", (change) => {
      const order = change.fullDocument;
      products.updateOne(
        { _id: order.product_id },
        { $inc: { total_revenue: order.price * order.quantity, total_units_sold: order.quantity } }
      );
    });
    await once(stream);
    for (let n = 1; n <= 5; n++) {
      await orders.insertOne({ product_id: "prod001", price: 10, quantity: n });
    }
    await until(async () => (await products.findOne({ _id: "prod001" })).total_units_sold === 15);
    assert.equal((await products.findOne({ _id: "prod001" })).total_revenue, 150);
    await stream.close();
  });

  it("goes on where it was", async () => {
    const c = db.collection("resume");
    const first = c.watch();
    const opened = first.tryNext();
    await opened;
    await c.insertMany([{ _id: 1 }, { _id: 2 }, { _id: 3 }]);
    const event = await first.next();
    assert.deepEqual(event.documentKey, { _id: 1 });
    await first.close();
    const second = c.watch([], { resumeAfter: event._id });
    assert.deepEqual((await second.next()).documentKey, { _id: 2 });
    assert.deepEqual((await second.next()).documentKey, { _id: 3 });
    await second.close();
    const third = c.watch([], { startAtOperationTime: event.clusterTime });
    assert.deepEqual((await third.next()).documentKey, { _id: 1 });
    await third.close();
  });

  it("tells updates with the whole document and what it was", async () => {
    const c = await db.createCollection("images", { changeStreamPreAndPostImages: { enabled: true } });
    const stream = c.watch([], { fullDocument: "updateLookup", fullDocumentBeforeChange: "required" });
    await stream.tryNext();
    await c.insertOne({ _id: 1, a: 1 });
    await c.updateOne({ _id: 1 }, { $set: { a: 2 }, $push: { list: "x" } });
    assert.equal((await stream.next()).operationType, "insert");
    const event = await stream.next();
    assert.deepEqual(event.updateDescription.updatedFields, { a: 2, list: ["x"] });
    assert.deepEqual(event.fullDocument, { _id: 1, a: 2, list: ["x"] });
    assert.deepEqual(event.fullDocumentBeforeChange, { _id: 1, a: 1 });
    await stream.close();
  });

  it("shows the changes of a transaction together, at its commit", async () => {
    const a = await db.createCollection("txn_a");
    const b = await db.createCollection("txn_b");
    const stream = db.watch();
    await stream.tryNext();
    const session = client.startSession();
    await session.withTransaction(async () => {
      await a.insertOne({ _id: 1 }, { session });
      await b.insertOne({ _id: 2 }, { session });
    });
    await session.endSession();
    const [one, two] = [await stream.next(), await stream.next()];
    assert.deepEqual([one.ns.coll, two.ns.coll], ["txn_a", "txn_b"]);
    assert.ok(one.txnNumber !== undefined && one.lsid);
    assert.deepEqual(one.clusterTime, two.clusterTime);
    await stream.close();
  });

  it("watches a database and the server, and ends with what it watches", async () => {
    const other = client.db(db.databaseName + "_other");
    const [all, one] = [client.watch(), other.watch()];
    await Promise.all([all.tryNext(), one.tryNext()]);
    await other.collection("x").insertOne({ _id: 1 });
    assert.equal((await all.next()).ns.coll, "x");
    assert.equal((await one.next()).ns.coll, "x");
    await other.dropDatabase();
    const kinds = [];
    for (let n = 0; n < 3; n++) kinds.push((await one.next()).operationType);
    assert.deepEqual(kinds, ["drop", "dropDatabase", "invalidate"]);
    await all.close();
  });

  it("lets the oplog be followed as Meteor does", async () => {
    const c = db.collection("meteor");
    const oplog = client.db("local").collection("oplog.rs");
    const hello = await client.db("admin").command({ hello: 1 });
    assert.ok(hello.setName);
    const last = await oplog.findOne({}, { sort: { $natural: -1 }, projection: { ts: 1 } });
    const namespace = `${db.databaseName}.meteor`;
    const query = {
      ns: new RegExp("^(?:" + namespace.replace(/\./g, "\\.") + "$)"),
      $or: [{ op: { $in: ["i", "u", "d"] } }, { op: "c", "o.drop": { $exists: true } }],
      ts: { $gt: last ? last.ts : new Timestamp({ t: 0, i: 0 }) },
    };
    const cursor = oplog.find(query, { tailable: true, awaitData: true });
    const seen = [];
    const reading = (async () => {
      for await (const entry of cursor) {
        seen.push(entry);
        if (entry.op === "d") break;
      }
    })();
    await c.insertOne({ _id: 1, a: 1 });
    await c.updateOne({ _id: 1 }, { $set: { a: 2 } });
    await c.deleteOne({ _id: 1 });
    await reading;
    assert.deepEqual(seen.map((entry) => entry.op), ["i", "u", "d"]);
    assert.deepEqual(seen[0].o, { _id: 1, a: 1 });
    assert.deepEqual(seen[1].o, { $v: 2, diff: { u: { a: 2 } } });
    assert.deepEqual(seen[1].o2, { _id: 1 });
    assert.ok(seen[0].ts.lessThan(seen[1].ts) && seen[1].ts.lessThan(seen[2].ts));
    await cursor.close();
  });
});

// A stream that emits events is open once its first batch is there.
const once = (stream) =>
  new Promise((resolve) => {
    if (stream.resumeToken) resolve();
    else stream.once("resumeTokenChanged", resolve);
  });
