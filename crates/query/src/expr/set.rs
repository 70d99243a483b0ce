//! Sets: arrays without order and repetition. Results are sorted, as MongoDB gives them.

use super::arithmetic::pair;
use super::operator::{MANY, Operator};
use super::parse::Parser;
use super::{Call, Env, Node};
use crate::interrupt;
use std::collections::{BTreeMap, BTreeSet};
use value::{Code, Error, RawDoc, RawVal, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::new("$allElementsTrue", 1, 1, all_elements_true),
    Operator::new("$anyElementTrue", 1, 1, any_element_true),
    Operator::new("$setDifference", 2, 2, difference),
    Operator::special("$setEquals", parse_equals, equals),
    Operator::new("$setIntersection", 0, MANY, intersection).commutative(),
    Operator::lazy("$setIsSubset", 2, 2, is_subset),
    Operator::new("$setUnion", 0, MANY, union).commutative(),
];

/// The distinct values of an array, by order-preserving key.
fn members(array: RawDoc<'_>, env: &Env<'_>) -> Result<BTreeSet<Vec<u8>>> {
    let key = |(_, value): (&str, RawVal<'_>)| {
        interrupt::charge_raw(value)?;
        Ok(env.key(value.get()))
    };
    array.iter().map(key).collect()
}

fn flag_operand<'a>(name: &str, code: i32, values: &[Val<'a>]) -> Result<RawDoc<'a>> {
    let value = pair(values).0;
    value.as_array().ok_or_else(|| {
        Error::new(
            Code(code),
            format!("{name}'s argument must be an array, but is {}", value.kind().name()),
        )
    })
}

fn all_elements_true<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let array = flag_operand("$allElementsTrue", 17040, values)?;
    Ok(Val::Bool(array.iter().all(|(_, value)| value.get().truthy())))
}

fn any_element_true<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let array = flag_operand("$anyElementTrue", 17041, values)?;
    Ok(Val::Bool(array.iter().any(|(_, value)| value.get().truthy())))
}

fn both_arrays(name: &str, code: i32, place: &str, value: Val<'_>) -> Error {
    Error::new(
        Code(code),
        format!(
            "both operands of {name} must be arrays. {place} argument is of type: {}",
            value.kind().name()
        ),
    )
}

fn difference<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let (a, b) = pair(values);
    if a.is_nullish() || b.is_nullish() {
        return Ok(Val::Null);
    }
    let first = a.as_array().ok_or_else(|| both_arrays("$setDifference", 17048, "First", a))?;
    let second = b.as_array().ok_or_else(|| both_arrays("$setDifference", 17049, "Second", b))?;
    let mut taken = members(second, env)?;
    let kept =
        first.iter().map(|(_, value)| value.get()).filter(|value| taken.insert(env.key(*value)));
    env.array(kept)
}

fn is_subset<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let (a, b) = (call.argument(0, env)?, call.argument(1, env)?);
    // MongoDB has a variant of its own for a constant set, with a code of its own.
    let constant = call.arguments.get(1).is_some_and(Node::is_constant) && b.as_array().is_some();
    let code = if constant { 17310 } else { 17046 };
    let first = a.as_array().ok_or_else(|| both_arrays("$setIsSubset", code, "First", a))?;
    let second = b.as_array().ok_or_else(|| both_arrays("$setIsSubset", 17042, "Second", b))?;
    Ok(Val::Bool(members(first, env)?.is_subset(&members(second, env)?)))
}

fn parse_equals(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let arguments = parser.operands(value)?;
    if arguments.len() < 2 {
        return Err(Error::new(
            Code(17045),
            format!("$setEquals needs at least two arguments had: {}", arguments.len()),
        ));
    }
    let constants = arguments.iter().filter_map(Node::as_constant);
    if constants.into_iter().any(|value| value.as_array().is_none()) {
        return Err(Error::new(Code(5887502), "All operands of $setEquals must be arrays"));
    }
    operator.call(parser, arguments)
}

fn equals<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let mut first: Option<BTreeSet<Vec<u8>>> = None;
    let mut equal = true;
    for (at, value) in values.iter().enumerate() {
        let array = value.as_array().ok_or_else(|| {
            Error::new(
                Code(17044),
                format!(
                    "All operands of $setEquals must be arrays. {}-th argument is of type: {}",
                    at + 1,
                    value.kind().name()
                ),
            )
        })?;
        let set = members(array, env)?;
        match &first {
            None => first = Some(set),
            Some(first) => equal &= *first == set,
        }
    }
    Ok(Val::Bool(equal))
}

fn all_arrays(name: &str, code: i32, value: Val<'_>) -> Error {
    Error::new(
        Code(code),
        format!(
            "All operands of {name} must be arrays. One argument is of type: {}",
            value.kind().name()
        ),
    )
}

fn union<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let mut all: BTreeMap<Vec<u8>, Val<'a>> = BTreeMap::new();
    for value in values {
        if value.is_nullish() {
            return Ok(Val::Null);
        }
        let array = value.as_array().ok_or_else(|| all_arrays("$setUnion", 17043, *value))?;
        for (_, element) in array {
            interrupt::charge_raw(element)?;
            let element = element.get();
            all.entry(env.key(element)).or_insert(element);
        }
    }
    env.array(all.into_values())
}

fn intersection<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let mut common: Option<BTreeMap<Vec<u8>, Val<'a>>> = None;
    for value in values {
        if value.is_nullish() {
            return Ok(Val::Null);
        }
        let array =
            value.as_array().ok_or_else(|| all_arrays("$setIntersection", 17047, *value))?;
        let mut next = BTreeMap::new();
        for (_, element) in array {
            interrupt::charge_raw(element)?;
            next.entry(env.key(element.get())).or_insert(element.get());
        }
        common = Some(match common {
            None => next,
            // Of equal numbers of different types the smaller set's are shown.
            Some(mut common) => {
                if next.len() < common.len() {
                    std::mem::swap(&mut next, &mut common);
                }
                common.retain(|key, _| next.contains_key(key));
                common
            }
        });
    }
    env.array(common.unwrap_or_default().into_values())
}
