//! Dates counted in units: `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc`.

use super::super::{Call, Env};
use super::civil::{Civil, days, month_length, weekday};
use super::zone::Zone;
use super::{DAY, HOUR, MINUTE, SECOND, milliseconds};
use crate::show::show;
use value::{Code, Error, Result, Val};

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    /// Units of fixed length, in milliseconds.
    Fixed(i64),
}

impl Unit {
    fn parse(name: &str) -> Option<Unit> {
        Some(match name {
            "year" => Unit::Year,
            "quarter" => Unit::Quarter,
            "month" => Unit::Month,
            "week" => Unit::Week,
            "day" => Unit::Day,
            "hour" => Unit::Fixed(HOUR),
            "minute" => Unit::Fixed(MINUTE),
            "second" => Unit::Fixed(SECOND),
            "millisecond" => Unit::Fixed(1),
            _ => return None,
        })
    }
}

pub(super) fn current_date<'a>(_: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Ok(Val::DateTime(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0))))
}

pub(super) fn date_add<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    add_operands("$dateAdd", call, env, 1)
}

pub(super) fn date_subtract<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    add_operands("$dateSubtract", call, env, -1)
}

fn add_operands<'a>(name: &str, call: &'a Call, env: &Env<'a>, sign: i64) -> Result<Val<'a>> {
    let Some(start) = operand(call, 0, env)? else { return Ok(Val::Null) };
    let Some(unit) = operand(call, 1, env)? else { return Ok(Val::Null) };
    let Some(amount) = operand(call, 2, env)? else { return Ok(Val::Null) };
    let Some(zone) = Zone::operand(call.argument(3, env)?)? else { return Ok(Val::Null) };
    add(name, start, unit, amount, &zone, sign).map(Val::DateTime)
}

/// An operand; `None` where it is null or missing.
fn operand<'a>(call: &'a Call, place: usize, env: &Env<'a>) -> Result<Option<Val<'a>>> {
    Ok(Some(call.argument(place, env)?).filter(|value| !value.is_nullish()))
}

/// The milliseconds of a date that is moved by `amount` units.
fn add(
    name: &str,
    start: Val<'_>,
    unit: Val<'_>,
    amount: Val<'_>,
    zone: &Zone,
    sign: i64,
) -> Result<i64> {
    let Some(start) = milliseconds(start) else {
        return Err(Error::new(
            Code(5166403),
            format!("{name} requires startDate to be convertible to a date"),
        ));
    };
    let Val::String(unit_name) = unit else {
        return Err(Error::new(
            Code(5166404),
            format!("{name} expects string defining the time unit"),
        ));
    };
    let unit = Unit::parse(unit_name)
        .ok_or_else(|| Error::failed_to_parse(format!("unknown time unit value: {unit_name}")))?;
    let Some(count) = amount.as_i64_exact() else {
        return Err(Error::new(
            Code(5166405),
            format!("{name} expects integer amount of time units"),
        ));
    };
    // The result must fit into 64-bit milliseconds; larger counts would overflow before.
    let limit = match unit {
        Unit::Year => 300_000_000,
        Unit::Quarter => 1_200_000_000,
        Unit::Month => 3_600_000_000,
        Unit::Week => i64::MAX / (7 * DAY),
        Unit::Day => i64::MAX / DAY,
        Unit::Fixed(length) => i64::MAX / length,
    };
    if sign < 0 && count == i64::MIN {
        return Err(Error::new(
            Code(6045000),
            format!("invalid {name} 'amount' parameter value: {count} {unit_name}"),
        ));
    }
    if limit < i64::MAX && count.unsigned_abs() > limit.unsigned_abs() {
        return Err(Error::new(
            Code(5976500),
            format!(
                "invalid {} 'amount' parameter value: {count} {unit_name}",
                name.trim_start_matches('$')
            ),
        ));
    }
    let count = count * sign;
    let back = count < 0;
    let local = |by: &dyn Fn(i64) -> Option<i64>| move_local(start, zone, back, by);
    let moved = match unit {
        Unit::Fixed(length) => {
            let moved = count.checked_mul(length).and_then(|ms| start.checked_add(ms));
            return moved.ok_or_else(|| {
                Error::new(Code::DURATION_OVERFLOW, "the resulting date is out of range")
            });
        }
        Unit::Day => local(&|local| local.checked_add(count * DAY)),
        Unit::Week => local(&|local| local.checked_add(count * 7 * DAY)),
        Unit::Month => local(&|local| add_months(local, count)),
        Unit::Quarter => local(&|local| add_months(local, count * 3)),
        Unit::Year => local(&|local| add_months(local, count * 12)),
    };
    moved.ok_or_else(|| {
        Error::new(Code(5166406), format!("{name} overflowed: the date is out of range"))
    })
}

