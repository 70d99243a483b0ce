//! A standard deviation from which numbers can be removed: it keeps the exact sums of the numbers
//! and of their squares, so the result does not depend on the order of changes.

use value::number::ExactSum;
use value::{DocBuf, RawDoc, Val};

/// The sums for a deviation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    count: i64,
    sum: ExactSum,
    squares: ExactSum,
}

/// The field that distinguishes moments from tallies.
const SQUARES: &str = "q";

impl Moments {
    /// Adds a number, or removes one that was added before.
    pub fn change(&mut self, number: f64, add: bool) {
        let square = number * number;
        // The rounding error of the square, so that nothing is lost.
        let rest = if square.is_finite() { number.mul_add(number, -square) } else { 0.0 };
        if add {
            self.count += 1;
            self.sum.add(number);
            self.squares.add(square);
            self.squares.add(rest);
        } else {
            self.count -= 1;
            self.sum.subtract(number);
            self.squares.subtract(square);
            self.squares.subtract(rest);
        }
    }

    /// The deviation of the population or of a sample; null for too few numbers.
    #[must_use]
    pub fn deviation(&self, sample: bool) -> Val<'static> {
        let divisor = if sample { self.count - 1 } else { self.count };
        if divisor <= 0 {
            return Val::Null;
        }
        // squares - sum * sum / count, in twice the precision of doubles.
        let (sum, sum_rest) = self.sum.value_and_rest();
        let (squares, squares_rest) = self.squares.value_and_rest();
        let count = self.count as f64;
        let product = sum * sum;
        let product_rest = sum.mul_add(sum, -product) + 2.0 * sum * sum_rest;
        let mean = product / count;
        let mean_rest = ((-mean).mul_add(count, product) + product_rest) / count;
        let difference = (squares - mean) + (squares_rest - mean_rest);
        // Below the precision of the computation, so it counts as zero.
        let noise = squares * 2_f64.powi(-100);
        let variance = if difference <= noise { 0.0 } else { difference / divisor as f64 };
        Val::Double(variance.sqrt())
    }

    /// The moments as a document.
    #[must_use]
    pub fn to_doc(&self) -> DocBuf {
        DocBuf::build(|out| {
            out.i64("n", self.count);
            for (name, sum) in [("s", &self.sum), (SQUARES, &self.squares)] {
                let (small, large, special) = sum.parts();
                out.array(name, |list| {
                    for parts in [small, large] {
                        list.push_array(|list| {
                            parts.iter().for_each(|part| list.push(Val::Double(*part)));
                        });
                    }
                    special.iter().for_each(|count| list.push(Val::Int64(*count)));
                });
            }
        })
    }

    /// Whether a document holds moments.
    #[must_use]
    pub fn is_in(doc: RawDoc<'_>) -> bool {
        doc.find(SQUARES).is_some()
    }

    /// Reads moments that `to_doc` wrote.
    #[must_use]
    pub fn from_doc(doc: RawDoc<'_>) -> Moments {
        let sum = |name| {
            let list = doc.get(name).and_then(Val::as_array).unwrap_or(RawDoc::empty());
            let mut parts = list.iter().map(|(_, part)| part.get());
            let mut numbers = || -> Vec<f64> {
                let list = parts.next().and_then(Val::as_array).unwrap_or(RawDoc::empty());
                list.iter().filter_map(|(_, part)| part.get().as_f64()).collect()
            };
            let (small, large) = (numbers(), numbers());
            let mut special = || parts.next().and_then(Val::as_i64_exact).unwrap_or(0);
            ExactSum::from_parts(small, large, [special(), special(), special()])
        };
        let count = doc.get("n").and_then(Val::as_i64_exact).unwrap_or(0);
        Moments { count, sum: sum("s"), squares: sum(SQUARES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(values: &[f64], sample: bool) -> Option<f64> {
        let divisor = values.len().checked_sub(usize::from(sample)).filter(|n| *n > 0)?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some((squares / divisor as f64).sqrt())
    }

    proptest! {
        #[test]
        fn is_the_deviation_of_what_is_left(
            kept in prop::collection::vec(-1e6_f64..1e6, 0..12),
            gone in prop::collection::vec(prop_oneof![-1e12_f64..1e12, Just(1e160), Just(f64::NAN)], 0..6),
        ) {
            let mut moments = Moments::default();
            gone.iter().chain(&kept).for_each(|value| moments.change(*value, true));
            moments = Moments::from_doc(moments.to_doc().as_doc());
            gone.iter().for_each(|value| moments.change(*value, false));
            for sample in [false, true] {
                match (moments.deviation(sample), plain(&kept, sample)) {
                    (Val::Double(a), Some(b)) => prop_assert!((a - b).abs() <= 1e-9 * b.max(1e-3), "{a} {b}"),
                    (found, expected) => prop_assert!(found == Val::Null && expected.is_none()),
                }
            }
            let mut other = Moments::default();
            kept.iter().rev().for_each(|value| other.change(*value, true));
            prop_assert_eq!(moments.deviation(false), other.deviation(false));
        }
    }

    #[test]
    fn equal_numbers_do_not_deviate_and_what_is_infinite_does_so_oddly() {
        let mut moments = Moments::default();
        (0..10).for_each(|_| moments.change(0.1, true));
        assert_eq!(moments.deviation(false), Val::Double(0.0));
        moments.change(f64::INFINITY, true);
        assert!(matches!(moments.deviation(false), Val::Double(n) if n.is_nan()));
    }
}
