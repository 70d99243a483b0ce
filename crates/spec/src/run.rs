//! Runs one test in a database of its own: set-up and steps. Results are judged elsewhere.

use crate::connection::Connection;
use crate::file::{Action, Kind, Setup, SpecFile, Test, TestStep};
use crate::judge;
use crate::outcome::Outcome;
use crate::same::{self, Repetition};
use crate::shape;
use crate::text::{self, Names};
use std::sync::atomic::{AtomicU64, Ordering};
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// Options of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunMode {
    /// Whether batches have one document, so that `getMore` reads the rest.
    pub batch_of_one: bool,
    /// Whether to read the documents of a last step without expectations too, for `bless`.
    pub fetch_always: bool,
    /// How every query is repeated, if it is.
    pub again: Option<Repetition>,
}

/// Runs a test and calls `visit` with each step and its outcome; the first error ends it.
///
/// # Errors
/// An error of `visit`, a broken connection, or a failed set-up.
pub fn run_test(
    connection: &mut dyn Connection,
    file: &SpecFile,
    test: &Test,
    mode: RunMode,
    mut visit: impl FnMut(&TestStep, &Outcome, &Names) -> std::result::Result<(), String>,
) -> std::result::Result<(), String> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let database = format!("spec_{}_{number}", std::process::id());
    let session = format!("{:08x}00004000a000{number:012x}", std::process::id());
    let session = format!(
        "{}-{}-{}-{}-{}",
        &session[..8],
        &session[8..12],
        &session[12..16],
        &session[16..20],
        &session[20..]
    );
    let names = Names { database, cursor: 0, session };
    let again = mode.again.filter(|_| same::may_ask_again(&test.steps));
    let mode = RunMode { again, ..mode };
    let mut running =
        Running { connection, names, mode, collection: String::new(), evaluated: String::new() };
    let mut steps = || {
        for setup in &file.setup {
            running.set_up(setup)?;
        }
        for (at, step) in test.steps.iter().enumerate() {
            let last = at + 1 == test.steps.len();
            let outcome = running.step(step, last).map_err(|error| {
                format!("line {}: cannot be carried out: {error}", step.last_line)
            })?;
            visit(step, &outcome, &running.names)?;
        }
        Ok(())
    };
    let result = steps();
    // A transaction that a test has left open would block dropping the database.
    let kill = "{killSessions: [<lsid>, <lsid:2>], $db: 'admin'}";
    let killed = running.command(kill).map(drop).map_err(|error| error.to_string());
    let cleaned = running.command("{dropDatabase: 1}").map(drop).map_err(|error| error.to_string());
    result.and(killed).and(cleaned)
}

struct Running<'a> {
    connection: &'a mut dyn Connection,
    names: Names,
    mode: RunMode,
    /// The first collection that was set up: what `match` and `update` act on.
    collection: String,
    /// The document that `eval` found last.
    evaluated: String,
}

