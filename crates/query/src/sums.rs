//! Sums, averages and deviations. Whole numbers are summed exactly in 128 bits, doubles exactly too
//! and rounded once, so that the order does not matter, decimals as decimals; the result has the
//! widest type seen.

use value::number::ExactSum;
use value::writer::ArrayWriter;
use value::{Decimal128, RawDoc, Val};

/// A sum of numbers of all types; everything else is ignored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    whole: Int128Halves,
    doubles: ExactSum,
    decimals: Option<Box<Decimal128>>,
    seen_long: bool,
    seen_double: bool,
    count: u64,
}

/// A 128-bit integer in two halves, with the alignment of 64 bits.
#[derive(Clone, Copy, Debug, Default)]
struct Int128Halves {
    high: i64,
    low: u64,
}

impl Int128Halves {
    #[inline]
    fn get(self) -> i128 {
        (i128::from(self.high) << 64) | i128::from(self.low)
    }

    #[inline]
    fn add(&mut self, n: i128) {
        let sum = self.get().wrapping_add(n);
        *self = Int128Halves { high: (sum >> 64) as i64, low: sum as u64 };
    }
}

impl Sum {
    /// Adds a number.
    #[inline]
    pub(crate) fn add(&mut self, value: Val<'_>) {
        match value {
            Val::Int32(n) => self.whole.add(i128::from(n)),
            Val::Int64(n) => {
                self.seen_long = true;
                self.whole.add(i128::from(n));
            }
            Val::Double(n) => {
                self.seen_double = true;
                self.doubles.add(n);
            }
            Val::Decimal(n) => self.add_decimal(n),
            _ => return,
        }
        self.count += 1;
    }

    fn add_decimal(&mut self, n: Decimal128) {
        let sum = self.decimals.get_or_insert_with(|| Box::new(Decimal128::ZERO));
        **sum = sum.add(n);
    }

    /// Writes everything that `absorb` needs.
    pub(crate) fn save(&self, out: &mut ArrayWriter<'_>) {
        out.push(Val::Int64(self.whole.high));
        out.push(Val::Int64(self.whole.low as i64));
        let (small, large, special) = self.doubles.parts();
        for parts in [small, large] {
            out.push_array(|list| parts.iter().for_each(|part| list.push(Val::Double(*part))));
        }
        special.iter().for_each(|count| out.push(Val::Int64(*count)));
        out.push(self.decimals.as_deref().map_or(Val::Null, |sum| Val::Decimal(*sum)));
        out.push(Val::Bool(self.seen_long));
        out.push(Val::Bool(self.seen_double));
        out.push(Val::Int64(self.count as i64));
    }

    /// Adds the saved state of another sum.
    pub(crate) fn absorb(&mut self, saved: RawDoc<'_>) {
        let mut parts = saved.iter().map(|(_, part)| part.get());
        let mut whole = || parts.next().and_then(Val::as_i64_exact).unwrap_or(0);
        let (high, low) = (whole(), whole());
        self.whole.add(Int128Halves { high, low: low as u64 }.get());
        let mut doubles = || -> Vec<f64> {
            let list = parts.next().and_then(Val::as_array).unwrap_or(RawDoc::empty());
            list.iter().filter_map(|(_, part)| part.get().as_f64()).collect()
        };
        let (small, large) = (doubles(), doubles());
        let mut special = || parts.next().and_then(Val::as_i64_exact).unwrap_or(0);
        let special = [special(), special(), special()];
        self.doubles.merge(&ExactSum::from_parts(small, large, special));
        if let Some(Val::Decimal(n)) = parts.next() {
            self.add_decimal(n);
        }
        self.seen_long |= parts.next() == Some(Val::Bool(true));
        self.seen_double |= parts.next() == Some(Val::Bool(true));
        self.count += parts.next().and_then(Val::as_i64_exact).unwrap_or(0) as u64;
    }

    /// Doubles and whole numbers together.
    fn binary(&self) -> ExactSum {
        let mut all = self.doubles.clone();
        all.add_whole(self.whole.get());
        all
    }

    fn decimal(&self, decimals: Decimal128) -> Decimal128 {
        if self.seen_double {
            decimals.add(exact_to_decimal(&self.binary()))
        } else {
            decimals.add(whole_to_decimal(self.whole.get()))
        }
    }

