//! Writes through a view that a pattern keeps. The command becomes one on the collection below the
//! view: its filters get that of the view, and its operation remembers the view, which then
//! completes and checks the documents that are written.

use super::Command;
use crate::operation::Operation;
use crate::request::Request;
use crate::shared::Inner;
use crate::upkeep::kept_views;
use std::sync::Arc;
use value::{DocBuf, RawDoc, RawVal, Val, Writer};

/// The commands that write through views: the argument with their statements, if they have several,
/// and the field with their filter.
static COMMANDS: &[(&str, Option<&str>, &str)] = &[
    ("insert", None, ""),
    ("update", Some("updates"), "q"),
    ("delete", Some("deletes"), "q"),
    ("findAndModify", None, "query"),
];

/// Returns the body of a command that writes through a view, as one on the collection below;
/// `None` for any other.
pub(super) fn rewritten(
    engine: &Inner,
    op: &Operation,
    command: &Command,
    db: &str,
    request: &Request<'_>,
) -> Option<DocBuf> {
    let (_, statements, filter) = COMMANDS.iter().find(|(name, ..)| *name == command.name)?;
    let (first, name) = request.body.first()?;
    let catalog = engine.data.catalog.load();
    let name = name.get().as_str()?;
    // Most collections are no views.
    catalog.get(db, name)?.view()?;
    let (view, condition) = kept_views::of(&catalog, db, name)?;
    let on = view.pattern.target.clone();
    op.write_through(Arc::new(view));
    let confine = |doc: RawDoc<'_>, out: &mut Writer<'_>| {
        write_confined(doc, filter, condition.as_doc(), out);
    };
    Some(DocBuf::build(|out| {
        out.str(first, &on);
        let rest = request.body.iter().skip(1);
        let Some(statements) = statements else {
            if filter.is_empty() {
                rest.for_each(|(name, value)| {
                    out.raw(name, value);
                });
            } else {
                let rest = DocBuf::build(|out| {
                    rest.for_each(|(name, value)| {
                        out.raw(name, value);
                    });
                });
                confine(rest.as_doc(), out);
            }
            return;
        };
        for (name, value) in rest {
            match value.as_array().filter(|_| name == *statements) {
                Some(array) => write_statements(name, array.iter(), &confine, out),
                None => {
                    out.raw(name, value);
                }
            }
        }
        for sequence in request.sequences.iter().filter(|sequence| sequence.name == *statements) {
            out.array(sequence.name, |out| {
                sequence.iter().for_each(|doc| out.push_doc(|out| confine(doc, out)));
            });
        }
    }))
}

fn write_statements<'s>(
    name: &str,
    statements: impl Iterator<Item = (&'s str, RawVal<'s>)>,
    confine: &dyn Fn(RawDoc<'_>, &mut Writer<'_>),
    out: &mut Writer<'_>,
) {
    out.array(name, |out| {
        for (_, statement) in statements {
            match statement.as_doc() {
                Some(doc) => out.push_doc(|out| confine(doc, out)),
                // It is refused when it is read.
                None => out.push_raw(statement),
            }
        }
    });
}

/// Writes a statement whose filter finds only documents that match a condition, too.
fn write_confined(
    statement: RawDoc<'_>,
    filter: &str,
    condition: RawDoc<'_>,
    out: &mut Writer<'_>,
) {
    let mut confined = false;
    for (name, value) in statement {
        match value.as_doc().filter(|_| name == filter) {
            Some(query) => {
                write_both(name, query, condition, out);
                confined = true;
            }
            None => {
                confined |= name == filter;
                out.raw(name, value);
            }
        }
    }
    if !confined && filter == "query" {
        out.append(filter, Val::Document(condition));
    }
}

fn write_both(name: &str, query: RawDoc<'_>, condition: RawDoc<'_>, out: &mut Writer<'_>) {
    if condition.iter().any(|(path, _)| query.find(path).is_some()) {
        out.doc(name, |out| {
            out.array("$and", |out| {
                out.push(Val::Document(query));
                out.push(Val::Document(condition));
            });
        });
        return;
    }
    out.doc(name, |out| {
        out.extend(query).extend(condition);
    });
}
