//! Runs a filter on many documents. Its fields are found in one pass, by the shape of the previous
//! documents; the first condition that fails ends the test.

use super::walk::MISSING;
use super::{Filter, Leaf, Node};
use crate::interrupt;
use std::sync::Arc;
use value::shape::{NAMES_MAX, Shape};
use value::{RawDoc, Result};

/// A filter with the shape of previous documents. Each thread has its own.
#[derive(Clone, Debug)]
pub struct Matcher {
    filter: Arc<Filter>,
    shape: Shape,
    /// For each name of the shape, the conditions that test its value.
    leaves: Vec<Vec<usize>>,
    /// The other conditions.
    others: Vec<usize>,
}

impl Matcher {
    /// Runs a filter.
    #[must_use]
    pub fn new(filter: Arc<Filter>) -> Matcher {
        let mut names: Vec<&str> = Vec::new();
        let mut leaves: Vec<Vec<usize>> = Vec::new();
        let mut others = Vec::new();
        for (at, node) in filter.remaining_with_positions() {
            let Node::Leaf(leaf) = node else {
                others.push(at);
                continue;
            };
            let name = leaf.path.first();
            match names.iter().position(|known| *known == name) {
                Some(place) => leaves.get_mut(place).map(|leaves| leaves.push(at)).unwrap_or(()),
                None if names.len() < NAMES_MAX => {
                    names.push(name);
                    leaves.push(vec![at]);
                }
                None => others.push(at),
            }
        }
        let shape = Shape::new(names.into_iter()).unwrap_or_default();
        Matcher { shape, leaves, others, filter }
    }

    /// Whether a document matches.
    ///
    /// # Errors
    /// As `Filter::matches`.
    #[inline]
    pub fn matches(&mut self, doc: RawDoc<'_>) -> Result<bool> {
        interrupt::charge_bytes(doc.bytes().len())?;
        let Matcher { filter, shape, leaves, others } = self;
        let conditions = filter.root.conditions();
        let leaf = |at: &usize| match conditions.get(*at) {
            Some(Node::Leaf(leaf)) => Some(leaf),
            _ => None,
        };
        let all = |places: &[usize], test: &mut dyn FnMut(&Leaf) -> Result<bool>| {
            for leaf in places.iter().filter_map(leaf) {
                if !test(leaf)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let (mut passed, mut seen) = (Ok(true), 0_u64);
        shape.each(doc, |name, value| {
            seen |= 1 << name;
            let places = leaves.get(name).map_or(&[][..], Vec::as_slice);
            passed = match places {
                [one] => leaf(one).map_or(Ok(true), |leaf| leaf.matches_value(value, &mut None)),
                many => all(many, &mut |leaf| leaf.matches_value(value, &mut None)),
            };
            matches!(passed, Ok(true))
        });
        if !matches!(passed, Ok(true)) {
            return passed;
        }
        for (name, places) in leaves.iter().enumerate() {
            if seen & (1 << name) == 0 && !all(places, &mut |leaf| leaf.test.matches(MISSING))? {
                return Ok(false);
            }
        }
        for node in others.iter().filter_map(|at| conditions.get(*at)) {
            if !node.matches(doc, &mut None)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseContext;
    use crate::filter::Conditions;
    use value::{DocBuf, ejson};

    #[test]
    fn a_matcher_says_what_its_filter_says() {
        let docs = [
            "{}",
            "{_id: 1, a: 1, b: 'x', c: {d: 1, e: [1, 2]}}",
            "{_id: 2, a: 2, b: 'x', c: {d: 1, e: [1, 2]}}",
            "{_id: 3, a: [1, 5], b: null, c: [{d: 1}, {d: 7}]}",
            "{b: 'y', a: 1}",
            "{_id: 4, a: 'x', b: 'x', c: 5}",
            "{_id: 5, c: {d: [3, 7]}, a: {d: 1}}",
        ];
        let docs: Vec<DocBuf> = docs.iter().map(|text| ejson::parse_doc(text).unwrap()).collect();
        let filters = [
            "{}",
            "{a: 1}",
            "{a: {$ne: 1}, b: 'x'}",
            "{a: {$gte: 1, $lt: 2}, b: {$in: ['x', null]}}",
            "{b: null}",
            "{'c.d': 7}",
            "{'c.d': 1, 'c.e': 2}",
            "{'c.d': {$exists: false}}",
            "{'c.e': {$size: 2}, a: {$gt: 1}}",
            "{$or: [{a: 5}, {'c.1.d': 7}, {zz: 1}]}",
            "{$nor: [{a: 1}, {b: 'x'}], _id: {$exists: true}}",
            "{$expr: {$eq: ['$a', 1]}, b: 'x'}",
            "{a: {$elemMatch: {$gt: 4}}}",
        ];
        for text in filters {
            let source = ejson::parse_doc(text).unwrap();
            let filter = Filter::parse(source.as_doc(), &ParseContext::new(0)).unwrap();
            let mut first = Conditions::default();
            first.add(0);
            for filter in [filter.without(Conditions::default()), filter.without(first)] {
                let filter = Arc::new(filter);
                let mut matcher = Matcher::new(filter.clone());
                for doc in docs.iter().cycle().take(40) {
                    let doc = doc.as_doc();
                    let expected = filter.matches(doc).unwrap();
                    assert_eq!(matcher.matches(doc).unwrap(), expected, "{text} of {doc:?}");
                }
            }
        }
    }

    #[test]
    fn conditions_on_more_names_than_can_be_counted_are_tested_too() {
        let names: Vec<String> = (0..70).map(|n| format!("n{n}: 1")).collect();
        let source = ejson::parse_doc(&format!("{{{}}}", names.join(", "))).unwrap();
        let filter = Filter::parse(source.as_doc(), &ParseContext::new(0)).unwrap();
        let mut matcher = Matcher::new(Arc::new(filter));
        for _ in 0..3 {
            assert!(matcher.matches(source.as_doc()).unwrap());
        }
        let less = ejson::parse_doc(&format!("{{{}}}", names[..69].join(", "))).unwrap();
        assert!(!matcher.matches(less.as_doc()).unwrap());
    }
}
