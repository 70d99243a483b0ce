//! The shape of a query: its form without values.

use query::filter::{Filter, Node, Test};
use query::sort::SortSpec;
use std::hash::{BuildHasher, Hash, Hasher};
use std::mem::discriminant;
use value::collation::applies_to;

/// A hash of the shape of a query: equal for queries that differ only in values.
#[must_use]
pub fn of(node: &Node, sort: Option<&SortSpec>) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    feed_node(&mut hasher, node);
    for field in sort.map_or(&[][..], |sort| sort.fields.as_slice()) {
        hasher.write(field.path.text().as_bytes());
        hasher.write_u8(if field.descending { 2 } else { 1 });
    }
    if let Some(collation) = sort.and_then(|sort| sort.collation.as_ref()) {
        hasher.write(collation.document().bytes());
    }
    hasher.finish()
}

/// The shape of a whole query, in the form that clients see.
#[must_use]
pub fn query_hash(filter: &Filter, sort: Option<&SortSpec>) -> String {
    text(of(filter.root(), sort))
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
    discriminant(test).hash(hasher);
    match test {
        Test::ElemMatchObject(node) => feed_node(hasher, node),
        Test::ElemMatchValue(tests) | Test::And(tests) => {
            tests.iter().for_each(|test| feed_test(hasher, test));
        }
        Test::Not(test) => feed_test(hasher, test),
        Test::Collated(collated) => {
            hasher.write(collated.collation.document().bytes());
            feed_test(hasher, &collated.test);
        }
        // Values that a collation affects can use other indexes than values that none affects.
        Test::Eq(value)
        | Test::Lt(value)
        | Test::Lte(value)
        | Test::Gt(value)
        | Test::Gte(value) => hasher.write_u8(u8::from(applies_to(value.get()))),
        Test::In { values, .. } => {
            let text = values.iter().any(|value| applies_to(value.get()));
            hasher.write_u8(u8::from(text));
        }
        _ => {}
    }
    hasher.write_u8(0);
}
