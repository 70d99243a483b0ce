//! The array position that the positional `$` of updates and projections refers to.
//!
//! Each condition that is satisfied inside an array gives a position. The last one is used: for
//! updates in the order into which MongoDB sorts conditions (by operator, then by path), for
//! projections in the order in which they are written.

use super::node::{Node, Test};
use value::{RawDoc, Result};

/// The rank of a condition in MongoDB's order.
type Rank<'n> = (u8, &'n str);

/// Finds the position for one document.
pub(super) struct PositionSearch<'n> {
    last: Option<(Rank<'n>, usize)>,
    /// Whether the order is the written one.
    as_written: bool,
}

impl<'n> PositionSearch<'n> {
    pub(super) fn new(as_written: bool) -> PositionSearch<'n> {
        PositionSearch { last: None, as_written }
    }

    /// Returns whether a document matches a condition, and notes its position.
    pub(super) fn matches(&mut self, node: &'n Node, doc: RawDoc<'_>) -> Result<bool> {
        if let Node::And(nodes) = node {
            for node in nodes {
                if !self.matches(node, doc)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let mut position = None;
        if !node.matches(doc, &mut position)? {
            return Ok(false);
        }
        if let Some(position) = position {
            let rank = rank(node);
            if self.as_written || self.last.is_none_or(|(last, _)| last <= rank) {
                self.last = Some((rank, position));
            }
        }
        Ok(true)
    }

    /// The position of the conditions so far.
    pub(super) fn position(&self) -> Option<usize> {
        self.last.map(|(_, position)| position)
    }
}

fn rank(node: &Node) -> Rank<'_> {
    match node {
        Node::ElemMatchObject { path, .. } => (0, path.text()),
        Node::ElemMatchValue { path, .. } => (1, path.text()),
        Node::Leaf(leaf) => (operator(&leaf.test), leaf.path.text()),
        _ => (u8::MAX, ""),
    }
}

fn operator(test: &Test) -> u8 {
    match test {
        Test::ElemMatchObject(_) => 0,
        Test::ElemMatchValue(_) => 1,
        Test::Size(_) => 2,
        Test::Eq(_) => 3,
        Test::In { values, regexes } if values.len() == 1 && regexes.is_empty() => 3,
        Test::Lte(_) => 4,
        Test::Lt(_) => 5,
        Test::Gt(_) => 6,
        Test::Gte(_) => 7,
        Test::Regex(_) => 8,
        Test::Mod { .. } => 9,
        Test::Exists => 10,
        Test::In { .. } => 11,
        Test::Bits(_) => 12,
        Test::Not(_) => 13,
        // The values of an `$all`.
        Test::And(tests) => tests.last().map_or(13, operator),
        Test::Type(_) => 14,
        Test::Geo(_) | Test::Near(_) => 15,
        Test::Collated(collated) => operator(&collated.test),
    }
}
