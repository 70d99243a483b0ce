//! What is computed from windows: accumulators, ranks, neighbours, slopes, areas, averages that
//! fade, covariances and filled gaps.

use super::{Frame, Partition, Sorting, refuse};
use crate::operation::Operation;
use crate::stages::StageContext;
use bumpalo::Bump;
use query::accumulate::AccumulatorSpec;
use query::expr::{Env, Expr};
use std::cmp::Ordering;
use value::{Code, Decimal128, Error, OwnedVal, RawDoc, Result, Val, compare, number};

/// A compiled window function.
pub(super) enum Function {
    Accumulate(AccumulatorSpec, Frame),
    /// The value for the first or last document of the window alone.
    Edge {
        input: Expr,
        last: bool,
        frame: Frame,
    },
    Rank,
    DenseRank,
    DocumentNumber,
    Shift {
        output: Expr,
        by: i64,
        default: OwnedVal,
    },
    /// The slope between the ends of the window; the unit in milliseconds.
    Derivative {
        input: Expr,
        unit_ms: Option<i64>,
        frame: Frame,
    },
    /// The area below the values of the window.
    Integral {
        input: Expr,
        unit_ms: Option<i64>,
        frame: Frame,
    },
    MovingAverage {
        input: Expr,
        alpha: Alpha,
    },
    Covariance {
        x: Expr,
        y: Expr,
        sample: bool,
        frame: Frame,
    },
    LinearFill(Expr),
    CarryForward(Expr),
    MinMaxScaler {
        input: Expr,
        low: f64,
        high: f64,
        frame: Frame,
    },
}

/// How fast a moving average forgets.
#[derive(Clone, Copy)]
pub(super) struct Alpha {
    double: f64,
    decimal: Decimal128,
}

/// Accumulators that are window functions too.
static ACCUMULATORS: &[&str] = &[
    "$addToSet",
    "$avg",
    "$bottom",
    "$bottomN",
    "$concatArrays",
    "$count",
    "$firstN",
    "$lastN",
    "$max",
    "$maxN",
    "$median",
    "$min",
    "$minN",
    "$percentile",
    "$push",
    "$setUnion",
    "$stdDevPop",
    "$stdDevSamp",
    "$sum",
    "$top",
    "$topN",
];

