// Helpers for mongosh: patterns of collections as methods.
//
//   motif shell-helpers > motif.js
//   mongosh --shell --file motif.js "mongodb://127.0.0.1:27017/shop"
//
// or, in a running shell: load("motif.js")
//
//   db.products.createPattern({ name: "reviews", kind: "computed", from: "reviews",
//     on: { local: "_id", foreign: "product_id" }, fields: { count: { $count: {} } } })
//   db.products.getPatterns()
//   db.products.dropPattern("reviews")
{
  const Collection = Object.getPrototypeOf(db.getCollection("motif")).constructor;
  const Database = Object.getPrototypeOf(db).constructor;

  // What listPatterns returns, in one batch.
  function all(database, what) {
    const listed = database.runCommand({ listPatterns: what, cursor: { batchSize: 1000000 } });
    return listed.cursor.firstBatch;
  }

  // Declares one pattern. Options: wait (default true), and those of createPatterns.
  Collection.prototype.createPattern = function (pattern, options) {
    return this.createPatterns([pattern], options);
  };

  // Declares several patterns at once; they may depend on each other.
  Collection.prototype.createPatterns = function (patterns, options) {
    return this.getDB().runCommand({ createPatterns: this.getName(), patterns, ...options });
  };

  // The patterns of the collection, with their states.
  Collection.prototype.getPatterns = function () {
    return all(this.getDB(), this.getName());
  };

  // Drops one pattern. Options: keepValues, wait.
  Collection.prototype.dropPattern = function (name, options) {
    return this.dropPatterns([name], options);
  };

  // Drops patterns by their names, or all with "*".
  Collection.prototype.dropPatterns = function (names, options) {
    return this.getDB().runCommand({ dropPatterns: this.getName(), names, ...options });
  };

  // Changes options of a pattern: db.products.modifyPattern("topReviews", { limit: 10 })
  Collection.prototype.modifyPattern = function (name, set, options) {
    return this.getDB().runCommand({ modifyPattern: this.getName(), name, set, ...options });
  };

  // Stops the upkeep of patterns until resumePatterns.
  Collection.prototype.suspendPatterns = function (names) {
    return this.getDB().runCommand({ suspendPatterns: this.getName(), names });
  };

  // Brings suspended, failed and degraded patterns up to date, and maintains them again.
  Collection.prototype.resumePatterns = function (names, options) {
    return this.getDB().runCommand({ resumePatterns: this.getName(), names, ...options });
  };

  // Compares maintained values with a recomputation. Options: names, filter, repair.
  Collection.prototype.validatePatterns = function (options) {
    return this.getDB().runCommand({ validatePatterns: this.getName(), ...options });
  };

  // The patterns of all collections of the database.
  Database.prototype.getPatterns = function () {
    return all(this, 1);
  };
}
