// mongosh: what a person types. Prints pass counts; a failure ends with a non-zero status.
/* global db, print, quit, rs, EJSON */
let passed = 0;
const failures = [];
function check(title, body) {
  try {
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
function fails(code, body) {
  try {
    body();
  } catch (error) {
    if (error.code === code) return;
    throw new Error(`expected code ${code}, found ${error.code}: ${error.message}`);
  }
  throw new Error(`expected code ${code}, but it succeeded`);
}

db.dropDatabase();

check("the server says what it is", () => {
  if (!db.version()) throw new Error("no version");
  same(db.hello().isWritablePrimary, true);
  same(db.runCommand({ ping: 1 }).ok, 1);
  same(rs.status().ok, 1);
});
check("what administrators type", () => {
  db.setLogLevel(1, "storage.journal");
  same(db.getLogComponents().storage.journal.verbosity, 1);
  db.setLogLevel(-1, "storage.journal");
  same(db.getLogComponents().storage.journal.verbosity, -1);
  db.printSecondaryReplicationInfo();
  db.printReplicationInfo();
  same(rs.conf()._id, rs.status().set);
  same(rs.conf().members.length, 1);
  fails(23, () => rs.initiate());
  fails(262, () => db.adminCommand({ replSetStepDown: 1, secondaryCatchUpPeriodSecs: 1 }));
  same(db.adminCommand({ getClusterParameter: "changeStreamOptions" }).clusterParameters.length, 1);
  const feature = db.adminCommand({ getParameter: 1, featureCompatibilityVersion: 1 }).featureCompatibilityVersion.version;
  same(db.version().startsWith(feature), true);
  same(db.none.find().explain().serverInfo.version, db.version());
  same(db.serverStatus().version, db.version());
  same([db.fsyncLock().ok, db.fsyncUnlock().ok], [1, 1]);
  for (const line of db.adminCommand({ getLog: "global" }).log) {
    if (line.includes("\x1b")) throw new Error("a line with colours");
  }
});
check("insert and find", () => {
  db.people.insertOne({ _id: 1, name: "Ada", n: 36 });
  db.people.insertMany([{ _id: 2, name: "Bob", n: 25 }, { _id: 3, name: "Cleo", n: 41 }]);
  same(db.people.find({ n: { $gt: 30 } }).sort({ n: -1 }).toArray(), [{ _id: 3, name: "Cleo", n: 41 }, { _id: 1, name: "Ada", n: 36 }]);
  same(db.people.findOne({ name: "Bob" }, { n: 1, _id: 0 }), { n: 25 });
  same(db.people.countDocuments(), 3);
  same(db.people.estimatedDocumentCount(), 3);
});
check("update and delete", () => {
  same(db.people.updateOne({ _id: 1 }, { $inc: { n: 1 } }).modifiedCount, 1);
  same(db.people.updateMany({}, { $set: { seen: true } }).modifiedCount, 3);
  same(db.people.replaceOne({ _id: 9 }, { name: "Dora" }, { upsert: true }).upsertedCount, 1);
  same(db.people.deleteOne({ _id: 9 }).deletedCount, 1);
  same(db.people.findOneAndUpdate({ _id: 2 }, { $set: { n: 26 } }, { returnDocument: "after" }).n, 26);
});
check("indexes and explain", () => {
  same(db.people.createIndex({ name: 1 }, { unique: true }), "name_1");
  same(db.people.getIndexes().map((index) => index.name), ["_id_", "name_1"]);
  same(db.people.find({ name: "Ada" }).explain().queryPlanner.winningPlan.inputStage.indexName, "name_1");
  same(db.people.find({ name: "Ada" }).explain("executionStats").executionStats.nReturned, 1);
  fails(11000, () => db.people.insertOne({ name: "Ada" }));
  db.people.dropIndex("name_1");
});
check("aggregation and distinct", () => {
  same(db.people.aggregate([{ $group: { _id: null, sum: { $sum: "$n" } } }]).toArray(), [{ _id: null, sum: 104 }]);
  same(db.people.distinct("name"), ["Ada", "Bob", "Cleo"]);
});
check("bulk", () => {
  const result = db.people.bulkWrite([{ insertOne: { document: { _id: 7 } } }, { deleteOne: { filter: { _id: 7 } } }]);
  same([result.insertedCount, result.deletedCount], [1, 1]);
});
check("cursors", () => {
  db.many.insertMany(Array.from({ length: 250 }, (_, n) => ({ _id: n })));
  same(db.many.find().batchSize(10).toArray().length, 250);
  same(db.many.find().skip(240).itcount(), 10);
});
check("administration", () => {
  same(db.getCollectionNames().sort(), ["many", "people"]);
  if (!db.getMongo().getDBNames().includes(db.getName())) throw new Error("the database is not listed");
  same(db.stats().collections, 2);
  same(db.people.stats().count, 3);
  same(db.people.validate().valid, true);
  same(db.serverStatus().ok, 1);
  same(db.currentOp().ok, 1);
  db.createCollection("capped", { capped: true, size: 4096 });
  same(db.capped.isCapped(), true);
  db.many.renameCollection("more");
  same(db.more.drop(), true);
});
check("errors", () => {
  fails(59, () => db.runCommand({ noSuchCommand: 1 }));
  fails(2, () => db.people.find({ a: { $foo: 1 } }).toArray());
  fails(66, () => db.people.updateOne({ _id: 1 }, { $set: { _id: 2 } }));
});

db.dropDatabase();
print(`${passed} passed, ${failures.length} failed`);
if (failures.length > 0) quit(1);
