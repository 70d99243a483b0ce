//! Dates from text: `$dateFromString`, with a format or without, and `$toDate`.

use super::super::conditional::or_null;
use super::super::operator::Operator;
use super::super::parse::Parser;
use super::super::{Call, Env, Node};
use super::civil::{days, from_days, iso_days, month_length};
use super::format::{MONTHS, check_format};
use super::zone::{Zone, parse_offset};
use super::{DAY, HOUR, MINUTE, SECOND};
use crate::show::show;
use value::{Code, Error, Result, Val};

/// Arguments are dateString, format, timezone, onNull, and onError if there is one.
pub(super) fn parse_operands(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let Val::Document(doc) = value else {
        return Err(Error::new(
            Code(40540),
            format!(
                "$dateFromString only supports an object as an argument, found: {}",
                value.kind().name()
            ),
        ));
    };
    let (mut text, mut format, mut zone, mut on_null, mut on_error) =
        (None, None, None, None, None);
    for (name, operand) in doc {
        let slot = match name {
            "dateString" => &mut text,
            "format" => &mut format,
            "timezone" => &mut zone,
            "onNull" => &mut on_null,
            "onError" => &mut on_error,
            unknown => {
                return Err(Error::new(
                    Code(40541),
                    format!("Unrecognized argument to $dateFromString: {unknown}"),
                ));
            }
        };
        *slot = Some(parser.parse(operand.get())?);
    }
    let text = text.ok_or_else(|| {
        Error::new(Code(40542), "Missing 'dateString' parameter to $dateFromString")
    })?;
    let absent = || Node::constant(Val::Missing);
    let mut arguments = vec![
        text,
        format.map_or_else(|| Ok(absent()), |format| or_null(parser, format))?,
        zone.map_or_else(|| Ok(absent()), |zone| or_null(parser, zone))?,
        on_null.unwrap_or_else(|| Node::constant(Val::Null)),
    ];
    arguments.extend(on_error);
    operator.call(parser, arguments)
}

pub(super) fn from_string<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let text = call.argument(0, env)?;
    let format = match call.argument(1, env)? {
        Val::Missing => None,
        Val::String(format) => {
            check_format(format, "YmdHMSLjuVGbBzZ%")?;
            Some(Some(format))
        }
        Val::Null | Val::Undefined => Some(None),
        other => {
            return Err(Error::new(
                Code(40684),
                format!(
                    "$dateFromString requires that 'format' be a string, found: {} with value {}",
                    other.kind().name(),
                    show(other)
                ),
            ));
        }
    };
    let zone = match call.argument(2, env)? {
        Val::Missing => None,
        value => Some(Zone::operand(value)?),
    };
    let result = match text {
        value if value.is_nullish() => return call.argument(3, env),
        Val::String(text) => match (format, zone) {
            (Some(None), _) | (_, Some(None)) => return Ok(Val::Null),
            (Some(Some(format)), zone) => parse_by_format(text, format, zone.flatten()),
            (None, zone) => parse_text(text, zone.flatten()),
        },
        other => Err(Error::new(
            Code::CONVERSION_FAILURE,
            format!(
                "$dateFromString requires that 'dateString' be a string, found: {} with value {}",
                other.kind().name(),
                show(other)
            ),
        )),
    };
    match result {
        Ok(ms) => Ok(Val::DateTime(ms)),
        Err(error) if error.code() == Code::CONVERSION_FAILURE && call.arguments.len() > 4 => {
            call.argument(4, env)
        }
        Err(error) => Err(error),
    }
}

fn bad(text: &str, why: &str) -> Error {
    Error::new(Code::CONVERSION_FAILURE, format!("Error parsing date string '{text}'; {why}"))
}

fn incomplete(text: &str) -> Error {
    Error::new(
        Code::CONVERSION_FAILURE,
        format!("an incomplete date/time string has been found, with elements missing: \"{text}\""),
    )
}

/// The parts of a date that were read.
#[derive(Default)]
struct Fields {
    day: Option<i64>,
    time: i64,
    offset: Option<i64>,
}

