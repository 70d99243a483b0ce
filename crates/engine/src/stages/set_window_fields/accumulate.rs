//! Accumulators over windows.

use super::column::Column;
use super::covariance::{Moments, Moving};
use super::exact::ExactSum;
use super::output::Output;
use super::ranked::{Distinct, End, Percentiles, Ranks, Tops, array};
use super::sliding::{Extremes, Part, Sliding, TwoStacks, slide};
use super::spans::Spans;
use super::{Frame, Partition};
use crate::operation::Operation;
use bumpalo::Bump;
use query::accumulate::AccumulatorSpec;
use query::expr::{Env, Expr};
use std::collections::BTreeSet;
use value::{Decimal128, OwnedVal, Result, Val, compare};

/// Writes the value of an accumulator for the window of each document.
pub(super) fn accumulate(
    spec: &AccumulatorSpec,
    frame: &Frame,
    partition: &Partition,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<()> {
    // Missing and null are distinguished: some accumulators skip missing values.
    let mut arguments = Column::default();
    let mut arena = Bump::new();
    partition.for_each(op, |doc| {
        let before = arguments.memory_bytes();
        arguments.push(spec.argument(&Env::new(doc, &arena))?)?;
        arena.reset();
        partition.memory.take(arguments.memory_bytes() - before)
    })?;
    let spans = Spans::new(frame, partition, op)?;
    if matches!(spec.name(), "$median" | "$percentile") {
        return percentiles(spec, &arguments, &spans, partition, op, out);
    }
    if frame.begins_open() {
        // The windows only grow, so added values stay.
        let mut state = spec.start(Val::Null)?;
        let mut added = 0;
        return spans.each(op, out, |_, to| {
            for at in added..to {
                state.process(arguments.get(at))?;
            }
            added = added.max(to);
            let arena = Bump::new();
            Ok(OwnedVal::new(state.finish(&arena)?))
        });
    }
    if sliding(spec, &arguments, &spans, partition, op, out)? {
        return Ok(());
    }
    spans.each(op, out, |from, to| {
        let mut state = spec.start(Val::Null)?;
        for at in from..to {
            op.check()?;
            state.process(arguments.get(at))?;
        }
        let arena = Bump::new();
        let numbers = (from..to).filter(|at| arguments.get(*at).is_number()).count();
        Ok(narrowed(spec.name(), numbers, state.finish(&arena)?))
    })
}

/// Returns the value for the first or last document of each window. Unlike in groups, a missing
/// value stays missing, and no other document is used.
pub(super) fn edge(
    input: &Expr,
    last: bool,
    frame: &Frame,
    partition: &Partition,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<()> {
    let spans = Spans::new(frame, partition, op)?;
    let place = |(from, to): (usize, usize)| {
        let at = if last { to.checked_sub(1) } else { Some(from) };
        at.filter(|at| (from..to).contains(at))
    };
    let mut wanted = vec![false; partition.len()];
    partition.memory.take(wanted.len())?;
    for at in spans.iter().filter_map(place) {
        if let Some(wanted) = wanted.get_mut(at) {
            *wanted = true;
        }
    }
    let mut wanted = wanted.into_iter();
    let mut values = Column::default();
    let mut arena = Bump::new();
    partition.for_each(op, |doc| {
        let before = values.memory_bytes();
        values.push(match wanted.next() {
            Some(true) => input.eval(&Env::new(doc, &arena))?,
            _ => Val::Missing,
        })?;
        arena.reset();
        partition.memory.take(values.memory_bytes() - before)
    })?;
    spans.each(op, out, |from, to| {
        Ok(OwnedVal::new(place((from, to)).map_or(Val::Null, |at| values.get(at))))
    })
}

/// Unlike sums of groups, sums of windows that lose documents have the narrowest type, and the
/// deviation of one number is an integer zero.
fn narrowed(name: &str, numbers: usize, value: Val<'_>) -> OwnedVal {
    OwnedVal::new(match value {
        Val::Int64(n) if name == "$sum" => i32::try_from(n).map_or(value, Val::Int32),
        Val::Double(_) if name == "$stdDevPop" && numbers == 1 => Val::Int32(0),
        value => value,
    })
}

/// The same with sliding windows, for accumulators that support it. False: nothing was done.
fn sliding(
    spec: &AccumulatorSpec,
    arguments: &Column,
    spans: &Spans<'_>,
    partition: &Partition,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<bool> {
    let value = |at: usize| arguments.get(at);
    let collation = spec.expression().collation().map(|collation| &**collation);
    let count = arguments.len();
    let all = |test: fn(Val<'_>) -> bool| arguments.iter().all(test);
    match spec.name() {
        "$sum" | "$count" | "$avg"
            if spans.are_wide()
                // Mixed decimals and doubles are rounded in the order of the documents.
                && (all(|value| !matches!(value, Val::Decimal(_)))
                    || all(|value| !matches!(value, Val::Double(_)))) =>
        {
            let average = spec.name() == "$avg";
            slide(spans, op, &mut Total { value, average, sum: Sum::default() }, out)?;
        }
        "$min" | "$max" => {
            // Of equal values, the first is the minimum and the last the maximum.
            let largest = spec.name() == "$max";
            let better = |a: usize, b: usize| {
                let order = compare::compare_with(value(a), value(b), collation);
                if largest { order.is_ge() } else { order.is_lt() }
            };
            slide(spans, op, &mut Extreme { value, extremes: Extremes::new(better) }, out)?;
        }
        "$stdDevPop" | "$stdDevSamp"
            if spans.are_wide() && all(|value| value.as_f64().is_none_or(f64::is_finite)) =>
        {
            let sample = spec.name() == "$stdDevSamp";
            let part = |at: usize| Moments::of_one(value(at));
            let result = |moments: &Moments| match moments.is_one() && !sample {
                true => Val::Int32(0),
                false => moments.deviation(sample),
            };
            slide(spans, op, &mut Moving { part, stacks: TwoStacks::default(), result }, out)?;
        }
        name @ ("$minN" | "$maxN") => {
            let Some(limit) = spec.limit() else { return Ok(false) };
            partition.memory.take(Ranks::memory_bytes(count))?;
            let ranks = Ranks::new(
                count,
                |at| !value(at).is_nullish(),
                |a, b| compare::compare_with(value(a), value(b), collation),
            );
            let end = if name == "$minN" { End::Low } else { End::HighFirst };
            let window = BTreeSet::new();
            slide(spans, op, &mut Tops { ranks, window, end, limit: Some(limit), value }, out)?;
        }
        name @ ("$top" | "$topN" | "$bottom" | "$bottomN") => {
            let Some(limit) = spec.limit() else { return Ok(false) };
            partition.memory.take(Ranks::memory_bytes(count))?;
            // Arguments are pairs: the bytes that order them, and the value.
            let part = |at: usize, which: usize| {
                let pair = value(at).as_array()?;
                pair.iter().nth(which).map(|(_, part)| part.get())
            };
            let key = |at: usize| match part(at, 0) {
                Some(Val::Binary(_, key)) => key,
                _ => &[],
            };
            let ranks = Ranks::new(count, |_| true, |a, b| key(a).cmp(key(b)));
            let end = if name.starts_with("$top") { End::Low } else { End::High };
            let limit = name.ends_with('N').then_some(limit);
            let value = |at: usize| part(at, 1).unwrap_or(Val::Null);
            slide(spans, op, &mut Tops { ranks, window: BTreeSet::new(), end, limit, value }, out)?;
        }
        "$addToSet" => {
            partition.memory.take(Ranks::memory_bytes(count))?;
            let compare = |a: usize, b: usize| compare::compare_with(value(a), value(b), collation);
            let ranks = Ranks::new(count, |at| !value(at).is_missing(), compare);
            let mut set = Distinct::new(ranks, |a, b| compare(a, b).is_eq(), value);
            slide(spans, op, &mut set, out)?;
        }
        name @ ("$firstN" | "$lastN") => {
            let Some(limit) = spec.limit() else { return Ok(false) };
            spans.each(op, out, |from, to| {
                let places = match name {
                    "$firstN" => from..to.min(from.saturating_add(limit)),
                    _ => from.max(to.saturating_sub(limit))..to,
                };
                Ok(array(places.map(|at| match value(at) {
                    Val::Missing => Val::Null,
                    value => value,
                })))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `$median` and `$percentile`.
fn percentiles(
    spec: &AccumulatorSpec,
    arguments: &Column,
    spans: &Spans<'_>,
    partition: &Partition,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<()> {
    let count = arguments.len();
    partition.memory.take(Ranks::memory_bytes(count))?;
    let number = |at: usize| arguments.get(at).as_f64().unwrap_or(f64::NAN);
    let ranks =
        Ranks::new(count, |at| !number(at).is_nan(), |a, b| number(a).total_cmp(&number(b)));
    let many = spec.name() == "$percentile";
    slide(spans, op, &mut Percentiles::new(ranks, spec.percentiles(), many, number), out)
}

/// A sum of decimals; rounding cannot be undone, so numbers are never removed.
#[derive(Clone, Copy, Default)]
struct Decimals(Option<Decimal128>);

impl Part for Decimals {
    fn joined(&self, behind: &Decimals) -> Decimals {
        Decimals(match (self.0, behind.0) {
            (Some(a), Some(b)) => Some(a.add(b)),
            (a, b) => a.or(b),
        })
    }
}

/// The numbers of a window.
#[derive(Default)]
struct Sum {
    decimals: TwoStacks<Decimals>,
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
            Val::Decimal(n) => sum.decimals.push(Decimals(Some(n))),
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
            Val::Decimal(_) => sum.decimals.pop(),
            _ => return,
        }
        sum.count = sum.count.saturating_sub(1);
    }

    fn result(&self, _: usize) -> OwnedVal {
        let sum = &self.sum;
        if let Decimals(Some(decimals)) = sum.decimals.whole() {
            let total = Decimal128::ZERO.add(decimals).add(whole_to_decimal(sum.whole));
            return OwnedVal::new(Val::Decimal(match self.average {
                true => total.div(Decimal128::from_u64(sum.count)),
                false => total,
            }));
        }
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

    fn result(&self, _: usize) -> OwnedVal {
        OwnedVal::new(self.extremes.best().map_or(Val::Null, |at| (self.value)(at)))
    }
}

fn whole_to_decimal(n: i128) -> Decimal128 {
    Decimal128::from_parts(value::decimal::Parts {
        negative: n < 0,
        coefficient: n.unsigned_abs(),
        exponent: 0,
    })
}
