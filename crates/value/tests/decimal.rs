//! Decimals against what MongoDB computes (`decimal_results.txt`), against the bson crate's text
//! form, and against the laws of arithmetic checked with exact fractions.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use proptest::prelude::*;
use std::cmp::Ordering;
use value::Decimal128;
use value::decimal::Parts;

fn number(text: &str) -> Decimal128 {
    Decimal128::parse(text).unwrap_or_else(|| panic!("{text} is no number"))
}

/// Whether two results differ by at most two in their last digit.
fn close(a: Decimal128, b: Decimal128) -> bool {
    let (x, y) = (a.parts(), b.parts());
    a.is_finite()
        && b.is_finite()
        && x.negative == y.negative
        && x.exponent == y.exponent
        && x.coefficient.abs_diff(y.coefficient) <= 2
}

#[test]
fn results_are_those_of_mongodb() {
    let mut failures = Vec::new();
    let mut rows = 0;
    for line in include_str!("decimal_results.txt").lines().filter(|line| !line.starts_with('#')) {
        let (call, expected) = line.split_once(" = ").unwrap();
        let words: Vec<&str> = call.split(' ').collect();
        let [operation, operands @ ..] = words.as_slice() else { panic!("{line}") };
        rows += 1;
        if let Some(actual) = wrong_result(operation, operands, expected) {
            failures.push(format!("{line}\n   but got {actual}"));
        }
    }
    assert!(rows > 800, "the table was cut");
    assert!(failures.is_empty(), "{} of {rows} differ:\n{}", failures.len(), failures.join("\n"));
}

/// What came out instead of the expected result.
fn wrong_result(operation: &str, operands: &[&str], expected: &str) -> Option<String> {
    if operation == "toDouble" {
        let actual = number(operands[0]).to_f64();
        return (actual != expected.parse().unwrap()).then(|| actual.to_string());
    }
    let second = || number(operands[1]);
    let places = || operands.get(1).map_or(0, |text| text.parse().unwrap());
    let first =
        if operation.starts_with("toDecimal") { Decimal128::ZERO } else { number(operands[0]) };
    // MongoDB's transcendental functions are not correctly rounded; the last digits may differ.
    let tolerant = matches!(operation, "pow" | "exp" | "ln" | "log10");
    let actual = match operation {
        "toDecimal" => Decimal128::from_f64(operands[0].parse().unwrap()),
        "toDecimal34" => {
            Decimal128::from_f64_34_digits(operands[0].parse().unwrap()).add(Decimal128::ZERO)
        }
        // Sums start at zero in MongoDB, which shows in the sign of zero only.
        "add" => Decimal128::ZERO.add(first.add(second())),
        "subtract" => first.sub(second()),
        "multiply" => first.mul(second()),
        "divide" => first.div(second()),
        "mod" => first.rem(second()),
        "pow" => first.pow(second()),
        "log" => first.log(second()),
        "sqrt" => first.sqrt(),
        "exp" => first.exp(),
        "ln" => first.ln(),
        "log10" => first.log10(),
        "floor" => first.floor(),
        "ceil" => first.ceil(),
        "round" => first.round_to(places()),
        "trunc" => first.trunc_to(places()),
        _ => panic!("unknown operation {operation}"),
    };
    let same = actual.to_string() == expected || (tolerant && close(actual, number(expected)));
    (!same).then(|| actual.to_string())
}

fn any_finite() -> impl Strategy<Value = Decimal128> {
    let coefficient = prop_oneof![
        0..10u128.pow(34),
        0..1000u128,
        (0..35u32).prop_map(|n| 10u128.pow(n.min(33))),
        (10u128.pow(34) - 50)..10u128.pow(34),
    ];
    let exponent =
        prop_oneof![-40..40i32, -370..310i32, -6176..=6111i32, Just(-6176), Just(6111), Just(0)];
    (any::<bool>(), coefficient, exponent).prop_map(|(negative, coefficient, exponent)| {
        Decimal128::from_parts(Parts { negative, coefficient, exponent })
    })
}

fn any_decimal() -> impl Strategy<Value = Decimal128> {
    prop_oneof![
        8 => any_finite(),
        1 => Just(Decimal128::NAN),
        1 => Just(Decimal128::INFINITY),
        1 => Just(Decimal128::NEG_INFINITY),
    ]
}

