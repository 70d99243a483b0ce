//! Write commands that fail in part: converts replies to an `Error`, and an `Error` to the partial
//! result.

use super::convert::{count_of, from_bytes};
use bson::Document;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// One statement of a write that failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WriteError {
    /// The position of the statement, counted from 0; for `insert_many` that of the document.
    pub index: usize,
    /// MongoDB's code, such as 11000 for a duplicate key.
    pub code: Code,
    /// A readable message.
    pub message: String,
    /// Further details: `keyPattern` and `keyValue` of a duplicate key, `errInfo` of a document
    /// that violates the validator.
    pub details: Document,
}

/// The partial result of a failed write.
///
/// ```
/// # use motifdb::{Database, WriteFailure, bson::doc};
/// # let db = Database::in_memory()?;
/// let numbers = db.collection("numbers");
/// let twice = [doc! {"_id": 1}, doc! {"_id": 2}, doc! {"_id": 1}];
/// let error = numbers.insert_many(twice).run().expect_err("1 is there twice");
/// assert_eq!(error.code().0, 11000);
/// let failure = WriteFailure::of(&error).expect("a write failed");
/// assert_eq!((failure.done, failure.errors[0].index), (2, 2));
/// # Ok::<(), motifdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WriteFailure {
    /// The number of documents that were inserted, matched or deleted nevertheless.
    pub done: u64,
    /// The statements that failed, in order. Empty when the whole command failed.
    pub errors: Vec<WriteError>,
}

impl WriteFailure {
    /// Reads it from an error; `None` if the error does not come from a write or has no details.
    #[must_use]
    pub fn of(error: &Error) -> Option<WriteFailure> {
        let info = error.info()?.as_doc();
        info.find("n")?;
        let list = info.get("writeErrors").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let errors = list.iter().filter_map(|(_, entry)| entry.as_doc()).map(read).collect();
        Some(WriteFailure { done: count_of(info, "n"), errors })
    }
}

fn read(entry: RawDoc<'_>) -> WriteError {
    let details = DocBuf::build(|out| {
        for (name, value) in entry {
            if !matches!(name, "index" | "code" | "errmsg") {
                out.raw(name, value);
            }
        }
    });
    WriteError {
        index: usize::try_from(count_of(entry, "index")).unwrap_or(usize::MAX),
        code: code_of(entry),
        message: entry.get("errmsg").and_then(Val::as_str).unwrap_or("").to_owned(),
        details: from_bytes(details.bytes()).unwrap_or_default(),
    }
}

fn code_of(entry: RawDoc<'_>) -> Code {
    let code = entry.get("code").and_then(Val::as_i64_exact);
    Code(code.and_then(|code| i32::try_from(code).ok()).unwrap_or(Code::UNKNOWN_ERROR.0))
}

/// The combined replies to one write.
#[derive(Default)]
pub(super) struct Tally {
    done: u64,
    errors: Vec<DocBuf>,
    /// The error of the write concern: the write was executed, but not as durably as requested.
    concern: Option<DocBuf>,
}

impl Tally {
    /// Adds a reply whose first statement has the position `offset`. Returns false if statements
    /// failed.
    pub(super) fn add(&mut self, reply: RawDoc<'_>, offset: usize) -> bool {
        self.done += count_of(reply, "n");
        if let Some(concern) = reply.get("writeConcernError").and_then(Val::as_doc) {
            self.concern = Some(concern.into());
        }
        let Some(list) = reply.get("writeErrors").and_then(Val::as_array) else { return true };
        for entry in list.iter().filter_map(|(_, entry)| entry.as_doc()) {
            self.errors.push(DocBuf::build(|out| {
                for (name, value) in entry {
                    match name {
                        "index" => out.count(name, count_of(entry, name) + offset as u64),
                        _ => out.raw(name, value),
                    };
                }
            }));
        }
        self.errors.is_empty()
    }

    /// The error for the combined replies, if any.
    pub(super) fn finish(self) -> Result<u64> {
        let cause = match (self.errors.first(), &self.concern) {
            (Some(first), _) => first.clone(),
            (None, Some(concern)) => concern.clone(),
            (None, None) => return Ok(self.done),
        };
        let cause = cause.as_doc();
        let message = cause.get("errmsg").and_then(Val::as_str).unwrap_or("");
        let known = ["code", "codeName", "errmsg"];
        let info = DocBuf::build(|out| {
            for (name, value) in cause {
                if !known.contains(&name) {
                    out.raw(name, value);
                }
            }
            self.write(out);
        });
        Err(Error::new(code_of(cause), message).with_info(info))
    }

    /// Adds the results of earlier commands of the same write to the error of a whole command.
    pub(super) fn explain(self, error: Error) -> Error {
        if self.done == 0 && self.errors.is_empty() {
            return error;
        }
        let info = DocBuf::build(|out| {
            if let Some(info) = error.info() {
                out.extend(info.as_doc());
            }
            self.write(out);
        });
        error.with_info(info)
    }

    fn write(&self, out: &mut value::Writer<'_>) {
        out.count("n", self.done);
        if !self.errors.is_empty() {
            out.array("writeErrors", |list| {
                self.errors.iter().for_each(|entry| list.push_doc_bytes(entry.bytes()));
            });
        }
    }
}

/// Turns the reply to one write command into an error when a statement failed.
pub(super) fn check(reply: RawDoc<'_>) -> Result<u64> {
    let mut tally = Tally::default();
    tally.add(reply, 0);
    tally.finish()
}
