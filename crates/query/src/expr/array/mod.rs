//! Arrays: picking, slicing, searching, building, and the operators that run an expression over
//! each element (`iterate`), pair arrays with documents (`object`) or sort them (`sort`).

mod iterate;
mod object;
mod sort;
mod zip;

use super::arithmetic::pair;
use super::number::to_i32_exact;
use super::operator::{MANY, Operator};
use super::{Call, Env};
use crate::interrupt;
use crate::show::show;
use value::{Code, Error, RawDoc, RawVal, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::new("$arrayElemAt", 2, 2, array_elem_at),
    Operator::new("$arrayToObject", 1, 1, object::array_to_object),
    Operator::special_lazy("$bottom", sort::parse, sort::bottom),
    Operator::special_lazy("$bottomN", sort::parse, sort::bottom_n),
    Operator::new("$concatArrays", 0, MANY, concat_arrays),
    Operator::special_lazy("$filter", iterate::parse_filter, iterate::filter),
    Operator::new("$first", 1, 1, first),
    Operator::new("$in", 2, 2, contains),
    Operator::new("$indexOfArray", 2, 4, index_of_array),
    Operator::new("$isArray", 1, 1, is_array),
    Operator::new("$last", 1, 1, last),
    Operator::special_lazy("$map", iterate::parse_map, iterate::map),
    Operator::new("$range", 2, 3, range),
    Operator::special_lazy("$reduce", iterate::parse_reduce, iterate::reduce),
    Operator::new("$reverseArray", 1, 1, reverse_array),
    Operator::new("$similarityCosine", 2, 2, cosine),
    Operator::new("$similarityDotProduct", 2, 2, dot_product),
    Operator::new("$similarityEuclidean", 2, 2, euclidean),
    Operator::new("$size", 1, 1, size),
    Operator::new("$slice", 2, 3, slice),
    Operator::special_lazy("$sortArray", sort::parse, sort::sort_array),
    Operator::special_lazy("$top", sort::parse, sort::top),
    Operator::special_lazy("$topN", sort::parse, sort::top_n),
    Operator::special("$zip", zip::parse, zip::zip),
];

/// The element at an index; negative indexes count from the end.
fn element_at(array: RawDoc<'_>, at: i64) -> Val<'_> {
    let place = if at < 0 {
        let back = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
        array.count().checked_sub(back)
    } else {
        usize::try_from(at).ok()
    };
    place.and_then(|at| array.iter().nth(at)).map_or(Val::Missing, |(_, value)| value.get())
}

fn array_elem_at<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (array, at) = pair(values);
    if array.is_nullish() || at.is_nullish() {
        return Ok(Val::Null);
    }
    let Val::Array(array) = array else {
        return Err(Error::new(
            Code(28689),
            format!(
                "$arrayElemAt's first argument must be an array, but is {}",
                array.kind().name()
            ),
        ));
    };
    if !at.is_number() {
        return Err(Error::new(
            Code(28690),
            format!(
                "$arrayElemAt's second argument must be a numeric value, but is {}",
                at.kind().name()
            ),
        ));
    }
    let Some(place) = to_i32_exact(at) else {
        return Err(Error::new(
            Code(28691),
            format!(
                "$arrayElemAt's second argument must be representable as a 32-bit integer: {}",
                show(at)
            ),
        ));
    };
    Ok(element_at(array, i64::from(place)))
}

fn edge<'a>(name: &str, values: &[Val<'a>], at: i64) -> Result<Val<'a>> {
    match pair(values).0 {
        Val::Array(array) => Ok(element_at(array, at)),
        value if value.is_nullish() => Ok(Val::Null),
        other => Err(Error::new(
            Code(28689),
            format!("{name}'s argument must be an array, but is {}", other.kind().name()),
        )),
    }
}

fn first<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    edge("$first", values, 0)
}

fn last<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    edge("$last", values, -1)
}

fn concat_arrays<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let mut arrays = Vec::new();
    for value in values {
        match value {
            Val::Array(array) => arrays.push(*array),
            value if value.is_nullish() => return Ok(Val::Null),
            other => {
                return Err(Error::new(
                    Code(28664),
                    format!("$concatArrays only supports arrays, not {}", other.kind().name()),
                ));
            }
        }
    }
    raw_array(arrays.iter().flat_map(|array| array.iter().map(|(_, value)| value)), env)
}

