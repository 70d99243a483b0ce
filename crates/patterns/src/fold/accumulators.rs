//! The state that an accumulator needs in order to apply single changes of a group.
//!
//! Sums and averages are tallies, deviations are moments. Rankings (minimum, maximum, tops and
//! bottoms) keep one entry for each child in the order of the ranking, so that a child that leaves
//! the ranking is replaced by the next one. Medians and percentiles keep the numbers in the same
//! way, and the positions of their ranks. Sets keep how many children have each value; a count of
//! distinct values keeps no list.

use super::kept::KeptFields;
use super::moments::Moments;
use super::ranks::{self, Ranks};
use super::sketch::{Bounded, BoundedValue, FORMAT, Histogram, Sketch, whole_number};
use super::tally::Tally;
use bumpalo::Bump;
use query::ParseContext;
use query::accumulate::AccumulatorSpec;
use query::expr::{Env, Expr};
use query::sort::SortSpec;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, keys};

/// How an accumulator is maintained.
#[derive(Debug)]
pub enum Accumulator {
    /// `$sum`.
    Sum(AccumulatorSpec),
    /// `$avg`.
    Average(AccumulatorSpec),
    /// `$count`.
    Count,
    /// `$stdDevPop` and `$stdDevSamp`.
    Deviation {
        /// The accumulator.
        spec: AccumulatorSpec,
        /// Of a sample, not of the whole population.
        sample: bool,
    },
    /// `$min`, `$max` and their `N` forms: values in their own order.
    Extreme {
        /// The accumulator.
        spec: AccumulatorSpec,
        /// How many values are kept.
        limit: usize,
        /// Whether the largest are kept, largest first.
        largest: bool,
        /// Whether the result is the value alone, not an array.
        single: bool,
    },
    /// `$top`, `$bottom`, `$first`, `$last` and their `N` forms, `$push`: values in the order of a
    /// sort.
    Ranked {
        /// What is kept of each child.
        output: Output,
        /// The order. It includes `_id` so that it is total; it is reversed if the last values are
        /// kept.
        sort: SortSpec,
        /// How many values are kept.
        limit: usize,
        /// Whether the last values are kept. They are returned in the order of the sort.
        last: bool,
        /// Whether the result is the value alone, not an array.
        single: bool,
        /// Whether children without a value are left out, instead of counting as null.
        dense: bool,
    },
    /// `$mergeObjects`, `$concatArrays` and `$setUnion`: all values in the order of a sort,
    /// combined when the result is computed.
    United {
        /// The accumulator.
        spec: AccumulatorSpec,
        /// The order, which is total.
        sort: SortSpec,
    },
    /// `$median` and `$percentile`.
    Percentile {
        /// The accumulator.
        spec: AccumulatorSpec,
        /// Whether the result is the median alone, not an array.
        single: bool,
    },
    /// `$addToSet`.
    Set(AccumulatorSpec),
    /// `{$size: {$addToSet: ...}}`: the number of distinct values.
    Distinct(AccumulatorSpec),
    /// A field with a bounded error.
    Sketch(Sketch),
}

/// What a ranking keeps of each child.
#[derive(Debug)]
pub enum Output {
    /// The value of an expression.
    Value(Expr),
    /// Some of its fields.
    Fields(KeptFields),
}

/// The contribution of a child to one field.
#[derive(Clone, Debug, PartialEq)]
pub enum Contribution {
    /// Nothing.
    Nothing,
    /// A value that is tallied or collected.
    Value(OwnedVal),
    /// A value and its position in a ranking.
    Ranked(Vec<u8>, OwnedVal),
}

