//! Preferred numbers: the series that `$bucketAuto` rounds its boundaries to.

use value::{Code, Error, OwnedVal, Result, Val};

/// A series of preferred numbers.
pub(super) enum Granularity {
    /// The members of one decade, ascending.
    Series(Vec<f64>),
    PowersOfTwo,
}

const R5: &[f64] = &[10.0, 16.0, 25.0, 40.0, 63.0];
const R10: &[f64] = &[100.0, 125.0, 160.0, 200.0, 250.0, 315.0, 400.0, 500.0, 630.0, 800.0];
const R20: &[f64] = &[
    100.0, 112.0, 125.0, 140.0, 160.0, 180.0, 200.0, 224.0, 250.0, 280.0, 315.0, 355.0, 400.0,
    450.0, 500.0, 560.0, 630.0, 710.0, 800.0, 900.0,
];
const R40: &[f64] = &[
    100.0, 106.0, 112.0, 118.0, 125.0, 132.0, 140.0, 150.0, 160.0, 170.0, 180.0, 190.0, 200.0,
    212.0, 224.0, 236.0, 250.0, 265.0, 280.0, 300.0, 315.0, 335.0, 355.0, 375.0, 400.0, 425.0,
    450.0, 475.0, 500.0, 530.0, 560.0, 600.0, 630.0, 670.0, 710.0, 750.0, 800.0, 850.0, 900.0,
    950.0,
];
const R80: &[f64] = &[
    103.0, 109.0, 115.0, 122.0, 128.0, 136.0, 145.0, 155.0, 165.0, 175.0, 185.0, 195.0, 206.0,
    218.0, 230.0, 243.0, 258.0, 272.0, 290.0, 307.0, 325.0, 345.0, 365.0, 387.0, 412.0, 437.0,
    462.0, 487.0, 515.0, 545.0, 575.0, 615.0, 650.0, 690.0, 730.0, 775.0, 825.0, 875.0, 925.0,
    975.0,
];
const E6: &[f64] = &[10.0, 15.0, 22.0, 33.0, 47.0, 68.0];
const E12: &[f64] = &[10.0, 12.0, 15.0, 18.0, 22.0, 27.0, 33.0, 39.0, 47.0, 56.0, 68.0, 82.0];
const E24: &[f64] = &[
    10.0, 11.0, 12.0, 13.0, 15.0, 16.0, 18.0, 20.0, 22.0, 24.0, 27.0, 30.0, 33.0, 36.0, 39.0, 43.0,
    47.0, 51.0, 56.0, 62.0, 68.0, 75.0, 82.0, 91.0,
];
const ONE_TWO_FIVE: &[f64] = &[10.0, 20.0, 50.0];

impl Granularity {
    pub(super) fn parse(name: &str) -> Result<Granularity> {
        let series = match name {
            "POWERSOF2" => return Ok(Granularity::PowersOfTwo),
            "R5" => R5.to_vec(),
            "R10" => R10.to_vec(),
            "R20" => R20.to_vec(),
            "R40" => R40.to_vec(),
            "R80" => R80.to_vec(),
            "E6" => E6.to_vec(),
            "E12" => E12.to_vec(),
            "E24" => E24.to_vec(),
            "E48" => even(48),
            "E96" => even(96),
            "E192" => even(192),
            "1-2-5" => ONE_TWO_FIVE.to_vec(),
            other => {
                return Err(Error::new(
                    Code(40257),
                    format!("Unknown rounding granularity '{other}'"),
                ));
            }
        };
        Ok(Granularity::Series(series))
    }

    /// Refuses values that cannot be rounded.
    pub(super) fn check(&self, value: Val<'_>) -> Result<()> {
        if !value.is_number() {
            return Err(Error::new(
                Code(40258),
                format!(
                    "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found \
                     a value with type: {}",
                    value.kind().name()
                ),
            ));
        }
        let number = value.as_f64().unwrap_or(f64::NAN);
        if number.is_nan() {
            return Err(Error::new(
                Code(40259),
                "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN",
            ));
        }
        if number < 0.0 {
            return Err(Error::new(
                Code(40260),
                "$bucketAuto can specify a 'granularity' with non-negative numbers only, but found a \
                 negative number",
            ));
        }
        Ok(())
    }

