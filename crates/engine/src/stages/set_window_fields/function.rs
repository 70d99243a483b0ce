//! Window functions: which there are, how they are parsed, and which file computes each.

use super::accumulate::{accumulate, edge};
use super::column::evaluate;
use super::covariance::covariances;
use super::fade::{self, Alpha};
use super::output::Output;
use super::spans::{Spans, whole_numbers};
use super::{Frame, Partition, Sorting, fill, refuse, scale, shift, slope};
use crate::operation::Operation;
use crate::stages::StageContext;
use query::accumulate::AccumulatorSpec;
use query::expr::Expr;
use value::{DocBuf, Error, OwnedVal, Result, Val};

/// A compiled window function.
pub(super) enum Function {
    Accumulate(AccumulatorSpec, Frame),
    /// The value for the first or last document of the window only.
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
    /// The area under the values of the window.
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

/// Accumulators that are also window functions.
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
        // An empty one is the whole partition, but only for functions that take one.
        let has_window = window.is_some();
        let window = window.filter(|window| window.as_doc().is_none_or(|doc| !doc.is_empty()));
        let frame = || match window {
            None => Ok(Frame::WHOLE),
            Some(window) => Frame::parse(window, sorting, context),
        };
        let no_window = |code: i32| match has_window {
            false => Ok(()),
            true => refuse(code, format!("{name} does not accept a 'window' field")),
        };
        if matches!(name, "$first" | "$last") {
            let input = Expr::parse(argument, context)?;
            return Ok(Function::Edge { input, last: name == "$last", frame: frame()? });
        }
        if ACCUMULATORS.contains(&name) {
            // Unlike in groups, an array is an expression that makes one.
            let array = DocBuf::build(|out| {
                out.array("$concatArrays", |list| list.push(argument));
            });
            let argument = match argument {
                Val::Array(_) if name != "$count" => Val::Document(array.as_doc()),
                argument => argument,
            };
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
            "$shift" => shift::parse(argument, has_window, sorting, context),
            "$derivative" | "$integral" => {
                let (input, unit_ms) = slope::parse(name, argument, context)?;
                if sorting.is_none() {
                    return Err(Error::failed_to_parse(format!("{name} requires a sortBy")));
                }
                if name == "$derivative" && !has_window {
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
                if has_window {
                    return Err(Error::failed_to_parse(
                        "$expMovingAvg does not accept a 'window' field",
                    ));
                }
                if sorting.is_none() {
                    return Err(Error::failed_to_parse(
                        "$expMovingAvg requires an explicit 'sortBy'",
                    ));
                }
                fade::parse(argument, context)
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
                    // Any other argument never gives two numbers.
                    None => {
                        Expr::parse(argument, context)?;
                        (Expr::constant(Val::Null), Expr::constant(Val::Null))
                    }
                };
                Ok(Function::Covariance { x, y, sample, frame })
            }
            "$linearFill" => {
                if has_window {
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
                if has_window {
                    return Err(Error::failed_to_parse("'window' field is not allowed in $locf"));
                }
                Ok(Function::CarryForward(Expr::parse(argument, context)?))
            }
            "$minMaxScaler" => scale::parse(argument, frame()?, context),
            _ => Err(Error::failed_to_parse(format!("Unrecognized window function, {name}"))),
        }
    }

    /// Whether it reads the values of the sort field.
    pub(super) fn reads_keys(&self) -> bool {
        match self {
            Function::Derivative { .. } | Function::Integral { .. } | Function::LinearFill(_) => {
                true
            }
            Function::Accumulate(_, frame)
            | Function::Edge { frame, .. }
            | Function::Covariance { frame, .. }
            | Function::MinMaxScaler { frame, .. } => frame.reads_keys(),
            _ => false,
        }
    }

    /// Writes the values of the function for all documents of a partition.
    pub(super) fn compute(
        &self,
        partition: &Partition,
        op: &Operation,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let is_step = |at: usize| partition.steps.get(at).copied().unwrap_or(true);
        match self {
            Function::Accumulate(spec, frame) => accumulate(spec, frame, partition, op, out),
            Function::Edge { input, last, frame } => edge(input, *last, frame, partition, op, out),
            Function::DocumentNumber => whole_numbers(partition.len(), out, |at| at + 1),
            Function::Rank => {
                let mut rank = 1;
                whole_numbers(partition.len(), out, |at| {
                    if is_step(at) {
                        rank = at + 1;
                    }
                    rank
                })
            }
            Function::DenseRank => {
                let mut rank = 0;
                whole_numbers(partition.len(), out, |at| {
                    rank += usize::from(is_step(at));
                    rank
                })
            }
            Function::Shift { output, by, default } => {
                shift::shifted(output, *by, default, partition, op, out)
            }
            Function::Derivative { input, unit_ms, frame } => {
                let values = evaluate(input, partition, op)?;
                Spans::new(frame, partition, op)?.each(op, out, |from, to| {
                    slope::derivative(partition, &values, *unit_ms, from, to)
                })
            }
            Function::Integral { input, unit_ms, frame } => {
                let values = evaluate(input, partition, op)?;
                let spans = Spans::new(frame, partition, op)?;
                slope::integrals(partition, &values, *unit_ms, &spans, op, out)
            }
            Function::MovingAverage { input, alpha } => {
                fade::moving_average(input, *alpha, partition, op, out)
            }
            Function::Covariance { x, y, sample, frame } => {
                let (x, y) = (evaluate(x, partition, op)?, evaluate(y, partition, op)?);
                let spans = Spans::new(frame, partition, op)?;
                covariances(&x, &y, *sample, &spans, op, out)
            }
            Function::LinearFill(input) => fill::linear_fill(input, partition, op, out),
            Function::CarryForward(input) => fill::carried(input, partition, op, out),
            Function::MinMaxScaler { input, low, high, frame } => {
                let spans = Spans::new(frame, partition, op)?;
                scale::all_scaled(input, (*low, *high), &spans, partition, op, out)
            }
        }
    }
}
