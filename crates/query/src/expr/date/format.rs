//! Dates as text: ISO 8601 and `$dateToString` with its format specifiers.

use super::super::{Call, Env};
use super::civil::Civil;
use super::zone::Zone;
use super::{MINUTE, coerce};
use crate::show::show;
use std::fmt::Write as _;
use value::{Code, Error, Result, Val};

pub(super) static MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// ISO 8601 in UTC with milliseconds.
pub(super) fn iso(ms: i64) -> Result<String> {
    let mut text = String::with_capacity(24);
    write(&mut text, "%Y-%m-%dT%H:%M:%S.%LZ", ms, 0)?;
    Ok(text)
}

/// The seconds of a timestamp as a date without year, and its count.
pub(super) fn timestamp(t: u64) -> String {
    let civil = Civil::from_local((t >> 32) as i64 * super::SECOND);
    let month = usize::try_from(civil.month - 1).ok().and_then(|at| MONTHS.get(at));
    format!(
        "{} {:2} {:02}:{:02}:{:02}:{:x}",
        month.and_then(|month| month.get(..3)).unwrap_or(""),
        civil.day,
        civil.hour,
        civil.minute,
        civil.second,
        t & 0xFFFF_FFFF
    )
}

/// A year that four digits can show.
fn four_digits(year: i64) -> Result<i64> {
    if (0..=9999).contains(&year) {
        return Ok(year);
    }
    Err(Error::new(
        Code(18537),
        format!(
            "Could not convert date to string: date component was outside the supported range of 0-9999: {year}"
        ),
    ))
}

/// Refuses unknown specifiers.
pub(super) fn check_format(format: &str, known: &str) -> Result<()> {
    let mut characters = format.chars();
    while let Some(c) = characters.next() {
        if c != '%' {
            continue;
        }
        match characters.next() {
            None => {
                return Err(Error::new(Code(18535), "Unmatched '%' at end of format string"));
            }
            Some(specifier) if known.contains(specifier) => {}
            Some(specifier) => {
                return Err(Error::new(
                    Code(18536),
                    format!("Invalid format character '%{specifier}' in format string"),
                ));
            }
        }
    }
    Ok(())
}

/// Writes a local time by a checked format.
fn write(out: &mut String, format: &str, local: i64, offset: i64) -> Result<()> {
    let civil = Civil::from_local(local);
    let mut characters = format.chars();
    while let Some(c) = characters.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let month = usize::try_from(civil.month - 1).ok().and_then(|at| MONTHS.get(at));
        let written = match characters.next() {
            Some('Y') => write!(out, "{:04}", four_digits(civil.year)?),
            Some('m') => write!(out, "{:02}", civil.month),
            Some('d') => write!(out, "{:02}", civil.day),
            Some('H') => write!(out, "{:02}", civil.hour),
            Some('M') => write!(out, "{:02}", civil.minute),
            Some('S') => write!(out, "{:02}", civil.second),
            Some('L') => write!(out, "{:03}", civil.millisecond),
            Some('j') => write!(out, "{:03}", civil.day_of_year()),
            Some('w') => write!(out, "{}", civil.weekday() + 1),
            Some('u') => write!(out, "{}", civil.iso_weekday()),
            Some('U') => write!(out, "{:02}", civil.week()),
            Some('V') => write!(out, "{:02}", civil.iso_week().1),
            Some('G') => write!(out, "{:04}", four_digits(civil.iso_week().0)?),
            Some('b') => write!(out, "{}", month.and_then(|m| m.get(..3)).unwrap_or("")),
            Some('B') => write!(out, "{}", month.unwrap_or(&"")),
            Some('z') => {
                let minutes = offset / MINUTE;
                let sign = if minutes < 0 { '-' } else { '+' };
                let minutes = minutes.abs();
                write!(out, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
            }
            Some('Z') => write!(out, "{}", offset / MINUTE),
            Some(other) => write!(out, "{other}"),
            None => Ok(()),
        };
        debug_assert!(written.is_ok(), "writing into a string cannot fail");
    }
    Ok(())
}

pub(super) fn to_string<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let date = call.argument(0, env)?;
    // `None` is a null format. A wrong one is refused, whatever the date is.
    let format = match call.argument(1, env)? {
        Val::Missing => Some("%Y-%m-%dT%H:%M:%S.%LZ"),
        Val::String(format) => {
            check_format(format, "YmdHMSLjwuUVGbBzZ%")?;
            Some(format)
        }
        Val::Null | Val::Undefined => None,
        other => {
            return Err(Error::new(
                Code(18533),
                format!(
                    "$dateToString requires that 'format' be a string, found: {} with value {}",
                    other.kind().name(),
                    show(other)
                ),
            ));
        }
    };
    let zone = Zone::operand(call.argument(2, env)?)?;
    if date.is_nullish() {
        return call.argument(3, env);
    }
    let (Some(zone), Some(format)) = (zone, format) else { return Ok(Val::Null) };
    let utc = coerce(date)?;
    let mut text = String::with_capacity(32);
    let local = zone.to_local(utc);
    write(&mut text, format, local, zone.offset(utc))?;
    Ok(env.text(&text))
}