impl Function {
    /// Reads `{$name: argument, window: {..}}`.
    pub(super) fn parse(
        value: Val<'_>,
        sorting: Option<&Sorting>,
        context: &StageContext<'_>,
    ) -> Result<Function> {
        let Val::Document(doc) = value else {
            return Err(Error::failed_to_parse("the field of a window function must be an object"));
        };
        let mut operator = None;
        let mut window = None;
        for (name, value) in doc {
            if name == "window" {
                window = Some(value.get());
            } else if name.starts_with('$') {
                if operator.is_some() {
                    return Err(Error::failed_to_parse(
                        "Cannot specify two functions in a window function spec",
                    ));
                }
                operator = Some((name, value.get()));
            } else {
                return Err(Error::failed_to_parse(format!(
                    "Window function found an unknown argument: {name}"
                )));
            }
        }
        let Some((name, argument)) = operator else {
            return Err(Error::failed_to_parse("Expected a $-prefixed window function"));
        };
        let window = window.filter(|window| window.as_doc().is_none_or(|doc| !doc.is_empty()));
        let frame = || match window {
            None => Ok(Frame::WHOLE),
            Some(window) => Frame::parse(window, sorting, context),
        };
        let no_window = |code: i32| match window {
            None => Ok(()),
            Some(_) => refuse(code, format!("{name} does not accept a 'window' field")),
        };
        if matches!(name, "$first" | "$last") {
            let input = Expr::parse(argument, context)?;
            return Ok(Function::Edge { input, last: name == "$last", frame: frame()? });
        }
        if ACCUMULATORS.contains(&name) {
            let spec = AccumulatorSpec::parse_operator(name, argument, context)?;
            return Ok(Function::Accumulate(spec, frame()?));
        }
        match name {
            "$rank" | "$denseRank" | "$documentNumber" => {
                no_window(5371601)?;
                if argument.as_doc().is_none_or(|doc| !doc.is_empty()) {
                    return refuse(
                        5371603,
                        format!("{name} must be specified with '{{}}' as the value"),
                    );
                }
                let Some(sorting) = sorting else {
                    return refuse(
                        5371602,
                        format!(
                            "{name} must be specified with a top level sortBy expression with exactly one element"
                        ),
                    );
                };
                if name == "$documentNumber" {
                    return Ok(Function::DocumentNumber);
                }
                if sorting.fields.len() != 1 {
                    return refuse(
                        5371602,
                        format!(
                            "{name} must be specified with a top level sortBy expression with exactly one element"
                        ),
                    );
                }
                Ok(if name == "$rank" { Function::Rank } else { Function::DenseRank })
            }
            "$shift" => parse_shift(argument, window.is_some(), sorting, context),
            "$derivative" | "$integral" => {
                let (input, unit_ms) = parse_slope(name, argument, context)?;
                if sorting.is_none() {
                    return Err(Error::failed_to_parse(format!("{name} requires a sortBy")));
                }
                if name == "$derivative" && window.is_none() {
                    return Err(Error::failed_to_parse(
                        "$derivative requires explicit window bounds",
                    ));
                }
                if sorting.is_some_and(|sorting| sorting.fields.len() != 1) {
                    return refuse(
                        5624901,
                        format!("{name} requires a sortBy with exactly one element"),
                    );
                }
                let frame = frame()?;
                Ok(if name == "$derivative" {
                    Function::Derivative { input, unit_ms, frame }
                } else {
                    Function::Integral { input, unit_ms, frame }
                })
            }
            "$expMovingAvg" => {
                if window.is_some() {
                    return Err(Error::failed_to_parse(
                        "$expMovingAvg does not accept a 'window' field",
                    ));
                }
                if sorting.is_none() {
                    return Err(Error::failed_to_parse(
                        "$expMovingAvg requires an explicit 'sortBy'",
                    ));
                }
                parse_moving_average(argument, context)
            }
            "$covariancePop" | "$covarianceSamp" => {
                let sample = name == "$covarianceSamp";
                let frame = frame()?;
                let pair = match argument {
                    Val::Array(list) => {
                        let mut values = list.iter().map(|(_, value)| value.get());
                        match (values.next(), values.next(), values.next()) {
                            (Some(x), Some(y), None) => Some((x, y)),
                            _ => None,
                        }
                    }
                    _ => None,
                };
                let (x, y) = match pair {
                    Some((x, y)) => (Expr::parse(x, context)?, Expr::parse(y, context)?),
                    // Anything but a pair of expressions never gives two numbers.
                    None => {
                        Expr::parse(argument, context)?;
                        (Expr::constant(Val::Null), Expr::constant(Val::Null))
                    }
                };
                Ok(Function::Covariance { x, y, sample, frame })
            }
            "$linearFill" => {
                if window.is_some() {
                    return Err(Error::failed_to_parse(
                        "'window' field is not allowed in $linearFill",
                    ));
                }
                match sorting {
                    None => refuse(
                        605001,
                        "$linearFill must be specified with a top level sortBy expression with exactly one element",
                    ),
                    Some(sorting) if sorting.fields.len() != 1 => refuse(
                        605001,
                        "$linearFill must be specified with a top level sortBy expression with exactly one element",
                    ),
                    Some(_) => Ok(Function::LinearFill(Expr::parse(argument, context)?)),
                }
            }
            "$locf" => {
                if window.is_some() {
                    return Err(Error::failed_to_parse("'window' field is not allowed in $locf"));
                }
                Ok(Function::CarryForward(Expr::parse(argument, context)?))
            }
            "$minMaxScaler" => parse_scaler(argument, frame()?, context),
            _ => Err(Error::failed_to_parse(format!("Unrecognized window function, {name}"))),
        }
    }

