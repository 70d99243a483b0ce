//! Sizes in bytes as people write them: `256MB`, `2GiB`, `65536`.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size(pub(crate) u64);

const UNITS: [(&str, u64); 12] = [
    // Longer names first: `MB` ends with `B` too.
    ("KIB", 1 << 10),
    ("MIB", 1 << 20),
    ("GIB", 1 << 30),
    ("TIB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("B", 1),
];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || format!("`{text}` is not a size; write for example 256MB, 2GiB or 65536");
        let upper = text.trim().to_ascii_uppercase();
        let unit = UNITS.iter().find_map(|(name, factor)| {
            upper.strip_suffix(name).map(|digits| (digits.trim().to_owned(), *factor))
        });
        let (digits, factor) = unit.unwrap_or((upper, 1));
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(factor).map(Size).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, factor) in
            [("GiB", 1u64 << 30), ("GB", 1_000_000_000), ("MiB", 1 << 20), ("MB", 1_000_000)]
        {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{}{name}", self.0 / factor);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"256MB\" or a number of bytes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Size, E> {
                u64::try_from(number).map(Size).map_err(|_| E::custom("a size is not negative"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let size = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!(size("256MB"), Ok(256_000_000));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("1 gb"), Ok(1_000_000_000));
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("5B"), Ok(5));
        assert_eq!(size("65536"), Ok(65536));
        for wrong in ["", "MB", "-1MB", "1.5GB", "12XB", "99999999999TB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_print_as_they_are_read() {
        for text in ["256MB", "2GiB", "3GB", "7MiB", "999B"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
    }
}
