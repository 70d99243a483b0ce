//! `$and`, `$or`, `$not`.

use super::operator::{MANY, Operator};
use super::{Call, Env};
use value::{Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::lazy("$and", 0, MANY, and).commutative(),
    Operator::new("$not", 1, 1, not),
    Operator::lazy("$or", 0, MANY, or).commutative(),
];

/// The constant operand at the end, if there is one: it may decide alone.
fn constant_end(call: &Call) -> Option<bool> {
    Some(call.arguments.last()?.as_constant()?.truthy())
}

fn and<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    if constant_end(call) == Some(false) {
        return Ok(Val::Bool(false));
    }
    for argument in &call.arguments {
        if !argument.eval(env)?.truthy() {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

fn or<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    if constant_end(call) == Some(true) {
        return Ok(Val::Bool(true));
    }
    for argument in &call.arguments {
        if argument.eval(env)?.truthy() {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}

fn not<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Bool(!values.first().is_some_and(|value| value.truthy())))
}
