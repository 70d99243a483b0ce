//! Whether all matches of a query also match another filter: a partial index can answer a query
//! only if the query implies its filter.
//!
//! The answer is yes only if it is certain: each required condition must follow from one condition
//! of the query on the same path.

use query::filter::{Leaf, Node, Test};
use value::{OwnedVal, Val, compare};

/// The deepest nesting of `$or` that is analysed.
const BRANCHING_MAX: usize = 3;

/// Whether every document that matches all of `known` matches `wanted`.
#[must_use]
pub fn implies(known: &[&Node], wanted: &Node) -> bool {
    let mut conditions = Vec::new();
    known.iter().for_each(|node| flatten(node, &mut conditions));
    all_imply(&conditions, wanted, BRANCHING_MAX)
}

/// Collects the conditions that must all hold.
fn flatten<'n>(node: &'n Node, out: &mut Vec<&'n Node>) {
    match node {
        Node::And(nodes) => nodes.iter().for_each(|node| flatten(node, out)),
        node => out.push(node),
    }
}

fn all_imply(known: &[&Node], wanted: &Node, branching: usize) -> bool {
    let direct = match wanted {
        Node::Const(always) => *always,
        Node::And(all) => all.iter().all(|wanted| all_imply(known, wanted, branching)),
        Node::Or(some) => some.iter().any(|wanted| all_imply(known, wanted, branching)),
        Node::Leaf(leaf) => known.iter().any(|node| leaf_implies(node, leaf)),
        _ => false,
    };
    if direct || branching == 0 {
        return direct;
    }
    // One branch of an `$or` holds, so the `$or` implies a condition that each branch implies.
    known.iter().enumerate().any(|(at, node)| {
        let Node::Or(branches) = node else { return false };
        branches.iter().all(|branch| {
            let others = known.iter().enumerate().filter(|(other, _)| *other != at);
            let mut with: Vec<&Node> = others.map(|(_, node)| *node).collect();
            flatten(branch, &mut with);
            all_imply(&with, wanted, branching - 1)
        })
    })
}

fn leaf_implies(known: &Node, wanted: &Leaf) -> bool {
    match known {
        Node::Const(always) => !always,
        Node::Leaf(leaf) => {
            leaf.path.text() == wanted.path.text() && test_implies(&leaf.test, &wanted.test)
        }
        _ => false,
    }
}