impl Accumulator {
    /// Compiles an accumulator. `order` is the declared order of the children, which `$first` and
    /// `$last` need.
    ///
    /// # Errors
    /// Errors of the accumulator's own parser, and accumulators that cannot be maintained.
    pub fn parse(field: &str, spec: Val<'_>, order: Option<RawDoc<'_>>) -> Result<Accumulator> {
        let context = ParseContext::new(0);
        if let Some(set) = counted_set(spec) {
            return Ok(Accumulator::Distinct(AccumulatorSpec::parse(field, set, &context)?));
        }
        let parsed = AccumulatorSpec::parse(field, spec, &context)?;
        let operand = spec.as_doc().and_then(RawDoc::first).map_or(Val::Null, |(_, v)| v.get());
        let name = parsed.name();
        let limit = parsed.limit();
        let constant = || {
            limit.ok_or_else(|| {
                Error::bad_value(format!("'fields.{field}': 'n' of {name} must be a constant"))
            })
        };
        Ok(match name {
            "$sum" => Accumulator::Sum(parsed),
            "$avg" => Accumulator::Average(parsed),
            "$count" => Accumulator::Count,
            "$stdDevPop" | "$stdDevSamp" => {
                Accumulator::Deviation { sample: name == "$stdDevSamp", spec: parsed }
            }
            "$addToSet" => Accumulator::Set(parsed),
            "$median" | "$percentile" => {
                Accumulator::Percentile { single: name == "$median", spec: parsed }
            }
            // A union does not depend on the order.
            "$setUnion" => {
                Accumulator::United { spec: parsed, sort: order_of(RawDoc::empty(), false)? }
            }
            "$min" | "$max" | "$minN" | "$maxN" => Accumulator::Extreme {
                limit: constant()?,
                largest: name.starts_with("$max"),
                single: !name.ends_with('N'),
                spec: parsed,
            },
            "$top" | "$topN" | "$bottom" | "$bottomN" => {
                let find = |name| operand.as_doc().and_then(|doc| doc.get(name));
                let sort = find("sortBy").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
                let output = find("output").unwrap_or(Val::Null);
                let last = name.starts_with("$bottom");
                ranked(output, sort, constant()?, last, !name.ends_with('N'))?
            }
            "$first" | "$last" | "$firstN" | "$lastN" | "$push" | "$mergeObjects"
            | "$concatArrays" => {
                let Some(sort) = order else {
                    let else_use = match name {
                        "$push" | "$mergeObjects" | "$concatArrays" => "",
                        _ => ", or use $top or $bottom",
                    };
                    return Err(Error::bad_value(format!(
                        "'fields.{field}' uses {name}, which needs an order: declare 'order'{else_use}"
                    )));
                };
                if matches!(name, "$mergeObjects" | "$concatArrays") {
                    return Ok(Accumulator::United { spec: parsed, sort: order_of(sort, false)? });
                }
                if name == "$push" {
                    return match ranked(operand, sort, usize::MAX, false, false)? {
                        Accumulator::Ranked { output, sort, limit, last, single, .. } => {
                            Ok(Accumulator::Ranked {
                                output,
                                sort,
                                limit,
                                last,
                                single,
                                dense: true,
                            })
                        }
                        other => Ok(other),
                    };
                }
                let single = !name.ends_with('N');
                let input = operand.as_doc().and_then(|doc| doc.get("input"));
                let output = if single { operand } else { input.unwrap_or(Val::Null) };
                ranked(output, sort, constant()?, name.starts_with("$last"), single)?
            }
            _ => {
                return Err(Error::new(
                    Code::NOT_IMPLEMENTED,
                    format!("'fields.{field}': {name} has no maintained form in this version"),
                ));
            }
        })
    }

    /// The first children in an order, with some of their fields.
    ///
    /// # Errors
    /// BadValue for an invalid order.
    pub fn first_children(sort: RawDoc<'_>, limit: usize, kept: KeptFields) -> Result<Accumulator> {
        let (output, sort) = (Output::Fields(kept), order_of(sort, false)?);
        Ok(Accumulator::Ranked { output, sort, limit, last: false, single: false, dense: false })
    }

    /// Returns the contribution of a child, or of the element at this position of its array.
    ///
    /// # Errors
    /// Errors of expressions.
    pub fn part(&self, child: RawDoc<'_>, element: Option<u32>) -> Result<Contribution> {
        let mut part = self.part_of(child)?;
        // Elements of one child differ by their positions.
        if let (Contribution::Ranked(place, _), Some(at)) = (&mut part, element) {
            let reversed = matches!(self, Accumulator::Ranked { last: true, .. });
            place.extend((if reversed { !at } else { at }).to_be_bytes());
        }
        Ok(part)
    }

