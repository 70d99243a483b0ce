//! Runs a case on both sides and compares the results.

use crate::connection::Connection;
use crate::text;
use value::{DocBuf, RawDoc, RawVal, Result, Val};

/// Data and one command.
#[derive(Debug, Clone)]
pub struct Case {
    /// The documents of the collection `c`, in the order of their `_id`.
    pub documents: Vec<DocBuf>,
    /// A read, or an update after which the documents are read.
    pub command: DocBuf,
}

/// The answer of a side.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The code of an error.
    pub code: Option<i64>,
    /// Counts of an update, and documents.
    pub documents: Vec<DocBuf>,
    /// The message of an error.
    pub message: String,
}

/// A side with its connection.
pub struct Side {
    /// The connection.
    pub connection: Box<dyn Connection>,
    /// The database of the fuzzer on this side.
    pub database: String,
}

impl Side {
    fn send(&mut self, command: RawDoc<'_>) -> Result<DocBuf> {
        let command = DocBuf::build(|out| {
            out.extend(command).str("$db", &self.database);
        });
        self.connection.run(command.as_doc())
    }

    fn text(&mut self, command: &str) -> Result<DocBuf> {
        let command = text::doc(command)?;
        self.send(command.as_doc())
    }

    /// Drops the collections and prepares them; commands that fail are ignored.
    ///
    /// # Errors
    /// A broken connection.
    pub fn prepare(&mut self, setup: &[String]) -> Result<()> {
        for command in ["{drop: \"c\"}", "{drop: \"o\"}"] {
            self.text(command)?;
        }
        for command in setup {
            self.text(command)?;
        }
        Ok(())
    }

    /// Replaces all documents. The collection `o` always gets the same three.
    ///
    /// # Errors
    /// If the connection breaks, or the server refuses the documents.
    pub fn fill(&mut self, documents: &[DocBuf]) -> Result<()> {
        self.text("{delete: \"o\", deletes: [{q: {}, limit: 0}]}")?;
        self.text(
            "{insert: \"o\", documents: [{_id: 0, k: 9, v: 0}, {_id: 1, k: 1, g: 1, v: {w: 7}}, {_id: \
             2, k: 2, g: 2, z: [1]}]}",
        )?;
        self.text("{delete: \"c\", deletes: [{q: {}, limit: 0}]}")?;
        if documents.is_empty() {
            return Ok(());
        }
        let insert = DocBuf::build(|out| {
            out.str("insert", "c").bool("ordered", false);
            out.array("documents", |list| {
                documents.iter().for_each(|doc| list.push_doc_bytes(doc.bytes()));
            });
        });
        let reply = self.send(insert.as_doc())?;
        if refused_by_index(reply.as_doc()) {
            return Ok(());
        }
        crate::judge::expect_reply_success(reply.as_doc()).map_err(value::Error::internal)
    }

    /// Removes the database of the fuzzer.
    ///
    /// # Errors
    /// A broken connection.
    pub fn clear(&mut self) -> Result<()> {
        self.text("{dropDatabase: 1}").map(drop)
    }

    /// Runs a command.
    ///
    /// # Errors
    /// A broken connection.
    pub fn answer(&mut self, command: RawDoc<'_>) -> Result<Answer> {
        let reply = self.send(command)?;
        let doc = reply.as_doc();
        let mut documents = Vec::new();
        let errors = doc.get("writeErrors").and_then(Val::as_array).and_then(RawDoc::first);
        let failed = match errors.and_then(|(_, error)| error.as_doc()) {
            Some(error) => Some(error),
            None if doc.get("ok").is_some_and(Val::truthy) => None,
            None => Some(doc),
        };
        if let Some(cursor) = doc.get("cursor").and_then(Val::as_doc) {
            let batch = cursor.get("firstBatch").and_then(Val::as_array).unwrap_or(RawDoc::empty());
            documents.extend(batch.iter().filter_map(|(_, doc)| doc.as_doc().map(DocBuf::from)));
        }
        if let Some(collection) = written(command) {
            documents.push(DocBuf::build(|out| {
                for name in ["n", "nModified", "value"] {
                    out.append(name, doc.get(name).unwrap_or(Val::Missing));
                }
            }));
            let found = self.text(&format!("{{find: \"{collection}\", sort: {{_id: 1}}}}"))?;
            let cursor = found.as_doc().get("cursor").and_then(Val::as_doc);
            let batch = cursor.and_then(|cursor| cursor.get("firstBatch")?.as_array());
            let batch = batch.unwrap_or(RawDoc::empty());
            documents.extend(batch.iter().filter_map(|(_, doc)| doc.as_doc().map(DocBuf::from)));
        }
        Ok(Answer {
            code: failed.map(|error| error.get("code").and_then(Val::as_i64_exact).unwrap_or(-1)),
            message: failed
                .and_then(|error| error.get("errmsg").and_then(Val::as_str))
                .unwrap_or("")
                .to_owned(),
            documents,
        })
    }
}

