//! `$regexMatch`, `$regexFind`, `$regexFindAll`.

use super::super::operator::Operator;
use super::super::parse::Parser;
use super::super::{Call, Env, Node};
use crate::regex::{Groups, Regex, TOO_MANY_STEPS};
use std::borrow::Cow;
use value::{Code, Error, Result, Val};

/// Arguments are input, regex, options; a constant pattern is compiled here.
pub(super) fn parse(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let name = operator.name;
    let Val::Document(doc) = value else {
        return Err(Error::new(
            Code(51103),
            format!(
                "{name} expects an object of named arguments but found: {}",
                value.kind().name()
            ),
        ));
    };
    let (mut input, mut regex, mut options) = (None, None, None);
    for (argument, operand) in doc {
        let slot = match argument {
            "input" => &mut input,
            "regex" => &mut regex,
            "options" => &mut options,
            unknown => {
                return Err(Error::new(
                    Code(31024),
                    format!("{name} found an unknown argument: {unknown}"),
                ));
            }
        };
        *slot = Some(parser.parse(operand.get())?);
    }
    let missing = |code: i32, what: &str| {
        Error::new(Code(code), format!("{name} requires '{what}' parameter"))
    };
    let input = input.ok_or_else(|| missing(31022, "input"))?;
    let regex = regex.ok_or_else(|| missing(31023, "regex"))?;
    let options = options.unwrap_or_else(|| Node::constant(Val::Missing));
    let compiled = match (regex.as_constant(), options.as_constant()) {
        (Some(regex), Some(options)) => match compile(name, regex, options) {
            // Calling it fails with the same error.
            Err(_) if parser.is_lenient() => None,
            compiled => compiled?,
        },
        _ => None,
    };
    Ok(Node::Call(Box::new(Call {
        operator,
        arguments: vec![input, regex, options],
        slot: 0,
        regex: compiled,
        script: None,
    })))
}

/// The compiled pattern; `None` where it is null.
fn compile(name: &str, regex: Val<'_>, options: Val<'_>) -> Result<Option<Regex>> {
    let wrong =
        || Error::new(Code(51105), format!("{name} needs 'regex' to be of type string or regex"));
    if !matches!(regex, Val::String(_) | Val::Regex(..)) && !regex.is_nullish() {
        return Err(wrong());
    }
    let written = match options {
        Val::String(options) => Some(options),
        value if value.is_nullish() => None,
        _ => {
            return Err(Error::new(
                Code(51106),
                format!("{name} needs 'options' to be of type string"),
            ));
        }
    };
    refuse_flags(name, written.unwrap_or(""))?;
    let (pattern, options) = match regex {
        Val::String(pattern) => (pattern, written.unwrap_or("")),
        Val::Regex(pattern, own) => {
            if !own.is_empty() && written.is_some() {
                return Err(Error::new(
                    Code(51107),
                    format!(
                        "{name}: found regex option(s) specified in both 'regex' and 'option' fields"
                    ),
                ));
            }
            (pattern, written.unwrap_or(own))
        }
        value if value.is_nullish() => return Ok(None),
        _ => return Err(wrong()),
    };
    refuse_flags(name, options)?;
    if pattern.contains('\0') {
        return Err(Error::new(
            Code(51109),
            format!("{name}: regular expression cannot contain an embedded null byte"),
        ));
    }
    Regex::in_expression(pattern, options).map(Some).map_err(|error| {
        Error::new(Code(51111), format!("Invalid Regex in {name}: {}", Regex::refusal(&error)))
    })
}

/// The error of a search, with the name of the operator.
fn named(name: &str, error: Error) -> Error {
    if error.code() != TOO_MANY_STEPS {
        return error;
    }
    let message = error.message().replacen("expression.", &format!("expression in {name}."), 1);
    Error::new(TOO_MANY_STEPS, message)
}

/// The first match at or after byte `start`.
fn search(name: &str, regex: &Regex, text: &str, start: usize) -> Result<Option<Groups>> {
    let found = regex.captures_at(text, start).map_err(|error| named(name, error))?;
    // `\K` in a look-ahead can put the start behind the end.
    if let Some([Some((from, to)), ..]) = found.as_deref()
        && from > to
    {
        return Err(Error::new(
            Code(31307),
            format!(
                "Unexpected error occurred while executing {name}. startPos: {from}, limitPos: {to}"
            ),
        ));
    }
    Ok(found)
}

