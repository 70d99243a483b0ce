//! `$near` and `$text`: they need an index, and are allowed only once and only at certain positions
//! of a filter.

use super::node::{Node, Test};
use super::{Filter, Leaf, walk};
use crate::geo::Near;
use crate::text::TextQuery;
use value::path::Path;
use value::{Code, Error, RawDoc, Result, Writer};

/// Refuses a `$near` or `$text` in the wrong place.
///
/// # Errors
/// `BadValue`.
pub(super) fn check(root: &Node) -> Result<()> {
    let parts = root.conditions();
    let near = parts.iter().filter(|node| as_near(node).is_some()).count();
    if near > 1 {
        return Err(Error::bad_value("Too many geoNear expressions"));
    }
    if parts.iter().any(|node| as_near(node).is_none() && has_near(node)) {
        return Err(Error::bad_value("geo $near must be top-level expr"));
    }
    match count_texts(root, false)? {
        0 => Ok(()),
        1 if near > 0 => Err(Error::bad_value("text and geoNear not allowed in same query")),
        1 => Ok(()),
        _ => Err(Error::bad_value("Too many text expressions")),
    }
}

fn count_texts(node: &Node, negated: bool) -> Result<usize> {
    let all = |nodes: &[Node], negated: bool| {
        nodes.iter().try_fold(0, |sum, node| Ok(sum + count_texts(node, negated)?))
    };
    match node {
        Node::Text(_) if negated => Err(Error::bad_value("text expression not allowed in nor")),
        Node::Text(_) => Ok(1),
        Node::And(nodes) | Node::Or(nodes) => all(nodes, negated),
        Node::Nor(nodes) => all(nodes, true),
        Node::Not(inner) => count_texts(inner, true),
        _ => Ok(0),
    }
}

/// Refuses a `$near` or `$text` anywhere: where documents are not looked up by an index.
///
/// # Errors
/// 5626500 for `$near`, `BadValue` for `$text`.
pub(super) fn refuse(root: &Node) -> Result<()> {
    if has_near(root) {
        return Err(Error::new(
            Code(5_626_500),
            "$geoNear, $near, and $nearSphere are not allowed in this context",
        ));
    }
    if has_where(root) {
        return Err(super::parse::where_refused());
    }
    match find_text(root) {
        Some(_) => Err(Error::bad_value("$text is not allowed in this context")),
        None => Ok(()),
    }
}

/// The conditions that must all hold.
fn as_near(node: &Node) -> Option<(&Path, &Near)> {
    match node {
        Node::Leaf(Leaf { path, test: Test::Near(near) }) => Some((path, near)),
        _ => None,
    }
}

fn is_special(node: &Node) -> bool {
    matches!(node, Node::Text(_)) || as_near(node).is_some()
}

fn has_where(node: &Node) -> bool {
    match node {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => nodes.iter().any(has_where),
        Node::Not(inner) => has_where(inner),
        node => matches!(node, Node::Where(_)),
    }
}

fn has_near(node: &Node) -> bool {
    match node {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => nodes.iter().any(has_near),
        Node::Not(inner) => has_near(inner),
        Node::ElemMatchObject { filter, .. } => has_near(filter),
        Node::ElemMatchValue { ops, .. } => ops.iter().any(is_near),
        Node::Leaf(leaf) => is_near(&leaf.test),
        _ => false,
    }
}

fn is_near(test: &Test) -> bool {
    match test {
        Test::Near(_) => true,
        Test::Not(inner) => is_near(inner),
        Test::And(tests) | Test::ElemMatchValue(tests) => tests.iter().any(is_near),
        Test::ElemMatchObject(filter) => has_near(filter),
        _ => false,
    }
}

/// The `$text` in a node.
fn find_text(node: &Node) -> Option<&TextQuery> {
    match node {
        Node::Text(query) => Some(query),
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().find_map(find_text),
        _ => None,
    }
}

impl Filter {
    /// The `$near` of the filter and the path that it is about.
    #[must_use]
    pub fn near(&self) -> Option<(&Path, &Near)> {
        self.root().conditions().iter().find_map(as_near)
    }

    /// Whether there are other conditions beside a `$near` or `$text`.
    #[must_use]
    pub fn has_more_than_special(&self) -> bool {
        self.left().any(|node| !is_special(node))
    }

    /// Appends explain's form of all conditions but the `$near` or `$text`.
    pub fn explain_without_special(&self, out: &mut Writer<'_>) {
        super::explain::all(self.left().filter(|node| !is_special(node)), out);
    }

    /// The `$text` of the filter. It has to be bound to an index before the filter can run.
    #[must_use]
    pub fn text(&self) -> Option<&TextQuery> {
        find_text(self.root())
    }
}

impl Near {
    /// The smallest distance of the locations at a path of a document.
    ///
    /// # Errors
    /// None at present; walking a path may fail.
    pub fn distance_of(&self, path: &Path, doc: RawDoc<'_>) -> Result<Option<f64>> {
        Ok(self.nearest_of(path, doc)?.map(|(distance, _)| distance))
    }

    /// The nearest location at a path of a document, with its distance.
    ///
    /// # Errors
    /// As `distance_of`.
    pub fn nearest_of<'d>(
        &self,
        path: &Path,
        doc: RawDoc<'d>,
    ) -> Result<Option<(f64, value::Val<'d>)>> {
        let mut nearest: Option<(f64, value::Val<'d>)> = None;
        walk::any(doc, path.parts(), None, true, &mut |value, _| {
            if let Some(found) = self.distance(value.get())
                && nearest.is_none_or(|(known, _)| found < known)
            {
                nearest = Some((found, value.get()));
            }
            Ok(false)
        })?;
        Ok(nearest)
    }
}
