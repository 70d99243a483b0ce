//! Modifiers ordered by the paths that they change, as a tree: conflicts show while it is built.

use std::cmp::Ordering;
use value::{Code, Error, Result};

/// A node of the tree.
#[derive(Debug)]
pub(super) enum Tree {
    /// The modifier of this number.
    Leaf(usize),
    /// Children by field name or array place, in the order in which they are applied; `$` is the
    /// place that the filter matched.
    Fields(Vec<(Box<str>, Tree)>),
    /// Children for the elements of an array that a filter chooses, by identifier; the empty one
    /// chooses all.
    Elements(Vec<(Box<str>, Tree)>),
}

/// The identifier of a part such as `$[name]`; `$[]` gives the empty one.
pub(super) fn identifier(part: &str) -> Option<&str> {
    part.strip_prefix("$[")?.strip_suffix(']')
}

/// The order in which parts are applied: by text, numbers by value.
pub fn part_order(a: &str, b: &str) -> Ordering {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if number(a) && number(b) {
        let (x, y) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
        return x.len().cmp(&y.len()).then_with(|| x.cmp(y)).then_with(|| a.cmp(b));
    }
    a.cmp(b)
}

impl Tree {
    /// Visits the leaves with their paths.
    pub(super) fn walk(&self, path: &str, visit: &mut dyn FnMut(&str, usize)) {
        let (children, elements) = match self {
            Tree::Leaf(leaf) => return visit(path, *leaf),
            Tree::Fields(children) => (children, false),
            Tree::Elements(children) => (children, true),
        };
        for (name, child) in children {
            let part = if elements { format!("$[{name}]") } else { name.to_string() };
            let path = if path.is_empty() { part } else { format!("{path}.{part}") };
            child.walk(&path, visit);
        }
    }

    /// Adds a leaf at a path.
    pub(super) fn insert(&mut self, path: &str, leaf: usize) -> Result<()> {
        let conflict = |at: &str| {
            Error::new(
                Code::CONFLICTING_UPDATE_OPERATORS,
                format!("Updating the path '{path}' would create a conflict at '{at}'"),
            )
        };
        let mut node = self;
        let mut consumed = 0;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            let before = path.get(..consumed.max(1) - 1).unwrap_or("");
            consumed += part.len() + 1;
            let here = path.get(..consumed - 1).unwrap_or(path);
            let (children, key) = match (node, identifier(part)) {
                (Tree::Fields(children), None) => (children, part),
                (Tree::Elements(children), Some(name)) => (children, name),
                _ => return Err(conflict(before)),
            };
            let place = children.binary_search_by(|(name, _)| part_order(name, key));
            let last = parts.peek().is_none();
            let at = match (place, last) {
                (Ok(_), true) => return Err(conflict(here)),
                (Ok(at), false) => at,
                (Err(at), true) => {
                    children.insert(at, (key.into(), Tree::Leaf(leaf)));
                    return Ok(());
                }
                (Err(at), false) => {
                    let elements = parts.peek().is_some_and(|next| identifier(next).is_some());
                    let inner = if elements {
                        Tree::Elements(Vec::new())
                    } else {
                        Tree::Fields(Vec::new())
                    };
                    children.insert(at, (key.into(), inner));
                    at
                }
            };
            let Some((_, next)) = children.get_mut(at) else {
                return Err(Error::internal("a child that was found or inserted is there"));
            };
            if matches!(next, Tree::Leaf(_)) {
                return Err(conflict(here));
            }
            node = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert_all(paths: &[&str]) -> Result<Tree> {
        let mut tree = Tree::Fields(Vec::new());
        for (at, path) in paths.iter().enumerate() {
            tree.insert(path, at)?;
        }
        Ok(tree)
    }

    #[test]
    fn conflicts_are_found() {
        for (paths, message) in [
            (&["a", "a"][..], "Updating the path 'a' would create a conflict at 'a'"),
            (&["a", "a.b"], "Updating the path 'a.b' would create a conflict at 'a'"),
            (&["a.b.c", "a.b"], "Updating the path 'a.b' would create a conflict at 'a.b'"),
            (&["a.$[x]", "a.0"], "Updating the path 'a.0' would create a conflict at 'a'"),
        ] {
            let error = insert_all(paths).map(|_| ()).unwrap_err();
            assert_eq!(error.code(), Code::CONFLICTING_UPDATE_OPERATORS);
            assert_eq!(error.message(), message);
        }
        assert!(insert_all(&["a.b", "a.c", "ab", "a.$", "b.$[]", "b.$[x].c"]).is_ok());
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        assert_eq!(part_order("9", "10"), Ordering::Less);
        assert_eq!(part_order("b", "a"), Ordering::Greater);
        assert_eq!(part_order("10", "a"), Ordering::Less);
    }
}
