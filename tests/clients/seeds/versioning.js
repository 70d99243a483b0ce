// Documents of several schema versions in one collection.
// Loaded by ../seeds.js, which has the helpers.
/* global db, oid, same, fails, check, ISODate */

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