/// A date moved by so many units of time, in UTC; months keep the day where they have it.
///
/// # Errors
/// FailedToParse for an unknown unit, or that the result is out of range.
pub fn add_to_date(ms: i64, unit: &str, count: i64) -> Result<i64> {
    let (start, unit, amount) = (Val::DateTime(ms), Val::String(unit), Val::Int64(count));
    add("$dateAdd", start, unit, amount, &Zone::UTC, 1)
}

/// Moves the local time. Of a local time that occurs twice, the one nearer to the start is used.
fn move_local(start: i64, zone: &Zone, back: bool, by: &dyn Fn(i64) -> Option<i64>) -> Option<i64> {
    let to_utc = if back { Zone::to_utc } else { Zone::to_utc_first };
    by(zone.to_local(start)).map(|local| to_utc(zone, local))
}

/// Calendar months later; days that the month does not have become its last one.
fn add_months(local: i64, count: i64) -> Option<i64> {
    let civil = Civil::from_local(local);
    let months = (civil.year * 12 + civil.month - 1).checked_add(count)?;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let day = civil.day.min(month_length(year, month));
    days(year, month, day).checked_mul(DAY)?.checked_add(local.rem_euclid(DAY))
}

/// The first day of weeks, 0 (Sunday) to 6.
fn start_of_week(name: &str, value: Val<'_>, code: i32) -> Result<i64> {
    let text = match value {
        Val::Missing => return Ok(0),
        Val::String(text) => text,
        other => {
            return Err(Error::new(
                Code(code),
                format!(
                    "{name} requires 'startOfWeek' to be a string, but got {}",
                    other.kind().name()
                ),
            ));
        }
    };
    let lower = text.to_ascii_lowercase();
    let names = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    let found = names.iter().position(|day| lower == *day || Some(lower.as_str()) == day.get(..3));
    match found {
        Some(day) => Ok(i64::try_from(day).unwrap_or(0)),
        None => Err(Error::new(
            Code(5439016),
            format!(
                "{name} parameter 'startOfWeek' value cannot be recognized as a day of a week: \
                 {text}"
            ),
        )),
    }
}

/// The operand `startOfWeek`, which only the unit `week` evaluates; `None` where it is null.
fn week_operand<'a>(
    call: &'a Call,
    place: usize,
    unit: Val<'_>,
    env: &Env<'a>,
) -> Result<Option<Val<'a>>> {
    if unit.as_str() != Some("week") {
        return Ok(Some(Val::Missing));
    }
    let value = call.argument(place, env)?;
    Ok(Some(value).filter(|value| !matches!(value, Val::Null | Val::Undefined)))
}

fn parse_unit(name: &str, value: Val<'_>) -> Result<Unit> {
    let Val::String(text) = value else {
        return Err(Error::new(
            Code(5439013),
            format!("{name} requires 'unit' to be a string, but got {}", value.kind().name()),
        ));
    };
    Unit::parse(text).ok_or_else(|| {
        Error::new(
            Code(5439014),
            format!("{name} parameter 'unit' value cannot be recognized as a time unit: {text}"),
        )
    })
}

pub(super) fn date_diff<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let name = "$dateDiff";
    let Some(start) = operand(call, 0, env)? else { return Ok(Val::Null) };
    let Some(end) = operand(call, 1, env)? else { return Ok(Val::Null) };
    let Some(unit) = operand(call, 2, env)? else { return Ok(Val::Null) };
    let Some(week) = week_operand(call, 4, unit, env)? else { return Ok(Val::Null) };
    let Some(zone) = Zone::operand(call.argument(3, env)?)? else { return Ok(Val::Null) };
    let date = |value: Val<'_>, what: &str| {
        milliseconds(value).ok_or_else(|| {
            Error::new(
                Code(5166307),
                format!("{name} requires '{what}' to be a date, but got {}", value.kind().name()),
            )
        })
    };
    let (start, end) = (date(start, "startDate")?, date(end, "endDate")?);
    let unit = parse_unit(name, unit)?;
    let first_day = start_of_week(name, week, 5439015)?;
    let (from, to) = (zone.to_local(start), zone.to_local(end));
    let months = |local: i64| {
        let civil = Civil::from_local(local);
        civil.year * 12 + civil.month - 1
    };
    Ok(Val::Int64(match unit {
        Unit::Year => Civil::from_local(to).year - Civil::from_local(from).year,
        Unit::Quarter => months(to).div_euclid(3) - months(from).div_euclid(3),
        Unit::Month => months(to) - months(from),
        Unit::Week => {
            // Day 3 after 1970 was a Sunday.
            let week = |local: i64| (local.div_euclid(DAY) - 3 - first_day).div_euclid(7);
            week(to) - week(from)
        }
        Unit::Day => to.div_euclid(DAY) - from.div_euclid(DAY),
        Unit::Fixed(length) if length >= MINUTE => {
            // Boundaries are those of the local clock; changes of the offset are not counted.
            let moved = zone.offset(end) - zone.offset(start);
            to.div_euclid(length) - from.div_euclid(length) - moved.div_euclid(length)
        }
        Unit::Fixed(length) => {
            let difference = end.div_euclid(length).checked_sub(start.div_euclid(length));
            difference.ok_or_else(|| Error::new(Code(5166308), "dateDiff overflowed"))?
        }
    }))
}

