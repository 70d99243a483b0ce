// Readings grouped into one document for each sensor and hour.
// Loaded by ../seeds.js, which has the helpers.
/* global db, oid, same, holds, fails, check, keys, ISODate */

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
