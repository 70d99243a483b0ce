//! Provenance of maintained values: for each field that a pattern maintains, the source fields
//! that it depends on. Code that hides a source field from a reader uses this to find the copies
//! of its values.

use crate::paths;
use crate::pattern::Pattern;
use value::{RawDoc, Val};

/// A maintained field and the source fields that it depends on.
#[derive(Debug, PartialEq, Eq)]
pub struct Label {
    /// The field of the target's documents.
    pub path: String,
    /// The collection that is read.
    pub collection: String,
    /// Its fields, sorted; the empty path is the whole document.
    pub sources: Vec<String>,
}

impl Label {
    /// The label of a field of a pattern.
    #[must_use]
    pub fn new(pattern: &Pattern, path: String, mut sources: Vec<String>) -> Label {
        sources.sort_unstable();
        sources.dedup();
        let collection = pattern.source().unwrap_or(&pattern.target).to_owned();
        Label { path, collection, sources }
    }
}

/// The labels of all fields that a pattern maintains.
#[must_use]
pub fn of(pattern: &Pattern) -> Vec<Label> {
    pattern.kind.labels(pattern)
}

/// Labels of a pattern whose fields all depend on everything that it reads.
pub(crate) fn of_all_reads(pattern: &Pattern) -> Vec<Label> {
    let collection = pattern.source().unwrap_or(&pattern.target);
    let reads = pattern.reads().into_iter().filter(|(of, _)| *of == collection);
    let sources: Vec<String> = reads.map(|(_, path)| path).collect();
    let paths = pattern.maintains().into_iter();
    paths.map(|path| Label::new(pattern, path, sources.clone())).collect()
}

/// Labels of a pattern whose option `fields` has an expression or accumulator for each field.
pub(crate) fn of_expressions(pattern: &Pattern) -> Vec<Label> {
    let fields = pattern.declaration.as_doc().get("fields").and_then(Val::as_doc);
    let label = |(path, spec): (&str, value::RawVal<'_>)| {
        let mut sources = Vec::new();
        paths::of_expression(spec.get(), &mut sources);
        Label::new(pattern, path.to_owned(), sources)
    };
    fields.unwrap_or(RawDoc::empty()).iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn labels(collection: &str, text: &str) -> Vec<String> {
        let doc = ejson::parse_doc(text).expect("test text");
        let pattern = crate::declaration::parse(collection, doc.as_doc()).expect("a declaration");
        let shown = of(&pattern).into_iter();
        shown.map(|l| format!("{} <- {}.{:?}", l.path, l.collection, l.sources)).collect()
    }

    #[test]
    fn every_kind_tells_where_its_fields_come_from() {
        assert_eq!(
            labels(
                "orders",
                "{kind: 'extendedReference', ref: 'c._id', from: 'clients', into: 'c', fields: ['name', {as: 'tier', expr: {$concat: ['$a.b', '$z', '$a.b']}}]}"
            ),
            ["c.name <- clients.[\"name\"]", "c.tier <- clients.[\"a.b\", \"z\"]"]
        );
        assert_eq!(
            labels(
                "p",
                "{kind: 'computed', from: 'o', on: {foreign: 'p'}, fields: {s: {$sum: '$x'}, n: {$count: {}}, top: {$topN: {n: 1, sortBy: {y: 1}, output: '$$ROOT'}}}}"
            ),
            ["s <- o.[\"x\"]", "n <- o.[]", "top <- o.[\"\", \"y\"]"]
        );
        assert_eq!(
            labels("p", "{kind: 'computed', fields: {s: {$add: ['$x', 1]}}}"),
            ["s <- p.[\"x\"]"]
        );
        assert_eq!(
            labels(
                "p",
                "{kind: 'subset', into: 't', from: 'o', on: {foreign: 'p'}, sort: {x: 1}, limit: 2, fields: ['x'], idAs: 'o', count: 'n'}"
            ),
            ["t.o <- o.[\"_id\"]", "t.x <- o.[\"x\"]", "n <- o.[]"]
        );
        assert_eq!(
            labels("n", "{kind: 'tree', maintain: {depth: 'd'}}"),
            ["d <- n.[\"_id\", \"parent\"]"]
        );
    }
}