/// An array of undecoded elements.
fn raw_array<'a, 'v>(elements: impl Iterator<Item = RawVal<'v>>, env: &Env<'a>) -> Result<Val<'a>> {
    let mut bytes = Vec::with_capacity(128);
    value::writer::write_array(&mut bytes, |out| {
        elements.for_each(|element| out.push_raw(element));
    });
    Ok(Val::Array(env.keep(&bytes)?))
}

fn contains<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let (value, array) = pair(values);
    let Val::Array(array) = array else {
        return Err(Error::new(
            Code(40081),
            format!("$in requires an array as a second argument, found: {}", array.kind().name()),
        ));
    };
    Ok(Val::Bool(array.iter().any(|(_, element)| env.compare(element.get(), value).is_eq())))
}

/// An index operand of `$indexOfArray`, `$indexOfBytes` or `$indexOfCP`.
pub(super) fn search_bound(
    name: &str,
    values: &[Val<'_>],
    at: usize,
    what: &str,
) -> Result<Option<usize>> {
    let Some(value) = values.get(at).copied() else { return Ok(None) };
    let Some(index) = to_i32_exact(value) else {
        return Err(Error::new(
            Code(40096),
            format!(
                "{name}requires an integral {what} index, found a value of type: {}, with value: {}",
                value.kind().name(),
                show(value)
            ),
        ));
    };
    usize::try_from(index).map(Some).map_err(|_| {
        Error::new(
            Code(40097),
            format!("{name} requires a nonnegative {what} index, found: {index}"),
        )
    })
}

fn index_of_array<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let (array, wanted) = pair(values);
    if array.is_nullish() {
        return Ok(Val::Null);
    }
    let Val::Array(array) = array else {
        return Err(Error::new(
            Code(40090),
            format!(
                "$indexOfArray requires an array as a first argument, found: {}",
                array.kind().name()
            ),
        ));
    };
    let start = search_bound("$indexOfArray", values, 2, "starting")?.unwrap_or(0);
    let end = search_bound("$indexOfArray", values, 3, "ending")?.unwrap_or(usize::MAX);
    let found = array
        .iter()
        .enumerate()
        .take(end)
        .skip(start)
        .find(|(_, (_, element))| env.compare(element.get(), wanted).is_eq());
    Ok(Val::Int32(found.and_then(|(at, _)| i32::try_from(at).ok()).unwrap_or(-1)))
}

fn is_array<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Bool(matches!(pair(values).0, Val::Array(_))))
}

fn range<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let whole = |at: usize, what: &str, code: i32| -> Result<i64> {
        let value = values.get(at).copied().unwrap_or(Val::Missing);
        if !value.is_number() {
            return Err(Error::new(
                Code(code),
                format!(
                    "$range requires a numeric {what} value, found value of type: {}",
                    value.kind().name()
                ),
            ));
        }
        to_i32_exact(value).map(i64::from).ok_or_else(|| {
            Error::new(
                Code(code + 1),
                format!(
                    "$range requires a {what} value that can be represented as a 32-bit integer, \
                     found value: {}",
                    show(value)
                ),
            )
        })
    };
    let start = whole(0, "starting", 34443)?;
    let end = whole(1, "ending", 34445)?;
    let step = if values.len() > 2 { whole(2, "step", 34447)? } else { 1 };
    if step == 0 {
        return Err(Error::new(Code(34449), "$range requires a non-zero step value"));
    }
    let count = ((end - start + step - step.signum()) / step).max(0);
    // The approximate size of the array: type, number and name of each element.
    let bytes = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(16);
    if bytes > value::limits::BLOCKING_STAGE_BYTES_MAX {
        return Err(Error::new(
            Code::EXCEEDED_MEMORY_LIMIT,
            format!(
                "$range would use too much memory ({bytes} bytes) and cannot spill to disk. Memory \
                 limit: {} bytes",
                value::limits::BLOCKING_STAGE_BYTES_MAX
            ),
        ));
    }
    interrupt::charge(usize::try_from(count).unwrap_or(0))?;
    env.array((0..count).map(|n| Val::Int32(i32::try_from(start + n * step).unwrap_or(0))))
}

fn reverse_array<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    match pair(values).0 {
        Val::Array(array) => {
            let elements: Vec<RawVal<'_>> = array.iter().map(|(_, value)| value).collect();
            raw_array(elements.into_iter().rev(), env)
        }
        value if value.is_nullish() => Ok(Val::Null),
        other => Err(Error::new(
            Code(34435),
            format!(
                "The argument to $reverseArray must be an array, but was of type: {}",
                other.kind().name()
            ),
        )),
    }
}

