//! Comparisons in MongoDB's order of all values.

use super::Env;
use super::arithmetic::pair;
use super::operator::Operator;
use std::cmp::Ordering;
use value::{Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::new("$cmp", 2, 2, cmp),
    Operator::new("$eq", 2, 2, eq),
    Operator::new("$gt", 2, 2, gt),
    Operator::new("$gte", 2, 2, gte),
    Operator::new("$lt", 2, 2, lt),
    Operator::new("$lte", 2, 2, lte),
    Operator::new("$ne", 2, 2, ne),
];

fn order(values: &[Val<'_>], env: &Env<'_>) -> Ordering {
    // Missing and undefined are equal here.
    let seen = |value| if matches!(value, Val::Undefined) { Val::Missing } else { value };
    let (a, b) = pair(values);
    env.compare(seen(a), seen(b))
}

fn cmp<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Int32(order(values, env) as i32))
}

fn eq<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Bool(order(values, env).is_eq()))
}

fn ne<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Bool(order(values, env).is_ne()))
}

fn gt<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Bool(order(values, env).is_gt()))
}

fn gte<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Bool(order(values, env).is_ge()))
}

fn lt<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Bool(order(values, env).is_lt()))
}

fn lte<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Bool(order(values, env).is_le()))
}