    fn part_of(&self, child: RawDoc<'_>) -> Result<Contribution> {
        if matches!(self, Accumulator::Count) {
            return Ok(Contribution::Nothing);
        }
        let arena = Bump::new();
        let env = Env::new(child, &arena);
        Ok(match self {
            Accumulator::Count => Contribution::Nothing,
            Accumulator::Sketch(sketch) => sketch.part(&env)?,
            Accumulator::Sum(spec) | Accumulator::Average(spec) => {
                let value = spec.argument(&env)?;
                if value.is_number() {
                    Contribution::Value(value.into())
                } else {
                    Contribution::Nothing
                }
            }
            Accumulator::Deviation { spec, .. } => match spec.argument(&env)?.as_f64() {
                Some(number) => Contribution::Value(Val::Double(number).into()),
                None => Contribution::Nothing,
            },
            Accumulator::Set(spec) | Accumulator::Distinct(spec) => {
                let value = spec.argument(&env)?;
                if value.is_missing() {
                    Contribution::Nothing
                } else {
                    Contribution::Value(value.into())
                }
            }
            Accumulator::Extreme { spec, largest, .. } => {
                let value = spec.argument(&env)?;
                if value.is_nullish() {
                    return Ok(Contribution::Nothing);
                }
                let mut place = Vec::new();
                keys::encode(&mut place, value, *largest);
                keys::encode(&mut place, child.get("_id").unwrap_or(Val::Null), false);
                Contribution::Ranked(place, value.into())
            }
            Accumulator::Percentile { spec, .. } => {
                let number = spec.argument(&env)?.as_f64().filter(|number| !number.is_nan());
                let Some(number) = number else { return Ok(Contribution::Nothing) };
                let place = ranks::rank_key(number, child.get("_id").unwrap_or(Val::Null));
                Contribution::Ranked(place, Val::Double(number).into())
            }
            Accumulator::United { spec, sort } => {
                let value = spec.argument(&env)?;
                // Values that the accumulator refuses are refused before they are stored.
                spec.start(Val::Null)?.process(value)?;
                if value.is_nullish() {
                    return Ok(Contribution::Nothing);
                }
                let mut place = Vec::new();
                sort.key(child, &mut place)?;
                Contribution::Ranked(place, value.into())
            }
            Accumulator::Ranked { output, sort, dense, .. } => {
                let value = match output {
                    Output::Fields(kept) => kept.of(child, &arena)?,
                    Output::Value(output) => match output.eval(&env)? {
                        Val::Missing if *dense => return Ok(Contribution::Nothing),
                        Val::Missing => OwnedVal::new(Val::Null),
                        value => value.into(),
                    },
                };
                let mut place = Vec::new();
                sort.key(child, &mut place)?;
                Contribution::Ranked(place, value)
            }
        })
    }

