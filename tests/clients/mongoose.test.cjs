// Mongoose against MONGODB_URI: models, indexes at start-up, population, validation, versions.
"use strict";
const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const mongoose = require("mongoose");

const Author = mongoose.model("Author", new mongoose.Schema({ name: { type: String, required: true }, email: { type: String, unique: true } }, { timestamps: true }));
const Book = mongoose.model(
  "Book",
  new mongoose.Schema({
    title: { type: String, index: true },
    pages: { type: Number, min: 1 },
    tags: [String],
    price: mongoose.Schema.Types.Decimal128,
    author: { type: mongoose.Schema.Types.ObjectId, ref: "Author" },
    reviews: [{ by: String, stars: Number }],
  }),
);

before(async () => {
  await mongoose.connect(process.env.MONGODB_URI, { dbName: "clients_mongoose_" + process.pid, serverSelectionTimeoutMS: 60000 });
  await Promise.all([Author.init(), Book.init()]);
});
after(async () => {
  await mongoose.connection.dropDatabase();
  await mongoose.disconnect();
});

describe("mongoose", () => {
  it("makes the indexes of its schemas", async () => {
    const names = (await Author.collection.indexes()).map((index) => index.name);
    assert.ok(names.includes("email_1"));
    await Book.syncIndexes();
    assert.ok((await Book.listIndexes()).some((index) => index.name === "title_1"));
  });

  it("saves, changes and reads back", async () => {
    const author = await Author.create({ name: "Ursula", email: "u@x" });
    assert.ok(author.createdAt instanceof Date);
    const book = new Book({ title: "Earthsea", pages: 205, tags: ["a"], price: "12.50", author: author._id });
    await book.save();
    book.tags.push("b");
    book.pages = 206;
    book.reviews.push({ by: "x", stars: 5 });
    await book.save();
    const found = await Book.findById(book._id);
    assert.deepEqual([...found.tags], ["a", "b"]);
    assert.equal(found.pages, 206);
    assert.equal(found.price.toString(), "12.50");
    assert.equal(found.reviews[0].stars, 5);
    assert.equal(found.__v, 1);
  });

  it("populates", async () => {
    const book = await Book.findOne({ title: "Earthsea" }).populate("author");
    assert.equal(book.author.name, "Ursula");
    const lean = await Book.findOne({ title: /^earth/i }).select("title -_id").lean();
    assert.deepEqual(lean, { title: "Earthsea" });
  });

  it("finds and updates with upsert", async () => {
    const made = await Author.findOneAndUpdate({ email: "new@x" }, { $set: { name: "New" } }, { upsert: true, returnDocument: "after", setDefaultsOnInsert: true });
    assert.equal(made.name, "New");
    const again = await Author.findOneAndUpdate({ email: "new@x" }, { name: "Newer" }, { returnDocument: "after" });
    assert.equal(again.id, made.id);
    assert.equal(again.name, "Newer");
  });

  it("tells duplicates and validation errors", async () => {
    await assert.rejects(Author.create({ name: "Copy", email: "u@x" }), (error) => error.code === 11000);
    await assert.rejects(Book.create({ title: "x", pages: 0 }), (error) => error.name === "ValidationError");
  });

  it("notices that a document changed in between", async () => {
    const book = await Book.create({ title: "Race", reviews: [{ by: "a", stars: 1 }, { by: "b", stars: 2 }] });
    const one = await Book.findById(book._id);
    const two = await Book.findById(book._id);
    one.reviews.pull(one.reviews[0]._id);
    await one.save();
    two.reviews[1].stars = 9;
    two.markModified("reviews");
    two.increment();
    await assert.rejects(two.save(), (error) => error.name === "VersionError");
  });

  it("counts, aggregates, walks a cursor, deletes", async () => {
    await Book.insertMany([{ title: "A", pages: 1 }, { title: "B", pages: 2 }, { title: "C", pages: 3 }]);
    assert.equal(await Book.countDocuments({ pages: { $lte: 3 } }), 3);
    assert.ok(await Book.exists({ title: "B" }));
    const [sum] = await Book.aggregate([{ $match: { pages: { $lte: 3 } } }, { $group: { _id: null, pages: { $sum: "$pages" } } }]);
    assert.equal(sum.pages, 6);
    const titles = [];
    for await (const book of Book.find({ pages: { $lte: 3 } }).sort({ title: -1 }).cursor({ batchSize: 1 })) titles.push(book.title);
    assert.deepEqual(titles, ["C", "B", "A"]);
    assert.equal((await Book.deleteMany({ pages: { $lte: 3 } })).deletedCount, 3);
    assert.deepEqual(await Book.distinct("tags"), ["a", "b"]);
  });

  it("writes in bulk", async () => {
    const result = await Book.bulkWrite([
      { insertOne: { document: { title: "Bulk", pages: 5 } } },
      { updateOne: { filter: { title: "Bulk" }, update: { $inc: { pages: 1 } } } },
    ]);
    assert.equal(result.insertedCount, 1);
    assert.equal((await Book.findOne({ title: "Bulk" })).pages, 6);
  });
});
