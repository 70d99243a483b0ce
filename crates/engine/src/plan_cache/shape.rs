//! The shape of a query: its form without values.

use query::filter::{Node, Test};
use query::sort::SortSpec;
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hash, Hasher};
use std::mem::discriminant;
use value::{Collation, RawDoc, Val};

/// The parts of a query besides its filter.
#[derive(Clone, Copy, Default)]
pub struct Rest<'q> {
    /// The order.
    pub sort: Option<&'q SortSpec>,
    /// The projection as it was written.
    pub projection: Option<RawDoc<'q>>,
    /// The collation, if text is compared by one.
    pub collation: Option<&'q Collation>,
}

/// A hash of the shape of a query: equal for queries that differ only in values.
#[must_use]
pub fn of(node: &Node, rest: &Rest<'_>) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    feed_node(&mut hasher, node);
    for field in rest.sort.map_or(&[][..], |sort| sort.fields.as_slice()) {
        hasher.write(field.path.text().as_bytes());
        hasher.write_u8(if field.descending { 2 } else { 1 });
    }
    if let Some(projection) = rest.projection {
        feed_projection(&mut hasher, projection);
    }
    if let Some(collation) = rest.collation {
        hasher.write_u8(4);
        hasher.write(collation.document().bytes());
    }
    hasher.finish()
}

/// Feeds the fields that a projection includes, in any order. One that needs whole documents is as
/// good as none.
fn feed_projection(hasher: &mut impl Hasher, projection: RawDoc<'_>) {
    let mut names: SmallVec<[&str; 8]> = SmallVec::new();
    let mut has_id = true;
    for (name, value) in projection {
        match value.get() {
            Val::Bool(_) | Val::Int32(_) | Val::Int64(_) | Val::Double(_) | Val::Decimal(_) => {
                match (name, value.get().truthy()) {
                    ("_id", included) => has_id = included,
                    (_, false) => return,
                    (name, true) => names.push(name),
                }
            }
            _ => return,
        }
    }
    if names.is_empty() && (!has_id || projection.is_empty()) {
        return;
    }
    names.sort_unstable();
    hasher.write_u8(if has_id { 5 } else { 6 });
    for name in names {
        hasher.write(name.as_bytes());
        hasher.write_u8(0);
    }
}

/// A shape in the form that clients see.
#[must_use]
pub fn text(shape: u64) -> String {
    format!("{:08X}", shape as u32)
}

fn feed_node(hasher: &mut impl Hasher, node: &Node) {
    discriminant(node).hash(hasher);
    match node {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
            nodes.iter().for_each(|node| feed_node(hasher, node));
            hasher.write_u8(0);
        }
        Node::Not(inner) => feed_node(hasher, inner),
        Node::Leaf(leaf) => {
            hasher.write(leaf.path.text().as_bytes());
            feed_test(hasher, &leaf.test);
        }
        Node::ElemMatchObject { path, filter } => {
            hasher.write(path.text().as_bytes());
            feed_node(hasher, filter);
        }
        Node::ElemMatchValue { path, ops } => {
            hasher.write(path.text().as_bytes());
            ops.iter().for_each(|test| feed_test(hasher, test));
        }
        _ => {}
    }
}

fn feed_test(hasher: &mut impl Hasher, test: &Test) {
    // The collation of the query is fed once.
    if let Test::Collated(collated) = test {
        return feed_test(hasher, &collated.test);
    }
    discriminant(test).hash(hasher);
    match test {
        Test::ElemMatchObject(node) => feed_node(hasher, node),
        Test::ElemMatchValue(tests) | Test::And(tests) => {
            tests.iter().for_each(|test| feed_test(hasher, test));
        }
        Test::Not(test) => feed_test(hasher, test),
        _ => {}
    }
    hasher.write_u8(0);
}
