//! Walks along a tree and searches in its paths: ancestors are known by name, a subtree by the
//! beginning of its paths.

use super::{Rewrites, conditions};
use crate::catalog::{Collection, IndexState};
use crate::exec::write;
use crate::layout;
use ::patterns::Pattern;
use ::patterns::kinds::tree::Tree;
use ::patterns::pattern::Behaviour;
use value::{DocBuf, RawDoc, RawVal, Result, Val};

/// What regular expressions take for something else than itself.
const SPECIAL: &str = r"\.+*?()|[]{}^$";

impl Rewrites<'_> {
    /// The filter with a search for a segment anywhere in a path replaced by the path's beginning.
    pub(super) fn anchored(
        &mut self,
        collection: &Collection,
        filter: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        for pattern in self.usable(collection) {
            let Behaviour::Tree(tree) = &pattern.behaviour else { continue };
            let Some(path) = &tree.path else { continue };
            if *pattern.target != *collection.name || !is_named_by_id(pattern, tree) {
                continue;
            }
            let mut all = Vec::new();
            conditions(filter, &mut all);
            let searched = all.iter().enumerate().find_map(|(at, (name, value))| {
                let text = expression(*value).filter(|_| *name == path.into.text())?;
                Some((at, segment_of(text, &path.separator)?))
            });
            let Some((at, segment)) = searched else { continue };
            if self.is_behind(pattern)? {
                continue;
            }
            let record = write::record_of_id(collection, Val::String(&segment));
            let key = write::document_key(collection, &record);
            let node = layout::get(collection, &self.scope.snapshot, &key)?;
            let begin = node.as_ref().and_then(|node| path.into.find(RawDoc::new(node)));
            let begin = begin.and_then(|begin| begin.get().as_str().map(str::to_owned));
            let rewritten = DocBuf::build(|out| {
                out.array("$and", |list| {
                    for (number, (name, value)) in all.iter().enumerate() {
                        list.push_doc(|out| match &begin {
                            _ if number != at => {
                                out.raw(name, *value);
                            }
                            Some(begin) => {
                                out.append(name, Val::Regex(&format!("^{}", escaped(begin)), ""));
                            }
                            // Without the node nothing is below it.
                            None => {
                                out.doc(name, |out| {
                                    out.array("$in", |_| {});
                                });
                            }
                        });
                    }
                });
            });
            self.note(pattern, "path");
            return Ok(Some(rewritten));
        }
        Ok(None)
    }

    /// For each stage the `$lookup` in place of a `$graphLookup` along the tree, if it is one.
    pub(super) fn walks(
        &mut self,
        collection: &Collection,
        stages: &[(&str, RawVal<'_>)],
    ) -> Result<Vec<Option<DocBuf>>> {
        let mut walks = Vec::new();
        for (name, value) in stages {
            let walk = value.as_doc().filter(|_| *name == "$graphLookup");
            let known = walk.and_then(|walk| {
                let trees = self.usable(collection).filter_map(|pattern| {
                    let Behaviour::Tree(tree) = &pattern.behaviour else { return None };
                    (*pattern.target == *collection.name).then_some((pattern, tree))
                });
                trees.into_iter().find_map(|(pattern, tree)| {
                    Some((pattern.clone(), lookup(collection, tree, walk)?))
                })
            });
            let behind =
                known.as_ref().map_or(Ok(false), |(pattern, _)| self.is_behind(pattern))?;
            if let Some((pattern, lookup)) = known.filter(|_| !behind) {
                self.note(&pattern, "$graphLookup");
                walks.push(Some(lookup));
            } else {
                walks.push(None);
                // What other stages leave of a document need not be a node any more.
                if !matches!(*name, "$match" | "$sort" | "$limit" | "$skip") {
                    break;
                }
            }
        }
        Ok(walks)
    }
}

/// Whether segments are the names of nodes.
pub(crate) fn is_named_by_id(pattern: &Pattern, tree: &Tree) -> bool {
    let wanted = pattern.declaration.as_doc().get("maintain").and_then(Val::as_doc);
    let path = wanted.and_then(|wanted| wanted.get("path")).and_then(Val::as_doc);
    let segment = path.and_then(|path| path.get("segment"));
    tree.id.text() == "_id" && segment.is_none_or(|segment| segment == Val::String("$_id"))
}

/// The regular expression that a condition asks for, without options.
fn expression(value: RawVal<'_>) -> Option<&str> {
    match value.get() {
        Val::Regex(text, "") => Some(text),
        Val::Document(doc) if doc.count() == 1 => match doc.get("$regex")? {
            Val::String(text) | Val::Regex(text, "") => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// The segment that an expression such as `,databases,` looks for. Only text that no other name
/// than a string can give: numbers, dates and the like have segments too.
fn segment_of(expression: &str, separator: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = expression.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next()? {
                escaped if escaped.is_ascii_punctuation() => text.push(escaped),
                _ => return None,
            },
            special if SPECIAL.contains(special) => return None,
            plain => text.push(plain),
        }
    }
    let segment = text.strip_prefix(separator)?.strip_suffix(separator)?;
    let whole = !segment.contains(separator);
    (whole && is_plain_name(segment)).then(|| segment.to_owned())
}

/// Whether only a string can give this segment.
pub(crate) fn is_plain_name(segment: &str) -> bool {
    let hexadecimal = segment.len() == 24 && segment.bytes().all(|b| b.is_ascii_hexdigit());
    let named = matches!(segment, "true" | "false" | "NaN" | "Infinity");
    segment.starts_with(|first: char| first.is_alphabetic()) && !hexadecimal && !named
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        if SPECIAL.contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

/// The `$lookup` that gives what a `$graphLookup` along the tree gives.
fn lookup(collection: &Collection, tree: &Tree, walk: RawDoc<'_>) -> Option<DocBuf> {
    let known = ["from", "startWith", "connectFromField", "connectToField", "as"];
    let ancestors = tree.ancestors.as_ref().filter(|_| !tree.defer)?.text();
    if walk.count() != known.len() || !known.iter().all(|name| walk.find(name).is_some()) {
        return None;
    }
    let text = |name| walk.get(name).and_then(Val::as_str).unwrap_or("");
    let (id, parent) = (tree.id.text(), tree.parent.text());
    let start = text("startWith").strip_prefix('$')?;
    let (near, far) = match (start, text("connectFromField"), text("connectToField")) {
        (start, from, to) if start == parent && from == parent && to == id => (ancestors, id),
        // Downwards only with an index: the walk has that of the parents.
        (start, from, to) if start == id && from == id && to == parent => {
            let indexed = collection.indexes.iter().any(|index| {
                let plain = index.partial.is_none() && index.collation.is_none() && !index.hidden;
                let first = index.fields.first().map(|field| field.path.text());
                plain && index.state == IndexState::Ready && first == Some(ancestors)
            });
            indexed.then_some((id, ancestors))?
        }
        _ => return None,
    };
    if text("from") != &*collection.name {
        return None;
    }
    Some(DocBuf::build(|out| {
        out.doc("$lookup", |out| {
            out.str("from", text("from")).str("localField", near);
            out.str("foreignField", far).str("as", text("as"));
        });
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_told_from_what_others_could_mean() {
        assert_eq!(segment_of(",databases,", ","), Some("databases".to_owned()));
        assert_eq!(segment_of(r"\/a b\/", "/"), Some("a b".to_owned()));
        assert_eq!(segment_of(r"\.x\.", "."), Some("x".to_owned()));
        for other in [",a", ".x.", ",5,", ",,", ",a,b,", "^,a,", ",a.,", ",true,", r",\d,", ",a$,"]
        {
            assert_eq!(segment_of(other, ","), None, "{other}");
        }
        assert_eq!(segment_of(",0123456789abcdefABCDEF01,", ","), None);
        assert_eq!(escaped("/a.b/"), r"/a\.b/");
    }
}
