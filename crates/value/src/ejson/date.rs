//! Dates as text: ISO 8601 to and from milliseconds since 1970, in the proleptic Gregorian calendar.

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Days from 1970-01-01 to a date of the Gregorian calendar; months count from 1.
#[must_use]
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    // Years begin in March, so that the leap day is the last one; eras are 400 years.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a day since 1970-01-01.
#[must_use]
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads an ISO 8601 date and time (`2024-02-29T12:30:15.123Z`). The time, its seconds, the
/// fraction and the zone may be missing (UTC then); a bare year or month is a date too.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    let mut rest = Reader(text.as_bytes());
    let (year, month, day) = rest.date()?;
    let mut millis = days_from_civil(year, month, day).checked_mul(DAY_MS)?;
    if rest.0.is_empty() {
        return Some(millis);
    }
    if !(rest.take(b'T') || rest.take(b't') || rest.take(b' ')) {
        return None;
    }
    millis = millis.checked_add(rest.time()?)?;
    millis.checked_sub(rest.zone()?).filter(|_| rest.0.is_empty())
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, byte: u8) -> bool {
        let found = self.0.first() == Some(&byte);
        if found {
            self.0 = self.0.get(1..).unwrap_or(&[]);
        }
        found
    }

    /// A number of exactly `count` digits.
    fn digits(&mut self, count: usize) -> Option<u32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.0 = rest;
        Some(digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
    }

    fn date(&mut self) -> Option<(i64, u32, u32)> {
        let year = if self.take(b'-') {
            -i64::from(self.digits(6)?)
        } else if self.take(b'+') {
            i64::from(self.digits(6)?)
        } else {
            i64::from(self.digits(4)?)
        };
        let month = if self.take(b'-') { self.digits(2)? } else { return Some((year, 1, 1)) };
        let day = if self.take(b'-') { self.digits(2)? } else { 1 };
        let valid = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
        valid.then_some((year, month, day))
    }

    /// Milliseconds since midnight.
    fn time(&mut self) -> Option<i64> {
        let hour = self.digits(2)?;
        let minute = if self.take(b':') { self.digits(2)? } else { return None };
        let second = if self.take(b':') { self.digits(2)? } else { 0 };
        let mut millis = 0;
        if self.take(b'.') || self.take(b',') {
            let mut weight = 100;
            let mut any = false;
            while let Some(digit) = self.0.first().filter(|b| b.is_ascii_digit()) {
                millis += weight * u32::from(digit - b'0');
                weight /= 10;
                any = true;
                self.0 = self.0.get(1..).unwrap_or(&[]);
            }
            if !any {
                return None;
            }
        }
        // A leap second counts as the first one of the next minute.
        let valid = (hour < 24 || (hour == 24 && minute == 0 && second == 0 && millis == 0))
            && minute < 60
            && second <= 60;
        valid.then(|| i64::from(((hour * 60 + minute) * 60 + second) * 1000 + millis))
    }

    /// Milliseconds that local time is ahead of UTC.
    fn zone(&mut self) -> Option<i64> {
        if self.0.is_empty() || self.take(b'Z') || self.take(b'z') {
            return Some(0);
        }
        let sign = if self.take(b'+') {
            1
        } else if self.take(b'-') {
            -1
        } else {
            return None;
        };
        let hours = self.digits(2)?;
        let minutes = if self.take(b':') || !self.0.is_empty() { self.digits(2)? } else { 0 };
        (hours < 24 && minutes < 60).then(|| sign * i64::from(hours * 60 + minutes) * 60_000)
    }
}

/// Prints a date as ISO 8601 in UTC, with milliseconds unless `short` leaves zeros away. Years
/// outside 0 to 9999 get a sign and six digits.
#[must_use]
pub fn print(millis: i64, short: bool) -> String {
    let (year, month, day) = civil_from_days(millis.div_euclid(DAY_MS));
    let time = millis.rem_euclid(DAY_MS);
    let (hour, minute) = (time / 3_600_000, time / 60_000 % 60);
    let (second, milli) = (time / 1000 % 60, time % 1000);
    let year =
        if (0..=9999).contains(&year) { format!("{year:04}") } else { format!("{year:+07}") };
    let fraction = if short && milli == 0 { String::new() } else { format!(".{milli:03}") };
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Whether the year has four digits, so that `print` needs no sign.
#[must_use]
pub fn has_plain_year(millis: i64) -> bool {
    // 0000-01-01 to 9999-12-31.
    (-62_167_219_200_000..=253_402_300_799_999).contains(&millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_milliseconds() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01", 0),
            ("1970", 0),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2024-02-29T12:30:15.123Z", 1_709_209_815_123),
            ("2024-02-29T12:30:15.1239Z", 1_709_209_815_123),
            ("2024-02-29T14:30:15.123+02:00", 1_709_209_815_123),
            ("2024-02-29 14:30:15.123+0200", 1_709_209_815_123),
            ("2024-02-29T12:30Z", 1_709_209_800_000),
            ("0001-01-01T00:00:00Z", -62_135_596_800_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("+010000-01-01T00:00:00Z", 253_402_300_800_000),
            ("-000001-12-31T23:59:59Z", -62_167_219_201_000),
        ] {
            assert_eq!(parse(text), Some(millis), "{text}");
        }
        for text in [
            "",
            "x",
            "2024-13-01",
            "2023-02-29",
            "2024-1-1",
            "2024-01-01T25:00Z",
            "2024-01-01T1:00",
            "2024-01-01T10:00:00.Z",
            "2024-01-01T10:00Zx",
            "2024-01-01T10:60",
            "2024-01-01T10:00+9",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn printing_reads_back() {
        for millis in
            [0, -1, 1, 1_709_209_815_123, -62_167_219_200_000, 253_402_300_800_000, -1 << 50]
        {
            assert_eq!(parse(&print(millis, true)), Some(millis));
            assert_eq!(parse(&print(millis, false)), Some(millis));
        }
        // The calendar covers every date that 64 bits of milliseconds can name.
        for millis in [i64::MIN, i64::MAX] {
            assert!(print(millis, false).ends_with('Z'));
        }
        assert_eq!(print(0, true), "1970-01-01T00:00:00Z");
        assert_eq!(print(0, false), "1970-01-01T00:00:00.000Z");
    }
}