/// Decimals whose exponents are close, so that naive arithmetic on digits is possible.
fn any_near() -> impl Strategy<Value = Decimal128> {
    (any::<bool>(), 0..10u128.pow(34), -12..12i32).prop_map(|(negative, coefficient, exponent)| {
        Decimal128::from_parts(Parts { negative, coefficient, exponent })
    })
}

/// A naive model: digits in a vector, the lowest first.
mod digits {
    use std::cmp::Ordering;

    pub(crate) fn of(mut n: u128, zeros: usize) -> Vec<u8> {
        let mut digits = vec![0; zeros];
        while n > 0 {
            digits.push((n % 10) as u8);
            n /= 10;
        }
        trim(digits)
    }

    pub(crate) fn trim(mut digits: Vec<u8>) -> Vec<u8> {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        digits
    }

    pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev()))
    }

    pub(crate) fn add(a: &[u8], b: &[u8]) -> Vec<u8> {
        let (mut sum, mut carry) = (Vec::new(), 0);
        for at in 0..a.len().max(b.len()) + 1 {
            let digit = a.get(at).unwrap_or(&0) + b.get(at).unwrap_or(&0) + carry;
            sum.push(digit % 10);
            carry = digit / 10;
        }
        trim(sum)
    }

    pub(crate) fn subtract(a: &[u8], b: &[u8]) -> Vec<u8> {
        let (mut rest, mut borrow) = (Vec::new(), 0i8);
        for (at, own) in a.iter().enumerate() {
            let mut digit = *own as i8 - *b.get(at).unwrap_or(&0) as i8 - borrow;
            borrow = i8::from(digit < 0);
            if digit < 0 {
                digit += 10;
            }
            rest.push(digit as u8);
        }
        trim(rest)
    }

    pub(crate) fn multiply(a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut product = vec![0u32; a.len() + b.len() + 1];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                product[i + j] += u32::from(*x) * u32::from(*y);
            }
        }
        for at in 0..product.len() - 1 {
            product[at + 1] += product[at] / 10;
            product[at] %= 10;
        }
        trim(product.into_iter().map(|digit| digit as u8).collect())
    }

    /// Rounds half even to 34 digits: the digits kept and how many were dropped.
    pub(crate) fn round(digits: &[u8]) -> (Vec<u8>, usize) {
        let drop = digits.len().saturating_sub(34);
        if drop == 0 {
            return (digits.to_vec(), 0);
        }
        let kept = digits[drop..].to_vec();
        let tail = &digits[..drop - 1];
        let up = match digits[drop - 1].cmp(&5) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => tail.iter().any(|d| *d != 0) || kept[0] % 2 == 1,
        };
        let rounded = if up { add(&kept, &[1]) } else { kept };
        (rounded, drop)
    }

    pub(crate) fn text(digits: &[u8], negative: bool, exponent: i64) -> String {
        let digits: String = digits.iter().rev().map(|d| char::from(b'0' + d)).collect();
        let digits = if digits.is_empty() { "0".to_owned() } else { digits };
        format!("{}{digits}E{exponent}", if negative { "-" } else { "" })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_global_rejects: 1_000_000, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn bytes_and_text_keep_the_number(n in any_decimal()) {
        prop_assert_eq!(Decimal128::from_bytes(n.to_bytes()), n);
        prop_assert_eq!(Decimal128::parse(&n.to_string()), Some(n));
    }

    #[test]
    fn text_is_that_of_the_bson_crate(n in any_decimal()) {
        let theirs = bson::Decimal128::from_bytes(n.to_bytes());
        prop_assert_eq!(n.to_string(), theirs.to_string());
        let read: bson::Decimal128 = n.to_string().parse().unwrap();
        prop_assert_eq!(read.bytes(), n.to_bytes());
    }

    #[test]
    fn any_bits_are_some_number(bits in any::<[u8; 16]>(), other in any::<[u8; 16]>()) {
        let (a, b) = (Decimal128::from_bytes(bits), Decimal128::from_bytes(other));
        let read = Decimal128::parse(&a.to_string()).unwrap();
        prop_assert_eq!(a.compare(read), Ordering::Equal);
        prop_assert_eq!(a.to_string(), bson::Decimal128::from_bytes(bits).to_string());
        for result in [a.add(b), a.sub(b), a.mul(b), a.div(b), a.rem(b), a.quantize(b), a.sqrt(), a.floor(), a.ceil(), a.trunc()] {
            let _ = (result.to_string(), result.to_f64(), result.to_i64_round(), result.to_i64_truncate());
        }
    }

    #[test]
    fn functions_never_panic(a in any_decimal(), b in any_decimal(), places in any::<i32>()) {
        for result in [a.exp(), a.ln(), a.log10(), a.log2(), a.log(b), a.pow(b), a.round_to(places), a.trunc_to(places)] {
            let _ = (result.to_string(), result.integer_and_fraction());
        }
    }

    #[test]
    fn comparison_is_a_total_order(a in any_decimal(), b in any_decimal(), c in any_decimal()) {
        prop_assert_eq!(a.compare(b), b.compare(a).reverse());
        prop_assert_eq!(a.compare(a), Ordering::Equal);
        let mut three = [a, b, c];
        three.sort_by(|x, y| x.compare(*y));
        prop_assert!(three[0].compare(three[2]).is_le());
        prop_assert!(three[0].compare(three[1]).is_le() && three[1].compare(three[2]).is_le());
    }

    #[test]
    fn sums_and_differences_are_rounded_once(a in any_near(), b in any_near()) {
        for b in [b, b.neg()] {
            let (x, y) = (a.parts(), b.parts());
            let least = x.exponent.min(y.exponent);
            let p = digits::of(x.coefficient, (x.exponent - least) as usize);
            let q = digits::of(y.coefficient, (y.exponent - least) as usize);
            let (sum, negative) = if x.negative == y.negative {
                (digits::add(&p, &q), x.negative)
            } else {
                match digits::compare(&p, &q) {
                    Ordering::Equal => (Vec::new(), false),
                    Ordering::Greater => (digits::subtract(&p, &q), x.negative),
                    Ordering::Less => (digits::subtract(&q, &p), y.negative),
                }
            };
            let (kept, dropped) = digits::round(&sum);
            let expected = number(&digits::text(&kept, negative, i64::from(least) + dropped as i64));
            prop_assert_eq!(a.add(b), expected);
            prop_assert_eq!(b.add(a), expected);
            prop_assert_eq!(a.sub(b.neg()), expected);
        }
    }

    #[test]
    fn products_are_rounded_once(a in any_near(), b in any_near()) {
        let (x, y) = (a.parts(), b.parts());
        let product = digits::multiply(&digits::of(x.coefficient, 0), &digits::of(y.coefficient, 0));
        let (kept, dropped) = digits::round(&product);
        let exponent = i64::from(x.exponent) + i64::from(y.exponent) + dropped as i64;
        prop_assert_eq!(a.mul(b), number(&digits::text(&kept, x.negative != y.negative, exponent)));
    }

    #[test]
    fn quotients_are_the_nearest(a in any_near(), b in any_near()) {
        prop_assume!(!b.is_zero() && !a.is_zero());
        let quotient = a.div(b);
        let parts = quotient.parts();
        // |a - q b| <= |b| * half of the quotient's last place, all in exact digits:
        // 2 |a - q b| <= |b| 10^e.
        let (x, y) = (a.parts(), b.parts());
        let exponent = parts.exponent + y.exponent;
        let least = x.exponent.min(exponent);
        let dividend = digits::of(x.coefficient, (x.exponent - least) as usize);
        let pad = vec![0; (exponent - least) as usize];
        let product = digits::multiply(&digits::of(parts.coefficient, 0), &digits::of(y.coefficient, 0));
        let product: Vec<u8> = digits::trim(pad.iter().copied().chain(product).collect());
        let difference = match digits::compare(&dividend, &product) {
            Ordering::Less => digits::subtract(&product, &dividend),
            _ => digits::subtract(&dividend, &product),
        };
        let twice = digits::add(&difference, &difference);
        let unit: Vec<u8> = pad.into_iter().chain(digits::of(y.coefficient, 0)).collect();
        prop_assert!(digits::compare(&twice, &digits::trim(unit)).is_le());
        prop_assert_eq!(parts.negative, x.negative != y.negative);
    }

    #[test]
    fn remainders_complete_the_quotient(a in any_near(), b in any_near()) {
        prop_assume!(!b.is_zero());
        let rest = a.rem(b);
        prop_assert!(rest.abs().compare(b.abs()).is_lt());
        prop_assert!(rest.is_zero() || rest.is_negative() == a.is_negative());
        let whole = a.div(b).trunc();
        // Where everything is exact, the parts add up.
        if whole.parts().coefficient < 10u128.pow(10) && b.parts().coefficient < 10u128.pow(20) {
            prop_assert_eq!(whole.mul(b).add(rest).compare(a), Ordering::Equal);
        }
    }

    #[test]
    fn remainders_of_small_numbers(a in any::<i64>(), b in any::<i64>(), p in -5..5i32, q in -5..5i32) {
        prop_assume!(b != 0);
        let scaled = |n: i64, exponent: i32| {
            Decimal128::from_parts(Parts {
                negative: n < 0,
                coefficient: u128::from(n.unsigned_abs()),
                exponent,
            })
        };
        let least = p.min(q);
        let (x, y) = (i128::from(a) * 10i128.pow((p - least) as u32), i128::from(b) * 10i128.pow((q - least) as u32));
        let expected = x % y;
        let rest = scaled(a, p).rem(scaled(b, q)).parts();
        prop_assert_eq!((rest.coefficient, rest.exponent), (expected.unsigned_abs(), least));
    }

    #[test]
    fn doubles_convert_exactly(n in any::<f64>()) {
        prop_assume!(n.is_finite());
        let decimal = Decimal128::from_f64_34_digits(n);
        prop_assert_eq!(decimal.to_f64(), n);
        let fifteen = Decimal128::from_f64(n);
        prop_assert_eq!(fifteen.compare(number(&format!("{n:.14e}"))), Ordering::Equal);
    }

    #[test]
    fn truncated_doubles_enclose_the_decimal(n in any_decimal()) {
        prop_assume!(!n.is_nan());
        let (near, exact) = n.to_f64_truncated();
        let magnitude = near.abs();
        if exact {
            prop_assert_eq!(n.compare_f64(near), Ordering::Equal);
            prop_assert_eq!(n.to_f64(), near);
        } else {
            prop_assert!(magnitude.is_finite());
            prop_assert!(n.abs().compare_f64(magnitude).is_gt());
            prop_assert!(n.abs().compare_f64(magnitude.next_up()).is_lt());
        }
    }

    #[test]
    fn comparison_with_doubles_is_exact(n in any::<f64>(), offset in -3i64..=3) {
        prop_assume!(n.is_finite() && n != 0.0);
        // The exact digits of a double with few enough of them, moved in the 34th digit.
        let exact = Decimal128::from_f64_34_digits(n);
        let text = format!("{n:.1100e}");
        let (mantissa, _) = text.split_once('e').unwrap();
        let is_exact = mantissa.trim_end_matches('0').len() <= 35;
        let step = Decimal128::from_parts(Parts { negative: false, coefficient: 1, exponent: exact.parts().exponent });
        let moved = exact.add(step.mul(Decimal128::from_i64(offset)));
        if is_exact {
            prop_assert_eq!(moved.compare_f64(n), moved.compare(exact));
        } else if offset.abs() > 1 {
            prop_assert_eq!(moved.compare_f64(n), offset.cmp(&0));
        }
    }

    #[test]
    fn whole_numbers_come_back(n in any::<i64>(), places in 0..5u32) {
        prop_assert_eq!(Decimal128::from_i64(n).to_i64_exact(), Some(n));
        let with_zeros = Decimal128::from_i64(n).round_to(places as i32);
        prop_assert_eq!(with_zeros.to_i64_exact(), Some(n));
        prop_assert_eq!(with_zeros.to_f64(), n as f64);
        let (whole, fraction) = Decimal128::from_i64(n >> 1).integer_and_fraction().unwrap();
        prop_assert_eq!((whole, fraction), (u128::from((n >> 1).unsigned_abs()), 0));
    }

    #[test]
    fn roots_and_powers_undo_each_other(n in 1u64.., power in 1..6i32) {
        // The square has at most 34 digits.
        let number = Decimal128::from_u64(n >> 8);
        prop_assert_eq!(number.mul(number).sqrt().compare(number), Ordering::Equal);
        let small = Decimal128::from_u64(n % 1_000_000 + 2);
        let mut product = Decimal128::ONE;
        for _ in 0..power {
            product = product.mul(small);
        }
        prop_assert_eq!(small.pow(Decimal128::from_i32(power)).compare(product), Ordering::Equal);
        let back = small.ln().exp();
        prop_assert!(back.sub(small).abs().compare(number_1e_26()).is_lt(), "{} {}", small, back);
    }
}

fn number_1e_26() -> Decimal128 {
    number("1E-26")
}
