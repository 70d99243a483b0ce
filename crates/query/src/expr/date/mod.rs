//! Dates: parts, formats, calendar arithmetic in time zones.
//!
//! A date is milliseconds since 1970. `civil` converts them to and from calendar fields, `zone`
//! finds offsets, `parts` has the operators that split and build dates, `units` those that count in
//! units (`$dateAdd`, `$dateDiff`, `$dateTrunc`), `format` and `read` convert to and from text.
//!
//! The operators evaluate their operands one after another, in MongoDB's order, and stop at the first
//! that makes the result null: an error in a later operand is not seen.

mod civil;
mod format;
mod parts;
mod read;
mod units;
mod zone;

pub use units::add_to_date;

use super::operator::{Operator, Parameter, optional, or_null, required};
use value::{Code, Error, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::special("$currentDate", super::variable::parse_nothing, units::current_date).impure(),
    Operator::named_lazy("$dateAdd", DATE_ADD, 5166400, 5166401, units::date_add),
    Operator::named_lazy("$dateDiff", DATE_DIFF, 5166301, 5166302, units::date_diff),
    Operator::named_lazy("$dateFromParts", DATE_FROM_PARTS, 40519, 40518, parts::from_parts),
    Operator::special_lazy("$dateFromString", read::parse_operands, read::from_string),
    Operator::named_lazy("$dateSubtract", DATE_ADD, 5166400, 5166401, units::date_subtract),
    Operator::named_lazy("$dateToParts", DATE_TO_PARTS, 40524, 40520, parts::to_parts),
    Operator::named_lazy("$dateToString", DATE_TO_STRING, 18629, 18534, format::to_string),
    Operator::named_lazy("$dateTrunc", DATE_TRUNC, 5439007, 5439008, units::date_trunc),
    Operator::special_lazy("$dayOfMonth", parts::parse, parts::day_of_month),
    Operator::special_lazy("$dayOfWeek", parts::parse, parts::day_of_week),
    Operator::special_lazy("$dayOfYear", parts::parse, parts::day_of_year),
    Operator::special_lazy("$hour", parts::parse, parts::hour),
    Operator::special_lazy("$isoDayOfWeek", parts::parse, parts::iso_day_of_week),
    Operator::special_lazy("$isoWeek", parts::parse, parts::iso_week),
    Operator::special_lazy("$isoWeekYear", parts::parse, parts::iso_week_year),
    Operator::special_lazy("$millisecond", parts::parse, parts::millisecond),
    Operator::special_lazy("$minute", parts::parse, parts::minute),
    Operator::special_lazy("$month", parts::parse, parts::month),
    Operator::special_lazy("$second", parts::parse, parts::second),
    Operator::special_lazy("$week", parts::parse, parts::week),
    Operator::special_lazy("$year", parts::parse, parts::year),
];

static DATE_ADD: &[Parameter] = &[
    required("startDate", 5166402),
    required("unit", 5166402),
    required("amount", 5166402),
    optional("timezone"),
];
static DATE_DIFF: &[Parameter] = &[
    required("startDate", 5166303),
    required("endDate", 5166304),
    required("unit", 5166305),
    optional("timezone"),
    optional("startOfWeek"),
];
static DATE_TRUNC: &[Parameter] = &[
    required("date", 5439009),
    required("unit", 5439010),
    optional("binSize"),
    optional("timezone"),
    optional("startOfWeek"),
];
static DATE_TO_PARTS: &[Parameter] =
    &[required("date", 40522), optional("timezone"), optional("iso8601")];
static DATE_TO_STRING: &[Parameter] =
    &[required("date", 18628), optional("format"), optional("timezone"), or_null("onNull")];
static DATE_FROM_PARTS: &[Parameter] = &[
    optional("year"),
    optional("month"),
    optional("day"),
    optional("hour"),
    optional("minute"),
    optional("second"),
    optional("millisecond"),
    optional("timezone"),
    optional("isoWeekYear"),
    optional("isoWeek"),
    optional("isoDayOfWeek"),
];

/// Milliseconds in a second, a minute, an hour, a day.
const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The milliseconds of a date, an object id or a timestamp.
fn milliseconds(value: Val<'_>) -> Option<i64> {
    match value {
        Val::DateTime(ms) => Some(ms),
        Val::Timestamp(t) => Some((t >> 32) as i64 * SECOND),
        Val::ObjectId(id) => Some(i64::from(id.seconds()) * SECOND),
        _ => None,
    }
}

/// The same, refusing everything else.
fn coerce(value: Val<'_>) -> Result<i64> {
    milliseconds(value).ok_or_else(|| {
        Error::new(
            Code(16006),
            format!("can't convert from BSON type {} to Date", value.kind().name()),
        )
    })
}

/// A date as ISO 8601 text in UTC.
pub(super) fn iso_text(ms: i64) -> Result<String> {
    format::iso(ms)
}

/// A timestamp as text, for the operators that take everything as text.
pub(super) fn timestamp_text(t: u64) -> String {
    format::timestamp(t)
}

/// The milliseconds of a date that is written as text; UTC unless it names an offset.
pub(super) fn from_text(text: &str) -> Result<i64> {
    read::parse_text(text, None)
}
