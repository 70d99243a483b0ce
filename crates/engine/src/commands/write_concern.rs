//! Write concerns: when a write is acknowledged.

use crate::shared::Inner;
use crate::store_failed;
use store::Seqno;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

/// When a write is acknowledged.
#[derive(Clone, Debug)]
pub struct WriteConcern {
    /// Wait until the write is on disk.
    durable: bool,
    /// The reason and the concern, if one server cannot satisfy it.
    unsatisfiable: Option<(String, DocBuf)>,
}

impl WriteConcern {
    /// Reads `writeConcern`. The default waits until the write is on disk.
    ///
    /// # Errors
    /// FailedToParse and TypeMismatch.
    pub fn parse(body: RawDoc<'_>) -> Result<WriteConcern> {
        let mut concern = WriteConcern { durable: true, unsatisfiable: None };
        let Some(value) = body.get("writeConcern") else { return Ok(concern) };
        let Val::Document(doc) = value else {
            return Err(Error::type_mismatch(format!(
                "BSON field 'writeConcern' is the wrong type '{}', expected type 'object'",
                value.kind().name()
            )));
        };
        let mut journal = None;
        let mut impossible = None;
        for (name, value) in doc {
            match (name, value.get()) {
                ("w", Val::String("majority")) => {}
                ("w", Val::String(tag)) => {
                    impossible = Some(format!(
                        "No write concern mode named '{tag}' found in replica set configuration"
                    ));
                }
                ("w", w) if w.is_number() => match w.as_i64_exact() {
                    Some(0) => concern.durable = false,
                    Some(1) => {}
                    Some(n) if (2..=50).contains(&n) => {
                        impossible = Some("Not enough data-bearing nodes".to_owned());
                    }
                    _ => {
                        return Err(Error::new(
                            Code::FAILED_TO_PARSE,
                            "w has to be a non-negative number and not greater than 50",
                        ));
                    }
                },
                ("w", Val::Document(_)) => {
                    impossible = Some("write concern tags are unknown here".to_owned());
                }
                ("w", _) => {
                    return Err(Error::new(
                        Code::FAILED_TO_PARSE,
                        "w has to be a number, string, or object",
                    ));
                }
                ("j" | "fsync", flag @ (Val::Bool(_) | Val::Null)) => journal = Some(flag.truthy()),
                ("j" | "fsync", flag) if flag.is_number() => journal = Some(flag.truthy()),
                ("j" | "fsync", _) => {
                    return Err(Error::new(
                        Code::FAILED_TO_PARSE,
                        format!("{name} must be numeric or a boolean value"),
                    ));
                }
                ("wtimeout", n) if n.is_number() => {}
                ("wtimeout", Val::Null) | ("getLastError" | "provenance" | "wtimeoutMS", _) => {}
                ("wtimeout", _) => {
                    return Err(Error::new(Code::FAILED_TO_PARSE, "wtimeout must be a number"));
                }
                _ => {
                    return Err(Error::new(
                        Code(40415),
                        format!("BSON field 'writeConcern.{name}' is an unknown field."),
                    ));
                }
            }
        }
        if let Some(journal) = journal {
            concern.durable = journal;
        }
        concern.unsatisfiable = impossible.map(|reason| (reason, DocBuf::from(doc)));
        Ok(concern)
    }

    /// Reads the default write concern.
    ///
    /// # Errors
    /// Same as `parse`.
    pub fn parse_default(concerns: RawDoc<'_>) -> Result<WriteConcern> {
        let wish = concerns.get("defaultWriteConcern").unwrap_or(Val::Missing);
        let body = DocBuf::build(|out| {
            out.append("writeConcern", wish);
        });
        WriteConcern::parse(body.as_doc())
    }

    /// Refuses a concern that one server cannot satisfy.
    ///
    /// # Errors
    /// UnsatisfiableWriteConcern.
    pub fn check_satisfiable(&self) -> Result<()> {
        match &self.unsatisfiable {
            Some((reason, _)) => Err(Error::new(Code::UNSATISFIABLE_WRITE_CONCERN, reason.clone())),
            None => Ok(()),
        }
    }

    /// Waits until a commit satisfies the concern.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn wait(&self, engine: &Inner, commit: Option<Seqno>) -> Result<()> {
        match commit {
            Some(seqno) if self.durable => engine.data.store.sync(seqno).map_err(store_failed),
            _ => Ok(()),
        }
    }

    /// Writes `writeConcernError` when one server cannot satisfy the concern.
    pub fn write_error(&self, out: &mut Writer<'_>) {
        let Some((reason, wish)) = &self.unsatisfiable else { return };
        out.doc("writeConcernError", |out| {
            out.i32("code", Code::UNSATISFIABLE_WRITE_CONCERN.0);
            out.str("codeName", "UnsatisfiableWriteConcern");
            out.str("errmsg", reason);
            out.doc("errInfo", |out| {
                out.doc("writeConcern", |out| {
                    let field = |name| wish.as_doc().get(name);
                    out.append("w", field("w").unwrap_or(Val::Int32(1)));
                    out.append("wtimeout", field("wtimeout").unwrap_or(Val::Int32(0)));
                    out.str("provenance", "clientSupplied");
                });
            });
        });
    }
}

/// Writes `writeConcernError` next to the error of a command that changed nothing. MongoDB waits
/// for the concern in this case too.
pub fn write_beside(out: &mut Writer<'_>, error: &Error, body: RawDoc<'_>) {
    let ran = [Code::NAMESPACE_EXISTS, Code::NAMESPACE_NOT_FOUND, Code::INDEX_NOT_FOUND];
    if !ran.contains(&error.code()) || body.find("writeConcern").is_none() {
        return;
    }
    if let Ok(concern) = WriteConcern::parse(body) {
        concern.write_error(out);
    }
}
