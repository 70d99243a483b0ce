//! Which buckets can hold points that match a filter.

use super::record::{Record, parse_key};
use super::settings::{Settings, add_value};
use query::filter::Filter;
use query::filter::node::{Node, Test};
use std::cmp::Ordering;
use value::{OwnedVal, Result, Val, compare};

/// What a filter requires of points.
#[derive(Debug)]
pub(super) struct Wanted {
    first: i64,
    last: i64,
    /// The series, if all key fields are given.
    pub(super) series: Option<Vec<u8>>,
    /// Bounds of rolled up fields: the number of the field, a bound, and how values must compare
    /// with it.
    bounds: Vec<(usize, OwnedVal, &'static [Ordering])>,
}

const BELOW: &[Ordering] = &[Ordering::Less];
const UP_TO: &[Ordering] = &[Ordering::Less, Ordering::Equal];
const ABOVE: &[Ordering] = &[Ordering::Greater];
const FROM: &[Ordering] = &[Ordering::Greater, Ordering::Equal];

impl Wanted {
    /// What a filter requires, as far as it can be told from its conditions.
    pub(super) fn of(settings: &Settings, filter: &Filter) -> Wanted {
        let (first, last, bounds) = (i64::MIN, i64::MAX, Vec::new());
        let mut wanted = Wanted { first, last, series: None, bounds };
        let mut keys: Vec<Option<&OwnedVal>> = vec![None; settings.keys.len()];
        for condition in filter.root().conditions() {
            let Node::Leaf(leaf) = condition else { continue };
            let path = leaf.path.text();
            if path == settings.time.text() {
                wanted.narrow(&leaf.test);
                continue;
            }
            if let Some(at) = settings.keys.iter().position(|key| key.text() == path)
                && let Test::Eq(value) = &leaf.test
                && is_plain(value.get(), filter)
                && let Some(slot) = keys.get_mut(at)
            {
                *slot = Some(value);
            }
            if let Some(at) = settings.fields.iter().position(|field| field.path.text() == path)
                && let Some((value, order)) = bound(&leaf.test)
                && value.get().is_number()
            {
                wanted.bounds.push((at, value.clone(), order));
            }
        }
        let keys: Option<Vec<&OwnedVal>> = keys.into_iter().collect();
        wanted.series = keys.map(|keys| {
            let mut series = Vec::new();
            keys.iter().for_each(|value| add_value(&mut series, value.get()));
            series
        });
        wanted
    }

    fn narrow(&mut self, test: &Test) {
        match test {
            Test::Eq(value) => self.between(date(value), date(value)),
            Test::Lt(value) => self.between(None, date(value).map(|ms| ms.saturating_sub(1))),
            Test::Lte(value) => self.between(None, date(value)),
            Test::Gt(value) => self.between(date(value).map(|ms| ms.saturating_add(1)), None),
            Test::Gte(value) => self.between(date(value), None),
            Test::And(tests) => tests.iter().for_each(|test| self.narrow(test)),
            _ => {}
        }
    }

    fn between(&mut self, first: Option<i64>, last: Option<i64>) {
        self.first = self.first.max(first.unwrap_or(i64::MIN));
        self.last = self.last.min(last.unwrap_or(i64::MAX));
    }

    /// The first and the last time that points may have.
    pub(super) fn times(&self) -> (i64, i64) {
        (self.first, self.last)
    }

    /// Whether a bucket may hold points that match.
    pub(super) fn may_be_in(&self, settings: &Settings, key: &[u8], bucket: &[u8]) -> Result<bool> {
        let (first, last) = Record::times(bucket)?;
        if last < self.first || first > self.last {
            return Ok(false);
        }
        if let Some(series) = &self.series
            && parse_key(key)?.0 != series
        {
            return Ok(false);
        }
        if self.bounds.is_empty() {
            return Ok(true);
        }
        let Some(stats) = Record::read(bucket)?.stats(settings) else { return Ok(true) };
        let fits = |(at, bound, order): &(usize, OwnedVal, &'static [Ordering])| {
            let Some(field) = stats.fields.get(*at) else { return true };
            let (Some(min), Some(max)) = (&field.min, &field.max) else { return false };
            // Values that are no numbers may hide numbers (arrays do), and NaN compares in its own
            // way.
            let is_number = |value: &OwnedVal| {
                value.get().is_number() && !value.get().as_f64().is_none_or(f64::is_nan)
            };
            if !is_number(min) || !is_number(max) || !is_number(bound) {
                return true;
            }
            let compares =
                |value: &OwnedVal| order.contains(&compare::compare(value.get(), bound.get()));
            compares(min) || compares(max)
        };
        Ok(self.bounds.iter().all(fits))
    }
}

fn date(value: &OwnedVal) -> Option<i64> {
    match value.get() {
        Val::DateTime(ms) => Some(ms),
        _ => None,
    }
}

fn bound(test: &Test) -> Option<(&OwnedVal, &'static [Ordering])> {
    match test {
        Test::Lt(value) => Some((value, BELOW)),
        Test::Lte(value) => Some((value, UP_TO)),
        Test::Gt(value) => Some((value, ABOVE)),
        Test::Gte(value) => Some((value, FROM)),
        _ => None,
    }
}

/// Whether only points with this value in their key can match an equality.
fn is_plain(value: Val<'_>, filter: &Filter) -> bool {
    match value {
        Val::String(_) => filter.collation().is_none(),
        Val::Int32(_) | Val::Int64(_) | Val::Double(_) | Val::Decimal(_) => true,
        Val::ObjectId(_) | Val::DateTime(_) | Val::Bool(_) | Val::Binary(..) => true,
        _ => false,
    }
}
