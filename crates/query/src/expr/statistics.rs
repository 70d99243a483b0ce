//! Accumulators as expressions: `$sum`, `$avg`, `$min`, `$max`, deviations, percentiles, and the
//! first, last, smallest and largest n.

use super::number::check_count;
use super::operator::{MANY, Operator};
use super::parse::Parser;
use super::percentile;
use super::{Call, Env, Node};
use crate::interrupt;
use crate::show::show;
use crate::sums::{Deviation, Sum};
use value::{Code, Error, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::new("$avg", 0, MANY, avg),
    Operator::special("$firstN", parse_n, first_n),
    Operator::special("$lastN", parse_n, last_n),
    Operator::new("$max", 0, MANY, max).commutative(),
    Operator::special("$maxN", parse_n, max_n),
    Operator::special_lazy("$median", parse_percentile, median),
    Operator::new("$min", 0, MANY, min).commutative(),
    Operator::special("$minN", parse_n, min_n),
    Operator::special_lazy("$percentile", parse_percentile, percentiles),
    Operator::new("$stdDevPop", 0, MANY, deviation_population),
    Operator::new("$stdDevSamp", 0, MANY, deviation_sample),
    Operator::new("$sum", 0, MANY, sum).commutative(),
];

/// Passes the operands to `take`; a single array is passed element by element.
fn feed<'a>(values: &[Val<'a>], mut take: impl FnMut(Val<'a>)) {
    match values {
        [Val::Array(array)] => array.iter().for_each(|(_, value)| take(value.get())),
        values => values.iter().for_each(|value| take(*value)),
    }
}

fn sum<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let mut sum = Sum::default();
    feed(values, |value| sum.add(value));
    Ok(sum.total())
}

fn avg<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let mut sum = Sum::default();
    feed(values, |value| sum.add(value));
    Ok(sum.average())
}

fn deviation_population<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let mut deviation = Deviation::default();
    feed(values, |value| deviation.add(value));
    Ok(deviation.result(false))
}

fn deviation_sample<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let mut deviation = Deviation::default();
    feed(values, |value| deviation.add(value));
    Ok(deviation.result(true))
}

fn extreme<'a>(
    values: &[Val<'a>],
    env: &Env<'a>,
    better: fn(std::cmp::Ordering) -> bool,
) -> Val<'a> {
    let mut best: Option<Val<'a>> = None;
    feed(values, |value| {
        let wins = best.is_none_or(|best| better(env.compare(value, best)));
        if !value.is_nullish() && wins {
            best = Some(value);
        }
    });
    best.unwrap_or(Val::Null)
}

fn min<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(extreme(values, env, std::cmp::Ordering::is_lt))
}

fn max<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(extreme(values, env, std::cmp::Ordering::is_gt))
}

/// `{input: .., n: ..}`.
fn parse_n(parser: &mut Parser<'_>, operator: &'static Operator, value: Val<'_>) -> Result<Node> {
    let Val::Document(doc) = value else {
        let extreme = matches!(operator.name, "$maxN" | "$minN");
        return Err(Error::new(
            Code(if extreme { 5787900 } else { 5787801 }),
            format!("specification must be an object; found {}: {}", operator.name, show(value)),
        ));
    };
    let (mut input, mut count) = (None, None);
    for (name, operand) in doc {
        match name {
            "input" => input = Some(parser.parse(operand.get())?),
            "n" => count = Some(parser.parse(operand.get())?),
            unknown => {
                return Err(Error::new(
                    Code(5787901),
                    format!("Unknown argument for 'n' operator: {unknown}"),
                ));
            }
        }
    }
    let missing =
        |code: i32, what: &str| Error::new(Code(code), format!("Missing value for '{what}'"));
    let count = count.ok_or_else(|| missing(5787906, "n"))?;
    let input = input.ok_or_else(|| missing(5787907, "input"))?;
    operator.call(parser, vec![input, count])
}

fn elements<'a>(values: &[Val<'a>]) -> Result<(Vec<Val<'a>>, usize)> {
    let (input, count) = super::arithmetic::pair(values);
    let count = check_count(count)?;
    let Val::Array(array) = input else {
        return Err(Error::new(Code(5788200), "Input must be an array"));
    };
    Ok((array.iter().map(|(_, value)| value.get()).collect(), count))
}

fn first_n<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let (elements, count) = elements(values)?;
    env.array(elements.into_iter().take(count))
}

fn last_n<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let (elements, count) = elements(values)?;
    let skip = elements.len().saturating_sub(count);
    env.array(elements.into_iter().skip(skip))
}

fn sorted_n<'a>(values: &[Val<'a>], env: &Env<'a>, descending: bool) -> Result<Val<'a>> {
    let (mut elements, count) = elements(values)?;
    elements.retain(|value| !value.is_nullish());
    // Of equal values the first are kept; the largest are returned in descending order.
    interrupt::sort_by(&mut elements, |a, b| {
        let order = env.compare(*a, *b);
        if descending { order.reverse() } else { order }
    })?;
    elements.truncate(count);
    if descending {
        elements.reverse();
        interrupt::sort_by(&mut elements, |a, b| env.compare(*b, *a))?;
    }
    env.array(elements.into_iter())
}

fn min_n<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    sorted_n(values, env, false)
}

fn max_n<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    sorted_n(values, env, true)
}

/// Arguments are the input and the array of ranks.
fn parse_percentile(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let many = operator.name == "$percentile";
    let (input, ranks) = percentile::parse(operator.name, value, many, parser.context())?;
    let mut arguments = vec![parser.parse(input)?];
    arguments.extend(ranks.into_iter().map(|rank| Node::constant(Val::Double(rank))));
    operator.call(parser, arguments)
}

fn ranked<'a>(call: &'a Call, env: &Env<'a>) -> Result<Vec<Val<'static>>> {
    let Some((input, ranks)) = call.arguments.split_first() else { return Ok(Vec::new()) };
    let ranks = ranks.iter().filter_map(|rank| rank.as_constant()?.as_f64()).collect();
    let mut percentiles = percentile::Percentiles::new(ranks);
    let input = input.eval(env)?;
    interrupt::charge_value(input)?;
    match input {
        Val::Array(array) => array.iter().for_each(|(_, value)| percentiles.add(value.get())),
        value => percentiles.add(value),
    }
    Ok(percentiles.results())
}

fn median<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    Ok(ranked(call, env)?.first().copied().unwrap_or(Val::Null))
}

fn percentiles<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    env.array(ranked(call, env)?.into_iter())
}
