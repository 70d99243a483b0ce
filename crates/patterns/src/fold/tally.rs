//! A sum from which numbers can be removed. The result is exactly the sum of the remaining
//! numbers, in value and type, as `$sum` and `$avg` return it.

use crate::edit::Patch;
use std::collections::BTreeMap;
use value::decimal::Parts;
use value::number::ExactSum;
use value::{Decimal128, DocBuf, RawDoc, Val, Writer};

/// A sum of numbers of all types; everything else is ignored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    whole: i128,
    ints: i64,
    longs: i64,
    doubles: i64,
    double_sum: ExactSum,
    /// Finite decimals by exponent: their number and the sum of their coefficients, in two parts
    /// that cannot overflow.
    decimals: BTreeMap<i32, (i64, i128, i128)>,
    decimal_nan: i64,
    decimal_infinite: i64,
    decimal_negative_infinite: i64,
}

/// Where a decimal's coefficient is split.
const SPLIT: u128 = 100_000_000_000_000_000;

impl Tally {
    /// The sum of this many whole numbers, all of 64 bits or all of 32.
    #[must_use]
    pub fn of_whole(sum: i64, count: i64, long: bool) -> Tally {
        let (ints, longs) = if long { (0, count) } else { (count, 0) };
        Tally { whole: sum.into(), ints, longs, ..Tally::default() }
    }

    /// Adds a number, or removes one that was added before.
    pub fn change(&mut self, value: Val<'_>, add: bool) {
        let times = if add { 1 } else { -1 };
        match value {
            Val::Int32(n) => {
                self.ints += times;
                self.whole += i128::from(n) * i128::from(times);
            }
            Val::Int64(n) => {
                self.longs += times;
                self.whole += i128::from(n) * i128::from(times);
            }
            Val::Double(n) => {
                self.doubles += times;
                if add {
                    self.double_sum.add(n);
                } else {
                    self.double_sum.subtract(n);
                }
            }
            Val::Decimal(n) if n.is_nan() => self.decimal_nan += times,
            Val::Decimal(n) if n.is_infinite() && n.is_negative() => {
                self.decimal_negative_infinite += times;
            }
            Val::Decimal(n) if n.is_infinite() => self.decimal_infinite += times,
            Val::Decimal(n) => {
                let parts = n.parts();
                let sign = if parts.negative { -times } else { times };
                let high = (parts.coefficient / SPLIT) as i128 * i128::from(sign);
                let low = (parts.coefficient % SPLIT) as i128 * i128::from(sign);
                let slot = self.decimals.entry(parts.exponent).or_default();
                *slot = (slot.0 + times, slot.1 + high, slot.2 + low);
                if slot.0 == 0 {
                    self.decimals.remove(&parts.exponent);
                }
            }
            _ => {}
        }
    }

    /// Adds all numbers of another sum.
    pub fn merge(&mut self, other: &Tally) {
        self.whole += other.whole;
        self.ints += other.ints;
        self.longs += other.longs;
        self.doubles += other.doubles;
        self.double_sum.merge(&other.double_sum);
        for (exponent, (count, high, low)) in &other.decimals {
            let slot = self.decimals.entry(*exponent).or_default();
            *slot = (slot.0 + count, slot.1 + high, slot.2 + low);
        }
        self.decimal_nan += other.decimal_nan;
        self.decimal_infinite += other.decimal_infinite;
        self.decimal_negative_infinite += other.decimal_negative_infinite;
    }

    fn special_decimals(&self) -> i64 {
        self.decimal_nan + self.decimal_infinite + self.decimal_negative_infinite
    }

    fn has_decimals(&self) -> bool {
        !self.decimals.is_empty() || self.special_decimals() > 0
    }

    fn count(&self) -> i64 {
        let finite: i64 = self.decimals.values().map(|(count, _, _)| count).sum();
        self.ints + self.longs + self.doubles + finite + self.special_decimals()
    }

    fn binary(&self) -> ExactSum {
        let mut all = self.double_sum.clone();
        all.add_whole(self.whole);
        all
    }

    fn decimal(&self) -> Decimal128 {
        let mut sum = Decimal128::ZERO;
        for (exponent, (_, high, low)) in &self.decimals {
            sum = sum.add(decimal(*high, exponent.saturating_add(17)));
            sum = sum.add(decimal(*low, *exponent));
        }
        for (count, text) in [
            (self.decimal_nan, "NaN"),
            (self.decimal_infinite, "Infinity"),
            (self.decimal_negative_infinite, "-Infinity"),
        ] {
            if count > 0
                && let Some(special) = Decimal128::parse(text)
            {
                sum = sum.add(special);
            }
        }
        if self.doubles == 0 {
            return sum.add(decimal(self.whole, 0));
        }
        let (value, rest) = self.binary().value_and_rest();
        if !value.is_finite() {
            return sum.add(Decimal128::from_f64(value));
        }
        let both = Decimal128::from_f64_34_digits(value).add(Decimal128::from_f64_34_digits(rest));
        sum.add(both)
    }

