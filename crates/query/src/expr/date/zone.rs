//! Time zones: names of the IANA database, `UTC`, and plain offsets such as `+05:30`.

use super::SECOND;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use value::{Code, Error, Result, Val};

/// A time zone.
#[derive(Clone, Debug)]
pub(super) enum Zone {
    /// A fixed offset in milliseconds.
    Fixed(i64),
    Named(TimeZone),
}

impl Zone {
    pub(super) const UTC: Zone = Zone::Fixed(0);

    /// The zone that an operand names; `None` where it is null. One left out is UTC.
    pub(super) fn operand(value: Val<'_>) -> Result<Option<Zone>> {
        match value {
            Val::Missing => Ok(Some(Zone::UTC)),
            Val::Null | Val::Undefined => Ok(None),
            Val::String(name) => Zone::parse(name).map(Some),
            other => Err(Error::new(
                Code(40517),
                format!("timezone must evaluate to a string, found {}", other.kind().name()),
            )),
        }
    }

    pub(super) fn parse(name: &str) -> Result<Zone> {
        if matches!(name, "UTC" | "GMT") {
            return Ok(Zone::UTC);
        }
        if let Some(offset) = parse_offset(name) {
            return Ok(Zone::Fixed(offset));
        }
        match TimeZone::get(name) {
            // Names are case-sensitive.
            Ok(zone) if zone.iana_name() == Some(name) => Ok(Zone::Named(zone)),
            _ => Err(Error::new(
                Code(40485),
                format!("unrecognized time zone identifier: \"{name}\""),
            )),
        }
    }

    /// The offset from UTC at an instant, in milliseconds.
    pub(super) fn offset(&self, utc: i64) -> i64 {
        match self {
            Zone::Fixed(offset) => *offset,
            Zone::Named(zone) => {
                let clamped =
                    utc.clamp(Timestamp::MIN.as_millisecond(), Timestamp::MAX.as_millisecond());
                let instant = Timestamp::from_millisecond(clamped).unwrap_or(Timestamp::UNIX_EPOCH);
                i64::from(zone.to_offset(instant).seconds()) * SECOND
            }
        }
    }

    /// Local milliseconds of an instant.
    pub(super) fn to_local(&self, utc: i64) -> i64 {
        utc.saturating_add(self.offset(utc))
    }

    /// The instant of local milliseconds. Times that a clock change skips move forward; of repeated
    /// times the second is used.
    pub(super) fn to_utc(&self, local: i64) -> i64 {
        self.resolve(local, false)
    }

    /// The same, but of repeated times the first is used; for dates that are moved.
    pub(super) fn to_utc_first(&self, local: i64) -> i64 {
        self.resolve(local, true)
    }

    fn resolve(&self, local: i64, first: bool) -> i64 {
        match self {
            Zone::Fixed(offset) => local.saturating_sub(*offset),
            Zone::Named(zone) => {
                let exact = to_civil(local).and_then(|civil| {
                    let instant = zone.to_ambiguous_timestamp(civil);
                    if first { instant.compatible().ok() } else { instant.later().ok() }
                });
                match exact {
                    Some(instant) => instant.as_second() * SECOND + local.rem_euclid(SECOND),
                    None => local.saturating_sub(self.offset(local)),
                }
            }
        }
    }
}

/// Whole seconds of local milliseconds as jiff's calendar fields, within its range of years.
fn to_civil(local: i64) -> Option<DateTime> {
    let civil = super::civil::Civil::from_local(local);
    DateTime::new(
        i16::try_from(civil.year).ok()?,
        i8::try_from(civil.month).ok()?,
        i8::try_from(civil.day).ok()?,
        i8::try_from(civil.hour).ok()?,
        i8::try_from(civil.minute).ok()?,
        i8::try_from(civil.second).ok()?,
        0,
    )
    .ok()
}

/// `+hh`, `+hhmm` or `+hh:mm`, in milliseconds.
pub(super) fn parse_offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.len() {
        2 => (rest, "0"),
        4 => rest.split_at_checked(2)?,
        5 => rest.split_once(':')?,
        _ => return None,
    };
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if plain { digits.parse::<i64>().ok() } else { None }
    };
    if rest.len() == 5 && hours.len() != 2 {
        return None;
    }
    Some(sign * (number(hours)? * 60 + number(minutes)?) * super::MINUTE)
}