    /// The values of the function for all documents of a partition.
    pub(super) fn compute(&self, partition: &Partition, op: &Operation) -> Result<Vec<OwnedVal>> {
        match self {
            Function::Accumulate(spec, frame) => accumulate(spec, frame, partition, op),
            Function::Edge { input, last, frame } => edge(input, *last, frame, partition, op),
            Function::DocumentNumber => Ok(whole_numbers(0..partition.len(), |at| at + 1)),
            Function::Rank => {
                let mut rank = 1;
                Ok(whole_numbers(0..partition.len(), |at| {
                    if at > 0 && partition.order.get(at) != partition.order.get(at - 1) {
                        rank = at + 1;
                    }
                    rank
                }))
            }
            Function::DenseRank => {
                let mut rank = 1;
                Ok(whole_numbers(0..partition.len(), |at| {
                    if at > 0 && partition.order.get(at) != partition.order.get(at - 1) {
                        rank += 1;
                    }
                    rank
                }))
            }
            Function::Shift { output, by, default } => {
                let values = evaluate_or(output, partition, Val::Undefined)?;
                let shifted = (0..partition.len()).map(|at| {
                    let place = i64::try_from(at).ok().and_then(|at| at.checked_add(*by));
                    let place = place.and_then(|place| usize::try_from(place).ok());
                    place.and_then(|place| values.get(place)).unwrap_or(default).clone()
                });
                Ok(shifted.collect())
            }
            Function::Derivative { input, unit_ms, frame } => {
                let values = evaluate(input, partition)?;
                each_window(partition, frame, op, |from, to| {
                    derivative(partition, &values, *unit_ms, from, to)
                })
            }
            Function::Integral { input, unit_ms, frame } => {
                let values = evaluate(input, partition)?;
                each_window(partition, frame, op, |from, to| {
                    integral(partition, &values, *unit_ms, from, to)
                })
            }
            Function::MovingAverage { input, alpha } => moving_average(input, *alpha, partition),
            Function::Covariance { x, y, sample, frame } => {
                let (x, y) = (evaluate(x, partition)?, evaluate(y, partition)?);
                each_window(partition, frame, op, |from, to| {
                    let pairs = x.iter().zip(&y).take(to).skip(from);
                    Ok(OwnedVal::new(covariance(pairs, *sample)))
                })
            }
            Function::LinearFill(input) => linear_fill(input, partition),
            Function::CarryForward(input) => {
                let mut last = OwnedVal::new(Val::Null);
                let values = evaluate(input, partition)?.into_iter();
                Ok(values
                    .map(|value| {
                        if !value.get().is_nullish() {
                            last = value;
                        }
                        last.clone()
                    })
                    .collect())
            }
            Function::MinMaxScaler { input, low, high, frame } => {
                let values = evaluate(input, partition)?;
                let mut column = Vec::with_capacity(values.len());
                for (at, value) in values.iter().enumerate() {
                    op.check()?;
                    let (from, to) = frame.range(at, &partition.keys)?;
                    column.push(OwnedVal::new(scaled(
                        value.get(),
                        values.get(from..to),
                        *low,
                        *high,
                    )?));
                }
                Ok(column)
            }
        }
    }
}

fn whole_numbers(
    places: std::ops::Range<usize>,
    mut number: impl FnMut(usize) -> usize,
) -> Vec<OwnedVal> {
    places
        .map(|at| {
            let number = number(at);
            OwnedVal::new(match i32::try_from(number) {
                Ok(small) => Val::Int32(small),
                Err(_) => Val::Int64(i64::try_from(number).unwrap_or(i64::MAX)),
            })
        })
        .collect()
}

/// The value of an expression for every document; null where it gives none.
fn evaluate(expr: &Expr, partition: &Partition) -> Result<Vec<OwnedVal>> {
    evaluate_or(expr, partition, Val::Null)
}

/// The value of an expression for every document, another where it gives none.
fn evaluate_or(expr: &Expr, partition: &Partition, other: Val<'_>) -> Result<Vec<OwnedVal>> {
    let mut arena = Bump::new();
    let mut values = Vec::with_capacity(partition.len());
    for doc in &partition.docs {
        let value = match expr.eval(&Env::new(RawDoc::new(doc), &arena))? {
            Val::Missing => OwnedVal::new(other),
            value => OwnedVal::new(value),
        };
        values.push(value);
        arena.reset();
    }
    Ok(values)
}

fn each_window(
    partition: &Partition,
    frame: &Frame,
    op: &Operation,
    mut compute: impl FnMut(usize, usize) -> Result<OwnedVal>,
) -> Result<Vec<OwnedVal>> {
    let mut column: Vec<OwnedVal> = Vec::with_capacity(partition.len());
    let mut before = None;
    for at in 0..partition.len() {
        op.check()?;
        let window = frame.range(at, &partition.keys)?;
        let value = match (before == Some(window), column.last()) {
            (true, Some(same)) => same.clone(),
            _ => compute(window.0, window.1)?,
        };
        before = Some(window);
        column.push(value);
    }
    Ok(column)
}

