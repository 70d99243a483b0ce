//! `$covariancePop` and `$covarianceSamp`: covariances of two values.

use super::column::Column;
use super::output::Output;
use super::sliding::{Part, Sliding, TwoStacks, slide};
use super::spans::Spans;
use crate::operation::Operation;
use value::{OwnedVal, Result, Val};

/// Means and moments of pairs of numbers.
#[derive(Clone, Copy, Default)]
pub(super) struct Moments {
    count: f64,
    mean_x: f64,
    mean_y: f64,
    together: f64,
}

impl Moments {
    fn of(x: f64, y: f64) -> Moments {
        Moments { count: 1.0, mean_x: x, mean_y: y, together: 0.0 }
    }

    fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        let ahead = x - self.mean_x;
        self.mean_x += ahead / self.count;
        self.mean_y += (y - self.mean_y) / self.count;
        self.together += ahead * (y - self.mean_y);
    }

    fn covariance(&self, sample: bool) -> Val<'static> {
        let over = if sample { self.count - 1.0 } else { self.count };
        if over > 0.0 { Val::Double(self.together / over) } else { Val::Null }
    }

    /// Whether there is exactly one pair.
    pub(super) fn is_one(&self) -> bool {
        self.count == 1.0
    }

    /// The standard deviation, for pairs of a number with itself.
    pub(super) fn deviation(&self, sample: bool) -> Val<'static> {
        match self.covariance(sample) {
            Val::Double(square) => Val::Double(square.sqrt()),
            other => other,
        }
    }

    /// A pair of a number with itself.
    pub(super) fn of_one(value: Val<'_>) -> Moments {
        value.as_f64().map_or_else(Moments::default, |number| Moments::of(number, number))
    }
}

impl Part for Moments {
    fn joined(&self, behind: &Moments) -> Moments {
        if self.count == 0.0 {
            return *behind;
        }
        if behind.count == 0.0 {
            return *self;
        }
        let count = self.count + behind.count;
        let (apart_x, apart_y) = (behind.mean_x - self.mean_x, behind.mean_y - self.mean_y);
        let share = behind.count / count;
        Moments {
            count,
            mean_x: self.mean_x + apart_x * share,
            mean_y: self.mean_y + apart_y * share,
            together: self.together + behind.together + apart_x * apart_y * self.count * share,
        }
    }
}

/// The covariances of all windows.
pub(super) fn covariances(
    x: &Column,
    y: &Column,
    sample: bool,
    spans: &Spans<'_>,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<()> {
    let pair = |at: usize| x.get(at).as_f64().zip(y.get(at).as_f64());
    let mut pairs = (0..x.len()).filter_map(pair);
    if spans.are_wide() && pairs.all(|(x, y)| x.is_finite() && y.is_finite()) {
        let part = |at: usize| pair(at).map_or_else(Moments::default, |(x, y)| Moments::of(x, y));
        let result = |moments: &Moments| moments.covariance(sample);
        let mut state = Moving { part, stacks: TwoStacks::default(), result };
        return slide(spans, op, &mut state, out);
    }
    spans.each(op, out, |from, to| {
        let mut moments = Moments::default();
        for (x, y) in (from..to).filter_map(pair) {
            moments.add(x, y);
        }
        Ok(OwnedVal::new(moments.covariance(sample)))
    })
}

/// Moments of a sliding window.
pub(super) struct Moving<P, F> {
    /// The moments of the document at an index.
    pub(super) part: P,
    /// The window.
    pub(super) stacks: TwoStacks<Moments>,
    /// Computes the result from the moments.
    pub(super) result: F,
}

impl<P, F> Sliding for Moving<P, F>
where
    P: Fn(usize) -> Moments,
    F: Fn(&Moments) -> Val<'static>,
{
    fn clear(&mut self) {
        self.stacks = TwoStacks::default();
    }

    fn push(&mut self, at: usize) {
        self.stacks.push((self.part)(at));
    }

    fn pop(&mut self, _: usize) {
        self.stacks.pop();
    }

    fn result(&self, _: usize) -> OwnedVal {
        OwnedVal::new((self.result)(&self.stacks.whole()))
    }
}