/// The collection that a command writes.
#[must_use]
pub fn written(command: RawDoc<'_>) -> Option<&'static str> {
    match command.first() {
        Some(("update" | "findAndModify", _)) => Some("c"),
        _ if has_stage(command, "$merge") => Some("o"),
        _ => None,
    }
}

/// Whether documents were refused, all of them because an index cannot have them. A later read of the
/// collection shows which ones.
fn refused_by_index(reply: RawDoc<'_>) -> bool {
    let Some(errors) = reply.get("writeErrors").and_then(Val::as_array) else { return false };
    let code = |error: RawVal<'_>| error.as_doc()?.get("code")?.as_i64_exact();
    errors.iter().all(|(_, error)| matches!(code(error), Some(16755 | 13027 | 201)))
}

/// How two answers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// One fails, the other does not.
    Failure,
    /// Both fail, with different codes.
    Code,
    /// The documents differ.
    Documents,
}

/// Codes that a newer MongoDB gives in place of those of 6.0.
const NEWER: &[(i64, i64)] = &[(14, 16554)];

/// The difference between the answers of MotifDB (`ours`) and the reference (`theirs`).
#[must_use]
pub fn difference(case: RawDoc<'_>, ours: &Answer, theirs: &Answer) -> Option<Difference> {
    match (ours.code, theirs.code) {
        (Some(a), Some(b)) if a == b || NEWER.contains(&(a, b)) => None,
        (Some(_), Some(_)) => Some(Difference::Code),
        (None, None) => {
            let same = if has_stage(case, "$group") {
                same_in_any_order(&ours.documents, &theirs.documents)
            } else {
                ours.documents.len() == theirs.documents.len()
                    && ours
                        .documents
                        .iter()
                        .zip(&theirs.documents)
                        .all(|(a, b)| same_document(a.as_doc(), b.as_doc()))
            };
            if same { None } else { Some(Difference::Documents) }
        }
        // There the sort of `$top`, `$topN`, .. fails for fields whose names are numbers.
        (None, Some(16746)) => None,
        // There a sort that a later sort overrides is not executed.
        (Some(2), None) if ours.message.contains("parallel arrays") && has_order_behind(case) => {
            None
        }
        // The position of an `$or` of equalities, which MotifDB rewrites to one `$in`.
        (None, Some(51246)) if has_or(case) => None,
        // Binaries are converted since MongoDB 8.0.
        (None, Some(241)) if theirs.message.contains("from binData") => None,
        // Patterns are replaced since MongoDB 8.3.
        (None, Some(51745)) if theirs.message.contains("found: /") => None,
        // A `$match` may be moved before or after the stage that fails.
        _ if has_stage(case, "$match") && stages(case).count() > 1 => None,
        _ => Some(Difference::Failure),
    }
}

/// The stages of a pipeline.
fn stages<'a>(command: RawDoc<'a>) -> impl Iterator<Item = RawDoc<'a>> {
    let pipeline = command.get("pipeline").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    pipeline.iter().filter_map(|(_, stage)| stage.as_doc())
}

fn has_or(command: RawDoc<'_>) -> bool {
    command.bytes().windows(4).any(|name| name == b"$or\0")
}

/// Whether there are two stages that sort.
fn has_order_behind(command: RawDoc<'_>) -> bool {
    let sorts = |stage: &RawDoc<'_>| {
        stage.find("$sort").is_some() || stage.find("$setWindowFields").is_some()
    };
    stages(command).filter(sorts).count() > 1
}

fn has_stage(command: RawDoc<'_>, name: &str) -> bool {
    stages(command).any(|stage| stage.find(name).is_some())
}

fn same_in_any_order(ours: &[DocBuf], theirs: &[DocBuf]) -> bool {
    let mut left: Vec<&DocBuf> = theirs.iter().collect();
    ours.len() == theirs.len()
        && ours.iter().all(|doc| {
            let place = left.iter().position(|other| same_document(doc.as_doc(), other.as_doc()));
            place.map(|place| left.swap_remove(place)).is_some()
        })
}

/// Whether documents are equal in every byte, except for the bits of NaN.
fn same_document(a: RawDoc<'_>, b: RawDoc<'_>) -> bool {
    let (mut left, mut right) = (a.iter(), b.iter());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some((name, value)), Some((other, other_value))) => {
                if name != other || !same_value(value, other_value) {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

fn same_value(a: RawVal<'_>, b: RawVal<'_>) -> bool {
    match (a.get(), b.get()) {
        (Val::Double(x), Val::Double(y)) => {
            x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())
        }
        (Val::Decimal(x), Val::Decimal(y)) if x.is_nan() => y.is_nan(),
        (Val::Document(x), Val::Document(y)) | (Val::Array(x), Val::Array(y)) => {
            same_document(x, y)
        }
        _ => a == b,
    }
}

/// An answer as text.
#[must_use]
pub fn show(answer: &Answer) -> String {
    match answer.code {
        Some(code) => format!("error {code}: {}", answer.message),
        None => {
            let docs = answer.documents.iter().map(|doc| text::print_doc(doc.as_doc()));
            docs.collect::<Vec<_>>().join("\n           ")
        }
    }
}
