// The Node driver against MONGODB_URI.
"use strict";
const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { MongoClient, ObjectId, Long, Decimal128, GridFSBucket } = require("mongodb");

const uri = process.env.MONGODB_URI;
const client = new MongoClient(uri, { serverSelectionTimeoutMS: 60000 });
const db = client.db("clients_node_" + process.pid);

before(() => client.connect());
after(async () => {
  await db.dropDatabase();
  await client.close();
});

let next = 0;
const fresh = () => db.collection("c" + next++);

describe("node driver", () => {
  it("inserts and finds", async () => {
    const c = fresh();
    const { insertedId } = await c.insertOne({ name: "Ada", langs: ["en"] });
    assert.ok(insertedId instanceof ObjectId);
    assert.deepEqual(await c.findOne({ name: "Ada" }), { _id: insertedId, name: "Ada", langs: ["en"] });
    assert.equal(await c.findOne({ name: "Bob" }), null);
  });

  it("keeps types", async () => {
    const c = fresh();
    const doc = { _id: 1, long: Long.fromString("9007199254740993"), dec: Decimal128.fromString("1.50"), date: new Date(5), re: /a/i, nul: null };
    await c.insertOne(doc);
    const found = await c.findOne({}, { promoteLongs: false });
    assert.equal(found.long.toString(), "9007199254740993");
    assert.equal(found.dec.toString(), "1.50");
    assert.equal(found.date.getTime(), 5);
    assert.equal(found.re.source, "a");
  });

  it("runs transactions", async () => {
    const [a, b] = [fresh(), fresh()];
    await a.insertOne({ _id: "from", amount: 10 });
    const session = client.startSession();
    const transfer = async () => {
      await a.updateOne({ _id: "from" }, { $inc: { amount: -4 } }, { session });
      await b.insertOne({ _id: "to", amount: 4 }, { session });
      assert.equal(await b.findOne({ _id: "to" }), null, "nobody outside sees it yet");
      assert.equal(await b.countDocuments({}, { session }), 1);
    };
    await session.withTransaction(transfer);
    assert.deepEqual(await b.findOne({ _id: "to" }), { _id: "to", amount: 4 });
    await assert.rejects(
      session.withTransaction(async () => {
        await a.updateOne({ _id: "from" }, { $inc: { amount: -4 } }, { session });
        await b.insertOne({ _id: "to" }, { session });
      }),
      { code: 11000 },
    );
    assert.deepEqual(await a.findOne({ _id: "from" }), { _id: "from", amount: 6 });
    // Two that write the same: one runs again.
    const other = client.startSession();
    const add = (s) => s.withTransaction(async () => {
      const { amount } = await a.findOne({ _id: "from" }, { session: s });
      await a.updateOne({ _id: "from" }, { $set: { amount: amount + 1 } }, { session: s });
    });
    await Promise.all([add(session), add(other), add(client.startSession())]);
    assert.equal((await a.findOne({ _id: "from" })).amount, 9);
    await session.endSession();
    await other.endSession();
  });

  it("walks cursors in batches", async () => {
    const c = fresh();
    await c.insertMany(Array.from({ length: 500 }, (_, n) => ({ _id: n, n: n % 7 })));
    const ids = [];
    for await (const doc of c.find({}, { batchSize: 11 }).sort({ _id: -1 })) ids.push(doc._id);
    assert.equal(ids.length, 500);
    assert.equal(ids[0], 499);
    assert.equal(await c.countDocuments({ n: 3 }), 71);
    assert.equal(await c.estimatedDocumentCount(), 500);
    assert.deepEqual(await c.distinct("n"), [0, 1, 2, 3, 4, 5, 6]);
    const page = await c.find().sort({ _id: 1 }).skip(5).limit(2).project({ _id: 1 }).toArray();
    assert.deepEqual(page, [{ _id: 5 }, { _id: 6 }]);
    const cursor = c.find({}, { batchSize: 2 });
    await cursor.next();
    await cursor.close();
  });

  it("updates, upserts, replaces, deletes", async () => {
    const c = fresh();
    await c.insertMany([{ _id: 1, n: 1 }, { _id: 2, n: 2 }]);
    assert.equal((await c.updateOne({ _id: 1 }, { $inc: { n: 5 } })).modifiedCount, 1);
    assert.equal((await c.updateMany({}, { $set: { all: true } })).modifiedCount, 2);
    const upserted = await c.updateOne({ _id: 9 }, { $set: { a: 1 } }, { upsert: true });
    assert.equal(upserted.upsertedId, 9);
    assert.equal((await c.replaceOne({ _id: 9 }, { b: 2 })).modifiedCount, 1);
    assert.deepEqual(await c.findOne({ _id: 9 }), { _id: 9, b: 2 });
    assert.equal((await c.deleteMany({ all: true })).deletedCount, 2);
  });

  it("finds and modifies", async () => {
    const c = fresh();
    await c.insertOne({ _id: 1, n: 1 });
    assert.deepEqual(await c.findOneAndUpdate({ _id: 1 }, { $inc: { n: 1 } }, { returnDocument: "after" }), { _id: 1, n: 2 });
    assert.deepEqual(await c.findOneAndReplace({ _id: 1 }, { z: 1 }), { _id: 1, n: 2 });
    assert.deepEqual(await c.findOneAndDelete({ _id: 1 }), { _id: 1, z: 1 });
    const full = await c.findOneAndUpdate({ _id: 5 }, { $set: { a: 1 } }, { upsert: true, includeResultMetadata: true });
    assert.equal(full.lastErrorObject.upserted, 5);
  });

  it("writes in bulk", async () => {
    const c = fresh();
    const result = await c.bulkWrite([
      { insertOne: { document: { _id: 1 } } },
      { updateOne: { filter: { _id: 1 }, update: { $set: { a: 1 } } } },
      { updateOne: { filter: { _id: 2 }, update: { $set: { a: 1 } }, upsert: true } },
      { deleteOne: { filter: { _id: 1 } } },
    ]);
    assert.equal(result.insertedCount, 1);
    assert.equal(result.modifiedCount, 1);
    assert.equal(result.deletedCount, 1);
    assert.deepEqual(result.upsertedIds, { 2: 2 });
    await assert.rejects(c.insertMany([{ _id: 2 }, { _id: 3 }], { ordered: false }), (error) => error.code === 11000);
    assert.equal(await c.countDocuments({}), 2);
  });

  it("makes indexes and tells duplicates", async () => {
    const c = fresh();
    assert.equal(await c.createIndex({ email: 1 }, { unique: true }), "email_1");
    await c.insertOne({ _id: 1, email: "a" });
    await assert.rejects(c.insertOne({ _id: 2, email: "a" }), (error) => {
      assert.equal(error.code, 11000);
      assert.deepEqual(error.keyPattern, { email: 1 });
      assert.deepEqual(error.keyValue, { email: "a" });
      return true;
    });
    assert.deepEqual((await c.indexes()).map((index) => index.name), ["_id_", "email_1"]);
    const plan = await c.find({ email: "a" }).explain("executionStats");
    assert.equal(plan.executionStats.nReturned, 1);
    assert.equal(plan.executionStats.totalKeysExamined, 1);
    await c.dropIndex("email_1");
    await assert.rejects(c.dropIndex("email_1"), (error) => error.code === 27);
  });

  it("aggregates", async () => {
    const c = fresh();
    await c.insertMany([{ k: "a", n: 1 }, { k: "b", n: 2 }, { k: "a", n: 3 }]);
    const groups = await c.aggregate([{ $group: { _id: "$k", sum: { $sum: "$n" } } }, { $sort: { _id: 1 } }]).toArray();
    assert.deepEqual(groups, [{ _id: "a", sum: 4 }, { _id: "b", sum: 2 }]);
    const tags = await c.aggregate([{ $project: { _id: 0, t: [1, "$n"] } }, { $unwind: "$t" }, { $count: "n" }]).toArray();
    assert.deepEqual(tags, [{ n: 6 }]);
  });

  it("gives errors their codes", async () => {
    await assert.rejects(db.command({ noSuchCommand: 1 }), (error) => error.code === 59);
    await assert.rejects(fresh().find({ a: { $foo: 1 } }).toArray(), (error) => error.code === 2);
    await assert.rejects(fresh().updateOne({}, [{ $nope: 1 }]), (error) => typeof error.code === "number");
  });

  it("uses sessions", async () => {
    const c = fresh();
    const session = client.startSession();
    await c.insertOne({ _id: 1 }, { session });
    assert.equal(await c.countDocuments({}, { session }), 1);
    await session.endSession();
  });

  it("writes without acknowledgement", async () => {
    const c = fresh();
    const result = await c.insertOne({ _id: 1 }, { writeConcern: { w: 0 } });
    assert.equal(result.acknowledged, false);
    for (let tries = 0; tries < 2000 && (await c.countDocuments({})) === 0; tries++) await new Promise((done) => setTimeout(done, 20));
    assert.equal(await c.countDocuments({}), 1);
  });

  it("stores files", async () => {
    const bucket = new GridFSBucket(db, { chunkSizeBytes: 1000 });
    const upload = bucket.openUploadStream("f");
    const content = Buffer.alloc(12345, "ab");
    await new Promise((done, failed) => upload.on("finish", done).on("error", failed).end(content));
    const parts = [];
    for await (const part of bucket.openDownloadStream(upload.id)) parts.push(part);
    assert.ok(Buffer.concat(parts).equals(content));
    await bucket.delete(upload.id);
  });

  it("lists collections and databases", async () => {
    const c = fresh();
    await c.insertOne({});
    const names = (await db.listCollections({}, { nameOnly: true }).toArray()).map((entry) => entry.name);
    assert.ok(names.includes(c.collectionName));
    const { databases } = await client.db().admin().listDatabases();
    assert.ok(databases.some((entry) => entry.name === db.databaseName));
    await c.rename(c.collectionName + "_renamed");
    assert.equal((await db.command({ ping: 1 })).ok, 1);
  });

  it("compresses", async () => {
    const squeezed = new MongoClient(uri, { compressors: ["zlib"] });
    const c = squeezed.db(db.databaseName).collection("squeezed");
    await c.insertMany(Array.from({ length: 100 }, (_, n) => ({ _id: n, t: "abc".repeat(1000) })));
    assert.equal((await c.find().toArray()).length, 100);
    await squeezed.close();
  });
});
