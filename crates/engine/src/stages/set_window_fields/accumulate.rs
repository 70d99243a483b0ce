//! Accumulators over windows.

use super::column::{each_window, windows};
use super::covariance::{Moments, Moving};
use super::exact::ExactSum;
use super::sliding::{Extremes, Sliding, TwoStacks, is_wide, slide};
use super::{Frame, Partition};
use crate::operation::Operation;
use bumpalo::Bump;
use query::accumulate::AccumulatorSpec;
use query::expr::{Env, Expr};
use value::{OwnedVal, RawDoc, Result, Val, compare};

/// Missing is kept apart from null: some accumulators skip it.
type Argument = Option<OwnedVal>;

/// What an accumulator gives for the window of each document.
pub(super) fn accumulate(
    spec: &AccumulatorSpec,
    frame: &Frame,
    partition: &Partition,
    op: &Operation,
) -> Result<Vec<OwnedVal>> {
    let mut arena = Bump::new();
    let mut arguments: Vec<Argument> = Vec::with_capacity(partition.len());
    for doc in &partition.docs {
        let argument = spec.argument(&Env::new(RawDoc::new(doc), &arena))?;
        arguments.push((!argument.is_missing()).then(|| OwnedVal::new(argument)));
        arena.reset();
    }
    let windows = windows(partition, frame, op)?;
    if frame.begins_open() {
        // Windows only grow: what was added stays.
        let mut state = spec.start(Val::Null)?;
        let mut added = 0;
        return each_window(&windows, op, |_, to| {
            for argument in arguments.iter().take(to).skip(added) {
                state.process(value_of(argument))?;
            }
            added = added.max(to);
            let arena = Bump::new();
            Ok(OwnedVal::new(state.finish(&arena)?))
        });
    }
    if is_wide(&windows)
        && let Some(column) = sliding(spec, &arguments, &windows, op)?
    {
        return Ok(column);
    }
    each_window(&windows, op, |from, to| {
        let mut state = spec.start(Val::Null)?;
        for argument in arguments.iter().take(to).skip(from) {
            op.check()?;
            state.process(value_of(argument))?;
        }
        let arena = Bump::new();
        let numbers = arguments.iter().take(to).skip(from);
        let numbers = numbers.filter(|argument| value_of(argument).is_number()).count();
        Ok(narrowed(spec.name(), numbers, state.finish(&arena)?))
    })
}

/// The value for the first or last document of each window. Other than in groups, a value that is
/// missing stays so, and only one document is looked at.
pub(super) fn edge(
    input: &Expr,
    last: bool,
    frame: &Frame,
    partition: &Partition,
    op: &Operation,
) -> Result<Vec<OwnedVal>> {
    each_window(&windows(partition, frame, op)?, op, |from, to| {
        let at = if last { to.checked_sub(1) } else { Some(from) };
        let doc = at.filter(|at| (from..to).contains(at)).and_then(|at| partition.docs.get(at));
        let Some(doc) = doc else { return Ok(OwnedVal::new(Val::Null)) };
        let arena = Bump::new();
        Ok(OwnedVal::new(input.eval(&Env::new(RawDoc::new(doc), &arena))?))
    })
}

/// Sums of windows that lose documents are as narrow as they can be, other than sums of groups,
/// and the deviation of one number is a whole zero.
fn narrowed(name: &str, numbers: usize, value: Val<'_>) -> OwnedVal {
    OwnedVal::new(match value {
        Val::Int64(n) if name == "$sum" => i32::try_from(n).map_or(value, Val::Int32),
        Val::Double(_) if name == "$stdDevPop" && numbers == 1 => Val::Int32(0),
        value => value,
    })
}

fn value_of(argument: &Argument) -> Val<'_> {
    argument.as_ref().map_or(Val::Missing, OwnedVal::get)
}

