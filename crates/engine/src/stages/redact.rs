//! `$redact`: keeps, removes or descends into each level of a document, by an expression.

use super::{Stage, StageContext, StageRow};
use crate::exec::{Doc, Stream};
use crate::operation::Operation;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use std::sync::Arc;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer, writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$redact",
    help: "Keeps, removes or descends into each level of a document.",
    in_change_streams: true,
    parse,
    ..StageRow::BASE
};

struct Redact {
    test: Arc<Test>,
    source: OwnedVal,
}

/// The expression that decides about a level.
struct Test {
    expr: Expr,
    /// Whether it also reads the whole document.
    uses_root: bool,
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    // The three results have names only here.
    let variables = DocBuf::build(|out| {
        out.extend(context.variables);
        out.str("DESCEND", "descend").str("KEEP", "keep").str("PRUNE", "prune");
    });
    let context = &context.with_variables(variables.as_doc());
    let mut expr = Expr::parse(value, context)?;
    let uses_root = mentions_root(value);
    if uses_root {
        // Paths are relative to the current level, `$$ROOT` is the whole document: both are passed
        // in one document and bound to names.
        let wrapped = DocBuf::build(|out| {
            out.doc("$let", |out| {
                out.doc("vars", |out| {
                    out.str("CURRENT", "$level").str("root", "$root");
                });
                with_root_renamed(out, "in", value);
            });
        });
        expr = Expr::parse(Val::Document(wrapped.as_doc()), context)?;
    }
    Ok(Box::new(Redact { test: Arc::new(Test { expr, uses_root }), source: value.into() }))
}

fn is_root(text: &str) -> bool {
    text == "$$ROOT" || text.starts_with("$$ROOT.")
}

fn mentions_root(value: Val<'_>) -> bool {
    match value {
        Val::String(text) => is_root(text),
        Val::Document(doc) | Val::Array(doc) => {
            doc.iter().any(|(_, inner)| mentions_root(inner.get()))
        }
        _ => false,
    }
}

fn with_root_renamed(out: &mut Writer<'_>, name: &str, value: Val<'_>) {
    match value {
        Val::String(text) if is_root(text) => {
            let path = text.strip_prefix("$$ROOT").unwrap_or("");
            out.str(name, &format!("$$root{path}"));
        }
        Val::Document(doc) | Val::Array(doc) => {
            let token = out.open(name, matches!(value, Val::Array(_)));
            for (inner, value) in doc {
                with_root_renamed(out, inner, value.get());
            }
            out.close(token);
        }
        other => {
            out.append(name, other);
        }
    }
}

impl Stage for Redact {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Redacting { input, test: self.test.clone(), arena: Bump::new() })
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}

struct Redacting {
    input: Box<dyn Stream>,
    test: Arc<Test>,
    arena: Bump,
}

impl Stream for Redacting {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        while let Some(doc) = self.input.next(op)? {
            let mut out = Vec::with_capacity(doc.len());
            let meta = self.input.meta().unwrap_or_default();
            let whole = RootDocument { root: doc.raw(), meta: meta.as_doc(), arena: &self.arena };
            let kept = self.test.redact(&whole, doc.raw(), &mut out)?;
            self.arena.reset();
            if kept {
                return Ok(Some(Doc::Made(out)));
            }
        }
        Ok(None)
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.input)
    }
}

/// The document whose levels are evaluated.
struct RootDocument<'d> {
    root: RawDoc<'d>,
    meta: RawDoc<'d>,
    arena: &'d Bump,
}

impl Test {
    /// Appends the kept part of a level. Returns false when nothing is kept.
    fn redact(
        &self,
        whole: &RootDocument<'_>,
        level: RawDoc<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut both = Vec::new();
        let seen = if self.uses_root {
            writer::write_doc(&mut both, |out| {
                out.append("level", Val::Document(level));
                out.append("root", Val::Document(whole.root));
            });
            RawDoc::new(&both)
        } else {
            level
        };
        let verdict = self.expr.eval(&Env::new(seen, whole.arena).with_meta(whole.meta))?;
        match verdict {
            Val::String("keep") => {
                out.extend_from_slice(level.bytes());
                Ok(true)
            }
            Val::String("prune") => Ok(false),
            Val::String("descend") => {
                let mut fields = Vec::new();
                for (name, value) in level {
                    if let Some(inner) = value.as_doc() {
                        let mut bytes = Vec::new();
                        if self.redact(whole, inner, &mut bytes)? {
                            fields.push((name, Field::Document(bytes)));
                        }
                    } else if let Some(array) = value.as_array() {
                        fields.push((name, Field::Array(self.redact_array(whole, array)?)));
                    } else {
                        fields.push((name, Field::Same(value)));
                    }
                }
                writer::write_doc(out, |out| {
                    for (name, field) in &fields {
                        match field {
                            Field::Same(value) => out.raw(name, *value),
                            Field::Document(bytes) => {
                                out.append(name, Val::Document(RawDoc::new(bytes)))
                            }
                            Field::Array(bytes) => out.append(name, Val::Array(RawDoc::new(bytes))),
                        };
                    }
                });
                Ok(true)
            }
            _ => Err(Error::new(
                Code(17053),
                "$redact's expression should not return anything aside from the variables $$KEEP, \
             $$DESCEND, and $$PRUNE, but returned another value",
            )),
        }
    }

    fn redact_array(&self, whole: &RootDocument<'_>, array: RawDoc<'_>) -> Result<Vec<u8>> {
        let mut kept = Vec::new();
        for (_, element) in array {
            if let Some(inner) = element.as_doc() {
                let mut bytes = Vec::new();
                if self.redact(whole, inner, &mut bytes)? {
                    kept.push(Field::Document(bytes));
                }
            } else if let Some(inner) = element.as_array() {
                kept.push(Field::Array(self.redact_array(whole, inner)?));
            } else {
                kept.push(Field::Same(element));
            }
        }
        let mut bytes = Vec::new();
        writer::write_array(&mut bytes, |out| {
            for field in &kept {
                match field {
                    Field::Same(value) => out.push_raw(*value),
                    Field::Document(bytes) => out.push(Val::Document(RawDoc::new(bytes))),
                    Field::Array(bytes) => out.push(Val::Array(RawDoc::new(bytes))),
                }
            }
        });
        Ok(bytes)
    }
}

enum Field<'a> {
    Same(value::RawVal<'a>),
    Document(Vec<u8>),
    Array(Vec<u8>),
}
