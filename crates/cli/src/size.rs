//! Sizes in bytes with units: `256MB`, `2GiB`, `65536`. They are parsed by `parse-size` and printed
//! exactly, which crates for printing do not offer.

use parse_size::Config;
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    /// `KB`, `MB`, `GB` and `TB` are powers of 1000; `KiB`, `MiB`, .. and the single letters `K`, `M`, ..
    /// powers of 1024.
    fn from_str(text: &str) -> Result<Size, String> {
        let text = text.trim();
        let decimal = text.ends_with(['b', 'B']);
        let units =
            if decimal { Config::new().with_decimal() } else { Config::new().with_binary() };
        units
            .parse_size(text)
            .map(Size)
            .map_err(|_| format!("`{text}` is not a size; write for example 256MB, 2GiB or 65536"))
    }
}

/// An exact multiple of the largest unit that divides the size, as `from_str` accepts it.
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
        assert_eq!(size(" 3 tb "), Ok(3_000_000_000_000));
        assert_eq!(size("1.5GB"), Ok(1_500_000_000));
        assert_eq!(size("7M"), Ok(7 << 20));
        assert_eq!(size("7MB"), Ok(7_000_000));
        assert_eq!(size("7MiB"), Ok(7 << 20));
        for wrong in ["", "MB", "-1MB", "12XB", "99999999999TB"] {
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