/// Whether a value that passes `known` also passes `wanted`. In an array, the same element must
/// pass both.
fn test_implies(known: &Test, wanted: &Test) -> bool {
    match (known, wanted) {
        (Test::And(tests), wanted) => tests.iter().any(|known| test_implies(known, wanted)),
        (known, Test::And(tests)) => tests.iter().all(|wanted| test_implies(known, wanted)),
        (known, Test::Exists) => needs_value(known),
        (Test::In { values, regexes }, wanted) if regexes.is_empty() => {
            values.iter().all(|value| value_implies(value, wanted))
        }
        (Test::Eq(value), wanted) => value_implies(value, wanted),
        (Test::Type(known), Test::Type(wanted)) => {
            let number = !known.has_number() || wanted.has_number();
            number && known.types().iter().all(|kind| wanted.contains(*kind))
        }
        (Test::Gt(known), Test::Gt(wanted) | Test::Gte(wanted))
        | (Test::Gte(known), Test::Gte(wanted)) => {
            in_order(known, wanted).is_some_and(std::cmp::Ordering::is_ge)
        }
        (Test::Gte(known), Test::Gt(wanted)) => {
            in_order(known, wanted).is_some_and(std::cmp::Ordering::is_gt)
        }
        (Test::Lt(known), Test::Lt(wanted) | Test::Lte(wanted))
        | (Test::Lte(known), Test::Lte(wanted)) => {
            in_order(known, wanted).is_some_and(std::cmp::Ordering::is_le)
        }
        (Test::Lte(known), Test::Lt(wanted)) => {
            in_order(known, wanted).is_some_and(std::cmp::Ordering::is_lt)
        }
        // Texts that are equal under a collation pass the same tests of that collation.
        (Test::Collated(known), Test::Collated(other)) if known.collation == other.collation => {
            match &known.test {
                Test::Eq(value) if matches!(value.get(), Val::String(_)) => {
                    wanted.matches(value.raw()).unwrap_or(false)
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// Whether equality with a value implies the test.
fn value_implies(known: &OwnedVal, wanted: &Test) -> bool {
    match wanted {
        Test::Eq(wanted) => compare::equal(known.get(), wanted.get()),
        Test::In { values, .. } => {
            values.iter().any(|value| compare::equal(known.get(), value.get()))
        }
        Test::Gt(wanted) => in_order(known, wanted).is_some_and(std::cmp::Ordering::is_gt),
        Test::Gte(wanted) => in_order(known, wanted).is_some_and(std::cmp::Ordering::is_ge),
        Test::Lt(wanted) => in_order(known, wanted).is_some_and(std::cmp::Ordering::is_lt),
        Test::Lte(wanted) => in_order(known, wanted).is_some_and(std::cmp::Ordering::is_le),
        Test::Exists => !known.get().is_nullish(),
        Test::And(tests) => tests.iter().all(|wanted| value_implies(known, wanted)),
        _ => false,
    }
}

/// The order of two values that comparisons can relate; `None` for values with special rules.
fn in_order(a: &OwnedVal, b: &OwnedVal) -> Option<std::cmp::Ordering> {
    let plain = |value: Val<'_>| match value {
        Val::Double(n) => !n.is_nan(),
        Val::Decimal(n) => !n.is_nan(),
        Val::Array(_) | Val::Document(_) | Val::MinKey | Val::MaxKey => false,
        value => !value.is_nullish(),
    };
    let (a, b) = (a.get(), b.get());
    (plain(a) && plain(b) && a.kind().rank() == b.kind().rank()).then(|| compare::compare(a, b))
}

/// Whether a missing value cannot pass.
fn needs_value(test: &Test) -> bool {
    match test {
        Test::Collated(collated) => needs_value(&collated.test),
        Test::Eq(value)
        | Test::Lt(value)
        | Test::Lte(value)
        | Test::Gt(value)
        | Test::Gte(value) => {
            let value = value.get();
            !value.is_nullish() && !matches!(value, Val::MinKey | Val::MaxKey)
        }
        Test::In { values, .. } => values.iter().all(|value| !value.get().is_nullish()),
        Test::Exists
        | Test::Type(_)
        | Test::Mod { .. }
        | Test::Regex(_)
        | Test::Size(_)
        | Test::Bits(_)
        | Test::ElemMatchObject(_)
        | Test::ElemMatchValue(_) => true,
        Test::And(tests) => tests.iter().any(needs_value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use query::ParseContext;
    use query::filter::Filter;
    use value::ejson;

    fn check(query: &str, partial: &str) -> bool {
        let parse = |text: &str| {
            let doc = ejson::parse_doc(text).expect("test text");
            Filter::parse(doc.as_doc(), &ParseContext::new(0)).expect("is right")
        };
        let (query, partial) = (parse(query), parse(partial));
        implies(&[query.root()], partial.root())
    }

    #[test]
    fn what_is_implied() {
        for (query, partial) in [
            ("{a: 5}", "{}"),
            ("{a: 5}", "{a: {$gt: 3}}"),
            ("{a: {$in: [4, 5]}}", "{a: {$gt: 3}}"),
            ("{a: {$gt: 3}}", "{a: {$gte: 3}}"),
            ("{a: {$gt: 3, $lt: 9}, b: 1}", "{a: {$gt: 1}, b: {$exists: true}}"),
            ("{b: 'x'}", "{b: {$exists: true}}"),
            ("{b: null}", "{b: null}"),
            ("{b: {$type: 'int'}}", "{b: {$type: 'number'}}"),
            ("{a: 1}", "{$or: [{a: 1}, {b: 2}]}"),
            ("{$or: [{a: 1}, {a: 2}]}", "{a: {$in: [1, 2, 3]}}"),
            ("{$or: [{a: 5}, {a: 6, b: 1}], c: 1}", "{a: {$gt: 1}, c: 1}"),
        ] {
            assert!(check(query, partial), "{query} => {partial}");
        }
    }

    #[test]
    fn what_is_not_implied() {
        for (query, partial) in [
            ("{}", "{a: 1}"),
            ("{a: 3}", "{a: {$gt: 3}}"),
            ("{a: '5'}", "{a: {$gt: 3}}"),
            ("{a: {$in: [1, 5]}}", "{a: {$gt: 3}}"),
            ("{a: {$gte: 3}}", "{a: {$gt: 3}}"),
            ("{a: null}", "{a: {$exists: true}}"),
            ("{a: {$gte: null}}", "{a: {$exists: true}}"),
            ("{a: {$in: [1, null]}}", "{a: {$exists: true}}"),
            ("{a: {$ne: 1}}", "{a: {$exists: true}}"),
            ("{a: NaN}", "{a: {$lt: 3}}"),
            ("{b: 5}", "{a: 5}"),
            ("{b: 5}", "{b: {$type: 'int'}}"),
            ("{$or: [{a: 5}, {b: 1}]}", "{a: {$gt: 1}}"),
        ] {
            assert!(!check(query, partial), "{query} => {partial}");
        }
    }
}
