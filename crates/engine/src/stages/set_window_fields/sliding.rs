//! Windows that slide: what is computed from a window changes by the documents that enter and
//! leave it, so that the cost does not grow with the width.
//!
//! Sums are exact and can take numbers away; extremes are kept in a queue of those that can still
//! become one; decimals, deviations and covariances, which cannot be undone without errors, are
//! merged from two stacks. What depends on the order of values is in `ranked`.

use super::output::Output;
use super::spans::Spans;
use crate::operation::Operation;
use std::collections::VecDeque;
use value::{OwnedVal, Result};

/// Something computed from the documents of a window, by their places.
pub(super) trait Sliding {
    /// Begins with an empty window.
    fn clear(&mut self);
    /// A document enters behind the others.
    fn push(&mut self, at: usize);
    /// The first document leaves.
    fn pop(&mut self, at: usize);
    /// What the window gives for the document at `at`.
    fn result(&self, at: usize) -> OwnedVal;
    /// Whether that depends on the window alone, so that documents with the same one share it.
    fn is_of_window(&self) -> bool {
        true
    }
}

/// Slides over windows, and notes what each gives.
pub(super) fn slide(
    spans: &Spans<'_>,
    op: &Operation,
    state: &mut dyn Sliding,
    out: &mut Output<'_>,
) -> Result<()> {
    let (mut from, mut to) = (0, 0);
    let mut before = None;
    for (at, (low, high)) in spans.iter().enumerate() {
        op.check()?;
        if before.replace((low, high)) == Some((low, high)) && state.is_of_window() {
            out.repeat()?;
            continue;
        }
        if low < from || high < to || low >= to {
            // It goes back, or leaves everything behind.
            state.clear();
            (from, to) = (low, low);
        }
        while to < high {
            op.check()?;
            state.push(to);
            to += 1;
        }
        while from < low {
            state.pop(from);
            from += 1;
        }
        out.push(state.result(at).get())?;
    }
    Ok(())
}

/// The places of a window that hold an extreme, or will when others leave.
pub(super) struct Extremes<F> {
    /// Whether the value at one place is better than that at another.
    better: F,
    places: VecDeque<usize>,
}

impl<F: Fn(usize, usize) -> bool> Extremes<F> {
    /// Extremes by an order of places.
    pub(super) fn new(better: F) -> Extremes<F> {
        Extremes { better, places: VecDeque::new() }
    }

    /// The place of the best value, the first of equal ones.
    pub(super) fn best(&self) -> Option<usize> {
        self.places.front().copied()
    }

    /// Empties the window.
    pub(super) fn clear(&mut self) {
        self.places.clear();
    }

    /// A document enters.
    pub(super) fn push(&mut self, at: usize) {
        while self.places.back().is_some_and(|last| (self.better)(at, *last)) {
            self.places.pop_back();
        }
        self.places.push_back(at);
    }

    /// The first document leaves.
    pub(super) fn pop(&mut self, at: usize) {
        if self.places.front() == Some(&at) {
            self.places.pop_front();
        }
    }
}

/// Something that can be put together from parts.
pub(super) trait Part: Clone + Default {
    /// What two parts give, one behind the other.
    fn joined(&self, behind: &Self) -> Self;
}

/// A window of parts as two stacks: those at the front are joined from the back on, so that the
/// first can leave at no cost.
#[derive(Default)]
pub(super) struct TwoStacks<T> {
    front: Vec<T>,
    back: Vec<T>,
    /// All of the back, joined.
    joined: T,
}

impl<T: Part> TwoStacks<T> {
    /// A part enters.
    pub(super) fn push(&mut self, part: T) {
        self.joined = self.joined.joined(&part);
        self.back.push(part);
    }

    /// The first part leaves.
    pub(super) fn pop(&mut self) {
        if self.front.is_empty() {
            let mut joined = T::default();
            for part in self.back.drain(..).rev() {
                joined = part.joined(&joined);
                self.front.push(joined.clone());
            }
            self.joined = T::default();
        }
        self.front.pop();
    }

    /// All parts joined.
    pub(super) fn whole(&self) -> T {
        match self.front.last() {
            Some(front) => front.joined(&self.joined),
            None => self.joined.clone(),
        }
    }
}
