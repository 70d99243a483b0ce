//! Searches in a tree whose ancestors, paths and depths are not stored: nodes that can match are
//! found by descending the index of parents from some nodes, instead of reading all of them.
//!
//! A descent finds all nodes that can match and possibly more: the filter is tested on each of
//! them.

use super::Tree;
use super::rewrite::is_named_by_id;
use crate::descent::Start;
use crate::pattern::Pattern;
use query::filter::{Node, Test};
use value::{OwnedVal, Val};

/// The nodes at which a search for all nodes that can match starts; `None` if unknown.
pub(super) fn starts(pattern: &Pattern, tree: &Tree, node: &Node) -> Option<Vec<Start>> {
    match node {
        // A depth is less selective than an ancestor.
        Node::And(nodes) => {
            let found = nodes.iter().filter_map(|node| starts(pattern, tree, node));
            found.min_by_key(|starts| starts.iter().any(|start| start.name.get().is_nullish()))
        }
        Node::Or(nodes) => {
            let found: Option<Vec<Vec<Start>>> =
                nodes.iter().map(|node| starts(pattern, tree, node)).collect();
            found.map(|all| all.into_iter().flatten().collect())
        }
        Node::Leaf(leaf) => {
            let is = |path: &value::path::Path| path.text() == leaf.path.text();
            if tree.ancestors.as_ref().is_some_and(is) {
                return named(&leaf.test, |name| Start { name, itself: false, levels: None });
            }
            if is(&tree.id) && !tree.is_scoped() {
                return named(&leaf.test, |name| Start { name, itself: true, levels: Some(0) });
            }
            if tree.depth.as_ref().is_some_and(is) {
                let levels = Some(deepest(&leaf.test)?.checked_add(1)?);
                let above = |name| Start { name: OwnedVal::new(name), itself: false, levels };
                return Some([Val::Null, Val::Undefined].map(above).to_vec());
            }
            let path = tree.path.as_ref().filter(|path| is(&path.into))?;
            if !is_named_by_id(pattern, tree) {
                return None;
            }
            let (text, levels) = match &leaf.test {
                Test::Eq(value) => (value.get().as_str()?.to_owned(), Some(0)),
                Test::Regex(regex) if regex.options().is_empty() => {
                    (literal(regex.pattern())?, None)
                }
                _ => return None,
            };
            let name = OwnedVal::new(Val::String(last_segment(&text, &path.separator)?));
            Some(vec![Start { name, itself: true, levels }])
        }
        _ => None,
    }
}

/// A start for each id that a test requires.
fn named(test: &Test, start: impl Fn(OwnedVal) -> Start) -> Option<Vec<Start>> {
    let names = match test {
        Test::Eq(value) => std::slice::from_ref(value),
        Test::In { values, regexes } if regexes.is_empty() => values.as_slice(),
        _ => return None,
    };
    let plain = |name: &OwnedVal| {
        let name = name.get();
        !name.is_nullish() && !matches!(name, Val::Array(_) | Val::Regex(..))
    };
    names.iter().all(plain).then(|| names.iter().map(|name| start(name.clone())).collect())
}

/// The deepest level that a test of the depth accepts.
fn deepest(test: &Test) -> Option<u32> {
    let whole = |value: &OwnedVal| value.get().as_i64_exact().and_then(|n| u32::try_from(n).ok());
    match test {
        Test::Eq(value) | Test::Lte(value) | Test::Lt(value) => whole(value),
        _ => None,
    }
}

/// The literal text that every match of a regular expression contains, from its start on.
fn literal(pattern: &str) -> Option<String> {
    if pattern.contains(['|', '(', '[']) {
        return None;
    }
    let mut text = String::new();
    let mut chars = pattern.strip_prefix('^').unwrap_or(pattern).chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next()? {
                escaped if escaped.is_ascii_punctuation() => text.push(escaped),
                _ => break,
            },
            // The character before is optional.
            '*' | '?' | '{' => {
                text.pop();
                break;
            }
            '.' | '+' | '^' | '$' | ')' | ']' | '}' => break,
            plain => text.push(plain),
        }
    }
    Some(text)
}

/// The last complete segment of a path. Only one that no id other than a string can produce.
fn last_segment<'t>(text: &'t str, separator: &str) -> Option<&'t str> {
    let (front, _) = text.rsplit_once(separator)?;
    let (_, segment) = front.rsplit_once(separator)?;
    super::rewrite::is_plain_name(segment).then_some(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_tell_the_text_that_they_need() {
        let literal_of = |pattern: &str| literal(pattern).unwrap_or_else(|| "-".to_owned());
        assert_eq!(literal_of("^,tech,databases,"), ",tech,databases,");
        assert_eq!(literal_of(",databases,"), ",databases,");
        assert_eq!(literal_of(r"\/a\/b.*"), "/a/b");
        assert_eq!(literal_of(",a,b?,"), ",a,");
        assert_eq!(literal_of(",a,b*"), ",a,");
        assert_eq!(literal_of(",a{0,1}"), ",");
        assert_eq!(literal_of(r",a\d"), ",a");
        assert_eq!(literal_of(",a|,b"), "-");
        assert_eq!(literal_of("(,a,)?"), "-");
    }

    #[test]
    fn the_last_whole_segment_names_a_node() {
        assert_eq!(last_segment(",tech,databases,", ","), Some("databases"));
        assert_eq!(last_segment(",tech,data", ","), Some("tech"));
        for text in [",tech", "tech,", ",5,", "", ",", ",,"] {
            assert_eq!(last_segment(text, ","), None, "{text}");
        }
    }
}
