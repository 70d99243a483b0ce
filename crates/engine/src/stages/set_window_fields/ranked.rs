//! Windows whose result depends on the order of their values: `$topN` and similar, percentiles,
//! sets. The values of the partition are ranked once; a window is a set of ranks, to which
//! documents are added and removed in a few steps.

use super::sliding::Sliding;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use value::writer::write_array;
use value::{OwnedVal, RawDoc, Val};

/// The rank of documents that are excluded.
const NONE: u32 = u32::MAX;

/// Indexes of documents sorted by value; equal values in the order of the documents.
pub(super) struct Ranks {
    rank: Vec<u32>,
    place: Vec<u32>,
}

impl Ranks {
    /// The memory of the ranks of this many documents.
    pub(super) fn memory_bytes(count: usize) -> usize {
        // Two numbers here, and a node or a counter in the window.
        count.saturating_mul(2 * size_of::<u32>() + 16)
    }

    /// Ranks those of `count` documents that are included.
    pub(super) fn new(
        count: usize,
        takes_part: impl Fn(usize) -> bool,
        compare: impl Fn(usize, usize) -> Ordering,
    ) -> Ranks {
        let number = |at: usize| u32::try_from(at).unwrap_or(NONE);
        let mut place: Vec<u32> = (0..count).filter(|at| takes_part(*at)).map(number).collect();
        place.sort_unstable_by(|a, b| compare(*a as usize, *b as usize).then(a.cmp(b)));
        let mut rank = vec![NONE; count];
        for (at, place) in place.iter().enumerate() {
            if let Some(slot) = rank.get_mut(*place as usize) {
                *slot = number(at);
            }
        }
        Ranks { rank, place }
    }

    fn rank(&self, at: usize) -> Option<u32> {
        self.rank.get(at).copied().filter(|rank| *rank != NONE)
    }

    fn place(&self, rank: u32) -> usize {
        self.place.get(rank as usize).map_or(usize::MAX, |place| *place as usize)
    }
}

/// Which end of the order is returned, and in which direction.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The smallest, ascending.
    Low,
    /// The largest, ascending.
    High,
    /// The largest, descending.
    HighFirst,
}

/// The first or last values of the order.
pub(super) struct Tops<F> {
    pub(super) ranks: Ranks,
    pub(super) window: BTreeSet<u32>,
    pub(super) end: End,
    /// How many are returned; `None` means one, not in an array.
    pub(super) limit: Option<usize>,
    pub(super) value: F,
}

impl<'v, F: Fn(usize) -> Val<'v>> Sliding for Tops<F> {
    fn clear(&mut self) {
        self.window.clear();
    }

    fn push(&mut self, at: usize) {
        self.window.extend(self.ranks.rank(at));
    }

    fn pop(&mut self, at: usize) {
        if let Some(rank) = self.ranks.rank(at) {
            self.window.remove(&rank);
        }
    }

    fn result(&self, _: usize) -> OwnedVal {
        let count = self.limit.unwrap_or(1);
        let mut ranks: Vec<u32> = match self.end {
            End::Low => self.window.iter().take(count).copied().collect(),
            End::High | End::HighFirst => self.window.iter().rev().take(count).copied().collect(),
        };
        if let End::High = self.end {
            ranks.reverse();
        }
        let values = ranks.into_iter().map(|rank| or_null((self.value)(self.ranks.place(rank))));
        match self.limit {
            None => OwnedVal::new(values.into_iter().next().unwrap_or(Val::Null)),
            Some(_) => array(values),
        }
    }
}

fn or_null(value: Val<'_>) -> Val<'_> {
    if value.is_missing() { Val::Null } else { value }
}

/// An array of values.
pub(super) fn array<'v>(values: impl Iterator<Item = Val<'v>>) -> OwnedVal {
    let mut bytes = Vec::new();
    write_array(&mut bytes, |out| values.for_each(|value| out.push(value)));
    OwnedVal::new(Val::Array(RawDoc::new(&bytes)))
}

/// The distinct values, in order; of equal values, that of the first document.
pub(super) struct Distinct<F> {
    ranks: Ranks,
    /// For each rank the first rank of an equal value.
    class: Vec<u32>,
    window: BTreeMap<u32, VecDeque<usize>>,
    value: F,
}