fn size<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    match pair(values).0 {
        Val::Array(array) => Ok(Val::Int32(i32::try_from(array.count()).unwrap_or(i32::MAX))),
        other => Err(Error::new(
            Code(17124),
            format!(
                "The argument to $size must be an array, but was of type: {}",
                other.kind().name()
            ),
        )),
    }
}

fn slice<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let (array, start) = pair(values);
    let length = values.get(2).copied();
    if array.is_nullish() || start.is_nullish() || length.is_some_and(Val::is_nullish) {
        return Ok(Val::Null);
    }
    let Val::Array(array) = array else {
        return Err(Error::new(
            Code(28724),
            format!(
                "First argument to $slice must be an array, but is of type: {}",
                array.kind().name()
            ),
        ));
    };
    let whole = |value: Val<'_>, place: &str, what: &str, code: i32| -> Result<i32> {
        if !value.is_number() {
            return Err(Error::new(
                Code(code),
                format!(
                    "{place} argument to $slice must be {what}, but is of type: {}",
                    value.kind().name()
                ),
            ));
        }
        to_i32_exact(value).ok_or_else(|| {
            Error::new(
                Code(code + 1),
                format!(
                    "{place} argument to $slice can't be represented as a 32-bit integer: {}",
                    show(value)
                ),
            )
        })
    };
    let start = whole(start, "Second", "a numeric value", 28725)?;
    let magnitude = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
    let count = array.count();
    let (skip, take) = match length {
        None if start < 0 => (count.saturating_sub(magnitude), magnitude),
        None => (0, magnitude),
        Some(length) => {
            let length = whole(length, "Third", "numeric", 28727)?;
            let Some(take) = usize::try_from(length).ok().filter(|take| *take > 0) else {
                return Err(Error::new(
                    Code(28729),
                    format!("Third argument to $slice must be positive: {length}"),
                ));
            };
            let skip = if start < 0 { count.saturating_sub(magnitude) } else { magnitude };
            (skip, take)
        }
    };
    raw_array(array.iter().map(|(_, value)| value).skip(skip).take(take), env)
}

/// The numbers of two vectors of equal length; `None` where the result is null.
fn vectors(name: &str, values: &[Val<'_>]) -> Result<Option<Vec<(f64, f64)>>> {
    let (a, b) = pair(values);
    if a.is_nullish() || b.is_nullish() {
        return Ok(None);
    }
    let (Val::Array(a), Val::Array(b)) = (a, b) else {
        return Err(Error::new(Code(10413200), format!("{name} only supports arrays of numbers")));
    };
    if a.count() != b.count() {
        return Err(Error::new(Code(10413202), format!("{name} expects vectors of equal length")));
    }
    a.iter()
        .zip(b.iter())
        .map(|((_, a), (_, b))| match (a.get().as_f64(), b.get().as_f64()) {
            (Some(a), Some(b)) => Ok((a, b)),
            _ => Err(Error::new(Code(10413201), format!("{name} only supports arrays of numbers"))),
        })
        .collect::<Result<Vec<_>>>()
        .map(Some)
}

fn dot_product<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let Some(pairs) = vectors("$similarityDotProduct", values)? else { return Ok(Val::Null) };
    Ok(Val::Double(pairs.iter().map(|(a, b)| a * b).sum()))
}

fn cosine<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let Some(pairs) = vectors("$similarityCosine", values)? else { return Ok(Val::Null) };
    let dot: f64 = pairs.iter().map(|(a, b)| a * b).sum();
    let lengths = pairs.iter().fold((0.0, 0.0), |(x, y), (a, b)| (x + a * a, y + b * b));
    let length = lengths.0.sqrt() * lengths.1.sqrt();
    Ok(Val::Double(if length == 0.0 { 0.0 } else { dot / length }))
}

fn euclidean<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let Some(pairs) = vectors("$similarityEuclidean", values)? else { return Ok(Val::Null) };
    Ok(Val::Double(pairs.iter().map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()))
}

/// The array that an iterating operator runs over; `None` where the result is null.
fn input_array<'a>(
    call: &'a Call,
    env: &Env<'a>,
    refuse: impl FnOnce(Val<'a>) -> Error,
) -> Result<Option<RawDoc<'a>>> {
    match call.argument(0, env)? {
        Val::Array(array) => Ok(Some(array)),
        value if value.is_nullish() => Ok(None),
        other => Err(refuse(other)),
    }
}