    /// The number of ranking entries in the result; `None` if it is not a ranking.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        match self {
            Accumulator::Extreme { limit, .. } | Accumulator::Ranked { limit, .. } => Some(*limit),
            Accumulator::United { .. } => Some(usize::MAX),
            _ => None,
        }
    }

    /// The fractions of a median or percentiles; `None` for all others.
    #[must_use]
    pub fn percentiles(&self) -> Option<&[f64]> {
        match self {
            Accumulator::Percentile { spec, .. } => Some(spec.percentiles()),
            _ => None,
        }
    }

    /// Whether each child has an entry in a ranking.
    #[must_use]
    pub fn ranks_every_child(&self) -> bool {
        matches!(self, Accumulator::Ranked { dense: false, .. })
    }

    /// Whether it counts how many children have each value.
    #[must_use]
    pub fn is_set(&self) -> bool {
        matches!(self, Accumulator::Set(_) | Accumulator::Distinct(_))
    }

    /// Whether `$group` returns exactly the same value in every order of its input.
    #[must_use]
    pub fn is_deterministic(&self) -> bool {
        match self {
            Accumulator::Sum(_)
            | Accumulator::Average(_)
            | Accumulator::Count
            | Accumulator::Extreme { .. }
            | Accumulator::Percentile { .. }
            | Accumulator::Set(_)
            | Accumulator::Distinct(_) => true,
            Accumulator::Deviation { .. }
            | Accumulator::Ranked { .. }
            | Accumulator::Sketch(_)
            | Accumulator::United { .. } => false,
        }
    }

    /// Applies a change to a state that needs no other records.
    pub fn change(&self, state: &mut AccumulatorState, value: Val<'_>, adds: bool) {
        if matches!(self, Accumulator::Deviation { .. }) {
            if !matches!(state, AccumulatorState::Moments(_)) {
                *state = AccumulatorState::Moments(Moments::default());
            }
            if let (AccumulatorState::Moments(moments), Val::Double(number)) = (state, value) {
                moments.change(number, adds);
            }
            return;
        }
        if !matches!(state, AccumulatorState::Tally(_)) {
            *state = AccumulatorState::Tally(Tally::default());
        }
        if let AccumulatorState::Tally(tally) = state {
            tally.change(value, adds);
        }
    }

    /// Returns the value of the maintained field.
    #[must_use]
    pub fn value(&self, children: i64, state: &AccumulatorState) -> OwnedVal {
        match (self, state) {
            (Accumulator::Count, _) => OwnedVal::new(whole_number(children)),
            (Accumulator::Sketch(sketch), state) => sketch.bounded(state).into_value(),
            (Accumulator::Distinct(_), AccumulatorState::Number(number)) => {
                OwnedVal::new(whole_number(*number))
            }
            (Accumulator::Distinct(_), _) => OwnedVal::new(Val::Int32(0)),
            (Accumulator::Deviation { sample, .. }, AccumulatorState::Moments(moments)) => {
                OwnedVal::new(moments.deviation(*sample))
            }
            (Accumulator::Deviation { .. }, _) => OwnedVal::new(Val::Null),
            (Accumulator::Percentile { single, .. }, AccumulatorState::Ranks(ranks)) => {
                match single {
                    true => OwnedVal::new(ranks.numbers().next().unwrap_or(Val::Null)),
                    false => array(ranks.numbers()),
                }
            }
            (Accumulator::Percentile { single: true, .. }, _) => OwnedVal::new(Val::Null),
            (Accumulator::Percentile { spec, .. }, _) => {
                array(spec.percentiles().iter().map(|_| Val::Null))
            }
            (Accumulator::United { spec, .. }, AccumulatorState::List(list)) => {
                united(spec, list.iter().map(|(_, value)| value.get()))
            }
            (Accumulator::United { spec, .. }, _) => united(spec, std::iter::empty()),
            (Accumulator::Sum(_), AccumulatorState::Tally(tally)) => OwnedVal::new(tally.total()),
            (Accumulator::Average(_), AccumulatorState::Tally(tally)) => {
                OwnedVal::new(tally.average())
            }
            (
                Accumulator::Extreme { single: true, .. }
                | Accumulator::Ranked { single: true, .. },
                AccumulatorState::List(list),
            ) => list.first().map_or(OwnedVal::new(Val::Null), |(_, value)| value.clone()),
            (Accumulator::Ranked { last: true, .. }, AccumulatorState::List(list)) => {
                array(list.iter().rev().map(|(_, value)| value.get()))
            }
            (_, AccumulatorState::List(list)) => array(list.iter().map(|(_, value)| value.get())),
            (Accumulator::Sum(_), AccumulatorState::Empty) => OwnedVal::new(Val::Int32(0)),
            (Accumulator::Average(_), AccumulatorState::Empty) => OwnedVal::new(Val::Null),
            (
                Accumulator::Extreme { single: true, .. }
                | Accumulator::Ranked { single: true, .. },
                _,
            ) => OwnedVal::new(Val::Null),
            _ => array(std::iter::empty()),
        }
    }
}

/// The bounds of a field's value.
pub(super) fn bounded(field: &Accumulator, children: i64, state: &AccumulatorState) -> Bounded {
    match field {
        Accumulator::Sketch(sketch) => sketch.bounded(state),
        _ => Bounded::One(BoundedValue::exactly(field.value(children, state).get())),
    }
}

/// The `$addToSet` of `{$size: {$addToSet: ...}}`.
fn counted_set(spec: Val<'_>) -> Option<Val<'_>> {
    let (name, operand) = spec.as_doc()?.first()?;
    let (inner, _) = operand.as_doc()?.first()?;
    (name == "$size" && inner == "$addToSet").then(|| operand.get())
}

fn ranked(
    output: Val<'_>,
    sort: RawDoc<'_>,
    limit: usize,
    last: bool,
    single: bool,
) -> Result<Accumulator> {
    let sort = order_of(sort, last)?;
    let output = Output::Value(Expr::parse(output, &ParseContext::new(0))?);
    Ok(Accumulator::Ranked { output, sort, limit, last, single, dense: false })
}

/// The total order of a sort.
fn order_of(sort: RawDoc<'_>, reversed: bool) -> Result<SortSpec> {
    let sort = SortSpec::parse(total_order(sort, reversed).as_doc())?;
    if sort.fields.iter().any(|field| field.random || field.score) {
        return Err(Error::bad_value("a maintained order cannot use $meta"));
    }
    Ok(sort)
}

/// The result of an accumulator over values that it has accepted before.
fn united<'v>(spec: &AccumulatorSpec, mut values: impl Iterator<Item = Val<'v>>) -> OwnedVal {
    let arena = Bump::new();
    let outcome = spec.start(Val::Null).and_then(|mut state| {
        values.try_for_each(|value| state.process(value))?;
        state.finish(&arena).map(OwnedVal::new)
    });
    outcome.unwrap_or_else(|_| OwnedVal::new(Val::Null))
}

