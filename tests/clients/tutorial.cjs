// Prints a script for mongosh that runs the blocks of docs/tutorial.md one after another and compares
// the results that the page shows after `// =>`.
"use strict";
const { readFileSync } = require("node:fs");

const page = readFileSync(process.argv[2], "utf8");
const blocks = [...page.matchAll(/^```js\n(.*?)^```/gms)].map((match) => match[1]);
const checks = [];
const script = [];
for (const block of blocks) {
  let statements = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("// => ")) {
      const shown = statements.pop();
      script.push(...statements.map((statement) => `${statement};`));
      // A statement that is no expression, such as `try`, gives its value by `eval` in a function.
      const value = shown.startsWith("try ")
        ? shown.replace(/catch \(error\) \{ (.*) \}$/, "catch (error) { result = $1; }")
        : `result = ${shown}`;
      script.push(`result = undefined; ${value};`);
      script.push(`check(${JSON.stringify(shown)}, result, ${line.slice("// => ".length)});`);
      checks.push(shown);
      statements = [];
    } else if (/^[\s)\]}]/.test(line) && statements.length > 0) {
      statements.push(`${statements.pop()}\n${line}`);
    } else if (line.trim()) {
      statements.push(line);
    }
  }
  script.push(...statements.map((statement) => `${statement};`));
}
if (checks.length < 15) throw new Error(`only ${checks.length} results are shown`);
process.stdout.write(`
let result;
function check(statement, found, expected) {
  if (found !== null && typeof found === "object" && typeof found.toArray === "function") found = found.toArray();
  const [a, b] = [found, expected].map((value) => EJSON.stringify(value, { relaxed: true }));
  if (a !== b) throw new Error(statement + "\\n  gives " + a + "\\n  the page says " + b);
}
db.dropDatabase();
${script.join("\n")}
print("${checks.length} results are as the page says");
`);
