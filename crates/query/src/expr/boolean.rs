//! `$and`, `$or`, `$not`.

use super::operator::{MANY, Operator};
use super::{Call, Env};
use value::{Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::lazy("$and", 0, MANY, and).commutative(),
    Operator::new("$not", 1, 1, not),
    Operator::lazy("$or", 0, MANY, or).commutative(),
];

fn and<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    for argument in &call.arguments {
        if !argument.eval(env)?.truthy() {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

fn or<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
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
