//! `$map`, `$filter` and `$reduce`: an expression for each element, with the element as variable.

use super::super::number::to_i32_exact;
use super::super::operator::Operator;
use super::super::parse::{Parser, check_variable_name};
use super::super::{Call, Env, Node};
use super::{input_array, raw_array};
use crate::interrupt;
use crate::show::show;
use value::{Code, Error, OwnedVal, RawDoc, Result, Val};

/// The named operands, undecoded, with `None` for those left out.
fn named<'v, const N: usize>(
    doc: RawDoc<'v>,
    names: [&str; N],
    unknown: impl Fn(&str) -> Error,
) -> Result<[Option<Val<'v>>; N]> {
    let mut found = [None; N];
    for (name, value) in doc {
        let slot = names
            .iter()
            .position(|known| *known == name)
            .and_then(|at| found.get_mut(at))
            .ok_or_else(|| unknown(name))?;
        *slot = Some(value.get());
    }
    Ok(found)
}

/// The name of the element's variable: `as`, or `this`.
fn element_name<'v>(operator: &str, name: Option<Val<'v>>) -> Result<&'v str> {
    match name {
        None => Ok("this"),
        Some(Val::String(name)) => {
            // `CURRENT` may be bound: it is where paths begin.
            if name != "CURRENT" {
                check_variable_name(name)?;
            }
            Ok(name)
        }
        Some(_) => Err(Error::failed_to_parse(format!("{operator} needs a string for 'as'"))),
    }
}

fn call(operator: &'static Operator, arguments: Vec<Node>, slot: usize) -> Node {
    Node::Call(Box::new(Call { operator, arguments, slot, regex: None, script: None }))
}

pub(super) fn parse_map(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let Val::Document(doc) = value else {
        return Err(Error::new(Code(16878), "$map only supports an object as its argument"));
    };
    let unknown =
        |name: &str| Error::new(Code(16879), format!("Unrecognized parameter to $map: {name}"));
    let [input, name, body] = named(doc, ["input", "as", "in"], unknown)?;
    let input =
        input.ok_or_else(|| Error::new(Code(16880), "Missing 'input' parameter to $map"))?;
    let body = body.ok_or_else(|| Error::new(Code(16882), "Missing 'in' parameter to $map"))?;
    let name = element_name("$map", name)?;
    let input = parser.parse(input)?;
    let slot = parser.reserve(1);
    let body = parser.with_variables(&[name], slot, |parser| parser.parse(body))?;
    Ok(call(operator, vec![input, body], slot))
}

pub(super) fn map<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let refuse = |value: Val<'_>| {
        Error::new(
            Code(16883),
            format!("input to $map must be an array not {}", value.kind().name()),
        )
    };
    let Some(array) = input_array(call, env, refuse)? else { return Ok(Val::Null) };
    let mut results = Vec::new();
    for (_, element) in array {
        env.bind(call.slot, element.get());
        results.push(call.argument(1, env)?);
        interrupt::check()?;
        env.check_memory()?;
    }
    env.array(results.into_iter())
}

pub(super) fn parse_filter(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let Val::Document(doc) = value else {
        return Err(Error::new(Code(28646), "$filter only supports an object as its argument"));
    };
    let unknown =
        |name: &str| Error::new(Code(28647), format!("Unrecognized parameter to $filter: {name}"));
    let [input, name, condition, limit] = named(doc, ["input", "as", "cond", "limit"], unknown)?;
    let input =
        input.ok_or_else(|| Error::new(Code(28648), "Missing 'input' parameter to $filter"))?;
    let condition =
        condition.ok_or_else(|| Error::new(Code(28650), "Missing 'cond' parameter to $filter"))?;
    let name = element_name("$filter", name)?;
    let input = parser.parse(input)?;
    let limit = parser.parse(limit.unwrap_or(Val::Null))?;
    let slot = parser.reserve(1);
    let condition = parser.with_variables(&[name], slot, |parser| parser.parse(condition))?;
    Ok(call(operator, vec![input, condition, limit], slot))
}

pub(super) fn filter<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let refuse = |value: Val<'_>| {
        Error::new(
            Code(28651),
            format!("input to $filter must be an array not {}", value.kind().name()),
        )
    };
    let Some(array) = input_array(call, env, refuse)? else { return Ok(Val::Null) };
    if array.is_empty() {
        return Ok(Val::Array(array));
    }
    let limit = match call.argument(2, env)? {
        value if value.is_nullish() => usize::MAX,
        value => {
            let Some(limit) = to_i32_exact(value) else {
                return Err(Error::new(
                    Code(327391),
                    format!(
                        "$filter: limit must be represented as a 32-bit integral value: {}",
                        show(value)
                    ),
                ));
            };
            usize::try_from(limit).ok().filter(|limit| *limit > 0).ok_or_else(|| {
                Error::new(Code(327392), format!("$filter: limit must be greater than 0: {limit}"))
            })?
        }
    };
    let mut kept = Vec::new();
    for (_, element) in array {
        env.bind(call.slot, element.get());
        interrupt::check()?;
        if call.argument(1, env)?.truthy() {
            kept.push(element);
            if kept.len() >= limit {
                break;
            }
        }
    }
    raw_array(kept.into_iter(), env)
}

pub(super) fn parse_reduce(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let Val::Document(doc) = value else {
        return Err(Error::new(
            Code(40075),
            format!("$reduce requires an object as an argument, found: {}", value.kind().name()),
        ));
    };
    let unknown =
        |name: &str| Error::new(Code(40076), format!("$reduce found an unknown argument: {name}"));
    let [input, initial, body] = named(doc, ["input", "initialValue", "in"], unknown)?;
    let missing = |code: i32, name: &str| {
        Error::new(Code(code), format!("$reduce requires '{name}' to be specified"))
    };
    let input = parser.parse(input.ok_or_else(|| missing(40077, "input"))?)?;
    let initial = parser.parse(initial.ok_or_else(|| missing(40078, "initialValue"))?)?;
    let body = body.ok_or_else(|| missing(40079, "in"))?;
    let slot = parser.reserve(2);
    let body = parser.with_variables(&["this", "value"], slot, |parser| parser.parse(body))?;
    Ok(call(operator, vec![input, initial, body], slot))
}

pub(super) fn reduce<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let refuse = |value: Val<'_>| {
        Error::new(
            Code(40080),
            format!("$reduce requires that 'input' be an array, found: {}", show(value)),
        )
    };
    let Some(array) = input_array(call, env, refuse)? else { return Ok(Val::Null) };
    // Each step has an arena of its own: with a shared one, joining n texts would keep n of them.
    let mut value = OwnedVal::new(call.argument(1, env)?);
    let mut scratch = bumpalo::Bump::new();
    for (_, element) in array {
        interrupt::check()?;
        let next = {
            let step = env.child(&scratch);
            step.bind(call.slot, element.get());
            step.bind(call.slot + 1, value.get());
            OwnedVal::new(call.argument(2, &step)?)
        };
        value = next;
        scratch.reset();
    }
    Ok(crate::path_values::copy_into(value.get(), env.arena()))
}