    /// The least member above a value.
    pub(super) fn round_up(&self, value: Val<'_>) -> OwnedVal {
        let number = value.as_f64().unwrap_or(0.0);
        if number <= 0.0 || !number.is_finite() {
            return OwnedVal::new(value);
        }
        let series = match self {
            Granularity::PowersOfTwo => return power_of_two(value, number, true),
            Granularity::Series(series) => series,
        };
        let (first, last) = ends(series);
        let mut scale = 1.0;
        while number >= last * scale {
            scale *= 10.0;
        }
        let mut above = first * scale;
        while number < first * scale {
            above = first * scale;
            scale /= 10.0;
            if number >= last * scale {
                return OwnedVal::new(Val::Double(above));
            }
        }
        let found = series.iter().map(|member| member * scale).find(|member| *member > number);
        OwnedVal::new(Val::Double(found.unwrap_or(above)))
    }

    /// The greatest member below a value.
    pub(super) fn round_down(&self, value: Val<'_>) -> OwnedVal {
        let number = value.as_f64().unwrap_or(0.0);
        if number <= 0.0 || !number.is_finite() {
            return OwnedVal::new(value);
        }
        let series = match self {
            Granularity::PowersOfTwo => return power_of_two(value, number, false),
            Granularity::Series(series) => series,
        };
        let (first, last) = ends(series);
        let mut scale = 1.0;
        while number <= first * scale {
            scale /= 10.0;
        }
        // No member that a double can represent is below the value.
        if scale == 0.0 {
            return OwnedVal::new(Val::Double(0.0));
        }
        let mut below = last * scale;
        while number > last * scale {
            below = last * scale;
            scale *= 10.0;
            if number <= first * scale {
                return OwnedVal::new(Val::Double(below));
            }
        }
        let found =
            series.iter().rev().map(|member| member * scale).find(|member| *member < number);
        OwnedVal::new(Val::Double(found.unwrap_or(below)))
    }
}

fn ends(series: &[f64]) -> (f64, f64) {
    (series.first().copied().unwrap_or(1.0), series.last().copied().unwrap_or(1.0))
}

/// A series of equal ratios, rounded to whole numbers between 100 and 999.
fn even(count: u32) -> Vec<f64> {
    (0..count)
        .map(|at| {
            let member = (100.0 * 10_f64.powf(f64::from(at) / f64::from(count))).round();
            // The standard has one member that is not a rounded ratio.
            if count == 192 && member == 919.0 { 920.0 } else { member }
        })
        .collect()
}

fn power_of_two(value: Val<'_>, number: f64, up: bool) -> OwnedVal {
    let exponent = if up { number.log2().floor() + 1.0 } else { number.log2().ceil() - 1.0 };
    let power = exponent.exp2();
    let whole = power.fract() == 0.0 && power < 9.2e18;
    OwnedVal::new(match value {
        Val::Int32(_) | Val::Int64(_) if whole => match i32::try_from(power as i64) {
            Ok(small) if matches!(value, Val::Int32(_)) => Val::Int32(small),
            _ => Val::Int64(power as i64),
        },
        _ => Val::Double(power),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_ascending_within_a_decade() {
        for name in
            ["R5", "R10", "R20", "R40", "R80", "E6", "E12", "E24", "E48", "E96", "E192", "1-2-5"]
        {
            let Ok(Granularity::Series(series)) = Granularity::parse(name) else {
                panic!("{name} is a series")
            };
            assert!(series.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
            assert!(ends(&series).1 < ends(&series).0 * 10.0, "{name}");
        }
    }

    #[test]
    fn rounding_finds_the_neighbours() {
        let r5 = Granularity::parse("R5").expect("known");
        let up = |n: f64| r5.round_up(Val::Double(n)).get().as_f64();
        let down = |n: f64| r5.round_down(Val::Double(n)).get().as_f64();
        assert_eq!((up(11.0), up(10.0), up(63.0)), (Some(16.0), Some(16.0), Some(100.0)));
        assert_eq!((down(11.0), down(10.0)), (Some(10.0), Some(63.0 * 0.1)));
        assert_eq!(up(64.0), Some(100.0));
        assert_eq!(down(95.0), Some(63.0));
    }

    #[test]
    fn rounding_ends_at_both_ends_of_the_doubles() {
        for name in [
            "R5",
            "R10",
            "R20",
            "R40",
            "R80",
            "E6",
            "E12",
            "E24",
            "E48",
            "E96",
            "E192",
            "1-2-5",
            "POWERSOF2",
        ] {
            let series = Granularity::parse(name).expect("known");
            for number in [f64::from_bits(1), f64::from_bits(2), 1e-322, 1e-308, 1e308, f64::MAX] {
                let up = series.round_up(Val::Double(number)).get().as_f64();
                let down = series.round_down(Val::Double(number)).get().as_f64();
                assert!(up.is_some_and(|up| up > number), "{name}: {up:?} above {number:e}");
                assert!(
                    down.is_some_and(|down| down < number && down >= 0.0),
                    "{name}: {down:?} below {number:e}"
                );
            }
        }
    }
}
