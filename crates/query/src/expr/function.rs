//! `$function`: a function in JavaScript, and its like for the `map` of `mapReduce`.

use super::operator::Operator;
use super::parse::Parser;
use super::{Call, Env, Node};
use crate::path_values::copy_into;
use crate::script::{self, Script};
use smallvec::SmallVec;
use std::sync::Arc;
use value::{Code, Error, RawDoc, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::special_lazy(EMIT, parse_emit, eval_emit).impure(),
    Operator::special_lazy("$function", parse_function, eval_function).impure(),
];

/// What `mapReduce` makes of its `map`: an array of what the function emits for a document. It is
/// written as `{eval: function}`.
const EMIT: &str = "$_internalJsEmit";

fn parse_function(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let doc = value.as_doc().ok_or_else(|| {
        let found = value.kind().name();
        Error::new(
            Code(31260),
            format!("$function requires an object as an argument, found: {found}"),
        )
    })?;
    script::check_enabled(parser.context())?;
    let field = |name: &str, code: i32| {
        let what = if name == "body" { "body function" } else { &format!("{name} field") };
        doc.get(name)
            .ok_or_else(|| Error::new(Code(code), format!("The {what} must be specified.")))
    };
    let body = field("body", 31261)?;
    let source = script::source(body).ok_or_else(|| {
        Error::new(Code(31262), "The body function must evaluate to type string or code")
    })?;
    let args = field("args", 31263)?;
    if field("lang", 31418)?.as_str() != Some("js") {
        let message = "Currently the only supported language specifier is 'js'.";
        return Err(Error::new(Code(31419), message));
    }
    let args = parser.parse(args)?;
    Ok(call(operator, parser, source, Some(args)))
}

fn parse_emit(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let source = value.as_doc().and_then(|doc| doc.get("eval")).and_then(script::source);
    let Some(source) = source else {
        return Err(Error::new(Code(31221), format!("{EMIT} requires a function as 'eval'")));
    };
    script::check_enabled(parser.context())?;
    // It reads the whole document.
    Ok(call(operator, parser, source, Some(Node::Field(Vec::new()))))
}

fn call(
    operator: &'static Operator,
    parser: &Parser<'_>,
    source: String,
    args: Option<Node>,
) -> Node {
    // The source is an operand, so that calls of different functions are not taken for the same.
    let mut arguments = vec![Node::constant(Val::Code(&source))];
    arguments.extend(args);
    let script = Some(Arc::new(Script::new(vec![source], parser.context())));
    Node::Call(Box::new(Call { operator, arguments, slot: 0, regex: None, script }))
}

fn eval_function<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let Val::Array(args) = call.argument(1, env)? else {
        return Err(Error::new(Code(31266), "The args field must be of type array"));
    };
    let args: SmallVec<[Val<'_>; 4]> = args.iter().map(|(_, value)| value.get()).collect();
    let result = script(call)?.call(0, &args)?;
    // A function without a result gives null.
    let result = if result.get() == Val::Undefined { Val::Null } else { result.get() };
    let result = copy_into(result, env.arena());
    env.check_memory()?;
    Ok(result)
}

fn eval_emit<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let doc = call.argument(1, env)?.as_doc().unwrap_or(RawDoc::empty());
    let emitted = script(call)?.emitted(doc)?;
    let emitted = copy_into(emitted.get(), env.arena());
    env.check_memory()?;
    Ok(emitted)
}

fn script(call: &Call) -> Result<&Script> {
    call.script.as_deref().ok_or_else(|| Error::internal("a function has its script"))
}