/// The sort with `_id` as its last field, unless it has it; reversed on request.
fn total_order(sort: RawDoc<'_>, reversed: bool) -> DocBuf {
    DocBuf::build(|out| {
        for (path, direction) in sort {
            match direction.get().as_f64() {
                Some(number) if reversed => out.f64(path, -number),
                _ => out.raw(path, direction),
            };
        }
        if sort.find("_id").is_none() {
            out.i32("_id", if reversed { -1 } else { 1 });
        }
    })
}

fn array<'v>(values: impl Iterator<Item = Val<'v>>) -> OwnedVal {
    let mut bytes = Vec::new();
    value::writer::write_array(&mut bytes, |list| values.for_each(|value| list.push(value)));
    OwnedVal::new(Val::Array(RawDoc::new(&bytes)))
}

/// The field that distinguishes registers from other documents: the version of their form.
const REGISTERS: &str = "hll";

/// The state of one field of one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AccumulatorState {
    /// Nothing yet.
    #[default]
    Empty,
    /// A sum.
    Tally(Tally),
    /// The sums for a deviation.
    Moments(Moments),
    /// The positions of medians and percentiles.
    Ranks(Ranks),
    /// The number of distinct values.
    Number(i64),
    /// The highest ranks of registers, for an estimate of that number.
    Registers(Histogram),
    /// The entries of a ranking that are in the result, or the values of a set, in order, with
    /// their positions.
    List(Vec<(Vec<u8>, OwnedVal)>),
}

impl AccumulatorState {
    /// Appends the state to the record of its group.
    pub fn write(&self, out: &mut value::writer::ArrayWriter<'_>) {
        match self {
            AccumulatorState::Empty => out.push(Val::Null),
            AccumulatorState::Tally(tally) => out.push_doc(|out| tally.write(out)),
            AccumulatorState::Moments(moments) => {
                out.push(Val::Document(moments.to_doc().as_doc()))
            }
            AccumulatorState::Ranks(ranks) => out.push_doc(|out| ranks.write(out)),
            AccumulatorState::Number(number) => out.push(Val::Int64(*number)),
            AccumulatorState::Registers(histogram) => out.push_doc(|out| {
                out.i32(REGISTERS, FORMAT).i32("p", histogram.bits().into());
                out.append("h", Val::Binary(0, &histogram.to_bytes()));
            }),
            AccumulatorState::List(list) => out.push_array(|out| {
                for (place, value) in list {
                    out.push(Val::Binary(0, place));
                    out.push_raw(value.raw());
                }
            }),
        }
    }

    /// The number of ranking entries in the result.
    pub(super) fn listed(&self) -> i64 {
        match self {
            AccumulatorState::List(list) => list.len() as i64,
            _ => 0,
        }
    }

    /// Reads a state that `write` wrote.
    #[must_use]
    pub fn read(value: Val<'_>) -> AccumulatorState {
        match value {
            Val::Document(doc) if Moments::is_in(doc) => {
                AccumulatorState::Moments(Moments::from_doc(doc))
            }
            Val::Document(doc) if Ranks::is_in(doc) => {
                AccumulatorState::Ranks(Ranks::from_doc(doc))
            }
            Val::Document(doc) if doc.find(REGISTERS).is_some() => {
                let bits = doc.get("p").and_then(Val::as_i64_exact).unwrap_or(0);
                let bytes = match doc.get("h") {
                    Some(Val::Binary(_, bytes)) => bytes,
                    _ => &[],
                };
                AccumulatorState::Registers(Histogram::from_bytes(bits as u8, bytes))
            }
            Val::Document(doc) => AccumulatorState::Tally(Tally::from_doc(doc)),
            Val::Int64(number) => AccumulatorState::Number(number),
            Val::Array(array) => {
                let mut list = Vec::new();
                let mut elements = array.iter();
                while let (Some((_, place)), Some((_, value))) = (elements.next(), elements.next())
                {
                    if let Val::Binary(_, place) = place.get() {
                        list.push((place.to_vec(), OwnedVal::new(value.get())));
                    }
                }
                AccumulatorState::List(list)
            }
            _ => AccumulatorState::Empty,
        }
    }
}
