//! `subset`: the first few children of a parent in some order, stored inside the parent, with
//! their exact count. It is a fold, like `computed`: a ranking and a count.

pub(crate) mod declaration;
mod rewrite;

use crate::answers::Question;
use crate::fold::{Accumulator, Field, Fold, Form, Keys, MissingParent, Window};
use crate::labels::Label;
use crate::pattern::Pattern;
use query::filter::Filter;
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// A fold whose option `fields` lists the fields that are copied of each child.
#[derive(Debug)]
pub struct Rows;

impl Form for Rows {
    fn labels(&self, pattern: &Pattern) -> Vec<Label> {
        let declared = pattern.declaration.as_doc();
        let text = |option| declared.get(option).and_then(Val::as_str);
        let into = text("into").unwrap_or("");
        let fields = declared.get("fields").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let fields = fields.iter().filter_map(|(_, path)| path.get().as_str());
        let fields = fields.filter(|path| *path != "_id").map(|path| (path, path));
        let rows = std::iter::once((text("idAs").unwrap_or("_id"), "_id")).chain(fields);
        let label = |(name, path): (&str, &str)| {
            Label::new(pattern, format!("{into}.{name}"), vec![path.to_owned()])
        };
        let count = text("count").map(|count| Label::new(pattern, count.to_owned(), Vec::new()));
        rows.map(label).chain(count).collect()
    }

    fn answer_first(
        &self,
        fold: &Fold,
        question: &Question<'_>,
        filter: RawDoc<'_>,
        sort: RawDoc<'_>,
        limit: u64,
    ) -> Result<Option<DocBuf>> {
        rewrite::first_children(fold, question, filter, sort, limit)
    }
}

/// The options of a subset.
pub struct Ask<'a> {
    /// The collection of the children.
    pub from: &'a str,
    /// The collection of the parents.
    pub collection: &'a str,
    /// The parents' key.
    pub local: &'a str,
    /// The field of the children with the same value.
    pub foreign: &'a str,
    /// The order.
    pub sort: RawDoc<'a>,
    /// How many children are kept.
    pub limit: usize,
    /// The fields that are copied of each.
    pub fields: &'a [&'a str],
    /// The name of the child's `_id` in the copy.
    pub id_as: &'a str,
    /// The path of the children in the parent.
    pub into: &'a str,
    /// The path of their count.
    pub count: Option<&'a str>,
}

/// Builds the fold of a subset.
///
/// # Errors
/// BadValue for an invalid order.
pub fn grouped(
    ask: &Ask<'_>,
    filter: Option<Filter>,
    window: Option<Window>,
    mut reads: Vec<String>,
) -> Result<Fold> {
    let ranking = DocBuf::build(|out| {
        out.doc("$topN", |out| {
            out.count("n", ask.limit as u64);
            out.append("sortBy", Val::Document(ask.sort));
            out.doc("output", |out| {
                out.str(ask.id_as, "$_id");
                let parts = ask.fields.iter().filter(|field| **field != "_id");
                let parts: Vec<(Vec<&str>, &str)> =
                    parts.map(|path| (path.split('.').collect(), *path)).collect();
                write_output(out, &parts, 0);
            });
        });
    });
    reads.extend(ask.sort.iter().map(|(path, _)| path.to_owned()));
    reads.extend(ask.fields.iter().map(|path| (*path).to_owned()));
    let accumulator = Accumulator::parse(ask.into, Val::Document(ranking.as_doc()), None)?;
    let mut fields = vec![Field { path: Path::new(ask.into), accumulator }];
    if let Some(count) = ask.count {
        fields.push(Field { path: Path::new(count), accumulator: Accumulator::Count });
    }
    Ok(Fold {
        source: ask.from.to_owned(),
        target: ask.collection.to_owned(),
        keys: Keys::Parents { local: Path::new(ask.local), foreign: Path::new(ask.foreign) },
        filter,
        window,
        fields,
        missing: MissingParent::Ignore,
        skip_errors: false,
        reads,
    })
}

/// Writes paths as an expression that keeps their shape: `a.b` becomes `{a: {b: "$a.b"}}`.
fn write_output(out: &mut Writer<'_>, paths: &[(Vec<&str>, &str)], depth: usize) {
    let mut written: Vec<&str> = Vec::new();
    for (parts, path) in paths {
        let Some(name) = parts.get(depth).copied() else { continue };
        if written.contains(&name) {
            continue;
        }
        written.push(name);
        if parts.len() == depth + 1 {
            out.str(name, &format!("${path}"));
        } else {
            let same: Vec<(Vec<&str>, &str)> = paths
                .iter()
                .filter(|(parts, _)| parts.get(depth) == Some(&name))
                .cloned()
                .collect();
            out.doc(name, |out| write_output(out, &same, depth + 1));
        }
    }
}
