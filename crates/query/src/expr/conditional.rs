//! `$cond`, `$ifNull`, `$switch`: only the branch that is taken is evaluated.

use super::operator::Operator;
use super::parse::Parser;
use super::{Call, Env, Node};
use value::{Code, Error, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::special_lazy("$cond", parse_cond, cond),
    Operator::special_lazy("$ifNull", parse_if_null, if_null),
    Operator::special_lazy("$switch", parse_switch, switch),
];

fn parse_cond(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let Val::Document(doc) = value else {
        let arguments = parser.operands(value)?;
        if arguments.len() != 3 {
            return Err(Error::new(
                Code(16020),
                format!(
                    "Expression $cond takes exactly 3 arguments. {} were passed in.",
                    arguments.len()
                ),
            ));
        }
        return decide(parser, operator, arguments);
    };
    let (mut condition, mut then, mut other) = (None, None, None);
    for (name, operand) in doc {
        let slot = match name {
            "if" => &mut condition,
            "then" => &mut then,
            "else" => &mut other,
            unknown => {
                return Err(Error::new(
                    Code(17083),
                    format!("Unrecognized parameter to $cond: {unknown}"),
                ));
            }
        };
        *slot = Some(parser.parse(operand.get())?);
    }
    let missing = |code: i32, name: &str| {
        Error::new(Code(code), format!("Missing '{name}' parameter to $cond"))
    };
    let arguments = vec![
        condition.ok_or_else(|| missing(17080, "if"))?,
        then.ok_or_else(|| missing(17081, "then"))?,
        other.ok_or_else(|| missing(17082, "else"))?,
    ];
    decide(parser, operator, arguments)
}

/// A `$cond` of its three operands. If the condition is constant, it is the branch that is taken.
fn decide(
    parser: &Parser<'_>,
    operator: &'static Operator,
    mut arguments: Vec<Node>,
) -> Result<Node> {
    match arguments.first().and_then(Node::as_constant).map(Val::truthy) {
        Some(condition) => Ok(arguments.swap_remove(if condition { 1 } else { 2 })),
        None => operator.call(parser, arguments),
    }
}

fn cond<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let branch = if call.argument(0, env)?.truthy() { 1 } else { 2 };
    call.argument(branch, env)
}

fn parse_if_null(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let arguments = parser.operands(value)?;
    if arguments.len() < 2 {
        return Err(Error::new(
            Code(1257300),
            format!("$ifNull needs at least two arguments, had: {}", arguments.len()),
        ));
    }
    // Null constants are skipped; operands after any other constant are never used.
    let mut left = Vec::new();
    let last = arguments.len() - 1;
    for (at, argument) in arguments.into_iter().enumerate() {
        match argument.as_constant().map(Val::is_nullish) {
            Some(true) if at < last => {}
            Some(false) if left.is_empty() => return Ok(argument),
            Some(false) => {
                left.push(argument);
                break;
            }
            _ => left.push(argument),
        }
    }
    match <[Node; 1]>::try_from(left) {
        Ok([only]) => Ok(only),
        Err(left) => operator.call(parser, left),
    }
}

/// The value of a node, or null where it is missing.
pub(super) fn or_null(parser: &Parser<'_>, node: Node) -> Result<Node> {
    match (OPERATORS.iter().find(|operator| operator.name == "$ifNull"), &node) {
        (Some(operator), Node::Field(_) | Node::Variable { .. } | Node::Call(_)) => {
            operator.call(parser, vec![node, Node::constant(Val::Null)])
        }
        (_, Node::Constant(value)) if value.get().is_missing() => Ok(Node::constant(Val::Null)),
        _ => Ok(node),
    }
}

fn if_null<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let mut value = Val::Missing;
    for argument in &call.arguments {
        value = argument.eval(env)?;
        if !value.is_nullish() {
            break;
        }
    }
    Ok(value)
}

/// Arguments are case, then, case, then, ..., and the default at the end if there is one.
fn parse_switch(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let Val::Document(doc) = value else {
        return Err(Error::new(
            Code(40060),
            format!("$switch requires an object as an argument, found: {}", value.kind().name()),
        ));
    };
    let mut branches = Branches::default();
    let mut default = None;
    for (name, operand) in doc {
        match name {
            "branches" => {
                let Some(list) = operand.as_array() else {
                    return Err(Error::new(
                        Code(40061),
                        format!(
                            "$switch expected an array for 'branches', found: {}",
                            operand.kind().name()
                        ),
                    ));
                };
                for (_, branch) in list {
                    branches.add(parser, branch.get())?;
                }
            }
            "default" => default = Some(parser.parse(operand.get())?),
            unknown => {
                return Err(Error::new(
                    Code(40067),
                    format!("$switch found an unknown argument: {unknown}"),
                ));
            }
        }
    }
    if branches.count == 0 {
        return Err(Error::new(Code(40068), "$switch requires at least one branch"));
    }
    let mut arguments = branches.open;
    let default = branches.always.or(default);
    match default {
        // There is no case that can be true.
        Some(default) if arguments.is_empty() => return Ok(default),
        None if arguments.is_empty() => {
            return Err(Error::new(
                Code(40069),
                "Cannot execute a switch statement where all the cases evaluate to false without \
                 a default.",
            ));
        }
        default => arguments.extend(default),
    }
    operator.call(parser, arguments)
}

/// The branches of a `$switch`. As in MongoDB, nothing in a branch that is never taken is computed,
/// not even constants.
#[derive(Default)]
struct Branches {
    /// The number of branches in the specification.
    count: usize,
    /// Cases and results of the branches that can be taken.
    open: Vec<Node>,
    /// The result of the first branch whose case is a constant that is true.
    always: Option<Node>,
}

impl Branches {
    fn add(&mut self, parser: &mut Parser<'_>, branch: Val<'_>) -> Result<()> {
        let Val::Document(branch) = branch else {
            return Err(Error::new(
                Code(40062),
                format!(
                    "$switch expected each branch to be an object, found: {}",
                    branch.kind().name()
                ),
            ));
        };
        let (mut case, mut then) = (None, None);
        for (name, operand) in branch {
            match name {
                "case" => case = Some(operand.get()),
                "then" => then = Some(operand.get()),
                unknown => {
                    return Err(Error::new(
                        Code(40063),
                        format!("$switch found an unknown argument to a branch: {unknown}"),
                    ));
                }
            }
        }
        let case = case.ok_or_else(|| {
            Error::new(Code(40064), "$switch requires each branch have a 'case' expression")
        })?;
        let then = then.ok_or_else(|| {
            Error::new(Code(40065), "$switch requires each branch have a 'then' expression.")
        })?;
        self.count += 1;
        if self.always.is_some() {
            return parser.leniently(|parser| parser.parse(case).and(parser.parse(then))).map(drop);
        }
        let case = parser.parse(case)?;
        match case.as_constant().map(Val::truthy) {
            Some(false) => parser.leniently(|parser| parser.parse(then)).map(drop)?,
            Some(true) => self.always = Some(parser.parse(then)?),
            None => self.open.extend([case, parser.parse(then)?]),
        }
        Ok(())
    }
}

fn switch<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let (branches, default) = call.arguments.as_chunks::<2>();
    for [case, then] in branches {
        if case.eval(env)?.truthy() {
            return then.eval(env);
        }
    }
    match default.first() {
        Some(default) => default.eval(env),
        None => Err(Error::new(
            Code(40066),
            "$switch could not find a matching branch for an input, and no default was specified.",
        )),
    }
}
