//! Random documents: a few fields, each mostly of one type, sometimes of any other.
//!
//! Doubles are multiples of 0.25, so that sums are exact in any order.

use super::random::Random;

/// The fields of documents.
pub const FIELDS: &[&str] = &["n", "m", "s", "l", "d", "o", "t", "x"];

/// Paths that filters, sorts and projections use.
pub const PATHS: &[&str] =
    &["n", "m", "s", "l", "d", "o", "t", "x", "o.n", "o.s", "l.n", "x.n", "x.s", "o.l", "x.l.n"];

/// Paths that are removed. None that other stages compute, because MongoDB puts a new field at the
/// position of the removed one.
pub const UNSET: &[&str] = &["m", "s", "l", "d", "t", "x", "o.s", "x.n"];

/// A document without `_id`, as the inside of braces.
pub fn fields(random: &mut Random) -> String {
    let mut parts = Vec::new();
    for field in FIELDS {
        if random.chance(12) {
            continue;
        }
        let value = if random.chance(10) {
            any(random, 2)
        } else {
            match *field {
                "n" | "m" => number(random),
                "s" => text(random),
                "l" => array(random, 2),
                "d" => date(random),
                "o" => document(random, 2),
                "t" => random.pick(&["true", "false"]).to_owned(),
                _ => any(random, 2),
            }
        };
        parts.push(format!("{field}: {value}"));
    }
    parts.join(", ")
}

/// A number of some type.
pub fn number(random: &mut Random) -> String {
    match random.below(20) {
        0..=8 => random.between(-3, 12).to_string(),
        9..=11 => format!("NumberLong({})", random.between(-3, 12)),
        12..=15 => double(random),
        16 | 17 => format!(
            "NumberDecimal(\"{}.{}\")",
            random.between(-3, 12),
            random.pick(&["0", "5", "25", "50"])
        ),
        18 => random
            .pick(&[
                "2147483647",
                "NumberLong(\"9223372036854775807\")",
                "NumberLong(\"-9223372036854775808\")",
                "0",
                "-0.0",
            ])
            .to_owned(),
        _ => random
            .pick(&[
                "NaN",
                "Infinity",
                "-Infinity",
                "NumberDecimal(\"NaN\")",
                "NumberDecimal(\"Infinity\")",
            ])
            .to_owned(),
    }
}

/// A double that is a multiple of 0.25.
pub fn double(random: &mut Random) -> String {
    format!("{:?}", random.between(-12, 48) as f64 / 4.0)
}

/// A short text.
pub fn text(random: &mut Random) -> String {
    let texts =
        ["", "a", "b", "ab", "abc", "A", "B", "é", "a b", "10", "-2.5", "2020-01-02", "$n", "zé𝄞"];
    format!("\"{}\"", random.pick(&texts))
}

/// A date, before and after 1970.
pub fn date(random: &mut Random) -> String {
    let dates = [
        "2020-02-29T12:34:56.789Z",
        "2021-01-03T00:00:00.000Z",
        "1969-12-31T00:00:00.000Z",
        "2019-12-31T23:59:59.999Z",
        "2020-03-08T07:30:00.000Z",
        "1900-01-01T00:00:00.000Z",
    ];
    format!("ISODate(\"{}\")", random.pick(&dates))
}

/// An array of some numbers, or of anything.
pub fn array(random: &mut Random, depth: usize) -> String {
    let count = random.below(5);
    let plain = random.chance(60);
    let inside = random.list(count, |random| {
        if plain { number(random) } else { any(random, depth.saturating_sub(1)) }
    });
    format!("[{inside}]")
}

/// A document of a few fields.
pub fn document(random: &mut Random, depth: usize) -> String {
    let mut parts = Vec::new();
    for field in ["n", "s", "l"] {
        if random.chance(70) {
            let value = match field {
                "n" if random.chance(80) => number(random),
                "s" if random.chance(80) => text(random),
                _ => any(random, depth.saturating_sub(1)),
            };
            parts.push(format!("{field}: {value}"));
        }
    }
    format!("{{{}}}", parts.join(", "))
}

/// A value of any type.
pub fn any(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 14 } else { 20 }) {
        0..=3 => number(random),
        4 | 5 => text(random),
        6 => "null".to_owned(),
        7 => random.pick(&["true", "false"]).to_owned(),
        8 => date(random),
        9 => random
            .pick(&[
                "ObjectId(\"507f1f77bcf86cd799439011\")",
                "ObjectId(\"000000000000000000000001\")",
            ])
            .to_owned(),
        10 => random.pick(&["Timestamp(1, 2)", "Timestamp(5, 0)"]).to_owned(),
        11 => random
            .pick(&[
                "BinData(0, \"AQI=\")",
                "BinData(4, \"ABEiM0RVZneImaq7zN3u/w==\")",
                "BinData(0, \"\")",
            ])
            .to_owned(),
        12 => random.pick(&["/a/", "/B/i", "MinKey", "MaxKey", "Code(\"f\")"]).to_owned(),
        13 => "null".to_owned(),
        14..=16 => array(random, depth),
        _ => document(random, depth),
    }
}
