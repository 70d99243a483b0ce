//! Calendar arithmetic on the proleptic Gregorian calendar, over all 64-bit milliseconds.

use value::ejson::date::{civil_from_days, days_from_civil};

use super::{DAY, HOUR, MINUTE, SECOND};

/// The calendar fields of a local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i64,
    /// 1 to 12.
    pub(super) month: i64,
    /// 1 to 31.
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) millisecond: i64,
}

impl Civil {
    /// The fields of local milliseconds.
    pub(super) fn from_local(ms: i64) -> Civil {
        let (year, month, day) = from_days(ms.div_euclid(DAY));
        let rest = ms.rem_euclid(DAY);
        Civil {
            year,
            month,
            day,
            hour: rest / HOUR,
            minute: rest % HOUR / MINUTE,
            second: rest % MINUTE / SECOND,
            millisecond: rest % SECOND,
        }
    }

    /// Days since 1970.
    pub(super) fn days(self) -> i64 {
        days(self.year, self.month, self.day)
    }

    /// 1 to 366.
    pub(super) fn day_of_year(self) -> i64 {
        self.days() - days(self.year, 1, 1) + 1
    }

    /// 0 (Sunday) to 6.
    pub(super) fn weekday(self) -> i64 {
        weekday(self.days())
    }

    /// 1 (Monday) to 7.
    pub(super) fn iso_weekday(self) -> i64 {
        (self.weekday() + 6) % 7 + 1
    }

    /// 0 to 53: weeks begin on Sunday, days before the first one are in week 0.
    pub(super) fn week(self) -> i64 {
        (self.day_of_year() + 6 - self.weekday()) / 7
    }

    /// The ISO 8601 year and week.
    pub(super) fn iso_week(self) -> (i64, i64) {
        // The week belongs to the year that its Thursday is in.
        let thursday = self.days() + 4 - self.iso_weekday();
        let (year, _, _) = from_days(thursday);
        (year, (thursday - days(year, 1, 1)) / 7 + 1)
    }
}

/// 0 (Sunday) to 6 for days since 1970.
pub(super) fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// Days since 1970 of a date; a month or day outside its range carries over.
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    let months = year * 12 + (month - 1);
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    days_from_civil(year, month as u32, 1) + (day - 1)
}

/// Year, month and day of days since 1970.
pub(super) fn from_days(days: i64) -> (i64, i64, i64) {
    let (year, month, day) = civil_from_days(days);
    (year, i64::from(month), i64::from(day))
}

/// How many days a month has.
pub(super) fn month_length(year: i64, month: i64) -> i64 {
    days(year, month + 1, 1) - days(year, month, 1)
}

/// Days since 1970 of an ISO week date.
pub(super) fn iso_days(year: i64, week: i64, weekday: i64) -> i64 {
    let fourth = days(year, 1, 4);
    let iso_weekday = (self::weekday(fourth) + 6) % 7;
    fourth - iso_weekday + (week - 1) * 7 + (weekday - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_days() {
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2000, 3, 1), 11_017);
        assert_eq!(days(2024, 2, 30), days(2024, 3, 1));
        assert_eq!(days(2024, 14, 1), days(2025, 2, 1));
        assert_eq!(days(2024, 0, 1), days(2023, 12, 1));
        assert_eq!(weekday(0), 4);
        assert_eq!(month_length(2023, 2), 28);
        assert_eq!(month_length(2024, 2), 29);
        assert_eq!(iso_days(2024, 9, 4), days(2024, 2, 29));
    }

    proptest! {
        #[test]
        fn fields_and_milliseconds_are_inverse(ms in -100_000_000_000_000_i64..100_000_000_000_000) {
            let civil = Civil::from_local(ms);
            let back = civil.days() * DAY
                + civil.hour * HOUR
                + civil.minute * MINUTE
                + civil.second * SECOND
                + civil.millisecond;
            prop_assert_eq!(back, ms);
            let (year, week) = civil.iso_week();
            prop_assert_eq!(iso_days(year, week, civil.iso_weekday()), civil.days());
        }
    }
}