    /// The sum, in the widest type seen; zero for no numbers.
    pub(crate) fn total(&self) -> Val<'static> {
        if let Some(decimals) = self.decimals.as_deref().copied() {
            return Val::Decimal(self.decimal(decimals));
        }
        if self.seen_double {
            return Val::Double(self.binary().value());
        }
        let whole = self.whole.get();
        match (i32::try_from(whole), i64::try_from(whole)) {
            (Ok(small), _) if !self.seen_long => Val::Int32(small),
            (_, Ok(long)) => Val::Int64(long),
            _ => Val::Double(whole as f64),
        }
    }

    /// The mean as double or decimal; null for no numbers.
    pub(crate) fn average(&self) -> Val<'static> {
        if self.count == 0 {
            return Val::Null;
        }
        match self.decimals.as_deref().copied() {
            Some(decimals) => {
                Val::Decimal(self.decimal(decimals).div(Decimal128::from_u64(self.count)))
            }
            None => Val::Double(self.binary().value() / self.count as f64),
        }
    }
}

/// A whole number as decimal, rounded where it has more than 34 digits.
fn whole_to_decimal(n: i128) -> Decimal128 {
    Decimal128::from_parts(value::decimal::Parts {
        negative: n < 0,
        coefficient: n.unsigned_abs(),
        exponent: 0,
    })
}

/// An exact sum as a decimal, with 34 digits.
fn exact_to_decimal(sum: &ExactSum) -> Decimal128 {
    let (value, rest) = sum.value_and_rest();
    if !value.is_finite() {
        return Decimal128::from_f64(value);
    }
    Decimal128::from_f64_34_digits(value).add(Decimal128::from_f64_34_digits(rest))
}

/// Standard deviation by Welford's method.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deviation {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    /// Adds a number; everything else is ignored.
    pub(crate) fn add(&mut self, value: Val<'_>) {
        let Some(n) = value.as_f64() else { return };
        self.count += 1;
        let delta = n - self.mean;
        if delta != 0.0 {
            self.mean += delta / self.count as f64;
            self.squares += delta * (n - self.mean);
        }
    }

    /// Writes everything that `absorb` needs.
    pub(crate) fn save(&self, out: &mut ArrayWriter<'_>) {
        out.push(Val::Int64(self.count as i64));
        out.push(Val::Double(self.mean));
        out.push(Val::Double(self.squares));
    }

    /// Adds the saved state of another deviation.
    pub(crate) fn absorb(&mut self, saved: RawDoc<'_>) {
        let mut parts = saved.iter().map(|(_, part)| part.get());
        let count = parts.next().and_then(Val::as_i64_exact).unwrap_or(0) as u64;
        let mean = parts.next().and_then(Val::as_f64).unwrap_or(0.0);
        let squares = parts.next().and_then(Val::as_f64).unwrap_or(0.0);
        if count == 0 {
            return;
        }
        if self.count == 0 {
            *self = Deviation { count, mean, squares };
            return;
        }
        let (own, other) = (self.count as f64, count as f64);
        let delta = mean - self.mean;
        self.count += count;
        let all = self.count as f64;
        if delta != 0.0 {
            self.mean += delta * other / all;
            self.squares += delta * delta * own * other / all;
        }
        self.squares += squares;
    }

    /// The deviation of the population or of a sample; null for too few numbers.
    pub(crate) fn result(&self, sample: bool) -> Val<'static> {
        let divisor = if sample { self.count.saturating_sub(1) } else { self.count };
        if divisor == 0 {
            return Val::Null;
        }
        Val::Double((self.squares / divisor as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn total(values: &[Val<'_>]) -> Val<'static> {
        let mut sum = Sum::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.total()
    }

    #[test]
    fn types_widen() {
        assert_eq!(total(&[]), Val::Int32(0));
        assert_eq!(total(&[Val::Int32(1), Val::Int32(2)]), Val::Int32(3));
        assert_eq!(total(&[Val::Int32(i32::MAX), Val::Int32(1)]), Val::Int64(1 << 31));
        assert_eq!(total(&[Val::Int32(1), Val::Int64(2)]), Val::Int64(3));
        assert_eq!(total(&[Val::Int32(1), Val::Double(0.5)]), Val::Double(1.5));
        assert_eq!(total(&[Val::Int64(i64::MAX), Val::Int64(1)]), Val::Double(2f64.powi(63)));
    }

    #[test]
    fn rounding_errors_are_compensated() {
        let values = [Val::Double(0.1); 10];
        assert_eq!(total(&values), Val::Double(1.0));
        assert_eq!(
            total(&[Val::Double(1e100), Val::Double(1.0), Val::Double(-1e100)]),
            Val::Double(1.0)
        );
        assert_eq!(
            total(&[Val::Double(f64::INFINITY), Val::Double(1.0)]),
            Val::Double(f64::INFINITY)
        );
    }

    proptest! {
        #[test]
        fn whole_sums_do_not_depend_on_order(mut numbers: Vec<i64>) {
            let values = |numbers: &[i64]| numbers.iter().map(|n| Val::Int64(*n)).collect::<Vec<_>>();
            let forward = total(&values(&numbers));
            numbers.reverse();
            prop_assert_eq!(forward, total(&values(&numbers)));
        }
    }
}
