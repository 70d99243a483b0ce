//! Variables and literals: `$let`, `$literal`, `$meta`, and operators without operands (`$rand`, `$createUUID`, ..).

use super::operator::Operator;
use super::parse::{Parser, check_variable_name};
use super::{Call, Env, Node};
use value::{Code, Error, ObjectId, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::special("$const", parse_literal, nothing),
    Operator::special("$createObjectId", parse_nothing, create_object_id).impure(),
    Operator::special("$createUUID", parse_nothing, create_uuid).impure(),
    Operator::special("$expr", parse_expr, nothing),
    Operator::special_lazy("$let", parse_let, eval_let),
    Operator::special("$literal", parse_literal, nothing),
    Operator::special_lazy("$meta", parse_meta, meta),
    Operator::special("$rand", parse_rand, rand).impure(),
];

/// The keywords of `$meta`.
static META_KEYWORDS: &[&str] = &[
    "geoNearDistance",
    "geoNearPoint",
    "indexKey",
    "patterns",
    "randVal",
    "recordId",
    "searchHighlights",
    "searchScore",
    "searchScoreDetails",
    "sortKey",
    "textScore",
    "timeseriesBucketMaxTime",
    "timeseriesBucketMinTime",
    "vectorSearchScore",
];

fn parse_literal(_: &mut Parser<'_>, _: &'static Operator, value: Val<'_>) -> Result<Node> {
    Ok(Node::constant(value))
}

/// `$expr`: an expression written as one.
fn parse_expr(parser: &mut Parser<'_>, _: &'static Operator, value: Val<'_>) -> Result<Node> {
    parser.parse(value)
}

fn nothing<'a>(_: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Missing)
}

fn parse_let(parser: &mut Parser<'_>, operator: &'static Operator, value: Val<'_>) -> Result<Node> {
    let Val::Document(doc) = value else {
        return Err(Error::new(Code(16874), "$let only supports an object as its argument"));
    };
    let (mut variables, mut body) = (None, None);
    for (name, operand) in doc {
        match name {
            "vars" => {
                // An empty array is accepted as an empty document.
                variables =
                    Some(operand.as_doc().or_else(|| operand.as_array()).ok_or_else(|| {
                        Error::new(Code(10065), "invalid parameter: expected an object (vars)")
                    })?);
            }
            "in" => body = Some(operand.get()),
            unknown => {
                return Err(Error::new(
                    Code(16875),
                    format!("Unrecognized parameter to $let: {unknown}"),
                ));
            }
        }
    }
    let variables =
        variables.ok_or_else(|| Error::new(Code(16876), "Missing 'vars' parameter to $let"))?;
    let body = body.ok_or_else(|| Error::new(Code(16877), "Missing 'in' parameter to $let"))?;
    let mut names = Vec::new();
    let mut arguments = Vec::new();
    for (name, operand) in variables {
        if name != "CURRENT" {
            check_variable_name(name)?;
        }
        names.push(name);
        // The values are computed outside the new scope.
        arguments.push(parser.parse(operand.get())?);
    }
    let slot = parser.reserve(names.len());
    arguments.push(parser.with_variables(&names, slot, |parser| parser.parse(body))?);
    Ok(Node::Call(Box::new(Call { operator, arguments, slot, regex: None, script: None })))
}

fn eval_let<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let Some((body, variables)) = call.arguments.split_last() else { return Ok(Val::Missing) };
    for (at, variable) in variables.iter().enumerate() {
        env.bind(call.slot + at, variable.eval(env)?);
    }
    body.eval(env)
}

fn parse_meta(_: &mut Parser<'_>, operator: &'static Operator, value: Val<'_>) -> Result<Node> {
    let Some(keyword) = value.as_str() else {
        return Err(Error::new(Code(17307), "$meta only supports string arguments"));
    };
    if !META_KEYWORDS.contains(&keyword) {
        return Err(Error::new(Code(17308), format!("Unsupported argument to $meta: {keyword}")));
    }
    // Not folded: the value belongs to the document.
    let arguments = vec![Node::constant(value)];
    Ok(Node::Call(Box::new(Call { operator, arguments, slot: 0, regex: None, script: None })))
}

fn meta<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let keyword = call.argument(0, env)?.as_str().unwrap_or("");
    Ok(env.meta().get(keyword).unwrap_or(Val::Missing))
}

/// `{}` or `[]`: no operands.
pub(super) fn parse_nothing(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    match value {
        Val::Document(inside) | Val::Array(inside) if inside.is_empty() => {
            operator.call(parser, Vec::new())
        }
        _ => {
            Err(Error::new(Code(16020), format!("Expression {} takes no arguments", operator.name)))
        }
    }
}

fn parse_rand(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    match value {
        Val::Document(doc) if doc.is_empty() => operator.call(parser, Vec::new()),
        Val::Array(array) if array.is_empty() => operator.call(parser, Vec::new()),
        Val::Document(_) | Val::Array(_) => {
            Err(Error::new(Code(3040501), "$rand does not currently accept arguments"))
        }
        _ => Err(Error::new(Code(10065), "invalid parameter: expected an object ($rand)")),
    }
}

fn rand<'a>(_: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Double(fastrand::f64()))
}

fn create_object_id<'a>(_: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::ObjectId(ObjectId::generate()))
}

fn create_uuid<'a>(_: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Binary(4, env.arena().alloc_slice_copy(&value::random::uuid())))
}
