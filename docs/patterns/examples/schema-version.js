// mongosh: users whose address becomes an object. Run: mongosh <uri>/shop schema-version.js
db.users.drop();
db.users.insertMany([
  { _id: 1, schema_version: 1, address: "456 Oak Ave, Portland" },
  { _id: 2, schema_version: 1, address: "unknown" }
]);
const declared = db.runCommand({ createPatterns: "users", patterns: [{
  name: "users_v2", kind: "schemaVersion", version: 2, from: 1,
  up: [{ $set: { address: { $let: { vars: { p: { $split: ["$address", ", "] } }, in: {
    street: { $arrayElemAt: ["$$p", 0] }, city: { $arrayElemAt: ["$$p", 1] } } } } } }],
  down: [{ $set: { address: { $concat: ["$address.street", ", ", "$address.city"] } } }],
  validator: { "address.city": { $type: "string" } }
}] });
if (declared.ok !== 1) quit(1);
const old = filter => db.runCommand({ find: "users", filter, $schemaVersion: 1 }).cursor.firstBatch;
printjson(old({}));
if (db.users.findOne({ "address.city": "Portland" })._id !== 1) quit(1);
if (old({ address: /Portland/ })[0].address !== "456 Oak Ave, Portland") quit(1);
db.runCommand({ insert: "users", documents: [{ _id: 3, address: "1 Pine St, Salem" }], $schemaVersion: 1 });
if (db.users.findOne({ _id: 3 }).address.city !== "Salem") quit(1);
const listed = db.runCommand({ listPatterns: "users" }).cursor.firstBatch[0];
printjson({ versions: listed.versions, quarantine: listed.quarantine });
if (listed.versions["1"] !== 1 || listed.versions["2"] !== 2 || listed.quarantine[0]._id !== 2) quit(1);
db.users.updateOne({ _id: 2 }, { $set: { address: { street: "9 Elm St", city: "Bend" } } });
if (db.runCommand({ applyPatterns: "users", rollback: "users_v2" }).ok !== 1) quit(1);
if (db.users.findOne({ _id: 2 }).address !== "9 Elm St, Bend") quit(1);
if (db.users.findOne({ _id: 1 }).address !== "456 Oak Ave, Portland") quit(1);