impl Fields {
    fn finish(self, text: &str, zone: Option<Zone>) -> Result<i64> {
        let Some(day) = self.day else { return Err(incomplete(text)) };
        let local = day.checked_mul(DAY).and_then(|ms| ms.checked_add(self.time));
        let local = local.ok_or_else(|| bad(text, "the date is out of range"))?;
        match (self.offset, zone) {
            (Some(_), Some(_)) => Err(Error::new(
                Code::CONVERSION_FAILURE,
                format!(
                    "you cannot pass in a date/time string with time zone information ('{text}') \
                     together with a timezone argument"
                ),
            )),
            (Some(offset), None) => Ok(local - offset),
            (None, Some(zone)) => Ok(zone.to_utc(local)),
            (None, None) => Ok(local),
        }
    }
}

/// A calendar day, if there is such a day.
fn checked_days(text: &str, year: i64, month: i64, day: i64) -> Result<i64> {
    if !(1..=12).contains(&month) || !(1..=month_length(year, month)).contains(&day) {
        return Err(bad(text, "The parsed date was invalid"));
    }
    Ok(days(year, month, day))
}

/// A day by its ISO week, if the year has such a week.
fn checked_iso_days(text: &str, year: i64, week: i64, weekday: i64) -> Result<i64> {
    let weeks = (iso_days(year + 1, 1, 1) - iso_days(year, 1, 1)) / 7;
    if !(1..=weeks).contains(&week) || !(1..=7).contains(&weekday) {
        return Err(bad(text, "The parsed date was invalid"));
    }
    Ok(iso_days(year, week, weekday))
}

fn checked_time(text: &str, hour: i64, minute: i64, second: i64, ms: i64) -> Result<i64> {
    if hour > 23 || minute > 59 || second > 59 {
        return Err(bad(text, "The parsed time was invalid"));
    }
    Ok(hour * HOUR + minute * MINUTE + second * SECOND + ms)
}

/// A reader over the characters of a text.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn eat(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn take_while(&mut self, most: usize, keep: fn(char) -> bool) -> &'t str {
        let end = self.rest.char_indices().take(most).find(|(_, c)| !keep(*c)).map_or_else(
            || self.rest.char_indices().nth(most).map_or(self.rest.len(), |(at, _)| at),
            |(at, _)| at,
        );
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Up to `most` digits.
    fn digits(&mut self, most: usize) -> &'t str {
        self.take_while(most, |c| c.is_ascii_digit())
    }

    fn number(&mut self, most: usize) -> Option<i64> {
        self.digits(most).parse().ok()
    }

    fn word(&mut self) -> &'t str {
        self.take_while(usize::MAX, |c| c.is_ascii_alphabetic())
    }

    /// The ending of a number that counts: `4th`.
    fn ordinal(&mut self) {
        let ending =
            ["st", "nd", "rd", "th"].into_iter().find_map(|end| self.rest.strip_prefix(end));
        self.rest = ending.unwrap_or(self.rest);
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', ',', '\t']);
    }

    /// Fraction digits as milliseconds.
    fn milliseconds(&mut self, most: usize) -> Option<i64> {
        let digits = self.digits(most);
        if digits.is_empty() {
            return None;
        }
        let padded: String = digits.chars().chain("00".chars()).take(3).collect();
        padded.parse().ok()
    }

    /// An offset such as `Z`, `+02:00` or `EST`, in milliseconds.
    fn offset(&mut self) -> Option<i64> {
        if self.rest.starts_with(['+', '-']) {
            let end = self
                .rest
                .char_indices()
                .skip(1)
                .find(|(_, c)| !c.is_ascii_digit() && *c != ':')
                .map_or(self.rest.len(), |(at, _)| at);
            let (text, rest) = self.rest.split_at_checked(end)?;
            let offset = parse_offset(text)?;
            self.rest = rest;
            return Some(offset);
        }
        let before = self.rest;
        let word = self.word();
        let hours = match word.to_ascii_uppercase().as_str() {
            "Z" | "UTC" | "GMT" | "WET" => 0,
            "CET" | "BST" | "WEST" => 1,
            "CEST" | "EET" => 2,
            "EEST" | "MSK" => 3,
            "EDT" => -4,
            "EST" | "CDT" => -5,
            "CST" | "MDT" => -6,
            "MST" | "PDT" => -7,
            "PST" => -8,
            _ => {
                self.rest = before;
                return None;
            }
        };
        Some(hours * HOUR)
    }
}

