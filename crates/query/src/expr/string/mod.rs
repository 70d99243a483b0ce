//! Strings: joining, splitting, cutting, searching; `pattern` has regular expressions, `text` the
//! functions on one text.

mod pattern;
mod text;

use super::Env;
use super::arithmetic::pair;
use super::array::search_bound;
use super::convert;
use super::number::to_double;
use super::operator::{MANY, Operator, optional, required};
use crate::show::show;
use value::{Code, Error, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::new("$concat", 0, MANY, concat),
    Operator::new("$indexOfBytes", 2, 4, index_of_bytes),
    Operator::new("$indexOfCP", 2, 4, index_of_cp),
    Operator::named("$ltrim", TRIM, 50696, 50694, text::ltrim),
    Operator::special_lazy("$regexFind", pattern::parse, pattern::find),
    Operator::special_lazy("$regexFindAll", pattern::parse, pattern::find_all),
    Operator::special_lazy("$regexMatch", pattern::parse, pattern::matches),
    Operator::named("$replaceAll", REPLACE, 51751, 51750, text::replace_all),
    Operator::named("$replaceOne", REPLACE, 51751, 51750, text::replace_one),
    Operator::named("$rtrim", TRIM, 50696, 50694, text::rtrim),
    Operator::new("$split", 2, 2, split),
    Operator::new("$strLenBytes", 1, 1, text::length_bytes),
    Operator::new("$strLenCP", 1, 1, text::length_cp),
    Operator::new("$strcasecmp", 2, 2, text::strcasecmp),
    Operator::new("$substr", 3, 3, substr_bytes),
    Operator::new("$substrBytes", 3, 3, substr_bytes),
    Operator::new("$substrCP", 3, 3, substr_cp),
    Operator::new("$toLower", 1, 1, text::to_lower),
    Operator::new("$toUpper", 1, 1, text::to_upper),
    Operator::named("$trim", TRIM, 50696, 50694, text::trim),
];

static TRIM: &[super::operator::Parameter] = &[required("input", 50695), optional("chars")];
static REPLACE: &[super::operator::Parameter] =
    &[required("input", 51749), required("find", 51748), required("replacement", 51747)];

fn concat<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let mut text = String::new();
    for value in values {
        match value {
            Val::String(part) => text.push_str(part),
            value if value.is_nullish() => return Ok(Val::Null),
            other => {
                return Err(Error::new(
                    Code(16702),
                    format!("$concat only supports strings, not {}", other.kind().name()),
                ));
            }
        }
        super::env::check_size(text.len())?;
    }
    Ok(env.text(&text))
}

fn split<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let (text, separator) = pair(values);
    if text.is_nullish() || separator.is_nullish() {
        return Ok(Val::Null);
    }
    let check = |value: Val<'a>, code: i32, place: &str| {
        value.as_str().ok_or_else(|| {
            Error::new(
                Code(code),
                format!(
                    "$split requires an expression that evaluates to a string as a {place} \
                     argument, found: {}",
                    value.kind().name()
                ),
            )
        })
    };
    let text = check(text, 40085, "first")?;
    if let Val::Regex(..) = separator {
        let cuts = pattern::ranges("$split", separator, text, usize::MAX)?;
        let mut parts = Vec::with_capacity(cuts.len() + 1);
        let mut from = 0;
        for (start, end) in cuts {
            parts.push(Val::String(text.get(from..start).unwrap_or("")));
            from = end;
        }
        parts.push(Val::String(text.get(from..).unwrap_or("")));
        return env.array(parts.into_iter());
    }
    let separator = check(separator, 40086, "second")?;
    if separator.is_empty() {
        return Err(Error::new(Code(40087), "$split requires a non-empty separator"));
    }
    env.array(text.split(separator).map(Val::String))
}

/// Text and pattern of a search; `None` where the result is null.
fn search_operands<'a>(
    name: &str,
    code: i32,
    values: &[Val<'a>],
) -> Result<Option<(&'a str, &'a str)>> {
    let (text, wanted) = pair(values);
    if text.is_nullish() {
        return Ok(None);
    }
    let check = |value: Val<'a>, code: i32, place: &str| {
        value.as_str().ok_or_else(|| {
            Error::new(
                Code(code),
                format!(
                    "{name} requires a string as the {place} argument, found: {}",
                    value.kind().name()
                ),
            )
        })
    };
    Ok(Some((check(text, code, "first")?, check(wanted, code + 1, "second")?)))
}

fn index_result<'a>(found: Option<usize>) -> Val<'a> {
    Val::Int32(found.and_then(|at| i32::try_from(at).ok()).unwrap_or(-1))
}

