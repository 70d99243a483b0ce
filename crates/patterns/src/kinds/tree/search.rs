//! Searches in a tree whose ancestors, paths and depths are not stored: the nodes that can match stand
//! below others, and are found by walking down the index of parents instead of reading all of them.
//!
//! A walk finds all that can match and perhaps more: the filter is tested on what it finds.

use super::Tree;
use super::rewrite::is_named_by_id;
use crate::descent::Start;
use crate::pattern::Pattern;
use query::filter::{Node, Test};
use value::{OwnedVal, Val};

/// Where to begin to find all nodes that can match; `None` if that cannot be told.
pub(super) fn starts(pattern: &Pattern, tree: &Tree, node: &Node) -> Option<Vec<Start>> {
    match node {
        // A depth tells less than where a node stands.
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
            if is(&tree.id) {
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

/// A start for each name that a test asks for.
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

/// The deepest level that a test of the depth lets through.
fn deepest(test: &Test) -> Option<u32> {
    let whole = |value: &OwnedVal| value.get().as_i64_exact().and_then(|n| u32::try_from(n).ok());
    match test {
        Test::Eq(value) | Test::Lte(value) | Test::Lt(value) => whole(value),
        _ => None,
    }
}

/// The text that everything holds which a regular expression matches, from its beginning on.
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
            // The character before may not be there at all.
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

/// The last segment of a path that is whole. Only one that no other name than a string can give.
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
        let told = |pattern: &str| literal(pattern).unwrap_or_else(|| "-".to_owned());
        assert_eq!(told("^,tech,databases,"), ",tech,databases,");
        assert_eq!(told(",databases,"), ",databases,");
        assert_eq!(told(r"\/a\/b.*"), "/a/b");
        assert_eq!(told(",a,b?,"), ",a,");
        assert_eq!(told(",a,b*"), ",a,");
        assert_eq!(told(",a{0,1}"), ",");
        assert_eq!(told(r",a\d"), ",a");
        assert_eq!(told(",a|,b"), "-");
        assert_eq!(told("(,a,)?"), "-");
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