fn refuse_flags(name: &str, options: &str) -> Result<()> {
    match options.chars().find(|c| !"imsxu".contains(*c)) {
        None => Ok(()),
        Some(bad) => {
            Err(Error::new(Code(51108), format!("{name} invalid flag in regex options: {bad}")))
        }
    }
}

/// Input and pattern; `None` where one of them is null.
fn operands<'a>(call: &'a Call, env: &Env<'a>) -> Result<Option<(&'a str, Cow<'a, Regex>)>> {
    let name = call.operator.name;
    let input = call.argument(0, env)?;
    if !matches!(input, Val::String(_)) && !input.is_nullish() {
        return Err(Error::new(Code(51104), format!("{name} needs 'input' to be of type string")));
    }
    let regex = match &call.regex {
        Some(regex) => Some(Cow::Borrowed(regex)),
        None => compile(name, call.argument(1, env)?, call.argument(2, env)?)?.map(Cow::Owned),
    };
    match (input, regex) {
        (Val::String(text), Some(regex)) => Ok(Some((text, regex))),
        _ => Ok(None),
    }
}

pub(super) fn matches<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    match operands(call, env)? {
        None => Ok(Val::Bool(false)),
        Some((text, regex)) => {
            let name = call.operator.name;
            Ok(Val::Bool(regex.is_match(text).map_err(|error| named(name, error))?))
        }
    }
}

/// A match as a document. `counted` is the number of characters before a byte position, from which
/// counting continues.
fn found<'a>(
    text: &'a str,
    groups: &Groups,
    counted: &mut (usize, usize),
    env: &Env<'a>,
) -> Result<Val<'a>> {
    let cut = |range: (usize, usize)| text.get(range.0..range.1).unwrap_or("");
    let (whole, groups) = match groups.split_first() {
        Some((Some(whole), groups)) => (*whole, groups),
        _ => return Ok(Val::Null),
    };
    let (byte, characters) = *counted;
    let place = characters + text.get(byte..whole.0).map_or(0, |part| part.chars().count());
    *counted = (whole.0, place);
    env.document(|out| {
        out.str("match", cut(whole)).i32("idx", i32::try_from(place).unwrap_or(i32::MAX));
        out.array("captures", |captures| {
            for group in groups {
                captures.push(group.map_or(Val::Null, |range| Val::String(cut(range))));
            }
        });
    })
}

pub(super) fn find<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let Some((text, regex)) = operands(call, env)? else { return Ok(Val::Null) };
    match search(call.operator.name, &regex, text, 0)? {
        None => Ok(Val::Null),
        Some(groups) => found(text, &groups, &mut (0, 0), env),
    }
}

/// The ranges of text that a regular expression matches, up to a limit; empty matches are skipped.
pub(super) fn ranges(
    name: &str,
    regex: Val<'_>,
    text: &str,
    most: usize,
) -> Result<Vec<(usize, usize)>> {
    let mut found = Vec::new();
    let Some(regex) = compile(name, regex, Val::Missing)? else { return Ok(found) };
    let mut start = 0;
    while start < text.len() && found.len() < most {
        let Some(groups) = search(name, &regex, text, start)? else { break };
        let Some(Some((from, to))) = groups.first().copied() else { break };
        if to > from {
            found.push((from, to));
            start = to;
        } else {
            let next = text.get(to..).and_then(|rest| rest.chars().next());
            start = to + next.map_or(1, char::len_utf8);
        }
    }
    Ok(found)
}

pub(super) fn find_all<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let mut results = Vec::new();
    if let Some((text, regex)) = operands(call, env)? {
        let (mut start, mut counted) = (0, (0, 0));
        // The search stops at the end of the text, as in MongoDB.
        while start < text.len() || (text.is_empty() && results.is_empty()) {
            let Some(groups) = search(call.operator.name, &regex, text, start)? else { break };
            let Some(Some((from, to))) = groups.first().copied() else { break };
            results.push(found(text, &groups, &mut counted, env)?);
            env.check_memory()?;
            start = if to > from {
                to
            } else {
                // After an empty match the search continues after the next character.
                let next = text.get(to..).and_then(|rest| rest.chars().next());
                to + next.map_or(1, char::len_utf8)
            };
        }
    }
    env.array(results.into_iter())
}
