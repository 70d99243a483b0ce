//! Functions on one text: case, length, trimming, replacing.

use super::super::Env;
use super::super::arithmetic::pair;
use super::super::convert::coerce_to_text;
use crate::show::show;
use hashbrown::HashSet;
use std::cmp::Ordering;
use value::{Code, Error, Result, Val};

pub(super) fn to_lower<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    // Only ASCII letters change, as in MongoDB.
    Ok(env.text(&coerce_to_text(pair(values).0)?.to_ascii_lowercase()))
}

pub(super) fn to_upper<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    Ok(env.text(&coerce_to_text(pair(values).0)?.to_ascii_uppercase()))
}

pub(super) fn strcasecmp<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (a, b) = pair(values);
    let a = coerce_to_text(a)?.to_ascii_uppercase();
    let b = coerce_to_text(b)?.to_ascii_uppercase();
    Ok(Val::Int32(match a.as_bytes().cmp(b.as_bytes()) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

fn length<'a>(name: &str, code: i32, value: Val<'a>, count: fn(&str) -> usize) -> Result<Val<'a>> {
    match value {
        Val::String(text) => Ok(Val::Int32(i32::try_from(count(text)).unwrap_or(i32::MAX))),
        other => Err(Error::new(
            Code(code),
            format!("{name} requires a string argument, found: {}", other.kind().name()),
        )),
    }
}

pub(super) fn length_bytes<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    length("$strLenBytes", 34473, pair(values).0, str::len)
}

pub(super) fn length_cp<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    length("$strLenCP", 34471, pair(values).0, |text| text.chars().count())
}

/// The characters that are trimmed by default: white space and the null character.
fn is_blank(c: char) -> bool {
    c == '\0' || matches!(c, '\t'..='\r' | ' ' | '\u{A0}' | '\u{1680}' | '\u{2000}'..='\u{200A}')
}

fn trim_ends<'a>(
    name: &str,
    values: &[Val<'a>],
    env: &Env<'a>,
    left: bool,
    right: bool,
) -> Result<Val<'a>> {
    let (input, characters) = pair(values);
    if input.is_nullish() || matches!(characters, Val::Null | Val::Undefined) {
        return Ok(Val::Null);
    }
    let refuse = |code: i32, what: &str, value: Val<'_>| {
        Error::new(
            Code(code),
            format!(
                "{name} requires {what} to be a string, got {} (of type {}) instead.",
                show(value),
                value.kind().name()
            ),
        )
    };
    let Val::String(text) = input else { return Err(refuse(50699, "its input", input)) };
    let set: Option<HashSet<char>> = match characters {
        Val::Missing => None,
        Val::String(set) => Some(set.chars().collect()),
        other => return Err(refuse(50700, "'chars'", other)),
    };
    let cut = |c: char| set.as_ref().map_or_else(|| is_blank(c), |set| set.contains(&c));
    let mut text = text;
    if left {
        text = text.trim_start_matches(cut);
    }
    if right {
        text = text.trim_end_matches(cut);
    }
    Ok(env.text(text))
}

pub(super) fn trim<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    trim_ends("$trim", values, env, true, true)
}

pub(super) fn ltrim<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    trim_ends("$ltrim", values, env, true, false)
}

pub(super) fn rtrim<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    trim_ends("$rtrim", values, env, false, true)
}

/// The text with the matches of a regular expression replaced; `None` if the search is not a
/// regular expression.
fn replace_matches<'a>(
    name: &str,
    values: &[Val<'a>],
    most: usize,
    env: &Env<'a>,
) -> Result<Option<Val<'a>>> {
    let [Val::String(input), find @ Val::Regex(..), Val::String(replacement)] = values else {
        return Ok(None);
    };
    let mut text = String::with_capacity(input.len());
    let mut from = 0;
    for (start, end) in super::pattern::ranges(name, *find, input, most)? {
        text.push_str(input.get(from..start).unwrap_or(""));
        text.push_str(replacement);
        super::super::env::check_size(text.len())?;
        from = end;
    }
    text.push_str(input.get(from..).unwrap_or(""));
    Ok(Some(env.text(&text)))
}

fn replace_operands<'a>(
    name: &str,
    values: &[Val<'a>],
) -> Result<Option<(&'a str, &'a str, &'a str)>> {
    let (input, find) = pair(values);
    let replacement = values.get(2).copied().unwrap_or(Val::Missing);
    let check = |value: Val<'a>, code: i32, what: &str| match value {
        Val::String(text) => Ok(Some(text)),
        value if value.is_nullish() => Ok(None),
        other => Err(Error::new(
            Code(code),
            format!("{name} requires that '{what}' be a string, found: {}", show(other)),
        )),
    };
    let input = check(input, 51746, "input")?;
    let find = check(find, 51745, "find")?;
    let replacement = check(replacement, 51744, "replacement")?;
    Ok(match (input, find, replacement) {
        (Some(input), Some(find), Some(replacement)) => Some((input, find, replacement)),
        _ => None,
    })
}

pub(super) fn replace_one<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    if let Some(replaced) = replace_matches("$replaceOne", values, 1, env)? {
        return Ok(replaced);
    }
    Ok(match replace_operands("$replaceOne", values)? {
        None => Val::Null,
        Some((input, find, replacement)) => env.text(&input.replacen(find, replacement, 1)),
    })
}

pub(super) fn replace_all<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    if let Some(replaced) = replace_matches("$replaceAll", values, usize::MAX, env)? {
        return Ok(replaced);
    }
    let Some((input, find, replacement)) = replace_operands("$replaceAll", values)? else {
        return Ok(Val::Null);
    };
    let replaced =
        if find.is_empty() { input.chars().count() + 1 } else { input.matches(find).count() };
    super::super::env::check_size(replaced.saturating_mul(replacement.len()))?;
    Ok(env.text(&input.replace(find, replacement)))
}
