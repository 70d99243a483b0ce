// mongosh: readings of a sensor in hourly buckets. Run: mongosh <uri>/shop bucket.js
db.readings.drop();
db.createCollection("readings");
db.runCommand({ createPatterns: "readings", patterns: [{
  name: "hourly", kind: "bucket", key: ["sensor"], time: "ts", span: "1h",
  rollup: { fields: { temp: ["min", "max", "sum", "count"] }, levels: ["1h", "1d"] }
}] });
db.readings.insertMany([["10:00:05", 22.1], ["10:01:03", 22.3], ["10:59:59", 23.1]].map(([at, temp]) =>
  ({ sensor: 7, ts: ISODate(`2026-01-01T${at}Z`), temp })));
db.readings.deleteOne({ ts: ISODate("2026-01-01T10:59:59Z") });
const raw = db.runCommand({ find: "readings", rawBuckets: true }).cursor.firstBatch;
printjson(raw);
const averages = db.readings.aggregate([{ $group: { _id: { $dateTrunc: { date: "$ts", unit: "hour" } }, temp: { $avg: "$temp" } } }]).toArray();
printjson(averages);
if (raw.length !== 1 || raw[0].count !== 2 || raw[0].rollup.temp.max !== 22.3 || averages[0].temp * 2 !== raw[0].rollup.temp.sum) quit(1);