fn month_by_name(word: &str) -> Option<i64> {
    let lower = word.to_ascii_lowercase();
    if lower.len() < 3 {
        return None;
    }
    let found = MONTHS.iter().position(|month| {
        let month = month.to_ascii_lowercase();
        month == lower || (lower.len() <= 4 && month.starts_with(lower.get(..3).unwrap_or("")))
    });
    found.and_then(|at| i64::try_from(at + 1).ok())
}

fn is_weekday(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
        .iter()
        .any(|day| lower == *day || Some(lower.as_str()) == day.get(..3))
}

/// Reads a text in one of the usual notations: ISO 8601, `1/2/2024`, `2.1.2024`, `2-1-2024`,
/// `Jan 2, 2024`, `2 Jan 2024`, with a weekday in front or without, and `@seconds`.
pub(super) fn parse_text(text: &str, zone: Option<Zone>) -> Result<i64> {
    let mut reader = Reader { rest: text.trim() };
    if let Some(seconds) = reader.rest.strip_prefix('@') {
        let seconds: i64 = seconds.parse().map_err(|_| bad(text, "The seconds are no number"))?;
        return seconds.checked_mul(SECOND).ok_or_else(|| bad(text, "the date is out of range"));
    }
    let mut fields = Fields { day: read_day(text, &mut reader)?, ..Fields::default() };
    let compact_day = text.bytes().take_while(u8::is_ascii_digit).count() > 4;
    if !compact_day && reader.rest.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(bad(text, "The day or year has too many digits"));
    }
    let spaced = reader.rest.starts_with(' ');
    reader.blanks();
    let marked = reader.eat('T') || reader.eat('t');
    let compact = reader.rest.bytes().take_while(u8::is_ascii_digit).count() == 6;
    if fields.day.is_some() && compact {
        let (hour, minute) = (reader.number(2).unwrap_or(0), reader.number(2).unwrap_or(0));
        fields.time = checked_time(text, hour, minute, reader.number(2).unwrap_or(0), 0)?;
        reader.blanks();
    } else if fields.day.is_some() && reader.rest.starts_with(|c: char| c.is_ascii_digit()) {
        fields.time = read_time(text, &mut reader, marked || !spaced)?;
        reader.blanks();
    }
    if fields.day.is_some() {
        fields.offset = reader.offset();
    }
    if !reader.rest.is_empty() && fields.day.is_some() {
        let at = text.len() - reader.rest.len();
        return Err(bad(text, &format!("{at}: unexpected '{}'", reader.rest)));
    }
    fields.finish(text, zone)
}

