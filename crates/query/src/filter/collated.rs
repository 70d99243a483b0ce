//! Tests whose constants hold text, under a collation other than the simple one.
//!
//! Only such constants are wrapped: numbers, dates and all else compare the same way under every
//! collation, which is also why an index of another collation can serve them.

use super::node::Test;
use super::parse::Parser;
use std::cmp::Ordering;
use std::sync::Arc;
use value::collation::applies_to;
use value::compare::compare_with;
use value::{Collation, OwnedVal, RawVal, Result};

/// A comparison under a collation.
#[derive(Debug)]
pub struct Collated {
    /// One of `Eq`, `Lt`, `Lte`, `Gt`, `Gte` and `In`.
    pub test: Test,
    /// The collation of text.
    pub collation: Arc<Collation>,
}

impl Collated {
    pub(super) fn matches(&self, value: RawVal<'_>) -> Result<bool> {
        Ok(match &self.test {
            Test::Eq(constant) => self.order(value, constant) == Some(Ordering::Equal),
            Test::Lt(constant) => self.order(value, constant).is_some_and(Ordering::is_lt),
            Test::Lte(constant) => self.order(value, constant).is_some_and(Ordering::is_le),
            Test::Gt(constant) => self.order(value, constant).is_some_and(Ordering::is_gt),
            Test::Gte(constant) => self.order(value, constant).is_some_and(Ordering::is_ge),
            Test::In { values, regexes } => {
                if super::matches::contains(values, value, Some(&self.collation)) {
                    return Ok(true);
                }
                for regex in regexes {
                    if super::matches::regex_matches(regex, value)? {
                        return Ok(true);
                    }
                }
                false
            }
            other => return other.matches(value),
        })
    }

    /// The order of a value and a constant of the same type.
    fn order(&self, value: RawVal<'_>, constant: &OwnedVal) -> Option<Ordering> {
        let constant = constant.get();
        (value.kind().rank() == constant.kind().rank())
            .then(|| compare_with(value.get(), constant, Some(&self.collation)))
    }
}

impl Parser<'_> {
    /// Puts a test under the collation of the request, where that can matter.
    pub(super) fn collate(&self, test: Test) -> Test {
        let Some(collation) = self.context.collation else { return test };
        let wrap =
            |test: Test| Test::Collated(Box::new(Collated { test, collation: collation.clone() }));
        match test {
            Test::Eq(ref value)
            | Test::Lt(ref value)
            | Test::Lte(ref value)
            | Test::Gt(ref value)
            | Test::Gte(ref value)
                if applies_to(value.get()) =>
            {
                wrap(test)
            }
            Test::In { mut values, regexes } if values.iter().any(|v| applies_to(v.get())) => {
                let order =
                    |a: &OwnedVal, b: &OwnedVal| compare_with(a.get(), b.get(), Some(collation));
                values.sort_by(order);
                values.dedup_by(|a, b| order(a, b).is_eq());
                wrap(Test::In { values, regexes })
            }
            Test::Not(inner) => Test::Not(Box::new(self.collate(*inner))),
            Test::And(tests) => {
                Test::And(tests.into_iter().map(|test| self.collate(test)).collect())
            }
            test => test,
        }
    }
}
