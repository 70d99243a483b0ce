//! `$zip`: combines arrays element by element.

use super::super::operator::Operator;
use super::super::parse::Parser;
use super::super::{Env, Node};
use crate::interrupt;
use crate::show::show;
use value::{Code, Error, RawDoc, Result, Val};

/// Arguments are the longest-length flag, the number of inputs, the inputs, the defaults.
pub(super) fn parse(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let Val::Document(doc) = value else {
        return Err(Error::new(
            Code(34460),
            format!("$zip only supports an object as an argument, found {}", value.kind().name()),
        ));
    };
    let (mut inputs, mut defaults, mut longest) = (Vec::new(), Vec::new(), false);
    for (name, operand) in doc {
        let array = |code: i32| {
            operand.as_array().ok_or_else(|| {
                Error::new(
                    Code(code),
                    format!(
                        "{name} must be an array of expressions, found {}",
                        operand.kind().name()
                    ),
                )
            })
        };
        match name {
            "inputs" => inputs = parser.operands(Val::Array(array(34461)?))?,
            "defaults" => defaults = parser.operands(Val::Array(array(34462)?))?,
            "useLongestLength" => {
                let Val::Bool(flag) = operand.get() else {
                    return Err(Error::new(
                        Code(34463),
                        format!("useLongestLength must be a bool, found {}", operand.kind().name()),
                    ));
                };
                longest = flag;
            }
            unknown => {
                return Err(Error::new(
                    Code(34464),
                    format!("$zip found an unknown argument: {unknown}"),
                ));
            }
        }
    }
    if inputs.is_empty() {
        return Err(Error::new(Code(34465), "$zip requires at least one input array"));
    }
    if !defaults.is_empty() {
        if !longest {
            return Err(Error::new(
                Code(34466),
                "cannot specify defaults unless useLongestLength is true",
            ));
        }
        if defaults.len() != inputs.len() {
            return Err(Error::new(Code(34467), "defaults and inputs must have the same length"));
        }
    }
    let count = i32::try_from(inputs.len()).unwrap_or(i32::MAX);
    let mut arguments = vec![Node::constant(Val::Bool(longest)), Node::constant(Val::Int32(count))];
    arguments.extend(inputs);
    arguments.extend(defaults);
    operator.call(parser, arguments)
}

pub(super) fn zip<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let [Val::Bool(longest), Val::Int32(count), rest @ ..] = values else {
        return Err(Error::internal("$zip is compiled with its flag and count"));
    };
    let count = usize::try_from(*count).unwrap_or(0);
    let (inputs, defaults) = rest.split_at_checked(count).unwrap_or((rest, &[]));
    let mut arrays: Vec<RawDoc<'a>> = Vec::new();
    for value in inputs {
        match value {
            Val::Array(array) => arrays.push(*array),
            value if value.is_nullish() => return Ok(Val::Null),
            other => {
                return Err(Error::new(
                    Code(34468),
                    format!("$zip found a non-array expression in input: {}", show(*other)),
                ));
            }
        }
    }
    let lengths = arrays.iter().map(|array| array.count());
    let rows = if *longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
    let mut columns: Vec<_> = arrays.iter().map(|array| array.iter()).collect();
    interrupt::charge(rows.saturating_mul(columns.len()))?;
    let mut bytes = Vec::new();
    value::writer::write_array(&mut bytes, |out| {
        for _ in 0..rows {
            out.push_array(|row| {
                for (at, column) in columns.iter_mut().enumerate() {
                    match column.next() {
                        Some((_, value)) => row.push_raw(value),
                        // A missing default is left out; it does not become null.
                        None => match defaults.get(at) {
                            Some(Val::Missing) => {}
                            default => row.push(default.copied().unwrap_or(Val::Null)),
                        },
                    }
                }
            });
        }
    });
    Ok(Val::Array(env.keep(&bytes)?))
}
