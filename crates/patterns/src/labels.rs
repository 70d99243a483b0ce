//! Where what is maintained comes from: for each field that a pattern keeps, the fields that it is made
//! of. Whoever hides a source field from somebody learns here where else its values stand.

use crate::paths;
use crate::pattern::Pattern;
use value::{RawDoc, Val};

/// A maintained field and the source fields that it is made of.
#[derive(Debug, PartialEq, Eq)]
pub struct Label {
    /// The field of the target's documents.
    pub path: String,
    /// The collection that is read.
    pub collection: String,
    /// Its fields; the empty path is the whole document.
    pub sources: Vec<String>,
}

/// The labels of all fields that a pattern maintains.
#[must_use]
pub fn of(pattern: &Pattern) -> Vec<Label> {
    let declared = pattern.declaration.as_doc();
    let collection = pattern.source().unwrap_or(&pattern.target).to_owned();
    let label = |path: String, mut sources: Vec<String>| {
        sources.sort_unstable();
        sources.dedup();
        Label { path, collection: collection.clone(), sources }
    };
    let into = declared.get("into").and_then(Val::as_str).unwrap_or("");
    let all = || pattern.reads().into_iter().filter(|(of, _)| *of == collection);
    match (declared.get("kind"), declared.get("fields")) {
        // Accumulators and expressions by the names of their fields.
        (_, Some(Val::Document(fields))) => fields
            .iter()
            .map(|(path, spec)| {
                let mut sources = Vec::new();
                paths::of_expression(spec.get(), &mut sources);
                label(path.to_owned(), sources)
            })
            .collect(),
        // The rows of a subset: the `_id`, fields by their own names, and how many there are.
        (Some(Val::String("subset")), Some(Val::Array(fields))) => {
            let id = declared.get("idAs").and_then(Val::as_str).unwrap_or("_id");
            let fields = fields.iter().filter_map(|(_, path)| path.get().as_str());
            let fields = fields.filter(|path| *path != "_id").map(|path| (path, path));
            let rows = std::iter::once((id, "_id")).chain(fields);
            let mut labels: Vec<Label> = rows
                .map(|(name, path)| label(format!("{into}.{name}"), vec![path.to_owned()]))
                .collect();
            if let Some(Val::String(count)) = declared.get("count") {
                labels.push(label(count.to_owned(), Vec::new()));
            }
            labels
        }
        (_, Some(Val::Array(fields))) => {
            let copies = fields.iter().map(|(_, field)| copied(field.get()));
            copies.map(|(path, sources)| label(format!("{into}.{path}"), sources)).collect()
        }
        // Of a tree each field follows from all that is read.
        _ => {
            let sources: Vec<String> = all().map(|(_, path)| path).collect();
            pattern.maintains().into_iter().map(|path| label(path, sources.clone())).collect()
        }
    }
}

/// The name of a copy and the fields that it is made of.
fn copied(field: Val<'_>) -> (String, Vec<String>) {
    let mut sources = Vec::new();
    let path = match field {
        Val::String(path) => {
            sources.push(path.to_owned());
            path
        }
        other => {
            let doc = other.as_doc().unwrap_or(RawDoc::empty());
            paths::of_expression(doc.get("expr").unwrap_or(Val::Null), &mut sources);
            doc.get("as").and_then(Val::as_str).unwrap_or("")
        }
    };
    (path.to_owned(), sources)
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