impl<F> Distinct<F> {
    /// An empty window.
    pub(super) fn new(ranks: Ranks, equal: impl Fn(usize, usize) -> bool, value: F) -> Distinct<F> {
        let mut class: Vec<u32> = Vec::with_capacity(ranks.place.len());
        for (rank, pair) in (0_u32..).zip(ranks.place.iter().enumerate()) {
            let before = pair.0.checked_sub(1).and_then(|at| ranks.place.get(at));
            let same = before.is_some_and(|before| equal(*before as usize, *pair.1 as usize));
            class.push(if same { class.last().copied().unwrap_or(rank) } else { rank });
        }
        Distinct { ranks, class, window: BTreeMap::new(), value }
    }

    fn class(&self, at: usize) -> Option<u32> {
        self.class.get(self.ranks.rank(at)? as usize).copied()
    }
}

impl<'v, F: Fn(usize) -> Val<'v>> Sliding for Distinct<F> {
    fn clear(&mut self) {
        self.window.clear();
    }

    fn push(&mut self, at: usize) {
        if let Some(class) = self.class(at) {
            self.window.entry(class).or_default().push_back(at);
        }
    }

    fn pop(&mut self, at: usize) {
        let Some(class) = self.class(at) else { return };
        if let Some(places) = self.window.get_mut(&class) {
            places.pop_front();
            if places.is_empty() {
                self.window.remove(&class);
            }
        }
    }

    fn result(&self, _: usize) -> OwnedVal {
        array(self.window.values().filter_map(|places| places.front()).map(|at| (self.value)(*at)))
    }
}

/// The numbers at given quantiles of the order.
pub(super) struct Percentiles<'w, F> {
    ranks: Ranks,
    /// How many ranks of the window are in each part, as a Fenwick tree.
    counts: Vec<u32>,
    held: usize,
    wanted: &'w [f64],
    /// Whether the result is an array.
    many: bool,
    number: F,
}

impl<'w, F: Fn(usize) -> f64> Percentiles<'w, F> {
    /// An empty window.
    pub(super) fn new(
        ranks: Ranks,
        wanted: &'w [f64],
        many: bool,
        number: F,
    ) -> Percentiles<'w, F> {
        let counts = vec![0; ranks.place.len() + 1];
        Percentiles { ranks, counts, held: 0, wanted, many, number }
    }

    fn change(&mut self, at: usize, enters: bool) {
        let Some(rank) = self.ranks.rank(at) else { return };
        let mut node = rank as usize + 1;
        while let Some(count) = self.counts.get_mut(node) {
            *count = if enters { *count + 1 } else { count.saturating_sub(1) };
            node += node & node.wrapping_neg();
        }
        self.held = if enters { self.held + 1 } else { self.held.saturating_sub(1) };
    }

    /// The rank of the number with this many before it.
    fn find(&self, mut before: usize) -> u32 {
        let mut node = 0;
        let mut step = self.counts.len().next_power_of_two();
        while step > 0 {
            if let Some(count) = self.counts.get(node + step).map(|count| *count as usize)
                && count <= before
            {
                node += step;
                before -= count;
            }
            step /= 2;
        }
        u32::try_from(node).unwrap_or(NONE)
    }
}

impl<F: Fn(usize) -> f64> Sliding for Percentiles<'_, F> {
    fn clear(&mut self) {
        self.counts.fill(0);
        self.held = 0;
    }

    fn push(&mut self, at: usize) {
        self.change(at, true);
    }

    fn pop(&mut self, at: usize) {
        self.change(at, false);
    }

    fn result(&self, _: usize) -> OwnedVal {
        let held = self.held;
        let at = |part: &f64| {
            let before = ((part * held as f64).ceil() - 1.0).max(0.0) as usize;
            match held {
                0 => Val::Null,
                _ => Val::Double((self.number)(self.ranks.place(self.find(before)))),
            }
        };
        if self.many {
            return array(self.wanted.iter().map(at));
        }
        OwnedVal::new(self.wanted.first().map_or(Val::Null, at))
    }
}