fn index_of_bytes<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let name = "$indexOfBytes";
    let Some((text, wanted)) = search_operands(name, 40091, values)? else {
        return Ok(Val::Null);
    };
    let start = search_bound(name, values, 2, "starting")?.unwrap_or(0);
    let end = search_bound(name, values, 3, "ending")?.unwrap_or(text.len()).min(text.len());
    let part = text.as_bytes().get(start..end);
    let found = part.and_then(|part| {
        if wanted.is_empty() {
            return Some(0);
        }
        part.windows(wanted.len()).position(|window| window == wanted.as_bytes())
    });
    Ok(index_result(found.map(|at| at + start)))
}

fn index_of_cp<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let name = "$indexOfCP";
    let Some((text, wanted)) = search_operands(name, 40093, values)? else {
        return Ok(Val::Null);
    };
    let start = search_bound(name, values, 2, "starting")?.unwrap_or(0);
    let end = search_bound(name, values, 3, "ending")?.unwrap_or(usize::MAX);
    if end < start {
        return Ok(Val::Int32(-1));
    }
    let byte_of = |place: usize| {
        text.char_indices().nth(place).map_or_else(
            || if place <= text.chars().count() { Some(text.len()) } else { None },
            |(at, _)| Some(at),
        )
    };
    // After the last character nothing is found, not even the empty string, except in an empty
    // string.
    if start > 0 && start == text.chars().count() {
        return Ok(Val::Int32(-1));
    }
    let Some(from) = byte_of(start) else { return Ok(Val::Int32(-1)) };
    let to = byte_of(end).unwrap_or(text.len());
    let part = text.get(from..to).unwrap_or("");
    let found = part.find(wanted).and_then(|at| part.get(..at)).map(|head| head.chars().count());
    Ok(index_result(found.map(|at| at + start)))
}

fn check_numeric(value: Val<'_>, code: i32, operator: &str, what: &str) -> Result<()> {
    match value.is_number() {
        true => Ok(()),
        false => Err(Error::new(
            Code(code),
            format!(
                "{operator} {what} must be a numeric type (is BSON type {})",
                value.kind().name()
            ),
        )),
    }
}

/// Cuts by bytes; a cut inside of a character is refused.
fn substr_bytes<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let (text, start) = pair(values);
    let length = values.get(2).copied().unwrap_or(Val::Missing);
    let text = convert::coerce_to_text(text)?;
    let whole = |value: Val<'_>, code: i32, what: &str| {
        check_numeric(value, code, "$substrBytes: ", what)?;
        // Fractions of doubles are cut off, those of decimals rounded.
        match value {
            Val::Int64(n) => Some(n),
            Val::Decimal(n) => n.to_i64_round(),
            value => value::number::double_to_i64_exact(to_double(value).trunc()),
        }
        .ok_or_else(|| {
            Error::new(
                Code(31109),
                format!("Can't coerce out of range value {} to long", show(value)),
            )
        })
    };
    let start = whole(start, 16034, "starting index")?;
    let length = whole(length, 16035, "length")?;
    let Ok(start) = usize::try_from(start) else {
        return Err(Error::new(
            Code(50752),
            format!("$substrBytes:  starting index must be non-negative (got: {start})"),
        ));
    };
    if start >= text.len() {
        return Ok(env.text(""));
    }
    let end = usize::try_from(length)
        .ok()
        .and_then(|length| start.checked_add(length))
        .map_or(text.len(), |end| end.min(text.len()));
    if !text.is_char_boundary(start) {
        return Err(Error::new(
            Code(28656),
            "$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.",
        ));
    }
    if !text.is_char_boundary(end) {
        return Err(Error::new(
            Code(28657),
            "$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character.",
        ));
    }
    Ok(env.text(text.get(start..end).unwrap_or("")))
}

/// Cuts by characters.
fn substr_cp<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let (text, start) = pair(values);
    let length = values.get(2).copied().unwrap_or(Val::Missing);
    let text = convert::coerce_to_text(text)?;
    let whole = |value: Val<'_>, code: i32, what: &str| {
        check_numeric(value, code, "$substrCP:", what)?;
        super::number::to_i32_exact(value).ok_or_else(|| {
            Error::new(
                Code(code + 1),
                format!(
                    "$substrCP: {what} cannot be represented as a 32-bit integral value: {}",
                    show(value)
                ),
            )
        })
    };
    let start = whole(start, 34450, "starting index")?;
    let length = whole(length, 34452, "length")?;
    let length = usize::try_from(length)
        .map_err(|_| Error::new(Code(34454), "$substrCP: length must be a nonnegative integer."))?;
    let start = usize::try_from(start).map_err(|_| {
        Error::new(Code(34455), "$substrCP: the starting index must be nonnegative integer.")
    })?;
    let cut: String = text.chars().skip(start).take(length).collect();
    Ok(env.text(&cut))
}
