//! Queries that follow a tree or search in its paths: ancestors are found by id, a subtree by the
//! prefix of its paths.

use super::Tree;
use crate::answers::{Question, StageAnswer, conditions};
use crate::pattern::Pattern;
use value::{DocBuf, RawDoc, RawVal, Result, Val};

/// Characters with a special meaning in regular expressions.
const SPECIAL: &str = r"\.+*?()|[]{}^$";

impl Tree {
    /// The filter with a search for a segment anywhere in a path replaced by a prefix of the path.
    pub(super) fn answer_search(
        &self,
        question: &Question<'_>,
        filter: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        let pattern = question.pattern;
        let Some(path) = &self.path else { return Ok(None) };
        if *pattern.target != *question.collection || !is_named_by_id(pattern, self) {
            return Ok(None);
        }
        let mut all = Vec::new();
        conditions(filter, &mut all);
        let searched = all.iter().enumerate().find_map(|(at, (name, value))| {
            let text = expression(*value).filter(|_| *name == path.into.text())?;
            Some((at, segment_of(text, &path.separator)?))
        });
        let Some((at, segment)) = searched else { return Ok(None) };
        if question.is_behind()? {
            return Ok(None);
        }
        let node = question.snapshot.get(question.collection, Val::String(&segment))?;
        let begin = node.as_ref().and_then(|node| path.into.find(node.as_doc()));
        let begin = begin.and_then(|begin| begin.get().as_str().map(str::to_owned));
        Ok(Some(DocBuf::build(|out| {
            out.array("$and", |list| {
                for (number, (name, value)) in all.iter().enumerate() {
                    list.push_doc(|out| match &begin {
                        _ if number != at => {
                            out.raw(name, *value);
                        }
                        Some(begin) => {
                            out.append(name, Val::Regex(&format!("^{}", escaped(begin)), ""));
                        }
                        // If the node does not exist, it has no descendants.
                        None => {
                            out.doc(name, |out| {
                                out.array("$in", |_| {});
                            });
                        }
                    });
                }
            });
        })))
    }

    /// The `$lookup` in place of a `$graphLookup` along the tree.
    pub(super) fn answer_walk(
        &self,
        question: &Question<'_>,
        (name, value): (&str, RawVal<'_>),
    ) -> Result<Option<StageAnswer>> {
        let walk = value.as_doc().filter(|_| name == "$graphLookup");
        let Some(stage) = walk.and_then(|walk| lookup(question, self, walk)) else {
            return Ok(None);
        };
        if question.is_behind()? {
            return Ok(None);
        }
        Ok(Some(StageAnswer { stage, from: "$graphLookup", keeps_documents: true }))
    }
}

/// Whether segments are the ids of nodes.
pub(super) fn is_named_by_id(pattern: &Pattern, tree: &Tree) -> bool {
    let wanted = pattern.declaration.as_doc().get("maintain").and_then(Val::as_doc);
    let path = wanted.and_then(|wanted| wanted.get("path")).and_then(Val::as_doc);
    let segment = path.and_then(|path| path.get("segment"));
    tree.id.text() == "_id" && segment.is_none_or(|segment| segment == Val::String("$_id"))
}

/// The regular expression of a condition, if it has no options.
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

/// The segment that an expression such as `,databases,` searches for. Only text that no id other
/// than a string can produce: numbers, dates and so on have segments too.
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

/// Whether only a string can produce this segment.
pub(super) fn is_plain_name(segment: &str) -> bool {
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

/// The `$lookup` that is equivalent to a `$graphLookup` along the tree.
fn lookup(question: &Question<'_>, tree: &Tree, walk: RawDoc<'_>) -> Option<DocBuf> {
    let known = ["from", "startWith", "connectFromField", "connectToField", "as"];
    // The walk does not know of scopes: a name may be in several.
    let ancestors = tree.ancestors.as_ref().filter(|_| !tree.defer && !tree.is_scoped())?.text();
    if walk.count() != known.len() || !known.iter().all(|name| walk.find(name).is_some()) {
        return None;
    }
    let text = |name| walk.get(name).and_then(Val::as_str).unwrap_or("");
    let (id, parent) = (tree.id.text(), tree.parent.text());
    let start = text("startWith").strip_prefix('$')?;
    let (near, far) = match (start, text("connectFromField"), text("connectToField")) {
        (start, from, to) if start == parent && from == parent && to == id => (ancestors, id),
        // Downwards only with an index: the walk uses that of the parents.
        (start, from, to) if start == id && from == id && to == parent => {
            let indexed = question.snapshot.has_index(question.collection, ancestors);
            indexed.then_some((id, ancestors))?
        }
        _ => return None,
    };
    if text("from") != question.collection {
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
