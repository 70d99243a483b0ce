//! Accumulators that choose by position or order: extremes, firsts and lasts, tops and bottoms.

use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use value::compare::compare_with;
use value::writer::{ArrayWriter, write_value};
use value::{Collation, OwnedVal, RawDoc, RawVal, Val};

/// Heap bytes of a kept value, with its bookkeeping.
fn weight(value: &OwnedVal) -> usize {
    value.raw().bytes.len() + 32
}

/// The smallest or largest value; null, undefined and missing are not compared.
#[derive(Debug)]
pub(super) struct Extreme {
    largest: bool,
    /// The type of the best value; null while there is none.
    kind: u8,
    /// Its bytes; numbers and dates are stored inline.
    bytes: SmallVec<[u8; 16]>,
    collation: Option<Arc<Collation>>,
}

const NULL: u8 = 0x0A;

impl Extreme {
    pub(super) fn new(largest: bool, collation: Option<Arc<Collation>>) -> Extreme {
        Extreme { largest, kind: NULL, bytes: SmallVec::new(), collation }
    }

    pub(super) fn add(&mut self, value: Val<'_>) {
        if value.is_nullish() {
            return;
        }
        let better = self.kind == NULL || {
            // Numbers and dates of one type need no decoding.
            if let Val::Int64(n) | Val::DateTime(n) = value
                && self.kind == value.kind() as u8
                && let Some(best) = self.bytes.first_chunk::<8>()
            {
                let best = i64::from_le_bytes(*best);
                if if self.largest { n <= best } else { n >= best } {
                    return;
                }
            }
            let order = compare_with(value, self.result(), self.collation.as_deref());
            if self.largest { order.is_gt() } else { order.is_lt() }
        };
        if better {
            self.kind = value.kind() as u8;
            self.bytes.clear();
            match value {
                Val::Double(n) => self.bytes.extend_from_slice(&n.to_le_bytes()),
                Val::Int32(n) => self.bytes.extend_from_slice(&n.to_le_bytes()),
                Val::Int64(n) | Val::DateTime(n) => {
                    self.bytes.extend_from_slice(&n.to_le_bytes());
                }
                value => {
                    let mut bytes = Vec::new();
                    write_value(&mut bytes, value);
                    self.bytes.extend_from_slice(&bytes);
                }
            }
        }
    }

    pub(super) fn result(&self) -> Val<'_> {
        RawVal { kind: self.kind, bytes: &self.bytes }.get()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        if self.bytes.spilled() { self.bytes.capacity() } else { 0 }
    }
}

/// The first or last values in order of arrival; missing ones count as null.
#[derive(Debug)]
pub(super) struct Edge {
    limit: usize,
    last: bool,
    /// Whether a value arrived after the limit was reached.
    beyond: bool,
    values: VecDeque<OwnedVal>,
    bytes: usize,
}

impl Edge {
    pub(super) fn first(limit: usize) -> Edge {
        Edge { limit, last: false, beyond: false, values: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn last(limit: usize) -> Edge {
        Edge { limit, last: true, beyond: false, values: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn add(&mut self, value: Val<'_>) {
        if self.values.len() >= self.limit {
            if !self.last {
                self.beyond = true;
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

    /// Whether no further value can change the result; with `beyond` only after one value beyond
    /// the limit.
    pub(super) fn is_settled(&self, beyond: bool) -> bool {
        !self.last && if beyond { self.beyond } else { self.values.len() >= self.limit }
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
    collation: Option<Arc<Collation>>,
}

impl Ranked {
    fn new(limit: usize, keep_large: bool, descending: bool) -> Ranked {
        Ranked {
            limit,
            keep_large,
            descending,
            values: BTreeMap::new(),
            arrived: 0,
            bytes: 0,
            collation: None,
        }
    }

    /// The same under a collation.
    pub(super) fn with_collation(mut self, collation: Option<Arc<Collation>>) -> Ranked {
        self.collation = collation;
        self
    }

    /// The collation of text.
    pub(super) fn collation(&self) -> Option<&Collation> {
        self.collation.as_deref()
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

    /// Writes everything that `absorb` needs: keys and values, in order of arrival.
    pub(super) fn save(&self, out: &mut ArrayWriter<'_>) {
        let mut values: Vec<_> = self.values.iter().collect();
        values.sort_unstable_by_key(|((_, arrived), _)| *arrived);
        for ((key, _), value) in values {
            out.push(Val::Binary(0, key));
            out.push_raw(value.raw());
        }
    }

    /// Adds the saved state of another ranking, as if its values came after those of this one.
    pub(super) fn absorb(&mut self, saved: RawDoc<'_>) {
        let mut parts = saved.iter().map(|(_, part)| part.get());
        while let (Some(Val::Binary(_, key)), Some(value)) = (parts.next(), parts.next()) {
            self.add(key, value);
        }
    }

    pub(super) fn values(&self) -> Box<dyn Iterator<Item = Val<'_>> + '_> {
        let values = self.values.values().map(OwnedVal::get);
        if self.descending { Box::new(values.rev()) } else { Box::new(values) }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}