fn accumulate(
    spec: &AccumulatorSpec,
    frame: &Frame,
    partition: &Partition,
    op: &Operation,
) -> Result<Vec<OwnedVal>> {
    let mut arena = Bump::new();
    let mut arguments = Vec::with_capacity(partition.len());
    for doc in &partition.docs {
        let argument = spec.argument(&Env::new(RawDoc::new(doc), &arena))?;
        // Missing is kept apart from null: some accumulators skip it.
        arguments.push((!argument.is_missing()).then(|| OwnedVal::new(argument)));
        arena.reset();
    }
    if frame.begins_open() {
        // Windows only grow: what was added stays.
        let mut state = spec.start(Val::Null)?;
        let mut added = 0;
        return each_window(partition, frame, op, |_, to| {
            for argument in arguments.iter().take(to).skip(added) {
                state.process(value_of(argument))?;
            }
            added = added.max(to);
            let arena = Bump::new();
            Ok(OwnedVal::new(state.finish(&arena)?))
        });
    }
    each_window(partition, frame, op, |from, to| {
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

/// Other than in groups, a value that is missing stays so, and only one document is looked at.
fn edge(
    input: &Expr,
    last: bool,
    frame: &Frame,
    partition: &Partition,
    op: &Operation,
) -> Result<Vec<OwnedVal>> {
    each_window(partition, frame, op, |from, to| {
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

fn value_of(argument: &Option<OwnedVal>) -> Val<'_> {
    argument.as_ref().map_or(Val::Missing, OwnedVal::get)
}

fn parse_shift(
    argument: Val<'_>,
    has_window: bool,
    sorting: Option<&Sorting>,
    context: &StageContext<'_>,
) -> Result<Function> {
    let bad = |message: &str| Err(Error::failed_to_parse(message.to_owned()));
    if has_window {
        return bad("$shift does not accept a 'window' field");
    }
    if sorting.is_none() {
        return bad("'$shift' requires a sortBy");
    }
    let Val::Document(doc) = argument else { return bad("Argument to $shift must be an object") };
    let (mut output, mut by, mut default) = (None, None, OwnedVal::new(Val::Null));
    for (name, value) in doc {
        match name {
            "output" => output = Some(Expr::parse(value.get(), context)?),
            "by" => {
                let number = value.get();
                by = number.as_i64_exact().filter(|n| i32::try_from(*n).is_ok());
                if by.is_none() {
                    return bad("'$shift:by' field must be an integer");
                }
            }
            "default" => match Expr::parse(value.get(), context)?.as_constant() {
                Some(constant) => default = OwnedVal::new(constant),
                None => return bad("'$shift:default' expression must yield a constant value"),
            },
            _ => return bad("Unknown argument in $shift"),
        }
    }
    match (output, by) {
        (Some(output), Some(by)) => Ok(Function::Shift { output, by, default }),
        (None, _) => bad("$shift requires an 'output' expression"),
        (_, None) => bad("$shift requires 'by' as an integer value"),
    }
}

/// `{input: .., unit: ..}`.
fn parse_slope(
    name: &str,
    argument: Val<'_>,
    context: &StageContext<'_>,
) -> Result<(Expr, Option<i64>)> {
    let Val::Document(doc) = argument else {
        return Err(Error::failed_to_parse(format!("{name} expects an object")));
    };
    let (mut input, mut unit_ms) = (None, None);
    for (field, value) in doc {
        match field {
            "input" => input = Some(Expr::parse(value.get(), context)?),
            "unit" => {
                let Val::String(unit) = value.get() else {
                    return refuse(5490709, "'unit' must be a string");
                };
                let length = match unit {
                    "week" => 7 * 24 * 3_600_000,
                    "day" => 24 * 3_600_000,
                    "hour" => 3_600_000,
                    "minute" => 60_000,
                    "second" => 1000,
                    "millisecond" => 1,
                    "year" | "quarter" | "month" => {
                        return refuse(5490710, "unit must be 'week' or smaller");
                    }
                    _ => {
                        return Err(Error::failed_to_parse(format!(
                            "unknown time unit value: {unit}"
                        )));
                    }
                };
                unit_ms = Some(length);
            }
            _ => {
                return Err(Error::failed_to_parse(format!(
                    "{name} got unexpected argument: {field}"
                )));
            }
        }
    }
    let Some(input) = input else {
        return Err(Error::failed_to_parse(format!("{name} requires an 'input' expression")));
    };
    Ok((input, unit_ms))
}

/// How far apart the sort values of two documents are; dates in milliseconds.
fn distance(
    name: &str,
    partition: &Partition,
    unit_ms: Option<i64>,
    from: usize,
    to: usize,
) -> Result<Val<'static>> {
    let key = |at: usize| partition.keys.get(at).map_or(Val::Null, OwnedVal::get);
    match (key(from), key(to), unit_ms) {
        (Val::DateTime(a), Val::DateTime(b), Some(_)) => Ok(Val::Int64(b.saturating_sub(a))),
        (Val::DateTime(_), _, None) => {
            let code = if name == "$integral" { 5423902 } else { 5624901 };
            refuse(code, format!("{name} where the sortBy is a Date requires a 'unit'"))
        }
        (a, b, Some(_)) if !matches!((a, b), (Val::DateTime(_), Val::DateTime(_))) => {
            let code = if name == "$integral" { 5423901 } else { 5624900 };
            refuse(code, format!("{name} with 'unit' expects the sortBy field to be a Date"))
        }
        (a, b, _) if a.is_number() && b.is_number() => {
            Ok(number::subtract(b, a).unwrap_or(Val::Double(f64::NAN)))
        }
        _ => refuse(5624902, format!("{name} expects the sortBy field to be numeric")),
    }
}

fn derivative(
    partition: &Partition,
    values: &[OwnedVal],
    unit_ms: Option<i64>,
    from: usize,
    to: usize,
) -> Result<OwnedVal> {
    if to < from + 2 {
        return Ok(OwnedVal::new(Val::Null));
    }
    let (Some(first), Some(last)) = (values.get(from), values.get(to - 1)) else {
        return Ok(OwnedVal::new(Val::Null));
    };
    let (first, last) = (first.get(), last.get());
    let run = distance("$derivative", partition, unit_ms, from, to - 1)?;
    if first.is_nullish() || last.is_nullish() {
        return Ok(OwnedVal::new(Val::Null));
    }
    if !first.is_number() || !last.is_number() {
        return refuse(5624903, "$derivative input must be numeric");
    }
    if number::is_zero(run) {
        return Ok(OwnedVal::new(Val::Null));
    }
    let rise = number::subtract(last, first).unwrap_or(Val::Double(f64::NAN));
    let slope = number::divide(rise, run).unwrap_or(Val::Null);
    let slope = match unit_ms {
        Some(unit) => number::multiply(slope, Val::Int64(unit)).unwrap_or(Val::Null),
        None => slope,
    };
    Ok(OwnedVal::new(slope))
}

fn integral(
    partition: &Partition,
    values: &[OwnedVal],
    unit_ms: Option<i64>,
    from: usize,
    to: usize,
) -> Result<OwnedVal> {
    if to <= from {
        return Ok(OwnedVal::new(Val::Null));
    }
    let mut total = Val::Int32(0);
    for at in from..to {
        let value = values.get(at).map_or(Val::Null, OwnedVal::get);
        if !value.is_number() {
            return refuse(
                5423900,
                "The input value of the $integral window function must be numeric",
            );
        }
        if at == from {
            distance("$integral", partition, unit_ms, at, at)?;
            continue;
        }
        let before = values.get(at - 1).map_or(Val::Null, OwnedVal::get);
        let width = distance("$integral", partition, unit_ms, at - 1, at)?;
        let both = number::add(before, value).unwrap_or(Val::Double(f64::NAN));
        let area = number::multiply(both, width).unwrap_or(Val::Double(f64::NAN));
        let area = number::divide(area, Val::Int32(2)).unwrap_or(Val::Double(f64::NAN));
        total = number::add(total, area).unwrap_or(Val::Double(f64::NAN));
    }
    if let Some(unit) = unit_ms {
        total = number::divide(total, Val::Int64(unit)).unwrap_or(Val::Double(f64::NAN));
    }
    Ok(OwnedVal::new(total))
}

fn parse_moving_average(argument: Val<'_>, context: &StageContext<'_>) -> Result<Function> {
    let bad = |message: &str| Err(Error::failed_to_parse(message.to_owned()));
    let Val::Document(doc) = argument else {
        return bad("$expMovingAvg must have exactly one argument that is an object");
    };
    let (mut input, mut alpha) = (None, None);
    for (name, value) in doc {
        let value = value.get();
        match name {
            "input" => input = Some(Expr::parse(value, context)?),
            "N" if alpha.is_none() => {
                let count = value
                    .as_i64_exact()
                    .filter(|_| matches!(value, Val::Int32(_) | Val::Int64(_) | Val::Double(_)));
                let Some(count) = count else { return bad("'N' field must be an integer") };
                if count <= 0 {
                    return bad("'N' must be greater than zero");
                }
                let decimal =
                    Decimal128::from_i64(2).div(Decimal128::from_i64(count.saturating_add(1)));
                alpha = Some(Alpha { double: 2.0 / (count as f64 + 1.0), decimal });
            }
            "alpha" if alpha.is_none() => {
                let Some(double) = value.as_f64() else { return bad("'alpha' must be a number") };
                if !(double > 0.0 && double < 1.0) {
                    return bad("'alpha' must be between 0 and 1 (exclusive)");
                }
                let decimal = number::to_decimal(value).unwrap_or(Decimal128::NAN);
                alpha = Some(Alpha { double, decimal });
            }
            _ => {
                return bad(
                    "$expMovingAvg sub object must have exactly two fields: An 'input' field, and \
                     either an 'N' field or an 'alpha' field",
                );
            }
        }
    }
    let (Some(input), Some(alpha)) = (input, alpha) else {
        return bad(
            "$expMovingAvg sub object must have exactly two fields: An 'input' field, and either an \
             'N' field or an 'alpha' field",
        );
    };
    Ok(Function::MovingAverage { input, alpha })
}

fn moving_average(input: &Expr, alpha: Alpha, partition: &Partition) -> Result<Vec<OwnedVal>> {
    let mut last = OwnedVal::new(Val::Null);
    let mut exact = Decimal128::ZERO;
    let mut column = Vec::with_capacity(partition.len());
    for value in evaluate(input, partition)? {
        let now = value.get();
        if now.is_number() {
            let before = last.get();
            let next = if before.is_nullish() {
                exact = number::to_decimal(now).unwrap_or(Decimal128::NAN);
                match now {
                    Val::Decimal(_) => OwnedVal::new(now),
                    _ => OwnedVal::new(Val::Double(now.as_f64().unwrap_or(f64::NAN))),
                }
            } else if matches!(now, Val::Decimal(_)) || matches!(before, Val::Decimal(_)) {
                let decimal = |value| number::to_decimal(value).unwrap_or(Decimal128::NAN);
                let rest = Decimal128::from_i32(1).sub(alpha.decimal);
                let mixed = decimal(now).mul(alpha.decimal).add(decimal(before).mul(rest));
                OwnedVal::new(Val::Decimal(mixed))
            } else {
                // Mixed as decimals too, so that no digits are lost on the way.
                let decimal = |value: Val<'_>| number::to_decimal(value).unwrap_or(Decimal128::NAN);
                let rest = Decimal128::from_i32(1).sub(alpha.decimal);
                let mixed = decimal(now).mul(alpha.decimal).add(exact.mul(rest));
                exact = mixed;
                OwnedVal::new(Val::Double(mixed.to_f64()))
            };
            last = next;
        }
        column.push(last.clone());
    }
    Ok(column)
}

fn covariance<'v>(
    pairs: impl Iterator<Item = (&'v OwnedVal, &'v OwnedVal)>,
    sample: bool,
) -> Val<'static> {
    let (mut count, mut mean_x, mut mean_y, mut together) = (0.0, 0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (x, y) = (x.get(), y.get());
        let (Some(x), Some(y)) = (x.as_f64(), y.as_f64()) else { continue };
        count += 1.0;
        let ahead = x - mean_x;
        mean_x += ahead / count;
        mean_y += (y - mean_y) / count;
        together += ahead * (y - mean_y);
    }
    let over = if sample { count - 1.0 } else { count };
    if over > 0.0 { Val::Double(together / over) } else { Val::Null }
}

fn linear_fill(input: &Expr, partition: &Partition) -> Result<Vec<OwnedVal>> {
    let values = evaluate(input, partition)?;
    for pair in partition.keys.windows(2) {
        let [a, b] = pair else { continue };
        if compare::compare(a.get(), b.get()) == Ordering::Equal {
            return refuse(6050106, "There can be no repeated values in the sort field");
        }
    }
    let position = |at: usize| match partition.keys.get(at).map_or(Val::Null, OwnedVal::get) {
        Val::DateTime(ms) => Ok(Val::Int64(ms)),
        key if key.is_number() => match key {
            Val::Int32(n) => Ok(Val::Int32(n)),
            Val::Int64(n) => Ok(Val::Int64(n)),
            Val::Double(n) => Ok(Val::Double(n)),
            Val::Decimal(n) => Ok(Val::Decimal(n)),
            _ => Ok(Val::Null),
        },
        other => Err(Error::new(
            Code::TYPE_MISMATCH,
            format!("Expected numeric or Date sort value, but was {}", other.kind().name()),
        )),
    };
    let mut column = Vec::with_capacity(values.len());
    let mut left: Option<usize> = None;
    let mut right: Option<usize> = None;
    for (at, value) in values.iter().enumerate() {
        let value = value.get();
        position(at)?;
        if !value.is_nullish() {
            if !value.is_number() {
                return Err(Error::type_mismatch("Value to be filled must be numeric or nullish"));
            }
            left = Some(at);
            column.push(OwnedVal::new(value));
            continue;
        }
        if right.is_none_or(|right| right <= at) {
            right = (at..values.len())
                .find(|next| values.get(*next).is_some_and(|value| !value.get().is_nullish()));
            if right.is_none() {
                right = Some(values.len());
            }
        }
        let ends = left.zip(right.filter(|right| *right < values.len()));
        let Some((from, to)) = ends else {
            column.push(OwnedVal::new(Val::Null));
            continue;
        };
        let nan = Val::Double(f64::NAN);
        let (y0, y1) = match (values.get(from), values.get(to)) {
            (Some(y0), Some(y1)) => (y0.get(), y1.get()),
            _ => (nan, nan),
        };
        if !y1.is_number() {
            return Err(Error::type_mismatch("Value to be filled must be numeric or nullish"));
        }
        let (x0, x1, x) = (position(from)?, position(to)?, position(at)?);
        let run = number::subtract(x1, x0).unwrap_or(nan);
        let rise = number::subtract(y1, y0).unwrap_or(nan);
        let slope = number::divide(rise, run).unwrap_or(nan);
        let step = number::subtract(x, x0).unwrap_or(nan);
        let filled = number::multiply(slope, step).and_then(|up| number::add(y0, up));
        column.push(OwnedVal::new(filled.unwrap_or(nan)));
    }
    Ok(column)
}

fn parse_scaler(argument: Val<'_>, frame: Frame, context: &StageContext<'_>) -> Result<Function> {
    let Val::Document(doc) = argument else {
        return Err(Error::failed_to_parse("$minMaxScaler expects an object"));
    };
    let (mut input, mut low, mut high) = (None, 0.0, 1.0);
    for (name, value) in doc {
        match name {
            "input" => input = Some(Expr::parse(value.get(), context)?),
            "min" | "max" => {
                let expr = Expr::parse(value.get(), context)?;
                let Some(number) = expr.as_constant().and_then(Val::as_f64) else {
                    return Err(Error::failed_to_parse(format!(
                        "'{name}' of $minMaxScaler must be a constant number"
                    )));
                };
                if name == "min" { low = number } else { high = number }
            }
            _ => {
                return Err(Error::failed_to_parse(format!(
                    "$minMaxScaler got unexpected argument: {name}"
                )));
            }
        }
    }
    if low >= high {
        return Err(Error::failed_to_parse("'min' of $minMaxScaler must be below 'max'"));
    }
    match input {
        Some(input) => Ok(Function::MinMaxScaler { input, low, high, frame }),
        None => Err(Error::failed_to_parse("$minMaxScaler requires an 'input' expression")),
    }
}

fn scaled(
    value: Val<'_>,
    window: Option<&[OwnedVal]>,
    low: f64,
    high: f64,
) -> Result<Val<'static>> {
    let number = |value: Val<'_>| {
        value.as_f64().ok_or_else(|| {
            Error::type_mismatch("'input' of $minMaxScaler must evaluate to a number")
        })
    };
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in window.unwrap_or(&[]) {
        let value = number(value.get())?;
        least = least.min(value);
        most = most.max(value);
    }
    let value = number(value)?;
    if least >= most {
        return Ok(Val::Double(low));
    }
    Ok(Val::Double((value - least) / (most - least) * (high - low) + low))
}
