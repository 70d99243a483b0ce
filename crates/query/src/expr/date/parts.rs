//! Parts of dates: `$year` and the like, `$dateToParts`, `$dateFromParts`.

use super::super::conditional::or_null;
use super::super::operator::Operator;
use super::super::parse::Parser;
use super::super::{Call, Env, Node};
use super::civil::{Civil, days, iso_days};
use super::zone::Zone;
use super::{DAY, HOUR, MINUTE, SECOND, coerce};
use crate::show::{show, show_doc};
use value::{Code, Error, Result, Val};

/// `{$year: date}`, `{$year: [date]}` or `{$year: {date: .., timezone: ..}}`.
pub(super) fn parse(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let name = operator.name;
    match value {
        Val::Document(doc) if doc.first().is_none_or(|(first, _)| !first.starts_with('$')) => {
            let (mut date, mut zone) = (None, None);
            for (argument, operand) in doc {
                match argument {
                    "date" => date = Some(parser.parse(operand.get())?),
                    "timezone" => zone = Some(parser.parse(operand.get())?),
                    unknown => {
                        return Err(Error::new(
                            Code(40535),
                            format!("unrecognized option to {name}: \"{unknown}\""),
                        ));
                    }
                }
            }
            let Some(date) = date else {
                return Err(Error::new(
                    Code(40539),
                    format!(
                        "missing 'date' argument to {name}, provided: {name}: {}",
                        show_doc(doc)
                    ),
                ));
            };
            let zone = match zone {
                None => Node::constant(Val::Missing),
                // A zone that evaluates to missing counts as null; an omitted zone does not.
                Some(zone) => or_null(parser, zone)?,
            };
            operator.call(parser, vec![date, zone])
        }
        Val::Array(array) if array.count() != 1 => Err(Error::new(
            Code(40536),
            format!(
                "{name} accepts exactly one argument if given an array, but was given {}",
                array.count()
            ),
        )),
        value => {
            let mut arguments = parser.operands(value)?;
            arguments.push(Node::constant(Val::Missing));
            operator.call(parser, arguments)
        }
    }
}

/// The calendar fields of the operands; `None` where the result is null.
fn civil<'a>(call: &'a Call, env: &Env<'a>) -> Result<Option<Civil>> {
    let date = call.argument(0, env)?;
    if date.is_nullish() {
        return Ok(None);
    }
    let utc = coerce(date)?;
    let zone = match call.argument(1, env)? {
        Val::Missing => Zone::UTC,
        Val::Null | Val::Undefined => return Ok(None),
        Val::String(name) => Zone::parse(name)?,
        other => {
            return Err(Error::new(
                Code(40533),
                format!("a time zone must evaluate to a string, found {}", other.kind().name()),
            ));
        }
    };
    Ok(Some(Civil::from_local(zone.to_local(utc))))
}

fn part<'a>(call: &'a Call, env: &Env<'a>, part: fn(Civil) -> i64) -> Result<Val<'a>> {
    Ok(civil(call, env)?.map_or(Val::Null, |civil| int(part(civil))))
}

fn int<'a>(n: i64) -> Val<'a> {
    i32::try_from(n).map_or(Val::Int64(n), Val::Int32)
}

pub(super) fn year<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, |civil| civil.year)
}

pub(super) fn month<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, |civil| civil.month)
}

pub(super) fn day_of_month<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, |civil| civil.day)
}

pub(super) fn day_of_week<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, |civil| civil.weekday() + 1)
}

pub(super) fn day_of_year<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, Civil::day_of_year)
}

pub(super) fn hour<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, |civil| civil.hour)
}

pub(super) fn minute<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, |civil| civil.minute)
}

pub(super) fn second<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, |civil| civil.second)
}

pub(super) fn millisecond<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, |civil| civil.millisecond)
}

pub(super) fn week<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, Civil::week)
}

pub(super) fn iso_week<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, |civil| civil.iso_week().1)
}

pub(super) fn iso_week_year<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    // A long, in MongoDB too.
    Ok(civil(call, env)?.map_or(Val::Null, |civil| Val::Int64(civil.iso_week().0)))
}

pub(super) fn iso_day_of_week<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    part(call, env, Civil::iso_weekday)
}

