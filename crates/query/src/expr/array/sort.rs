//! `$sortArray`, `$top`, `$topN`, `$bottom`, `$bottomN`: arrays ordered by the elements themselves,
//! or by fields of document elements.

use super::super::operator::Operator;
use super::super::parse::Parser;
use super::super::{Call, Env, Node};
use super::{input_array, raw_array};
use crate::interrupt;
use crate::path_values::path_in;
use std::cmp::Ordering;
use value::{Code, Error, RawVal, Result, Val};

/// Arguments are the input, the number of elements to return, then path and direction of each
/// field, or only the direction.
pub(super) fn parse(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let Val::Document(doc) = value else {
        return Err(Error::new(
            Code(2942500),
            format!("$sortArray requires an object as an argument, found: {}", value.kind().name()),
        ));
    };
    let operator_name = operator.name;
    let counts = matches!(operator_name, "$topN" | "$bottomN");
    let (mut input, mut order, mut count) = (None, None, None);
    for (name, operand) in doc {
        match name {
            "input" => input = Some(parser.parse(operand.get())?),
            "sortBy" => order = Some(operand.get()),
            "n" if counts => count = Some(parser.parse(operand.get())?),
            unknown => {
                return Err(Error::new(
                    Code(2942501),
                    format!("{operator_name} found an unknown argument: {unknown}"),
                ));
            }
        }
    }
    let missing = |code: i32, name: &str| {
        Error::new(Code(code), format!("{operator_name} requires '{name}' to be specified"))
    };
    let mut arguments = vec![input.ok_or_else(|| missing(2942502, "input"))?];
    arguments.push(match count {
        None if counts => return Err(missing(5787906, "n")),
        count => count.unwrap_or_else(|| Node::constant(Val::Int32(1))),
    });
    match order.ok_or_else(|| missing(2942503, "sortBy"))? {
        Val::Document(fields) => {
            if fields.is_empty() {
                return Err(Error::new(
                    Code(2942505),
                    "The sort pattern is empty when it should be a set of fields.",
                ));
            }
            for (path, direction) in fields {
                let direction = parse_direction(direction.get()).ok().filter(|_| !path.is_empty());
                let direction = direction.ok_or_else(|| {
                    Error::new(
                        Code(2942505),
                        format!("The $sort field '{path}' needs a name and a direction of 1 or -1"),
                    )
                })?;
                arguments.push(Node::constant(Val::String(path)));
                arguments.push(Node::constant(Val::Int32(direction)));
            }
        }
        direction => arguments.push(Node::constant(Val::Int32(parse_direction(direction)?))),
    }
    operator.call(parser, arguments)
}

fn parse_direction(value: Val<'_>) -> Result<i32> {
    match value.as_i64_exact() {
        Some(1) => Ok(1),
        Some(-1) => Ok(-1),
        _ if value.is_number() => {
            Err(Error::new(Code(2942506), "The $sort element value must be either 1 or -1"))
        }
        _ => Err(Error::new(
            Code(2942507),
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort \
             embedded fields",
        )),
    }
}

pub(super) fn sort_array<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    match sorted(call, env)? {
        Some(elements) => raw_array(elements.into_iter(), env),
        None => Ok(Val::Null),
    }
}

/// The elements that `$top` and `$bottom` choose from; the input must be an array.
fn elements<'a>(call: &'a Call, env: &Env<'a>) -> Result<(Vec<RawVal<'a>>, usize)> {
    let count = crate::expr::number::check_count(call.argument(1, env)?)?;
    match sorted(call, env)? {
        Some(elements) => Ok((elements, count)),
        None => Err(Error::new(Code(5788200), "Input must be an array")),
    }
}

pub(super) fn top<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    Ok(elements(call, env)?.0.first().map_or(Val::Null, |value| value.get()))
}

pub(super) fn bottom<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    Ok(elements(call, env)?.0.last().map_or(Val::Null, |value| value.get()))
}

pub(super) fn top_n<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let (elements, count) = elements(call, env)?;
    raw_array(elements.into_iter().take(count), env)
}

pub(super) fn bottom_n<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let (elements, count) = elements(call, env)?;
    let skip = elements.len().saturating_sub(count);
    raw_array(elements.into_iter().skip(skip), env)
}

/// The elements in order; `None` where the input is null.
fn sorted<'a>(call: &'a Call, env: &Env<'a>) -> Result<Option<Vec<RawVal<'a>>>> {
    let refuse = |value: Val<'_>| {
        Error::new(
            Code(2942504),
            format!(
                "The input argument to $sortArray must be an array, but was of type: {}",
                value.kind().name()
            ),
        )
    };
    let Some(array) = input_array(call, env, refuse)? else { return Ok(None) };
    let directed = |order: Ordering, direction: Option<Val<'_>>| {
        if direction == Some(Val::Int32(-1)) { order.reverse() } else { order }
    };
    let rules = call.arguments.get(2..).unwrap_or(&[]);
    let mut elements: Vec<(Vec<Val<'a>>, RawVal<'a>)> = Vec::new();
    let (pairs, whole) = rules.as_chunks::<2>();
    let mut paths: Vec<(Vec<Box<str>>, Option<Val<'_>>)> = Vec::new();
    for [path, direction] in pairs {
        let path = path.as_constant().and_then(Val::as_str).unwrap_or("");
        paths.push((path.split('.').map(Into::into).collect(), direction.as_constant()));
    }
    for (_, element) in array {
        let key = |(path, _): &(Vec<Box<str>>, Option<Val<'_>>)| {
            // Only documents have fields: arrays inside of the array do not.
            match element.as_doc().map(|doc| path_in(Val::Document(doc), path, env.arena())) {
                None | Some(Val::Missing) => Val::Null,
                Some(value) => value,
            }
        };
        interrupt::charge_raw(element)?;
        elements.push((paths.iter().map(key).collect(), element));
    }
    if let Some(direction) = whole.first() {
        let direction = direction.as_constant();
        interrupt::sort_by(&mut elements, |(_, a), (_, b)| {
            directed(env.compare(a.get(), b.get()), direction)
        })?;
    } else {
        interrupt::sort_by(&mut elements, |(a, _), (b, _)| {
            for ((a, b), (_, direction)) in a.iter().zip(b).zip(&paths) {
                let order = directed(env.compare(*a, *b), *direction);
                if order != Ordering::Equal {
                    return order;
                }
            }
            Ordering::Equal
        })?;
    }
    Ok(Some(elements.into_iter().map(|(_, element)| element).collect()))
}
