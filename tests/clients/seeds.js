// mongosh: the schema design patterns that MotifDB is made for, as their users type them. Every
// pattern starts with an empty database, runs its statements and checks what they answer.
// The patterns are in seeds/. Prints pass counts; a failure ends with a non-zero status.
//
// Left out until the server has change streams:
// - Computed Pattern: «Automating Computation with a Change Stream»
/* global db, load, print, quit, EJSON, ObjectId, __dirname */
let passed = 0;
const failures = [];
function check(title, body) {
  try {
    db.dropDatabase();
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
function holds(condition, what) {
  if (!condition) throw new Error(`does not hold: ${what}`);
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
// A readable name stands for the same identifier everywhere.
const identifiers = {};
function oid(name) {
  identifiers[name] ??= new ObjectId();
  return identifiers[name];
}
// The stages of the winning plan from the root down, and the indexes that they read.
function plan(explained) {
  const found = { stages: [], indexes: [], multikey: false };
  const open = [explained.queryPlanner.winningPlan];
  while (open.length > 0) {
    const stage = open.shift();
    if (stage.stage) found.stages.push(stage.stage);
    if (stage.indexName) found.indexes.push(stage.indexName);
    if (stage.isMultiKey) found.multikey = true;
    for (const below of [stage.queryPlan, stage.inputStage, ...(stage.inputStages ?? [])]) {
      if (below) open.push(below);
    }
  }
  return found;
}
function usesIndex(explained, name) {
  const found = plan(explained);
  same(found.indexes, [name]);
  holds(found.stages.includes("IXSCAN") && !found.stages.includes("COLLSCAN"), `an index scan in ${found.stages}`);
}
function scansAll(explained) {
  const found = plan(explained);
  same(found.indexes, []);
  holds(found.stages.includes("COLLSCAN"), `a collection scan in ${found.stages}`);
}
const names = (documents) => documents.map((document) => document.name);
const keys = (documents) => documents.map((document) => document._id);

for (const part of ["attribute", "reference", "computed", "versioning", "bucket", "tree", "indexing"]) {
  load(`${__dirname}/seeds/${part}.js`);
}

db.dropDatabase();
print(`${passed} passed, ${failures.length} failed`);
if (failures.length > 0) quit(1);
