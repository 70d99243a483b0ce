//! Accumulators that choose by place or by order: extremes, firsts and lasts, tops and bottoms.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use value::compare::compare_with;
use value::{Collation, OwnedVal, Val};

/// Heap bytes of a kept value, with its bookkeeping.
fn weight(value: &OwnedVal) -> usize {
    value.raw().bytes.len() + 32
}

/// The smallest or largest value; null, undefined and missing are not compared.
#[derive(Debug)]
pub(super) struct Extreme {
    largest: bool,
    collation: Option<Arc<Collation>>,
    best: Option<OwnedVal>,
}

impl Extreme {
    pub(super) fn new(largest: bool, collation: Option<Arc<Collation>>) -> Extreme {
        Extreme { largest, collation, best: None }
    }

    pub(super) fn add(&mut self, value: Val<'_>) {
        if value.is_nullish() {
            return;
        }
        let better = match &self.best {
            None => true,
            Some(best) => {
                let order = compare_with(value, best.get(), self.collation.as_deref());
                if self.largest { order.is_gt() } else { order.is_lt() }
            }
        };
        if better {
            self.best = Some(OwnedVal::new(value));
        }
    }

    pub(super) fn result(&self) -> Val<'_> {
        self.best.as_ref().map_or(Val::Null, OwnedVal::get)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.best.as_ref().map_or(0, weight)
    }
}

/// The first or last values in the order in which they came; missing ones count as null.
#[derive(Debug)]
pub(super) struct Edge {
    limit: usize,
    last: bool,
    values: VecDeque<OwnedVal>,
    bytes: usize,
}

impl Edge {
    pub(super) fn first(limit: usize) -> Edge {
        Edge { limit, last: false, values: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn last(limit: usize) -> Edge {
        Edge { limit, last: true, values: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn add(&mut self, value: Val<'_>) {
        if self.values.len() >= self.limit {
            if !self.last {
                return;
            }
            if let Some(dropped) = self.values.pop_front() {
                self.bytes -= weight(&dropped);
            }
        }
        let value = OwnedVal::new(if value.is_missing() { Val::Null } else { value });
        self.bytes += weight(&value);
        self.values.push_back(value);
    }

    pub(super) fn values(&self) -> impl Iterator<Item = Val<'_>> {
        self.values.iter().map(OwnedVal::get)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

/// The values with the smallest or largest keys.
#[derive(Debug)]
pub(super) struct Ranked {
    limit: usize,
    /// Which end of the order is kept.
    keep_large: bool,
    /// Whether results begin at the large end.
    descending: bool,
    values: BTreeMap<(Vec<u8>, u64), OwnedVal>,
    arrived: u64,
    bytes: usize,
}

impl Ranked {
    fn new(limit: usize, keep_large: bool, descending: bool) -> Ranked {
        Ranked { limit, keep_large, descending, values: BTreeMap::new(), arrived: 0, bytes: 0 }
    }

    /// The smallest, ascending.
    pub(super) fn smallest(limit: usize) -> Ranked {
        Ranked::new(limit, false, false)
    }

    /// The largest, descending.
    pub(super) fn largest(limit: usize) -> Ranked {
        Ranked::new(limit, true, true)
    }

    /// The largest, ascending: the end of the order.
    pub(super) fn last(limit: usize) -> Ranked {
        Ranked::new(limit, true, false)
    }

    pub(super) fn add(&mut self, key: &[u8], value: Val<'_>) {
        self.arrived += 1;
        if self.values.len() >= self.limit {
            let edge = if self.keep_large {
                self.values.first_key_value()
            } else {
                self.values.last_key_value()
            };
            let loses = edge.is_some_and(|((edge, _), _)| {
                if self.keep_large { key <= edge.as_slice() } else { key >= edge.as_slice() }
            });
            if loses {
                return;
            }
            let dropped =
                if self.keep_large { self.values.pop_first() } else { self.values.pop_last() };
            if let Some(((key, _), value)) = dropped {
                self.bytes -= key.len() + weight(&value) + 40;
            }
        }
        let value = OwnedVal::new(if value.is_missing() { Val::Null } else { value });
        self.bytes += key.len() + weight(&value) + 40;
        self.values.insert((key.to_vec(), self.arrived), value);
    }

    pub(super) fn values(&self) -> Box<dyn Iterator<Item = Val<'_>> + '_> {
        let values = self.values.values().map(OwnedVal::get);
        if self.descending { Box::new(values.rev()) } else { Box::new(values) }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}