pub(super) fn date_trunc<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let name = "$dateTrunc";
    let Some(date) = operand(call, 0, env)? else { return Ok(Val::Null) };
    let Some(unit) = operand(call, 1, env)? else { return Ok(Val::Null) };
    let bin = call.argument(2, env)?;
    if matches!(bin, Val::Null | Val::Undefined) {
        return Ok(Val::Null);
    }
    let Some(week) = week_operand(call, 4, unit, env)? else { return Ok(Val::Null) };
    let Some(zone) = Zone::operand(call.argument(3, env)?)? else { return Ok(Val::Null) };
    let Some(utc) = milliseconds(date) else {
        return Err(Error::new(
            Code(5439012),
            format!("{name} requires 'date' to be a date, but got {}", date.kind().name()),
        ));
    };
    let unit = parse_unit(name, unit)?;
    let bin = match bin {
        Val::Missing => 1,
        value => {
            let Some(bin) = value.as_i64_exact() else {
                return Err(Error::new(
                    Code(5439017),
                    format!(
                        "{name} requires 'binSize' to be a 64-bit integer, but got value '{}' of \
                         type {}",
                        show(value),
                        value.kind().name()
                    ),
                ));
            };
            if bin <= 0 {
                return Err(Error::new(
                    Code(5439018),
                    format!("{name} requires 'binSize' to be greater than 0, but got value {bin}"),
                ));
            }
            bin
        }
    };
    let first_day = start_of_week(name, week, 5439015)?;
    let local = zone.to_local(utc);
    // Bins are counted from the beginning of 2000.
    let origin = days(2000, 1, 1);
    let from_days = |origin: i64, length: i64| -> Option<i64> {
        let size = bin.checked_mul(length)?;
        let day = local.div_euclid(DAY);
        let start = (day - origin).div_euclid(size).checked_mul(size)?.checked_add(origin)?;
        Some(zone.to_utc(start.checked_mul(DAY)?))
    };
    let from_months = |length: i64| -> Option<i64> {
        let size = bin.checked_mul(length)?;
        let civil = Civil::from_local(local);
        let months = (civil.year - 2000) * 12 + civil.month - 1;
        let start = months.div_euclid(size).checked_mul(size)?.checked_add(2000 * 12)?;
        let day = days(start.div_euclid(12), start.rem_euclid(12) + 1, 1);
        Some(zone.to_utc(day.checked_mul(DAY)?))
    };
    let truncated = match unit {
        Unit::Fixed(length) => {
            let origin = if length == 1 { origin * DAY } else { zone.to_utc(origin * DAY) };
            bin.checked_mul(length).and_then(|size| {
                utc.checked_sub(origin)?.div_euclid(size).checked_mul(size)?.checked_add(origin)
            })
        }
        // No two dates are this far apart.
        _ if bin > i64::MAX / DAY => None,
        Unit::Day => from_days(origin, 1),
        Unit::Week => {
            let shift = (first_day - weekday(origin)).rem_euclid(7);
            from_days(origin + shift, 7)
        }
        Unit::Month => from_months(1),
        Unit::Quarter => from_months(3),
        Unit::Year => from_months(12),
    };
    let code = match unit {
        Unit::Fixed(length) if bin.checked_mul(length).is_none() => 5439002,
        _ if bin > i64::MAX / 366 => 5439006,
        _ => 5166406,
    };
    truncated
        .map(Val::DateTime)
        .ok_or_else(|| Error::new(Code(code), "the date that $dateTrunc gives is out of range"))
}
