// mongosh: how many different readers articles have. Run: mongosh <uri>/site approximation.js
db.articles.drop();
db.views.drop();
db.articles.insertMany([{ _id: "tea", title: "Tea" }, { _id: "ink", title: "Ink" }]);
db.runCommand({ createPatterns: "articles", patterns: [{
  name: "audience", kind: "approximation", from: "views", on: "article",
  fields: { readers: { distinct: "$user", error: 0.01 }, views: { count: {} } }
}] });

const views = [];
for (let n = 0; n < 6000; n++) views.push({ article: "tea", user: n % 3000 });
for (let n = 0; n < 80; n++) views.push({ article: "ink", user: n % 40 });
db.views.insertMany(views);
const tea = db.articles.findOne({ _id: "tea" });
const ink = db.articles.findOne({ _id: "ink" });
printjson([tea, ink]);
if (tea.views !== 6000 || Math.abs(tea.readers / 3000 - 1) > 0.03) quit(1);
if (ink.views !== 80 || ink.readers !== 40) quit(1);       // few values are counted exactly

// What is deleted is no longer counted.
db.views.deleteMany({ article: "tea", user: { $gte: 1500 } });
const half = db.articles.findOne({ _id: "tea" });
printjson(half);
if (half.views !== 3000 || Math.abs(half.readers / 1500 - 1) > 0.03) quit(1);
