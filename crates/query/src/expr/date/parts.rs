//! Parts of dates: `$year` and the like, `$dateToParts`, `$dateFromParts`.

use super::super::conditional::or_null;
use super::super::operator::Operator;
use super::super::parse::Parser;
use super::super::{Env, Node};
use super::civil::{Civil, days, iso_days};
use super::zone::Zone;
use super::{DAY, HOUR, MINUTE, SECOND, at, coerce};
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
fn civil(values: &[Val<'_>]) -> Result<Option<Civil>> {
    let date = at(values, 0);
    if date.is_nullish() {
        return Ok(None);
    }
    let Some(zone) = Zone::operand(at(values, 1))? else { return Ok(None) };
    Ok(Some(Civil::from_local(zone.to_local(coerce(date)?))))
}

fn part<'a>(values: &[Val<'a>], part: fn(Civil) -> i64) -> Result<Val<'a>> {
    check_zone(values)?;
    Ok(civil(values)?.map_or(Val::Null, |civil| int(part(civil))))
}

/// The operators for one part have a separate code for a zone that is not text.
fn check_zone(values: &[Val<'_>]) -> Result<()> {
    let zone = at(values, 1);
    if at(values, 0).is_nullish() || zone.is_nullish() || matches!(zone, Val::String(_)) {
        return Ok(());
    }
    Err(Error::new(
        Code(40533),
        format!("a time zone must evaluate to a string, found {}", zone.kind().name()),
    ))
}

fn int<'a>(n: i64) -> Val<'a> {
    i32::try_from(n).map_or(Val::Int64(n), Val::Int32)
}

pub(super) fn year<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, |civil| civil.year)
}

pub(super) fn month<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, |civil| civil.month)
}

pub(super) fn day_of_month<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, |civil| civil.day)
}

pub(super) fn day_of_week<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, |civil| civil.weekday() + 1)
}

pub(super) fn day_of_year<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, Civil::day_of_year)
}

pub(super) fn hour<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, |civil| civil.hour)
}

pub(super) fn minute<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, |civil| civil.minute)
}

pub(super) fn second<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, |civil| civil.second)
}

pub(super) fn millisecond<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, |civil| civil.millisecond)
}

pub(super) fn week<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, Civil::week)
}

pub(super) fn iso_week<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, |civil| civil.iso_week().1)
}

pub(super) fn iso_week_year<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    check_zone(values)?;
    // A long, in MongoDB too.
    Ok(civil(values)?.map_or(Val::Null, |civil| Val::Int64(civil.iso_week().0)))
}

pub(super) fn iso_day_of_week<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    part(values, Civil::iso_weekday)
}

pub(super) fn to_parts<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let Some(zone) = Zone::operand(at(values, 1))? else { return Ok(Val::Null) };
    let iso = match at(values, 2) {
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
    let date = at(values, 0);
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

pub(super) fn from_parts<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (natural, iso) = (at(values, 0), at(values, 8));
    let has_natural = (0..3).any(|place| !at(values, place).is_missing());
    let has_iso = (8..11).any(|place| !at(values, place).is_missing());
    if !iso.is_missing() && (1..3).any(|place| !at(values, place).is_missing()) {
        return Err(Error::new(
            Code(40525),
            "$dateFromParts does not allow mixing natural dates with ISO dates",
        ));
    }
    if has_natural && has_iso {
        return Err(Error::new(
            Code(40489),
            "$dateFromParts does not allow mixing natural dates with ISO dates",
        ));
    }
    if natural.is_missing() && iso.is_missing() {
        return Err(Error::new(
            Code(40516),
            "$dateFromParts requires either 'year' or 'isoWeekYear' to be present",
        ));
    }
    let Some(zone) = Zone::operand(at(values, 7))? else { return Ok(Val::Null) };
    if values.iter().any(|value| matches!(value, Val::Null | Val::Undefined)) {
        return Ok(Val::Null);
    }
    let number = |place: usize, name: &str, default: i64, bounded: bool| -> Result<i64> {
        let value = at(values, place);
        if value.is_missing() {
            return Ok(default);
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
        Ok(n)
    };
    let year = |place: usize, name: &str| -> Result<i64> {
        let year = number(place, name, 1970, false)?;
        if !(1..=9999).contains(&year) {
            return Err(Error::new(
                Code(if place == 0 { 40523 } else { 31095 }),
                format!(
                    "'{name}' must evaluate to an integer in the range 1 to 9999, found {year}"
                ),
            ));
        }
        Ok(year)
    };
    let day = if has_iso {
        iso_days(
            year(8, "isoWeekYear")?,
            number(9, "isoWeek", 1, true)?,
            number(10, "isoDayOfWeek", 1, true)?,
        )
    } else {
        days(year(0, "year")?, number(1, "month", 1, true)?, number(2, "day", 1, true)?)
    };
    let hour = number(3, "hour", 0, true)?;
    let minute = number(4, "minute", 0, true)?;
    let second = number(5, "second", 0, false)?;
    let millisecond = number(6, "millisecond", 0, false)?;
    let overflow = || Error::new(Code::DURATION_OVERFLOW, "the resulting date is out of range");
    // MongoDB adds milliseconds as microseconds.
    millisecond.checked_mul(1000).ok_or_else(overflow)?;
    let local = (day * DAY + hour * HOUR + minute * MINUTE)
        .checked_add(second.checked_mul(SECOND).ok_or_else(overflow)?)
        .and_then(|local| local.checked_add(millisecond))
        .ok_or_else(overflow)?;
    Ok(Val::DateTime(zone.to_utc(local)))
}
