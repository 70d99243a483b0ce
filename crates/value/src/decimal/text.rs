//! Decimals as text: the forms of the BSON decimal specification, read and printed.

use super::{DIGITS, Decimal128, Intermediate, round};
use std::fmt;

/// What was lost when a text was converted to a decimal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signals {
    /// Digits other than zeros were rounded away.
    pub inexact: bool,
    /// The number was too large and became an infinity.
    pub overflow: bool,
    /// The number was too small and became zero.
    pub underflow: bool,
}

/// Digits that are kept while reading; later digits only affect rounding.
const DIGITS_READ: u32 = DIGITS + 2;

impl Decimal128 {
    /// Reads a number, rounding half even to 34 digits; `None` if the text is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Decimal128> {
        Decimal128::parse_with_signals(text).map(|(number, _)| number)
    }

    /// Reads a number, truncated to 34 digits. Also returns what was lost.
    #[must_use]
    pub fn parse_truncated(text: &str) -> Option<(Decimal128, Signals)> {
        let (rounded, signals) = Decimal128::parse_with_signals(text)?;
        if !signals.inexact {
            return Some((rounded, signals));
        }
        // Without the digits behind the first 34 there is nothing to round up.
        let mut kept = String::with_capacity(text.len());
        let (mut significant, mut exponent) = (0, false);
        for character in text.chars() {
            exponent |= matches!(character, 'e' | 'E');
            let digit = character.is_ascii_digit() && !exponent;
            if digit && (significant > 0 || character != '0') {
                significant += 1;
            }
            kept.push(if digit && significant > DIGITS { '0' } else { character });
        }
        let (cut, _) = Decimal128::parse_with_signals(&kept)?;
        Some((cut, signals))
    }

    /// Reads a number. Also returns what was lost.
    #[must_use]
    pub fn parse_with_signals(text: &str) -> Option<(Decimal128, Signals)> {
        let (negative, rest) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some((Decimal128::infinity(negative), Signals::default()));
        }
        if rest.eq_ignore_ascii_case(b"nan") {
            return Some((Decimal128::NAN, Signals::default()));
        }
        let mantissa_end = rest.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(rest.len());
        let (mantissa, exponent) = rest.split_at_checked(mantissa_end)?;
        let written = match exponent {
            [] => 0,
            [_, digits @ ..] => read_exponent(digits)?,
        };
        let (coefficient, shift, sticky) = read_mantissa(mantissa)?;
        let exponent = written.saturating_add(shift);
        // With something left out the coefficient is at its full length, as `round` needs it.
        let (number, inexact) =
            round(negative, Intermediate::from_u128(coefficient), exponent, sticky);
        let signals = Signals {
            inexact,
            overflow: number.is_infinite(),
            underflow: coefficient != 0 && number.is_zero(),
        };
        Some((number, signals))
    }
}

/// The first digits as a number, the power of ten that belongs to it, and whether more followed.
fn read_mantissa(text: &[u8]) -> Option<(u128, i64, bool)> {
    let (mut coefficient, mut shift, mut sticky) = (0u128, 0i64, false);
    let (mut any, mut point, mut used) = (false, false, 0);
    for &byte in text {
        match byte {
            b'0'..=b'9' => {
                any = true;
                let digit = byte - b'0';
                if used < DIGITS_READ {
                    coefficient = coefficient * 10 + u128::from(digit);
                    used += u32::from(coefficient != 0);
                    shift -= i64::from(point);
                } else {
                    sticky |= digit != 0;
                    shift += i64::from(!point);
                }
            }
            b'.' if !point => point = true,
            _ => return None,
        }
    }
    any.then_some((coefficient, shift, sticky))
}

fn read_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let mut exponent = 0i64;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        // Everything beyond is far out of range; the limit leaves room for the mantissa's shift.
        exponent = (exponent * 10 + i64::from(byte - b'0')).min(1 << 48);
    }
    Some(if negative { -exponent } else { exponent })
}