    /// The sum in the widest type of its numbers; zero if there are none.
    #[must_use]
    pub fn total(&self) -> Val<'static> {
        if self.has_decimals() {
            return Val::Decimal(self.decimal());
        }
        if self.doubles > 0 {
            return Val::Double(self.binary().value());
        }
        match (i32::try_from(self.whole), i64::try_from(self.whole)) {
            (Ok(small), _) if self.longs == 0 => Val::Int32(small),
            (_, Ok(long)) => Val::Int64(long),
            _ => Val::Double(self.whole as f64),
        }
    }

    /// The mean as double or decimal; null for no numbers.
    #[must_use]
    pub fn average(&self) -> Val<'static> {
        let count = self.count();
        if count <= 0 {
            return Val::Null;
        }
        if self.has_decimals() {
            return Val::Decimal(self.decimal().div(Decimal128::from_i64(count)));
        }
        Val::Double(self.binary().value() / count as f64)
    }

    /// The tally as a document; fields that are zero are left out.
    #[must_use]
    pub fn to_doc(&self) -> DocBuf {
        DocBuf::build(|out| self.write(out))
    }

    /// Writes the fields of `to_doc`.
    pub fn write(&self, out: &mut Writer<'_>) {
        if let Ok(whole) = i64::try_from(self.whole) {
            if whole != 0 {
                out.i64("w", whole);
            }
        } else {
            out.append("w", Val::Binary(0, &self.whole.to_be_bytes()));
        }
        let (small, large, [nan, infinite, negative]) = self.double_sum.parts();
        for (name, count) in [
            ("i", self.ints),
            ("l", self.longs),
            ("d", self.doubles),
            ("n", nan),
            ("p", infinite),
            ("m", negative),
            ("N", self.decimal_nan),
            ("P", self.decimal_infinite),
            ("M", self.decimal_negative_infinite),
        ] {
            if count != 0 {
                out.i64(name, count);
            }
        }
        for (name, parts) in [("s", small), ("b", large)] {
            if !parts.is_empty() {
                out.array(name, |list| {
                    parts.iter().for_each(|part| list.push(Val::Double(*part)));
                });
            }
        }
        if !self.decimals.is_empty() {
            out.array("e", |list| {
                for (exponent, (count, high, low)) in &self.decimals {
                    list.push(Val::Int32(*exponent));
                    list.push(Val::Int64(*count));
                    list.push(Val::Binary(0, &high.to_be_bytes()));
                    list.push(Val::Binary(0, &low.to_be_bytes()));
                }
            });
        }
    }

    /// Reads a tally that `to_doc` wrote.
    #[must_use]
    pub fn from_doc(doc: RawDoc<'_>) -> Tally {
        let mut tally = Tally::default();
        let (mut small, mut large, mut special) = (Vec::new(), Vec::new(), [0; 3]);
        let mut elements = doc.iter();
        while let Some((name, value)) = elements.next_bytes() {
            let value = value.get();
            let number = || value.as_i64_exact().unwrap_or(0);
            match name {
                b"w" => tally.whole = wide(value),
                b"i" => tally.ints = number(),
                b"l" => tally.longs = number(),
                b"d" => tally.doubles = number(),
                b"n" => special[0] = number(),
                b"p" => special[1] = number(),
                b"m" => special[2] = number(),
                b"N" => tally.decimal_nan = number(),
                b"P" => tally.decimal_infinite = number(),
                b"M" => tally.decimal_negative_infinite = number(),
                b"s" => small = doubles(value),
                b"b" => large = doubles(value),
                b"e" => tally.decimals = by_exponent(value),
                _ => {}
            }
        }
        tally.double_sum = ExactSum::from_parts(small, large, special);
        tally
    }
}

/// Adds a 32-bit number to a tally of 32-bit numbers only, inside the document that is being
/// patched. Returns the sum and the number of numbers. `None` if that is not possible; then the
/// patch must not be used.
pub fn add_in_place<'d>(
    patch: &mut Patch<'d>,
    tally: RawDoc<'d>,
    value: Val<'_>,
) -> Option<(Val<'static>, i64)> {
    let Val::Int32(number) = value else { return None };
    let mut elements = tally.iter();
    let (Some((b"w", whole)), Some((b"i", ints)), None) =
        (elements.next_bytes(), elements.next_bytes(), elements.next_bytes())
    else {
        return None;
    };
    let (Val::Int64(sum), Val::Int64(count)) = (whole.get(), ints.get()) else { return None };
    // A sum of zero is not stored.
    let sum = sum.checked_add(i64::from(number)).filter(|sum| *sum != 0)?;
    patch.set_i64(whole, sum)?;
    let count = count.checked_add(1)?;
    patch.set_i64(ints, count)?;
    Some((i32::try_from(sum).map_or(Val::Int64(sum), Val::Int32), count))
}

fn doubles(value: Val<'_>) -> Vec<f64> {
    let list = value.as_array().unwrap_or(RawDoc::empty());
    list.iter().filter_map(|(_, part)| part.get().as_f64()).collect()
}