fn read_day(text: &str, reader: &mut Reader<'_>) -> Result<Option<i64>> {
    let invalid = || bad(text, "The parsed date was invalid");
    let mut word = reader.word();
    if is_weekday(word) {
        reader.blanks();
        word = reader.word();
    }
    if !word.is_empty() {
        let Some(month) = month_by_name(word) else { return Ok(None) };
        reader.eat('.');
        reader.blanks();
        let first = reader.digits(4);
        if first.len() == 4 {
            // A month without a day means its first day.
            return checked_days(text, first.parse().map_err(|_| invalid())?, month, 1).map(Some);
        }
        let Ok(day) = first.parse() else { return Ok(None) };
        reader.ordinal();
        reader.blanks();
        let Some(year) = reader.number(4) else { return Ok(None) };
        return checked_days(text, year, month, day).map(Some);
    }
    let first = reader.digits(8);
    let number = |digits: &str| digits.parse::<i64>().map_err(|_| invalid());
    match first.len() {
        8 => {
            let n = number(first)?;
            checked_days(text, n / 10_000, n / 100 % 100, n % 100).map(Some)
        }
        4 => {
            let year = number(first)?;
            let dash = reader.eat('-');
            if reader.eat('W') {
                let week = reader.number(2).ok_or_else(invalid)?;
                let weekday = if reader.eat('-') || !dash { reader.number(1) } else { None };
                return checked_iso_days(text, year, week, weekday.unwrap_or(1)).map(Some);
            }
            let slash = !dash && reader.eat('/');
            if !dash && !slash {
                reader.blanks();
                let Some(month) = month_by_name(reader.word()) else { return Ok(None) };
                return checked_days(text, year, month, 1).map(Some);
            }
            if let Some(month) = month_by_name(reader.word()) {
                let day = if reader.eat('-') { reader.number(2).ok_or_else(invalid)? } else { 1 };
                return checked_days(text, year, month, day).map(Some);
            }
            let month = reader.number(2).ok_or_else(invalid)?;
            if dash && let Some(digit) = reader.number(1) {
                // The day of the year, unless it begins like a month.
                let day = month * 10 + digit;
                let length = days(year + 1, 1, 1) - days(year, 1, 1);
                if (1..=12).contains(&month) || !(1..=length).contains(&day) {
                    return Err(invalid());
                }
                return Ok(Some(days(year, 1, day)));
            }
            let more = if slash { reader.eat('/') } else { reader.eat('-') };
            let day = if more { reader.number(2).ok_or_else(invalid)? } else { 1 };
            checked_days(text, year, month, day).map(Some)
        }
        1 | 2 => {
            let n = number(first)?;
            if reader.eat('/') {
                let day = reader.number(2).ok_or_else(invalid)?;
                if !reader.eat('/') {
                    return Ok(None);
                }
                let year = reader.number(4).ok_or_else(invalid)?;
                return checked_days(text, year, n, day).map(Some);
            }
            if let Some(day) = read_day_first(text, n, reader) {
                return day.map(Some);
            }
            reader.ordinal();
            reader.blanks();
            if !reader.eat('-') && !reader.rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
                return Ok(None);
            }
            let Some(month) = month_by_name(reader.word()) else { return Ok(None) };
            reader.eat('-');
            reader.blanks();
            let Some(year) = reader.number(4) else { return Ok(None) };
            checked_days(text, year, month, n).map(Some)
        }
        _ => Ok(None),
    }
}

/// `2.1.2024`, `2-1-2024`, and with two digits in front of dashes `24-01-02`, behind the first
/// number.
fn read_day_first(text: &str, first: i64, reader: &mut Reader<'_>) -> Option<Result<i64>> {
    let mut ahead = Reader { rest: reader.rest };
    let separator = ['.', '-'].into_iter().find(|separator| ahead.eat(*separator))?;
    let month = ahead.number(2)?;
    if !ahead.eat(separator) {
        return None;
    }
    let last = ahead.digits(4);
    let number = last.parse().ok()?;
    reader.rest = ahead.rest;
    Some(match last.len() {
        4 => checked_days(text, number, month, first),
        // Years of two digits lie around 2000.
        2 if separator == '-' => {
            checked_days(text, first + if first < 70 { 2000 } else { 1900 }, month, number)
        }
        _ => Err(bad(text, "The parsed date was invalid")),
    })
}

/// Reads a time of the day. An hour alone is one only with `am` or `pm`, or where it `may_be_alone`.
fn read_time(text: &str, reader: &mut Reader<'_>, may_be_alone: bool) -> Result<i64> {
    let invalid = || bad(text, "The parsed time was invalid");
    let mut alone = true;
    let mut hour = reader.number(2).ok_or_else(invalid)?;
    let (mut minute, mut second, mut ms) = (0, 0, 0);
    if reader.eat(':') || reader.eat('.') {
        alone = false;
        minute = reader.number(2).ok_or_else(invalid)?;
        if reader.eat(':') || reader.eat('.') {
            second = reader.number(2).ok_or_else(invalid)?;
            if reader.eat('.') {
                ms = reader.milliseconds(9).ok_or_else(invalid)?;
            }
        }
    }
    let rest = reader.rest.trim_start().to_ascii_lowercase();
    let half = ["am", "pm"].into_iter().find(|half| rest.starts_with(half));
    if let Some(half) = half {
        if !(1..=12).contains(&hour) {
            return Err(invalid());
        }
        reader.blanks();
        reader.rest = reader.rest.get(2..).unwrap_or("");
        hour = hour % 12 + if half == "pm" { 12 } else { 0 };
    } else if alone && !may_be_alone {
        return Err(invalid());
    }
    checked_time(text, hour, minute, second, ms)
}

