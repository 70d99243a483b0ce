//! How long texts are that a part of a pattern matches, and how large a pattern is for PCRE.

use super::parse::Refusal;
use super::set::Set;
use super::syntax::{Node, Test, Tree};

/// Refuses a pattern whose compiled form in PCRE has more than `size_max` bytes, or that has a
/// look-behind of no fixed length.
pub(super) fn check(tree: &Tree, size_max: usize) -> Result<(), Refusal> {
    if compiled(&tree.node) > size_max {
        return Err("regular expression is too large");
    }
    let lengths = Lengths { root: &tree.node };
    let wrong = |node: &Node| match node {
        Node::Look { node, behind: true, .. }
        | Node::Condition { test: Test::Look { node, behind: true, .. }, .. } => {
            branches(node).iter().any(|branch| lengths.of(branch, &mut Vec::new()).is_none())
        }
        _ => false,
    };
    if tree.node.any(&mut { wrong }) {
        return Err("lookbehind assertion is not fixed length");
    }
    Ok(())
}

/// The alternatives of a look-behind, each of which has a length of its own.
pub(super) fn branches(node: &Node) -> &[Node] {
    match node {
        Node::Alt(parts) => parts,
        node => std::slice::from_ref(node),
    }
}

/// The number of characters that parts of a pattern match if it is always the same.
pub(super) struct Lengths<'t> {
    /// The whole pattern, for calls.
    pub(super) root: &'t Node,
}

impl Lengths<'_> {
    /// `calls` are the groups that are being called.
    pub(super) fn of(&self, node: &Node, calls: &mut Vec<usize>) -> Option<usize> {
        match node {
            Node::Empty | Node::Assert(_) | Node::Look { .. } | Node::Verb(_) | Node::Keep => {
                Some(0)
            }
            Node::Set(_) => Some(1),
            Node::Concat(parts) => parts.iter().map(|part| self.of(part, calls)).sum(),
            Node::Alt(parts) => {
                let mut lengths = parts.iter().map(|part| self.of(part, calls));
                let first = lengths.next()??;
                lengths.all(|length| length == Some(first)).then_some(first)
            }
            Node::Group(number, inner) => {
                // A call of a group from inside has no end.
                calls.push(*number);
                let length = self.of(inner, calls);
                calls.pop();
                length
            }
            Node::Atomic(inner) => self.of(inner, calls),
            Node::Repeat { node, least, most, .. } if least == most => match (&**node, least) {
                (Node::Set(_), least) => Some(*least),
                (_, 0) => None,
                (node, least) => self.of(node, calls)?.checked_mul(*least),
            },
            Node::Call(number) => {
                if *number == 0 || calls.contains(number) {
                    return None;
                }
                self.of(group(self.root, *number)?, calls)
            }
            Node::Condition { test: Test::Never, .. } => Some(0),
            Node::Condition { yes, no, .. } => {
                let yes = self.of(yes, calls)?;
                let same = no.as_ref().is_none_or(|no| self.of(no, calls) == Some(yes));
                same.then_some(yes)
            }
            Node::Repeat { .. } | Node::Reference { .. } | Node::Newline { .. } | Node::Cluster => {
                None
            }
        }
    }
}

/// The first group with a number.
fn group(node: &Node, number: usize) -> Option<&Node> {
    match node {
        Node::Group(own, _) if *own == number => Some(node),
        node => node.children().into_iter().find_map(|node| group(node, number)),
    }
}

/// Whether a part can match without a character. True if that is not known.
pub(super) fn may_be_empty(node: &Node) -> bool {
    match node {
        Node::Set(_) | Node::Newline { .. } | Node::Cluster => false,
        Node::Concat(parts) => parts.iter().all(may_be_empty),
        Node::Alt(parts) => parts.iter().any(may_be_empty),
        Node::Group(_, node) | Node::Atomic(node) => may_be_empty(node),
        Node::Repeat { node, least, .. } => *least == 0 || may_be_empty(node),
        Node::Condition { yes, no: Some(no), .. } => may_be_empty(yes) || may_be_empty(no),
        _ => true,
    }
}

/// About the size of PCRE's compiled form, in bytes, which grows with repeated groups. Classes are
/// counted low.
fn compiled(node: &Node) -> usize {
    let sum =
        |parts: &[Node]| parts.iter().fold(0, |sum: usize, p| sum.saturating_add(compiled(p)));
    match node {
        Node::Empty => 0,
        Node::Set(Set::Char(one)) => 1 + one.len_utf8(),
        Node::Set(_) => 1,
        Node::Concat(parts) => sum(parts),
        Node::Alt(parts) => sum(parts).saturating_add(3 * parts.len()),
        Node::Group(_, node) => compiled(node).saturating_add(8),
        Node::Atomic(node) | Node::Look { node, .. } => compiled(node).saturating_add(6),
        Node::Repeat { node, .. } if matches!(**node, Node::Set(_)) => 5,
        Node::Repeat { node, least, most, .. } => {
            let once = compiled(node);
            let optional = if *most == usize::MAX { 0 } else { most.saturating_sub(*least) };
            let optional = optional.saturating_mul(once.saturating_add(7));
            once.saturating_mul((*least).max(1)).saturating_add(optional)
        }
        Node::Condition { yes, no, .. } => {
            let no = no.as_deref().map_or(0, compiled);
            compiled(yes).saturating_add(no).saturating_add(12)
        }
        Node::Call(_) | Node::Reference { .. } => 3,
        _ => 1,
    }
}