pub(super) fn to_parts<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let date = call.argument(0, env)?;
    let Some(zone) = Zone::operand(call.argument(1, env)?)? else { return Ok(Val::Null) };
    let iso = match call.argument(2, env)? {
        Val::Missing => false,
        Val::Bool(iso) => iso,
        Val::Null | Val::Undefined => return Ok(Val::Null),
        other => {
            return Err(Error::new(
                Code(40521),
                format!("iso8601 must evaluate to a bool, found {}", other.kind().name()),
            ));
        }
    };
    if date.is_nullish() {
        return Ok(Val::Null);
    }
    let civil = Civil::from_local(zone.to_local(coerce(date)?));
    env.document(|out| {
        if iso {
            let (year, week) = civil.iso_week();
            out.append("isoWeekYear", int(year))
                .append("isoWeek", int(week))
                .append("isoDayOfWeek", int(civil.iso_weekday()));
        } else {
            out.append("year", int(civil.year))
                .append("month", int(civil.month))
                .append("day", int(civil.day));
        }
        out.append("hour", int(civil.hour))
            .append("minute", int(civil.minute))
            .append("second", int(civil.second))
            .append("millisecond", int(civil.millisecond));
    })
}

pub(super) fn from_parts<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    // A given operand that evaluates to missing counts as null.
    let has = |place: usize| {
        let node = call.arguments.get(place);
        node.is_some_and(|node| !matches!(node.as_constant(), Some(Val::Missing)))
    };
    if has(8) && (has(1) || has(2)) {
        return Err(Error::new(
            Code(40525),
            "$dateFromParts does not allow mixing natural dates with ISO dates",
        ));
    }
    if (0..3).any(has) && (8..11).any(has) {
        return Err(Error::new(
            Code(40489),
            "$dateFromParts does not allow mixing natural dates with ISO dates",
        ));
    }
    if !has(0) && !has(8) {
        return Err(Error::new(
            Code(40516),
            "$dateFromParts requires either 'year' or 'isoWeekYear' to be present",
        ));
    }
    // `None` is null.
    let number = |place: usize, name: &str, default: i64, bounded: bool| -> Result<Option<i64>> {
        let value = call.argument(place, env)?;
        match value {
            Val::Missing => return Ok(Some(default)),
            Val::Null | Val::Undefined => return Ok(None),
            _ => {}
        }
        let Some(n) = value.as_i64_exact() else {
            return Err(Error::new(
                Code(40515),
                format!(
                    "'{name}' must evaluate to an integer, found {} with value {}",
                    value.kind().name(),
                    show(value)
                ),
            ));
        };
        if bounded && i16::try_from(n).is_err() {
            return Err(Error::new(
                Code(31034),
                format!(
                    "'{name}' must evaluate to a value in the range [-32768, 32767]; value {n} is \
                     not in range"
                ),
            ));
        }
        Ok(Some(n))
    };
    // The time and the zone come before the day.
    let Some(hour) = number(3, "hour", 0, true)? else { return Ok(Val::Null) };
    let Some(minute) = number(4, "minute", 0, true)? else { return Ok(Val::Null) };
    let Some(second) = number(5, "second", 0, false)? else { return Ok(Val::Null) };
    let Some(millisecond) = number(6, "millisecond", 0, false)? else { return Ok(Val::Null) };
    let Some(zone) = Zone::operand(call.argument(7, env)?)? else { return Ok(Val::Null) };
    let names = if has(8) {
        [(8, "isoWeekYear"), (9, "isoWeek"), (10, "isoDayOfWeek")]
    } else {
        [(0, "year"), (1, "month"), (2, "day")]
    };
    let [(first, year_name), (second_part, middle_name), (third, day_name)] = names;
    let Some(year) = number(first, year_name, 1970, false)? else { return Ok(Val::Null) };
    let Some(middle) = number(second_part, middle_name, 1, true)? else { return Ok(Val::Null) };
    let Some(last) = number(third, day_name, 1, true)? else { return Ok(Val::Null) };
    if !(1..=9999).contains(&year) {
        return Err(Error::new(
            Code(if has(8) { 31095 } else { 40523 }),
            format!(
                "'{year_name}' must evaluate to an integer in the range 1 to 9999, found {year}"
            ),
        ));
    }
    let day = if has(8) { iso_days(year, middle, last) } else { days(year, middle, last) };
    let overflow = || Error::new(Code::DURATION_OVERFLOW, "the resulting date is out of range");
    // MongoDB adds milliseconds as microseconds.
    millisecond.checked_mul(1000).ok_or_else(overflow)?;
    let local = (day * DAY + hour * HOUR + minute * MINUTE)
        .checked_add(second.checked_mul(SECOND).ok_or_else(overflow)?)
        .and_then(|local| local.checked_add(millisecond))
        .ok_or_else(overflow)?;
    Ok(Val::DateTime(zone.to_utc(local)))
}