/// Reads a text by a checked format.
fn parse_by_format(text: &str, format: &str, zone: Option<Zone>) -> Result<i64> {
    let mut reader = Reader { rest: text };
    let (mut year, mut month, mut day, mut ordinal) = (None, None, None, None);
    let (mut iso_year, mut iso_week, mut iso_weekday) = (None, None, None);
    let (mut hour, mut minute, mut second, mut ms) = (0, 0, 0, 0);
    let mut offset = None;
    let mut characters = format.chars();
    while let Some(c) = characters.next() {
        let at = text.len() - reader.rest.len();
        let wrong = || bad(text, &format!("{at}: the text does not fit the format"));
        if c != '%' {
            if !reader.eat(c) {
                return Err(wrong());
            }
            continue;
        }
        match characters.next() {
            Some('Y') => year = Some(reader.number(4).ok_or_else(wrong)?),
            Some('m') => month = Some(reader.number(2).ok_or_else(wrong)?),
            Some('b' | 'B') => month = Some(month_by_name(reader.word()).ok_or_else(wrong)?),
            Some('d') => day = Some(reader.number(2).ok_or_else(wrong)?),
            Some('j') => ordinal = Some(reader.number(3).ok_or_else(wrong)?),
            Some('H') => hour = reader.number(2).ok_or_else(wrong)?,
            Some('M') => minute = reader.number(2).ok_or_else(wrong)?,
            Some('S') => second = reader.number(2).ok_or_else(wrong)?,
            Some('L') => ms = reader.milliseconds(3).ok_or_else(wrong)?,
            Some('G') => iso_year = Some(reader.number(4).ok_or_else(wrong)?),
            Some('V') => iso_week = Some(reader.number(2).ok_or_else(wrong)?),
            Some('u') => iso_weekday = Some(reader.number(1).ok_or_else(wrong)?),
            Some('z') => offset = Some(reader.offset().ok_or_else(wrong)?),
            Some('Z') => {
                let negative = reader.eat('-');
                if !negative && !reader.eat('+') {
                    return Err(wrong());
                }
                let minutes = reader.number(4).ok_or_else(wrong)?;
                offset = Some(if negative { -minutes } else { minutes } * MINUTE);
            }
            Some(c) if reader.eat(c) => {}
            _ => return Err(wrong()),
        }
    }
    if !reader.rest.is_empty() {
        let at = text.len() - reader.rest.len();
        return Err(bad(text, &format!("{at}: Trailing data '{}'", reader.rest)));
    }
    let calendar = year.is_some() || month.is_some() || day.is_some();
    if calendar && (iso_year.is_some() || iso_week.is_some() || iso_weekday.is_some()) {
        return Err(bad(text, "Mixing of ISO dates with natural dates is not allowed"));
    }
    let day = match (year, month, day, ordinal, iso_year) {
        (Some(year), Some(month), Some(day), ..) => Some(checked_days(text, year, month, day)?),
        (Some(year), None, None, Some(ordinal), _) => {
            let day = days(year, 1, ordinal);
            if ordinal < 1 || from_days(day).0 != year {
                return Err(bad(text, "The parsed date was invalid"));
            }
            Some(day)
        }
        (None, None, None, None, Some(year)) => {
            let (week, weekday) = (iso_week.unwrap_or(1), iso_weekday.unwrap_or(1));
            Some(checked_iso_days(text, year, week, weekday)?)
        }
        _ => None,
    };
    let time = checked_time(text, hour, minute, second, ms)?;
    Fields { day, time, offset }.finish(text, zone)
}