fn by_exponent(value: Val<'_>) -> BTreeMap<i32, (i64, i128, i128)> {
    let mut decimals = BTreeMap::new();
    let mut list = value.as_array().unwrap_or(RawDoc::empty()).iter();
    while let (Some((_, exponent)), Some((_, count)), Some((_, high)), Some((_, low))) =
        (list.next(), list.next(), list.next(), list.next())
    {
        let exponent = exponent.get().as_i64_exact().unwrap_or(0) as i32;
        let count = count.get().as_i64_exact().unwrap_or(0);
        decimals.insert(exponent, (count, wide(high.get()), wide(low.get())));
    }
    decimals
}

fn decimal(coefficient: i128, exponent: i32) -> Decimal128 {
    Decimal128::from_parts(Parts {
        negative: coefficient < 0,
        coefficient: coefficient.unsigned_abs(),
        exponent,
    })
}

fn wide(value: Val<'_>) -> i128 {
    match value {
        Val::Binary(_, bytes) => bytes.first_chunk().map_or(0, |bytes| i128::from_be_bytes(*bytes)),
        other => other.as_i64_exact().map_or(0, i128::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bumpalo::Bump;
    use proptest::prelude::*;
    use query::ParseContext;
    use query::accumulate::AccumulatorSpec;
    use value::OwnedVal;

    fn number() -> impl Strategy<Value = OwnedVal> {
        prop_oneof![
            any::<i32>().prop_map(|n| Val::Int32(n).into()),
            any::<i64>().prop_map(|n| Val::Int64(n).into()),
            any::<f64>().prop_map(|n| Val::Double(n).into()),
            prop_oneof![Just(0.1), Just(1e16), Just(f64::NAN), Just(f64::INFINITY)]
                .prop_map(|n| Val::Double(n).into()),
            (-1_000_000_i64..1_000_000, 0_u32..4).prop_map(|(n, digits)| {
                let parts = Parts {
                    negative: n < 0,
                    coefficient: u128::from(n.unsigned_abs()),
                    exponent: -(digits as i32),
                };
                Val::Decimal(Decimal128::from_parts(parts)).into()
            }),
            Just(Val::String("x").into()),
        ]
    }

    fn grouped(operator: &str, values: &[OwnedVal]) -> OwnedVal {
        let spec =
            AccumulatorSpec::parse_operator(operator, Val::String("$v"), &ParseContext::new(0))
                .expect("is known");
        let mut state = spec.start(Val::Null).expect("starts");
        for value in values {
            state.process(value.get()).expect("takes numbers");
        }
        let arena = Bump::new();
        OwnedVal::new(state.finish(&arena).expect("ends"))
    }

    proptest! {
        #[test]
        fn a_number_that_is_added_in_place_is_added_as_any_other(
            known in prop::collection::vec(number(), 0..4),
            small in prop::collection::vec(-3_i32..3, 0..4),
            value in number(),
        ) {
            let mut tally = Tally::default();
            small.iter().for_each(|number| tally.change(Val::Int32(*number), true));
            known.iter().skip(1).for_each(|value| tally.change(value.get(), true));
            let doc = tally.to_doc();
            let mut patch = Patch::new(doc.as_doc());
            if let Some((total, ints)) = add_in_place(&mut patch, doc.as_doc(), value.get()) {
                tally.change(value.get(), true);
                prop_assert_eq!(total, tally.total());
                prop_assert_eq!(ints, tally.count());
                prop_assert_eq!(patch.finish(), tally.to_doc());
            }
        }

        #[test]
        fn equals_group_after_any_adding_and_taking_away(
            kept in prop::collection::vec(number(), 0..12),
            gone in prop::collection::vec(number(), 0..12),
        ) {
            let mut tally = Tally::default();
            gone.iter().for_each(|value| tally.change(value.get(), true));
            kept.iter().rev().for_each(|value| tally.change(value.get(), true));
            tally = Tally::from_doc(tally.to_doc().as_doc());
            gone.iter().for_each(|value| tally.change(value.get(), false));
            let same = |a: OwnedVal, b: OwnedVal| match (a.get(), b.get()) {
                (Val::Double(a), Val::Double(b)) if a.is_nan() => b.is_nan(),
                // Large doubles with decimals use up the 34 digits: then the result depends on the
                // order of rounding.
                (Val::Decimal(a), Val::Decimal(b)) if a.is_finite() => {
                    let near = a.sub(b).abs().to_f64() <= a.abs().to_f64() * 1e-30;
                    a == b || near
                }
                _ => a == b,
            };
            prop_assert!(same(OwnedVal::new(tally.total()), grouped("$sum", &kept)),
                "{:?} {:?}", tally.total(), grouped("$sum", &kept));
            prop_assert!(same(OwnedVal::new(tally.average()), grouped("$avg", &kept)));
            kept.iter().for_each(|value| tally.change(value.get(), false));
            prop_assert_eq!(tally, Tally::default());
        }
    }
}