/// The same by windows that slide, for accumulators that can.
fn sliding(
    spec: &AccumulatorSpec,
    arguments: &[Argument],
    windows: &[(usize, usize)],
    op: &Operation,
) -> Result<Option<Vec<OwnedVal>>> {
    let value = |at: usize| arguments.get(at).map_or(Val::Missing, value_of);
    let all = |test: fn(Val<'_>) -> bool| arguments.iter().all(|argument| test(value_of(argument)));
    let column = match spec.name() {
        "$sum" | "$count" | "$avg" if all(|value| !matches!(value, Val::Decimal(_))) => {
            let average = spec.name() == "$avg";
            slide(windows, op, &mut Total { value, average, sum: Sum::default() })
        }
        "$min" | "$max" => {
            let largest = spec.name() == "$max";
            let collation = spec.expression().collation().map(|collation| &**collation);
            let better = |a: usize, b: usize| {
                let order = compare::compare_with(value(a), value(b), collation);
                if largest { order.is_gt() } else { order.is_lt() }
            };
            slide(windows, op, &mut Extreme { value, extremes: Extremes::new(better) })
        }
        "$stdDevPop" | "$stdDevSamp" if all(|value| value.as_f64().is_none_or(f64::is_finite)) => {
            let sample = spec.name() == "$stdDevSamp";
            let parts = arguments.iter().map(|argument| Moments::of_one(value_of(argument)));
            let result = |moments: &Moments| match moments.is_one() && !sample {
                true => Val::Int32(0),
                false => moments.deviation(sample),
            };
            let (parts, stacks) = (parts.collect(), TwoStacks::default());
            slide(windows, op, &mut Moving { parts, stacks, result })
        }
        _ => return Ok(None),
    };
    column.map(Some)
}

/// The numbers of a window but decimals.
#[derive(Default)]
struct Sum {
    whole: i128,
    doubles: ExactSum,
    doubles_count: u64,
    count: u64,
}

/// The sum or the average of a window.
struct Total<F> {
    value: F,
    average: bool,
    sum: Sum,
}

impl<'v, F: Fn(usize) -> Val<'v>> Sliding for Total<F> {
    fn clear(&mut self) {
        self.sum = Sum::default();
    }

    fn push(&mut self, at: usize) {
        let sum = &mut self.sum;
        match (self.value)(at) {
            Val::Int32(n) => sum.whole += i128::from(n),
            Val::Int64(n) => sum.whole += i128::from(n),
            Val::Double(n) => {
                sum.doubles.add(n);
                sum.doubles_count += 1;
            }
            _ => return,
        }
        sum.count += 1;
    }

    fn pop(&mut self, at: usize) {
        let sum = &mut self.sum;
        match (self.value)(at) {
            Val::Int32(n) => sum.whole -= i128::from(n),
            Val::Int64(n) => sum.whole -= i128::from(n),
            Val::Double(n) => {
                sum.doubles.subtract(n);
                sum.doubles_count = sum.doubles_count.saturating_sub(1);
            }
            _ => return,
        }
        sum.count = sum.count.saturating_sub(1);
    }

    fn result(&self) -> OwnedVal {
        let sum = &self.sum;
        let binary = || {
            if sum.doubles_count == 0 {
                return sum.whole as f64;
            }
            let mut all = sum.doubles.clone();
            all.add_whole(sum.whole);
            all.value()
        };
        OwnedVal::new(match (self.average, sum.count) {
            (true, 0) => Val::Null,
            (true, count) => Val::Double(binary() / count as f64),
            (false, _) if sum.doubles_count > 0 => Val::Double(binary()),
            (false, _) => match (i32::try_from(sum.whole), i64::try_from(sum.whole)) {
                (Ok(small), _) => Val::Int32(small),
                (_, Ok(long)) => Val::Int64(long),
                _ => Val::Double(sum.whole as f64),
            },
        })
    }
}

/// The least or the greatest value of a window.
struct Extreme<V, F> {
    value: V,
    extremes: Extremes<F>,
}

impl<'v, V, F> Sliding for Extreme<V, F>
where
    V: Fn(usize) -> Val<'v>,
    F: Fn(usize, usize) -> bool,
{
    fn clear(&mut self) {
        self.extremes.clear();
    }

    fn push(&mut self, at: usize) {
        if !(self.value)(at).is_nullish() {
            self.extremes.push(at);
        }
    }

    fn pop(&mut self, at: usize) {
        self.extremes.pop(at);
    }

    fn result(&self) -> OwnedVal {
        OwnedVal::new(self.extremes.best().map_or(Val::Null, |at| (self.value)(at)))
    }
}
