//! Repeats queries with their indexes hidden, and with every possible plan. The results must be the
//! same, in any order.

use crate::connection::Connection;
use crate::file::{Action, TestStep};
use crate::text;
use value::{DocBuf, Error, RawDoc, Result, Val};

/// The fields of a command that the `getMore`s of its cursor have too.
pub(crate) const CONTINUED: [&str; 6] =
    ["lsid", "txnNumber", "autocommit", "apiVersion", "apiStrict", "apiDeprecationErrors"];

/// How a query is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetition {
    /// With all secondary indexes of its collection hidden.
    Hidden,
    /// Once for every plan in the reply of explain, by a hint.
    EveryPlan,
}

/// Words that make a result depend on an index, on an undefined order, or on chance.
const DEPENDS: &[&str] = &[
    "hint",
    "rawBuckets",
    "min",
    "max",
    "returnKey",
    "showRecordId",
    "limit",
    "skip",
    "tailable",
    "singleBatch",
    "$limit",
    "$skip",
    "$near",
    "$nearSphere",
    "$geoNear",
    "$text",
    "$sample",
    "$sampleRate",
    // Of `$meta`: the time up to which values are known depends on the clock.
    "patterns",
    "$rand",
    "$first",
    "$last",
    "$firstN",
    "$lastN",
    "$push",
    "$addToSet",
    "$setUnion",
    "$concatArrays",
    "$mergeObjects",
    "$lookup",
    "$graphLookup",
    "$setWindowFields",
    "$bucketAuto",
    "$out",
    "$merge",
    "$indexStats",
    "$collStats",
    "$currentOp",
    "$planCacheStats",
    "$listSessions",
    "$listLocalSessions",
    "$createObjectId",
    "$createUUID",
    "$$NOW",
    "$$CLUSTER_TIME",
    "$natural",
    "$changeStream",
    "explain",
    "startTransaction",
    "autocommit",
    "txnNumber",
    "maxTimeMS",
    "$top",
    "$topN",
    "$bottom",
    "$bottomN",
    "$avg",
    "$stdDevPop",
    "$stdDevSamp",
    "$sum",
    "$percentile",
    "$median",
    "$fill",
    "$densify",
    "$currentDate",
];

/// Words of tests whose results a repetition would change, or which would make it wait: hiding an
/// index waits for open transactions.
const COUNTS: &[&str] = &[
    "$indexStats",
    "system.profile",
    "serverStatus",
    "$planCacheStats",
    "top",
    "startTransaction",
];

/// Whether the queries of a test can be repeated without an effect on later steps.
#[must_use]
pub fn may_ask_again(steps: &[TestStep]) -> bool {
    !steps.iter().any(|step| match &step.action {
        Action::Run(text) => COUNTS.iter().any(|word| text.contains(word)),
        _ => false,
    })
}

/// Repeats a query and compares the results.
///
/// # Errors
/// When they differ, or the connection breaks.
pub fn check(
    connection: &mut dyn Connection,
    database: &str,
    command: RawDoc<'_>,
    again: Repetition,
) -> Result<()> {
    let Some((name, collection)) = command.first() else { return Ok(()) };
    let Some(collection) = collection.get().as_str() else { return Ok(()) };
    let asks = matches!(name, "find" | "aggregate" | "count" | "distinct");
    if !asks || mentions(command, 0) {
        return Ok(());
    }
    let mut asker = Asker { connection, database };
    let Some(expected) = asker.answer(command)? else { return Ok(()) };
    match again {
        Repetition::Hidden => {
            let hidden = asker.hide(collection)?;
            if hidden.is_empty() {
                return Ok(());
            }
            let found = asker.answer(command)?;
            for index in &hidden {
                asker.set_hidden(collection, index, false)?;
            }
            compare(command, "with hidden indexes", &expected, found)
        }
        Repetition::EveryPlan => {
            for index in asker.plans(command)? {
                let hinted = DocBuf::build(|out| {
                    out.extend(command).str("hint", &index);
                });
                // A hint of an index that a plan uses for one branch may be refused for the whole filter.
                if let Some(found) = asker.answer(hinted.as_doc())? {
                    compare(command, &format!("by index {index}"), &expected, Some(found))?;
                }
            }
            let natural = DocBuf::build(|out| {
                out.extend(command).doc("hint", |out| {
                    out.i32("$natural", 1);
                });
            });
            let found = asker.answer(natural.as_doc())?;
            compare(command, "by all documents", &expected, found)
        }
    }
}

fn compare(
    command: RawDoc<'_>,
    how: &str,
    expected: &[String],
    found: Option<Vec<String>>,
) -> Result<()> {
    if found.as_deref() == Some(expected) {
        return Ok(());
    }
    let command = text::print_doc(command);
    Err(Error::internal(format!("{command} {how} gives {found:?} instead of {expected:?}")))
}

/// Whether a command contains a word that makes its result depend on the plan.
fn mentions(doc: RawDoc<'_>, depth: usize) -> bool {
    depth > 50
        || doc.iter().any(|(name, value)| {
            DEPENDS.contains(&name)
                || match value.get() {
                    Val::Document(inner) | Val::Array(inner) => mentions(inner, depth + 1),
                    Val::String(text) => DEPENDS.contains(&text),
                    _ => false,
                }
        })
}

