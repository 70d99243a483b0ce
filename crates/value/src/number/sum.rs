//! Adding up many numbers as `$sum`, `$avg` and `$add` do: whole numbers exactly, doubles with the
//! error of each step carried along, decimals apart; the result has the widest type that was seen.

use crate::decimal::Parts;
use crate::{Decimal128, Type, Val};

/// A running sum. Starts as the int zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// The whole numbers, all of them while no double was seen.
    whole: i128,
    /// Everything that is not a decimal, once a double was seen.
    double: Compensated,
    decimal: Option<Decimal128>,
    long_seen: bool,
    double_seen: bool,
}

/// A double and what it is short of.
#[derive(Clone, Copy, Debug, Default)]
struct Compensated {
    sum: f64,
    short: f64,
    /// The plain sum: with infinities the error terms are NaN, but this is right.
    plain: f64,
}

impl Compensated {
    fn add(&mut self, n: f64) {
        self.plain += n;
        let (n, first) = two_sum(n, self.short);
        let (sum, second) = two_sum(self.sum, n);
        self.sum = sum;
        self.short = first + second;
    }

    /// Adds a whole number in pieces that doubles hold exactly.
    fn add_whole(&mut self, n: i128) {
        for shift in [0, 32, 64, 96] {
            let piece = (n.unsigned_abs() >> shift) as u32;
            if piece != 0 {
                let piece = f64::from(piece) * 2f64.powi(shift);
                self.add(if n < 0 { -piece } else { piece });
            }
        }
    }

    fn total(self) -> f64 {
        if self.sum.is_nan() { self.plain } else { self.sum }
    }
}

/// Sum and rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let rest = sum - a;
    (sum, (a - (sum - rest)) + (b - rest))
}

impl Sum {
    /// The empty sum.
    #[must_use]
    pub fn new() -> Sum {
        Sum::default()
    }

    /// Adds a number; anything else is ignored. Says whether it was one.
    pub fn add(&mut self, value: Val<'_>) -> bool {
        match value {
            Val::Int32(n) => self.add_whole(i128::from(n)),
            Val::Int64(n) => {
                self.long_seen = true;
                self.add_whole(i128::from(n));
            }
            Val::Double(n) => {
                self.see_double();
                self.double.add(n);
            }
            Val::Decimal(n) => {
                self.decimal = Some(self.decimal.map_or(n, |sum| sum.add(n)));
            }
            _ => return false,
        }
        true
    }

    /// Adds all that another sum has seen.
    pub fn merge(&mut self, other: &Sum) {
        self.long_seen |= other.long_seen;
        if other.double_seen {
            self.see_double();
            self.double.add(other.double.sum);
            self.double.add(other.double.short);
        } else {
            self.add_whole(other.whole);
        }
        if let Some(decimal) = other.decimal {
            self.add(Val::Decimal(decimal));
        }
    }

    fn add_whole(&mut self, n: i128) {
        if self.double_seen {
            self.double.add_whole(n);
        } else {
            // Longs fill 64 bits, so even 2^63 of them stay inside 127.
            self.whole = self.whole.saturating_add(n);
        }
    }

    fn see_double(&mut self) {
        if !self.double_seen {
            self.double_seen = true;
            self.double.add_whole(self.whole);
            self.whole = 0;
        }
    }

    /// The type of the total: the widest one seen.
    #[must_use]
    pub fn kind(&self) -> Type {
        self.total().kind()
    }