impl Running<'_> {
    fn command(&mut self, text: &str) -> Result<DocBuf> {
        let command = text::doc(&self.names.fill(text))?;
        self.send(command.as_doc())
    }

    fn send(&mut self, command: RawDoc<'_>) -> Result<DocBuf> {
        let command = DocBuf::build(|out| {
            out.extend(command);
            if command.find("$db").is_none() {
                out.str("$db", &self.names.database);
            }
        });
        self.connection.run(command.as_doc())
    }

    fn set_up(&mut self, setup: &Setup) -> std::result::Result<(), String> {
        let (what, reply) = match setup {
            Setup::Data { collection, body } => {
                if self.collection.is_empty() {
                    self.collection.clone_from(collection);
                }
                (format!("data {collection}"), self.insert(collection, body))
            }
            Setup::Index { collection, body } => {
                (format!("index {collection}"), self.create_index(collection, body))
            }
        };
        let reply = reply.map_err(|error| format!("{what}: {error}"))?;
        let doc = reply.as_doc();
        if doc.get("ok").is_some_and(Val::truthy) && doc.find("writeErrors").is_none() {
            return Ok(());
        }
        Err(format!("{what}: {}", text::print_reply(doc)))
    }

    fn insert(&mut self, collection: &str, body: &str) -> Result<DocBuf> {
        let docs = text::docs(&self.names.fill(body))?;
        let command = DocBuf::build(|out| {
            if docs.is_empty() {
                out.str("create", collection);
                return;
            }
            out.str("insert", collection);
            out.array("documents", |list| {
                docs.iter().for_each(|doc| list.push_doc_bytes(doc.bytes()));
            });
        });
        self.send(command.as_doc())
    }

    fn create_index(&mut self, collection: &str, body: &str) -> Result<DocBuf> {
        let body = self.names.fill(body);
        let (keys, rest) = text::value_and_rest(&body)?;
        let keys = keys.as_doc().get("value").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
        let options = if rest.starts_with('{') { text::doc(rest)? } else { DocBuf::new() };
        let words: Vec<&str> =
            if rest.starts_with('{') { Vec::new() } else { rest.split_whitespace().collect() };
        let name: Vec<String> = keys
            .iter()
            .map(|(field, value)| format!("{field}_{}", text::print_value(value).trim_matches('"')))
            .collect();
        let command = DocBuf::build(|out| {
            out.str("createIndexes", collection);
            out.array("indexes", |list| {
                list.push_doc(|index| {
                    index.append("key", Val::Document(keys));
                    if options.as_doc().find("name").is_none() {
                        index.str("name", &name.join("_"));
                    }
                    index.extend(options.as_doc());
                    words.iter().for_each(|word| {
                        index.bool(word, true);
                    });
                });
            });
        });
        self.send(command.as_doc())
    }

    fn step(&mut self, step: &TestStep, last: bool) -> Result<Outcome> {
        let wants = |kinds: &[Kind]| step.expectations.iter().any(|e| kinds.contains(&e.kind));
        let documents = [Kind::Docs, Kind::DocsUnordered, Kind::Ids, Kind::Value];
        let nothing_expected = step.expectations.is_empty();
        let fetch = wants(&documents) || (self.mode.fetch_always && last && nothing_expected);
        match &step.action {
            Action::Setup(setup) => {
                self.set_up(setup).map_err(value::Error::internal)?;
                let reply = DocBuf::build(|out| {
                    out.f64("ok", 1.0);
                });
                Ok(Outcome { reply, ..Outcome::default() })
            }
            Action::Run(text) => {
                let command = text::doc(&self.names.fill(text))?;
                self.run_command(command.as_doc(), fetch, plan_of(step))
            }
            Action::Match(text) => {
                let filter = text::doc(&self.names.fill(text))?;
                let command = DocBuf::build(|out| {
                    out.str("find", &self.collection);
                    out.append("filter", Val::Document(filter.as_doc()));
                });
                self.run_command(command.as_doc(), true, plan_of(step))
            }
            Action::Eval(text) => self.eval(text),
            Action::Update(text) => self.update(text),
        }
    }

    fn run_command(
        &mut self,
        command: RawDoc<'_>,
        fetch: bool,
        plan: Option<Kind>,
    ) -> Result<Outcome> {
        let small = (fetch && self.mode.batch_of_one).then(|| with_batch_of_one(command));
        let reply = self.send(small.as_ref().map_or(command, DocBuf::as_doc))?;
        if let Some(again) = self.mode.again {
            let database = self.names.database.clone();
            same::check(self.connection, &database, command, again)?;
        }
        let mut outcome = Outcome::default();
        if let Some(cursor) = reply.as_doc().get("cursor").and_then(Val::as_doc) {
            if let Some(id @ 1..) = cursor.get("id").and_then(Val::as_i64_exact).map(i64::abs) {
                self.names.cursor = cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(id);
            }
            if fetch {
                outcome.docs = Some(self.drain(command, cursor)?);
            }
        }
        if let Some(kind) = plan {
            let explained = if command.first().is_some_and(|(name, _)| name == "explain") {
                reply.clone()
            } else {
                let explain = DocBuf::build(|out: &mut Writer<'_>| {
                    out.append("explain", Val::Document(command)).str("verbosity", "queryPlanner");
                });
                self.send(explain.as_doc())?
            };
            outcome.plan = Some(shape::lines(explained.as_doc(), kind == Kind::Details));
        }
        outcome.reply = reply;
        Ok(outcome)
    }

    /// All documents of a cursor.
    fn drain(&mut self, command: RawDoc<'_>, cursor: RawDoc<'_>) -> Result<Vec<DocBuf>> {
        let database = command.get("$db").and_then(Val::as_str).unwrap_or(&self.names.database);
        let database = database.to_owned();
        let namespace = cursor.get("ns").and_then(Val::as_str).unwrap_or("").to_owned();
        let (_, collection) = namespace.split_once('.').unwrap_or(("", ""));
        let batch = |cursor: RawDoc<'_>, name: &str| -> Vec<DocBuf> {
            let batch = cursor.get(name).and_then(Val::as_array).unwrap_or(RawDoc::empty());
            batch.iter().filter_map(|(_, doc)| doc.as_doc().map(DocBuf::from)).collect()
        };
        let mut docs = batch(cursor, "firstBatch");
        if docs.is_empty() {
            docs = batch(cursor, "nextBatch");
        }
        let mut id = cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(0);
        while id != 0 {
            let command = DocBuf::build(|out| {
                out.i64("getMore", id).str("collection", collection);
                if self.mode.batch_of_one {
                    out.i32("batchSize", 1);
                }
                for field in crate::same::CONTINUED {
                    if let Some(value) = command.find(field) {
                        out.raw(field, value);
                    }
                }
                out.str("$db", &database);
            });
            let reply = self.connection.run(command.as_doc())?;
            let reply = client::check(reply.as_doc())?;
            let next = reply.get("cursor").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
            docs.extend(batch(next, "nextBatch"));
            id = next.get("id").and_then(Val::as_i64_exact).unwrap_or(0);
        }
        Ok(docs)
    }

    /// `EXPR [on DOC]`.
    fn eval(&mut self, text: &str) -> Result<Outcome> {
        let text = self.names.fill(text);
        let (expr, rest) = text::value_and_rest(&text)?;
        let doc = rest.strip_prefix("on").unwrap_or("{_id: 1}").trim();
        self.keep_alone(doc)?;
        let value = expr.as_doc().get("value").unwrap_or(Val::Null);
        let command = DocBuf::build(|out| {
            out.str("aggregate", "eval");
            out.array("pipeline", |stages| {
                stages.push_doc(|stage| {
                    stage.doc("$project", |project| {
                        project.i32("_id", 0);
                        match value {
                            Val::Document(_) | Val::Array(_) | Val::String(_) => {
                                project.append("value", value);
                            }
                            // A bare number would mean inclusion.
                            _ => {
                                project.doc("value", |out| {
                                    out.append("$literal", value);
                                });
                            }
                        }
                    });
                });
            });
            out.doc("cursor", |_| {});
        });
        self.run_command(command.as_doc(), true, None)
    }

    /// Replaces all documents of the collection for `eval` by this one.
    fn keep_alone(&mut self, doc: &str) -> Result<()> {
        if self.evaluated == doc {
            return Ok(());
        }
        if !self.evaluated.is_empty() {
            self.command("{delete: \"eval\", deletes: [{q: {}, limit: 0}]}")?;
        }
        self.evaluated = doc.to_owned();
        let reply = self.insert("eval", doc)?;
        match judge::expect_reply_success(reply.as_doc()) {
            Ok(()) => Ok(()),
            Err(message) => Err(value::Error::internal(message)),
        }
    }

    /// `SPEC [with OPTIONS]`: updates all documents, then reads them.
    fn update(&mut self, text: &str) -> Result<Outcome> {
        let text = self.names.fill(text);
        let (spec, rest) = text::value_and_rest(&text)?;
        let spec = spec.as_doc().get("value").unwrap_or(Val::Null);
        let options = match rest.strip_prefix("with") {
            Some(options) => text::doc(options)?,
            None => DocBuf::new(),
        };
        let options = options.as_doc();
        let replacement = spec
            .as_doc()
            .and_then(|spec| spec.first())
            .is_none_or(|(name, _)| !name.starts_with('$'));
        let multi = !replacement || spec.as_array().is_some();
        let command = DocBuf::build(|out| {
            out.str("update", &self.collection);
            out.array("updates", |list| {
                list.push_doc(|update| {
                    if options.find("q").is_none() {
                        update.doc("q", |_| {});
                    }
                    update.append("u", spec);
                    if options.find("multi").is_none() {
                        update.bool("multi", multi);
                    }
                    update.extend(options);
                });
            });
        });
        let reply = self.send(command.as_doc())?;
        let find = DocBuf::build(|out| {
            out.str("find", &self.collection);
        });
        let docs = self.run_command(find.as_doc(), true, None)?.docs;
        Ok(Outcome { reply, docs, plan: None, writes_alone: true })
    }
}

/// Whether a step expects a plan, and in which form.
fn plan_of(step: &TestStep) -> Option<Kind> {
    let mut kinds = step.expectations.iter().map(|expectation| expectation.kind);
    kinds.find(|kind| matches!(kind, Kind::Plan | Kind::Details))
}

/// The command with a batch size of one, where it gives a cursor and names no size.
fn with_batch_of_one(command: RawDoc<'_>) -> DocBuf {
    let name = command.first().map_or("", |(name, _)| name);
    DocBuf::build(|out| match name {
        "find" if command.find("batchSize").is_none() && command.find("singleBatch").is_none() => {
            out.extend(command).i32("batchSize", 1);
        }
        "aggregate" | "listCollections" | "listIndexes" => {
            for (field, value) in command {
                if field != "cursor" || value.as_doc().is_none_or(|doc| !doc.is_empty()) {
                    out.raw(field, value);
                }
            }
            if command.get("cursor").and_then(Val::as_doc).is_none_or(RawDoc::is_empty) {
                out.doc("cursor", |cursor| {
                    cursor.i32("batchSize", 1);
                });
            }
        }
        _ => {
            out.extend(command);
        }
    })
}