struct Asker<'a> {
    connection: &'a mut dyn Connection,
    database: &'a str,
}

impl Asker<'_> {
    fn send(&mut self, command: RawDoc<'_>) -> Result<DocBuf> {
        let command = DocBuf::build(|out| {
            out.extend(command);
            if command.find("$db").is_none() {
                out.str("$db", self.database);
            }
        });
        self.connection.run(command.as_doc())
    }

    /// The sorted result of a query; `None` if it is refused.
    fn answer(&mut self, command: RawDoc<'_>) -> Result<Option<Vec<String>>> {
        let mut all = Vec::new();
        let reply = self.send(command)?;
        let reply = reply.as_doc();
        if !reply.get("ok").is_some_and(Val::truthy) {
            return Ok(None);
        }
        let list = |values: Option<Val<'_>>, all: &mut Vec<String>| {
            let values = values.and_then(Val::as_array).unwrap_or(RawDoc::empty());
            all.extend(values.iter().map(|(_, value)| text::print_value(value)));
        };
        let mut id = 0;
        if let Some(cursor) = reply.get("cursor").and_then(Val::as_doc) {
            list(cursor.get("firstBatch"), &mut all);
            id = cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(0);
        } else if let Some(count) = reply.find("n") {
            all.push(text::print_value(count));
        } else {
            list(reply.get("values"), &mut all);
        }
        while id != 0 {
            let collection = command.first().and_then(|(_, name)| name.get().as_str());
            let more = DocBuf::build(|out| {
                out.i64("getMore", id).str("collection", collection.unwrap_or(""));
                for field in CONTINUED.iter().chain(&["$db"]) {
                    if let Some(value) = command.find(field) {
                        out.raw(field, value);
                    }
                }
            });
            let reply = self.send(more.as_doc())?;
            let Some(cursor) = reply.as_doc().get("cursor").and_then(Val::as_doc) else {
                return Ok(None);
            };
            list(cursor.get("nextBatch"), &mut all);
            id = cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(0);
        }
        all.sort();
        Ok(Some(all))
    }

    /// Hides the indexes of a collection. Returns their names.
    fn hide(&mut self, collection: &str) -> Result<Vec<String>> {
        let list = DocBuf::build(|out| {
            out.str("listIndexes", collection);
        });
        let reply = self.send(list.as_doc())?;
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
        let batch = cursor.get("firstBatch").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let mut hidden = Vec::new();
        for (_, index) in batch {
            let Some(index) = index.as_doc() else { continue };
            let name = index.get("name").and_then(Val::as_str).unwrap_or("");
            let fixed = name == "_id_" || index.find("clustered").is_some();
            if !fixed && index.find("hidden").is_none() {
                self.set_hidden(collection, name, true)?;
                hidden.push(name.to_owned());
            }
        }
        Ok(hidden)
    }

    fn set_hidden(&mut self, collection: &str, index: &str, hidden: bool) -> Result<()> {
        let command = DocBuf::build(|out| {
            out.str("collMod", collection).doc("index", |out| {
                out.str("name", index).bool("hidden", hidden);
            });
        });
        self.send(command.as_doc()).map(drop)
    }

    /// The indexes that are the only one in a plan for a query.
    fn plans(&mut self, command: RawDoc<'_>) -> Result<Vec<String>> {
        let explain = DocBuf::build(|out| {
            out.append("explain", Val::Document(command)).str("verbosity", "queryPlanner");
        });
        let reply = self.send(explain.as_doc())?;
        let mut names = Vec::new();
        let Some(planner) = planner(reply.as_doc()) else { return Ok(names) };
        let rejected = planner.get("rejectedPlans").and_then(Val::as_array);
        let rejected = rejected.unwrap_or(RawDoc::empty());
        let trees = rejected.iter().filter_map(|(_, plan)| plan.as_doc());
        for tree in planner.get("winningPlan").and_then(Val::as_doc).into_iter().chain(trees) {
            let mut found = Vec::new();
            indexes(tree, 0, &mut found);
            if let [only] = found.as_slice()
                && !names.contains(only)
            {
                names.push(only.clone());
            }
        }
        Ok(names)
    }
}

fn planner(reply: RawDoc<'_>) -> Option<RawDoc<'_>> {
    reply.get("queryPlanner").and_then(Val::as_doc).or_else(|| {
        let (_, first) = reply.get("stages").and_then(Val::as_array)?.first()?;
        first.as_doc()?.get("$cursor")?.as_doc()?.get("queryPlanner")?.as_doc()
    })
}

fn indexes(stage: RawDoc<'_>, depth: usize, out: &mut Vec<String>) {
    if depth > 40 {
        return;
    }
    if let Some(name) = stage.get("indexName").and_then(Val::as_str)
        && !out.iter().any(|known| known == name)
    {
        out.push(name.to_owned());
    }
    if let Some(input) = stage.get("inputStage").and_then(Val::as_doc) {
        indexes(input, depth + 1, out);
    }
    for (_, input) in stage.get("inputStages").and_then(Val::as_array).unwrap_or(RawDoc::empty()) {
        if let Some(input) = input.as_doc() {
            indexes(input, depth + 1, out);
        }
    }
}