    /// The sum so far. Whole numbers beyond the range of longs give a double.
    #[must_use]
    pub fn total(&self) -> Val<'static> {
        if self.decimal.is_some() {
            return Val::Decimal(self.decimal_total());
        }
        if self.double_seen {
            return Val::Double(self.double.total());
        }
        match (i32::try_from(self.whole), i64::try_from(self.whole)) {
            (Ok(n), _) if !self.long_seen => Val::Int32(n),
            (_, Ok(n)) => Val::Int64(n),
            _ => Val::Double(self.whole as f64),
        }
    }

    /// The sum divided by how many there were; null for none.
    #[must_use]
    pub fn average(&self, count: u64) -> Val<'static> {
        if count == 0 {
            return Val::Null;
        }
        match self.total() {
            Val::Decimal(total) => Val::Decimal(total.div(Decimal128::from_u64(count))),
            _ if self.double_seen => Val::Double(self.double.total() / count as f64),
            _ => Val::Double(self.whole as f64 / count as f64),
        }
    }

    fn decimal_total(&self) -> Decimal128 {
        let decimal = self.decimal.unwrap_or(Decimal128::ZERO);
        if !self.double_seen {
            let whole = Decimal128::from_parts(Parts {
                negative: self.whole < 0,
                coefficient: self.whole.unsigned_abs(),
                exponent: 0,
            });
            return decimal.add(whole);
        }
        if !self.double.sum.is_finite() {
            return decimal.add(Decimal128::from_f64(self.double.total()));
        }
        let sum = Decimal128::from_f64_34_digits(self.double.sum);
        let short = Decimal128::from_f64_34_digits(self.double.short);
        decimal.add(sum.add(short))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(values: &[Val<'_>]) -> Val<'static> {
        let mut sum = Sum::new();
        for value in values {
            sum.add(*value);
        }
        sum.total()
    }

    fn decimal(text: &str) -> Val<'static> {
        Val::Decimal(Decimal128::parse(text).unwrap())
    }

    #[test]
    fn totals_have_the_widest_type() {
        let top = Val::Int64(i64::MAX);
        assert_eq!(total(&[]), Val::Int32(0));
        assert_eq!(total(&[Val::Int32(i32::MAX), Val::Int32(1)]), Val::Int64(1 << 31));
        assert_eq!(total(&[Val::Int64(1), Val::Int32(2)]), Val::Int64(3));
        assert_eq!(total(&[top, top]), Val::Double(1.844_674_407_370_955_2e19));
        assert_eq!(total(&[top, Val::Int64(1), Val::Int64(-1)]), top);
        assert_eq!(
            total(&[Val::Double(0.1), Val::Double(0.2), Val::Double(0.3)]),
            Val::Double(0.6)
        );
        assert_eq!(total(&[Val::Int32(1), Val::String("x"), Val::Double(0.5)]), Val::Double(1.5));
        assert_eq!(total(&[decimal("1"), Val::Int32(i32::MAX)]), decimal("2147483648"));
    }

    #[test]
    fn doubles_meet_decimals_with_34_digits() {
        assert_eq!(
            total(&[Val::Double(0.1), decimal("1")]),
            decimal("1.100000000000000005551115123125783")
        );
        assert_eq!(
            total(&[decimal("1"), Val::Double(0.1), Val::Double(0.2)]),
            decimal("1.300000000000000016653345369377348")
        );
        assert_eq!(total(&[Val::Double(3.0), decimal("1")]), decimal("4"));
    }

    #[test]
    fn infinities_survive() {
        let huge = Val::Double(1e308);
        assert_eq!(total(&[huge, huge, Val::Double(-1e308)]), Val::Double(f64::INFINITY));
        assert_eq!(total(&[Val::Double(f64::INFINITY), decimal("1")]), decimal("Infinity"));
        let both = total(&[Val::Double(f64::INFINITY), Val::Double(f64::NEG_INFINITY)]);
        assert!(matches!(both, Val::Double(n) if n.is_nan()));
    }

    #[test]
    fn averages() {
        let mut sum = Sum::new();
        assert_eq!(sum.average(0), Val::Null);
        sum.add(Val::Int32(1));
        sum.add(Val::Int32(2));
        assert_eq!(sum.average(2), Val::Double(1.5));
        let mut mixed = Sum::new();
        mixed.add(Val::Double(0.1));
        mixed.add(decimal("1"));
        assert_eq!(mixed.average(2), decimal("0.5500000000000000027755575615628915"));
        sum.merge(&mixed);
        let Val::Decimal(merged) = sum.total() else { panic!("a decimal was merged in") };
        assert_eq!(
            merged.round_to(30),
            Decimal128::parse("4.100000000000000005551115123126").unwrap()
        );
    }
}