impl fmt::Display for Decimal128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nan() {
            return f.write_str("NaN");
        }
        if self.is_negative() {
            f.write_str("-")?;
        }
        if self.is_infinite() {
            return f.write_str("Infinity");
        }
        let parts = self.parts();
        let digits = parts.coefficient.to_string();
        let length = digits.len() as i32;
        let scientific = parts.exponent + length - 1;
        if parts.exponent > 0 || scientific < -6 {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            return write!(f, "{first}{point}{rest}E{scientific:+}");
        }
        let whole = length + parts.exponent;
        if parts.exponent == 0 {
            f.write_str(&digits)
        } else if whole > 0 {
            let (whole, fraction) = digits.split_at(whole as usize);
            write!(f, "{whole}.{fraction}")
        } else {
            write!(f, "0.{}{digits}", "0".repeat(-whole as usize))
        }
    }
}

impl fmt::Debug for Decimal128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal128({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_print_as_they_were() {
        for text in [
            "0",
            "-0",
            "0E+3",
            "0E-6176",
            "0E+6111",
            "0.000",
            "1",
            "-1",
            "12",
            "0.1",
            "0.10",
            "1.234",
            "0.000001",
            "1E-7",
            "1.2E-7",
            "0.001234",
            "1E+3",
            "1.2E+4",
            "1E+6111",
            "1000",
            "-12345678901234567",
            "0.1234567890123456789012345678901234",
            "1E-6176",
            "9.999999999999999999999999999999999E+6144",
            "NaN",
            "Infinity",
            "-Infinity",
            "9.999999999999999999999999999999999E-6143",
            "1.000000000000000000000000000000000E+6144",
        ] {
            assert_eq!(Decimal128::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn texts_that_become_canonical() {
        for (text, printed) in [
            ("+1", "1"),
            (".5", "0.5"),
            ("1.", "1"),
            ("1e3", "1E+3"),
            ("inf", "Infinity"),
            ("-INFINITY", "-Infinity"),
            ("+iNf", "Infinity"),
            ("nAN", "NaN"),
            ("-nan", "NaN"),
            ("00012.50", "12.50"),
            ("0e99999", "0E+6111"),
            ("0e-99999", "0E-6176"),
            ("1E+6144", "1.000000000000000000000000000000000E+6144"),
            ("1E+6112", "1.0E+6112"),
            ("1e6145", "Infinity"),
            ("-1e99999999999999", "-Infinity"),
            ("1e-6177", "0E-6176"),
            ("5e-6177", "0E-6176"),
            ("5.1e-6177", "1E-6176"),
            ("15e-6177", "2E-6176"),
            ("-1e-99999999999999999999", "-0E-6176"),
            ("12345678901234567890123456789012345", "1.234567890123456789012345678901234E+34"),
            ("12345678901234567890123456789012355", "1.234567890123456789012345678901236E+34"),
            (
                "1000000000000000000000000000000000500000000000000000000001",
                "1.000000000000000000000000000000001E+57",
            ),
            ("99999999999999999999999999999999995", "1.000000000000000000000000000000000E+35"),
        ] {
            assert_eq!(Decimal128::parse(text).unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_numbers() {
        for text in [
            "", "+", "-", ".", "e5", "1e", "1e+", "1.2.3", "--1", "1 ", " 1", "0x1", "infin",
            "1e5.0", "nanx", "E1", ".e1", "1_0", "١",
        ] {
            assert_eq!(Decimal128::parse(text), None, "{text}");
        }
    }

    #[test]
    fn losses_are_signalled() {
        let signals = |text| Decimal128::parse_with_signals(text).unwrap().1;
        assert_eq!(signals("1.5"), Signals::default());
        assert!(signals("1e7000").overflow);
        assert!(!signals("inf").overflow);
        assert!(signals("1e-7000").underflow);
        assert!(signals("1.00000000000000000000000000000000001").inexact);
        assert!(!signals("1.00000000000000000000000000000000000").inexact);
    }
}
