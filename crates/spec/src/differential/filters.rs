//! Random filters.

use super::expressions;
use super::random::Random;
use super::regexes;
use super::values::{self, PATHS};

/// A filter, or an expression as one. Expressions are not combined with conditions, because the
/// server may evaluate conditions in any order, so that an expression may or may not fail.
pub fn filter_or_expression(random: &mut Random) -> String {
    if random.chance(10) {
        return format!("{{$expr: {}}}", expressions::boolean(random, 2));
    }
    filter(random, 2)
}

/// A filter without expressions.
pub fn filter(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.chance(30) {
        let count = 1 + random.below(3);
        let operator = random.pick(&["$and", "$or", "$nor"]);
        let inside = random.list(count, |random| filter(random, depth - 1));
        return format!("{{{operator}: [{inside}]}}");
    }
    let path = if random.chance(5) { "l.0" } else { random.pick(PATHS) };
    if random.chance(25) {
        return format!("{{\"{path}\": {}}}", operand(random));
    }
    let mut tests = test(random, depth);
    if random.chance(15) {
        tests = format!("{tests}, {}", test(random, depth));
    }
    format!("{{\"{path}\": {{{tests}}}}}")
}

/// A value to compare with; none that has another meaning in a filter.
fn operand(random: &mut Random) -> String {
    match random.below(5) {
        0 | 1 => values::number(random),
        2 => values::text(random),
        _ => values::any(random, 1),
    }
}

/// `$operator: value`.
fn test(random: &mut Random, depth: usize) -> String {
    match random.below(17) {
        0..=5 => {
            let operator = random.pick(&["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
            let mut value = operand(random);
            if value.starts_with('/') {
                value = "null".to_owned();
            }
            format!("{operator}: {value}")
        }
        6 | 7 => {
            let count = random.below(4);
            let operator = random.pick(&["$in", "$nin"]);
            format!("{operator}: [{}]", random.list(count, operand))
        }
        8 => format!("$exists: {}", random.pick(&["true", "false", "1", "0"])),
        9 => {
            let kinds = [
                "\"number\"",
                "\"string\"",
                "\"array\"",
                "\"object\"",
                "\"null\"",
                "1",
                "16",
                "[2, \"bool\"]",
                "\"date\"",
                "\"decimal\"",
            ];
            format!("$type: {}", random.pick(&kinds))
        }
        10 => format!("$size: {}", random.between(0, 3)),
        11 => {
            let count = random.below(3);
            format!("$all: [{}]", random.list(count, operand))
        }
        12 if depth > 0 => {
            let inside = if random.chance(50) {
                test(random, depth - 1)
            } else {
                let inner = filter(random, depth - 1);
                inner.trim_start_matches('{').trim_end_matches('}').to_owned()
            };
            format!("$elemMatch: {{{}}}", balance(&inside))
        }
        13 => format!("$mod: [{}, {}]", random.between(1, 4), random.between(0, 2)),
        14 if depth > 0 => format!("$not: {{{}}}", test(random, depth - 1)),
        15 => format!("$regex: {}", regexes::pattern_string(random)),
        _ => format!("$regex: \"{}\"", random.pick(&["a", "^a", "B", "b$", "é"])),
    }
}

/// Closes the braces that are open after the outer ones were removed.
fn balance(text: &str) -> String {
    let (mut open, mut quoted) = (0i32, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '{' if !quoted => open += 1,
            '}' if !quoted => open -= 1,
            _ => {}
        }
    }
    format!("{text}{}", "}".repeat(usize::try_from(open).unwrap_or(0)))
}
