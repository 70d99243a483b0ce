//! Where matches of a pattern can begin.

use super::set::Set;
use super::syntax::{Assertion, Node, Tree, Verb};
use super::width::may_be_empty;

/// The characters with which every match begins, if that is known.
///
/// PCRE does not try positions without the first literal character of a pattern. That shows after
/// `(*COMMIT)`, which forbids a second try; other sets are no such condition there.
pub(super) fn set(tree: &Tree) -> Option<Set> {
    if !tree.start_optimised {
        return None;
    }
    let commits = tree.node.any(&mut |node| matches!(node, Node::Verb(Verb::Commit)));
    match of(&tree.node, commits)? {
        // It would not save anything.
        Set::All | Set::Any => None,
        set => Some(set),
    }
}

fn of(node: &Node, commits: bool) -> Option<Set> {
    match node {
        Node::Set(Set::Table(table)) if commits => {
            // The cases of one letter.
            let (first, _) = table.ranges().first()?;
            let cases = Set::character(*first, true);
            (cases == Set::Table(table.clone())).then_some(cases)
        }
        Node::Set(set) => Some(set.clone()),
        Node::Concat(parts) => {
            for part in parts {
                match part {
                    Node::Assert(_) | Node::Keep | Node::Look { .. } | Node::Empty => {}
                    Node::Verb(verb) if *verb != Verb::Accept => {}
                    part => return of(part, commits),
                }
            }
            None
        }
        Node::Alt(parts) => {
            let mut sets = parts.iter().map(|part| of(part, commits));
            let first = sets.next()??;
            let mut class = first.class();
            for set in sets {
                let set = set?;
                if commits && set != first {
                    return None;
                }
                class.union(&set.class());
            }
            Some(Set::of(&class))
        }
        Node::Group(_, inner) | Node::Atomic(inner) => of(inner, commits),
        Node::Repeat { node, least, .. } if *least > 0 && !may_be_empty(node) => of(node, commits),
        _ => None,
    }
}

/// A character that every match has, if one is known. PCRE looks for it first, too.
pub(super) fn required(tree: &Tree) -> Option<char> {
    let accepts = |node: &Node| matches!(node, Node::Verb(Verb::Accept));
    if !tree.start_optimised || tree.node.any(&mut { accepts }) {
        return None;
    }
    last_character(&tree.node)
}

fn last_character(node: &Node) -> Option<char> {
    match node {
        Node::Set(Set::Char(character)) => Some(*character),
        Node::Concat(parts) => parts.iter().rev().find_map(last_character),
        Node::Group(_, inner) | Node::Atomic(inner) => last_character(inner),
        Node::Repeat { node, least, .. } if *least > 0 => last_character(node),
        _ => None,
    }
}

/// Whether every match begins at the start of the text.
pub(super) fn is_anchored(node: &Node) -> bool {
    match node {
        Node::Assert(Assertion::StartText) => true,
        Node::Concat(parts) => parts.first().is_some_and(is_anchored),
        Node::Alt(parts) => parts.iter().all(is_anchored),
        Node::Group(_, inner) | Node::Atomic(inner) => is_anchored(inner),
        _ => false,
    }
}
