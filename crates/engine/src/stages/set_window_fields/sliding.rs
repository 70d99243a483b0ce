//! Sliding windows: the result is updated by the documents that enter and leave a window, so that
//! the cost does not depend on its width.
//!
//! Sums are exact and support subtraction; extremes are kept in a queue of candidates; decimals,
//! deviations and covariances, which cannot be subtracted without errors, are merged from two
//! stacks. Functions of the order of values are in `ranked`.

use super::output::Output;
use super::spans::Spans;
use crate::operation::Operation;
use std::collections::VecDeque;
use value::{OwnedVal, Result};

/// A function of the documents of a window, given by their indexes.
pub(super) trait Sliding {
    /// Resets to an empty window.
    fn clear(&mut self);
    /// Adds the next document at the end.
    fn push(&mut self, at: usize);
    /// Removes the first document.
    fn pop(&mut self, at: usize);
    /// The result of the window for the document at `at`.
    fn result(&self, at: usize) -> OwnedVal;
    /// Whether the result depends on the window alone, so that documents with the same window share
    /// it.
    fn is_of_window(&self) -> bool {
        true
    }
}

/// Slides over the windows, and records the result of each.
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
            // The window moves back, or does not overlap the previous one.
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

/// The indexes in a window that hold an extreme, or may when others leave.
pub(super) struct Extremes<F> {
    /// Whether the value at one index is better than that at another.
    better: F,
    places: VecDeque<usize>,
}

impl<F: Fn(usize, usize) -> bool> Extremes<F> {
    /// Extremes by an order of indexes.
    pub(super) fn new(better: F) -> Extremes<F> {
        Extremes { better, places: VecDeque::new() }
    }

    /// The index of the best value, the first of equal ones.
    pub(super) fn best(&self) -> Option<usize> {
        self.places.front().copied()
    }

    /// Empties the window.
    pub(super) fn clear(&mut self) {
        self.places.clear();
    }

    /// Adds a document.
    pub(super) fn push(&mut self, at: usize) {
        while self.places.back().is_some_and(|last| (self.better)(at, *last)) {
            self.places.pop_back();
        }
        self.places.push_back(at);
    }

    /// Removes the first document.
    pub(super) fn pop(&mut self, at: usize) {
        if self.places.front() == Some(&at) {
            self.places.pop_front();
        }
    }
}

/// A value that can be merged from parts.
pub(super) trait Part: Clone + Default {
    /// Merges two consecutive parts.
    fn joined(&self, behind: &Self) -> Self;
}

/// A window of parts as two stacks (a queue): the front stack holds merged suffixes, so that the
/// first part can be removed at no cost.
#[derive(Default)]
pub(super) struct TwoStacks<T> {
    front: Vec<T>,
    back: Vec<T>,
    /// The merged back stack.
    joined: T,
}

impl<T: Part> TwoStacks<T> {
    /// Adds a part.
    pub(super) fn push(&mut self, part: T) {
        self.joined = self.joined.joined(&part);
        self.back.push(part);
    }

    /// Removes the first part.
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

    /// Merges all parts.
    pub(super) fn whole(&self) -> T {
        match self.front.last() {
            Some(front) => front.joined(&self.joined),
            None => self.joined.clone(),
        }
    }
}
