//! Random expressions. Operands mostly have the type that the operator takes, so that most
//! expressions do not fail.

use super::random::Random;
use super::regexes;
use super::values;

fn field(random: &mut Random, names: &[&str]) -> String {
    format!("\"${}\"", random.pick(names))
}

/// An expression of any type.
pub fn any(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return match random.below(3) {
            0 => literal(&values::any(random, 1)),
            _ => field(random, values::PATHS),
        };
    }
    match random.below(12) {
        0..=3 => number(random, depth),
        4 | 5 => text(random, depth),
        6 => boolean(random, depth),
        7 | 8 => array(random, depth),
        9 => date(random, depth),
        10 => object(random, depth),
        _ => conditional(random, depth, any),
    }
}

/// A constant that is not evaluated.
fn literal(value: &str) -> String {
    if value.starts_with(['{', '[', '"']) {
        format!("{{$literal: {value}}}")
    } else {
        value.to_owned()
    }
}

fn conditional(
    random: &mut Random,
    depth: usize,
    make: fn(&mut Random, usize) -> String,
) -> String {
    let below = depth.saturating_sub(1);
    match random.below(3) {
        0 => format!(
            "{{$cond: [{}, {}, {}]}}",
            boolean(random, below),
            make(random, below),
            make(random, below)
        ),
        1 => format!("{{$ifNull: [{}, {}]}}", make(random, below), make(random, below)),
        _ => format!(
            "{{$switch: {{branches: [{{case: {}, then: {}}}], default: {}}}}}",
            boolean(random, below),
            make(random, below),
            make(random, below)
        ),
    }
}

/// An expression that mostly gives a number.
pub fn number(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return match random.below(4) {
            0 => values::number(random),
            1 => field(random, &["n", "m"]),
            2 => "{$cond: [{$isNumber: \"$n\"}, \"$n\", 2]}".to_owned(),
            _ => field(random, &["n", "m", "o.n", "x"]),
        };
    }
    let below = depth - 1;
    match random.below(21) {
        0..=3 => {
            let operator = random.pick(&["$add", "$multiply", "$sum", "$max", "$min"]);
            let count = 1 + random.below(3);
            format!("{{{operator}: [{}]}}", random.list(count, |random| number(random, below)))
        }
        4 => format!("{{$subtract: [{}, {}]}}", number(random, below), number(random, below)),
        5 => format!(
            "{{$divide: [{}, {}]}}",
            number(random, below),
            random.pick(&["2", "4.0", "NumberLong(8)"])
        ),
        // Rounded, because sums of other quotients depend on the order in their last digit.
        19 => format!("{{$floor: {{$divide: [{}, \"$n\"]}}}}", number(random, below)),
        6 => format!(
            "{{$mod: [{}, {}]}}",
            number(random, below),
            random.pick(&["3", "2.5", "NumberLong(4)", "\"$m\""])
        ),
        7 | 8 => {
            let operator = random.pick(&["$abs", "$ceil", "$floor", "$trunc", "$round"]);
            format!("{{{operator}: {}}}", number(random, below))
        }
        9 => {
            let place = random.pick(&["-2", "-1", "0", "2"]);
            format!("{{$round: [{}, {place}]}}", number(random, below))
        }
        10 => format!("{{$size: {}}}", array(random, below)),
        11 => {
            let operator = random.pick(&["$strLenCP", "$strLenBytes"]);
            format!("{{{operator}: {}}}", text(random, below))
        }
        12 => {
            let operator = random.pick(&["$indexOfCP", "$indexOfBytes", "$strcasecmp"]);
            format!("{{{operator}: [{}, {}]}}", text(random, below), text(random, below))
        }
        13 => format!("{{$indexOfArray: [{}, {}]}}", array(random, below), number(random, below)),
        14 => {
            let parts = [
                "$year",
                "$month",
                "$dayOfMonth",
                "$hour",
                "$week",
                "$isoWeek",
                "$dayOfYear",
                "$dayOfWeek",
                "$millisecond",
            ];
            let operator = random.pick(&parts);
            format!("{{{operator}: {}}}", date(random, below))
        }
        15 => {
            let unit = unit(random);
            format!(
                "{{$dateDiff: {{startDate: {}, endDate: {}, unit: \"{unit}\"}}}}",
                date(random, below),
                date(random, below)
            )
        }
        16 => format!("{{$cmp: [{}, {}]}}", any(random, below), any(random, below)),
        17 => {
            let operator = random.pick(&["$toInt", "$toLong", "$toDouble", "$toDecimal"]);
            format!("{{{operator}: {}}}", number(random, below))
        }
        18 => format!(
            "{{$reduce: {{input: {}, initialValue: 0, in: {{$add: [\"$$value\", {{$cond: [{{$isNumber: \"$$this\"}}, \"$$this\", 1]}}]}}}}}}",
            array(random, below)
        ),
        _ => conditional(random, depth, number),
    }
}

fn unit(random: &mut Random) -> &'static str {
    random.pick(&[
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "hour",
        "minute",
        "second",
        "millisecond",
    ])
}

/// An expression that mostly gives a text.
pub fn text(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return match random.below(3) {
            0 => literal(&values::text(random)),
            _ => field(random, &["s", "o.s", "s", "x"]),
        };
    }
    let below = depth - 1;
    match random.below(12) {
        0 | 1 => {
            let count = 1 + random.below(3);
            format!("{{$concat: [{}]}}", random.list(count, |random| text(random, below)))
        }
        2 | 3 => {
            let operator = random.pick(&["$toLower", "$toUpper"]);
            format!("{{{operator}: {}}}", text(random, below))
        }
        4 | 5 => {
            let operator = random.pick(&["$substrCP", "$substrBytes"]);
            format!(
                "{{{operator}: [{}, {}, {}]}}",
                text(random, below),
                random.between(0, 2),
                random.between(-1, 3)
            )
        }
        6 => {
            let operator = random.pick(&["$trim", "$ltrim", "$rtrim"]);
            let chars = if random.chance(50) { ", chars: \"ab\"" } else { "" };
            format!("{{{operator}: {{input: {}{chars}}}}}", text(random, below))
        }
        7 => {
            let operator = random.pick(&["$replaceOne", "$replaceAll"]);
            format!(
                "{{{operator}: {{input: {}, find: {}, replacement: {}}}}}",
                text(random, below),
                text(random, below),
                text(random, below)
            )
        }
        // MongoDB 6.0 prints six digits of a double.
        8 => format!("{{$toString: {{$toDecimal: {}}}}}", number(random, below)),
        9 => format!("{{$type: {}}}", any(random, below)),
        10 => {
            let format =
                random.pick(&["%Y-%m-%dT%H:%M:%S.%LZ", "%G-W%V-%u %j %U %w", "%Y %z %Z %%"]);
            let zone =
                random.pick(&["", ", timezone: \"America/New_York\"", ", timezone: \"+05:30\""]);
            format!(
                "{{$dateToString: {{date: {}, format: \"{format}\"{zone}}}}}",
                date(random, below)
            )
        }
        _ => conditional(random, depth, text),
    }
}

/// An expression that gives a truth value.
pub fn boolean(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return match random.below(3) {
            0 => random.pick(&["true", "false"]).to_owned(),
            _ => field(random, &["t", "n", "x"]),
        };
    }
    let below = depth - 1;
    match random.below(14) {
        0..=4 => {
            let operator = random.pick(&["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
            let make = if random.chance(50) { number } else { any };
            format!("{{{operator}: [{}, {}]}}", make(random, below), make(random, below))
        }
        5 | 6 => {
            let operator = random.pick(&["$and", "$or"]);
            let count = random.below(4);
            format!("{{{operator}: [{}]}}", random.list(count, |random| boolean(random, below)))
        }
        7 => format!("{{$not: [{}]}}", boolean(random, below)),
        8 => format!("{{$in: [{}, {}]}}", any(random, below), array(random, below)),
        9 => {
            let operator = random.pick(&["$isNumber", "$isArray", "$toBool"]);
            format!("{{{operator}: [{}]}}", any(random, below))
        }
        10 => {
            let operator = random.pick(&["$anyElementTrue", "$allElementsTrue"]);
            format!("{{{operator}: [{}]}}", array(random, below))
        }
        11 => {
            let operator = random.pick(&["$setEquals", "$setIsSubset"]);
            format!("{{{operator}: [{}, {}]}}", array(random, below), array(random, below))
        }
        12 => format!(
            "{{$regexMatch: {{input: {}, regex: /{}/}}}}",
            text(random, below),
            random.pick(&["a", "^a", "b$", "[é]"])
        ),
        _ => conditional(random, depth, boolean),
    }
}

/// An expression that mostly gives an array.
pub fn array(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return match random.below(4) {
            0 => literal(&values::array(random, 1)),
            1 => "{$cond: [{$isArray: \"$l\"}, \"$l\", [1, 2, 2]]}".to_owned(),
            _ => field(random, &["l", "l", "o.l", "l.n", "x"]),
        };
    }
    let below = depth - 1;
    match random.below(21) {
        0 | 1 => {
            let count = random.below(4);
            format!("[{}]", random.list(count, |random| any(random, below)))
        }
        2 => format!("{{$concatArrays: [{}, {}]}}", array(random, below), array(random, below)),
        3 | 4 => format!(
            "{{$map: {{input: {}, as: \"e\", in: {}}}}}",
            array(random, below),
            element(random, below)
        ),
        5 | 6 => {
            let limit = if random.chance(20) { ", limit: 2" } else { "" };
            format!(
                "{{$filter: {{input: {}, as: \"e\", cond: {{$gt: [{}, {}]}}{limit}}}}}",
                array(random, below),
                element(random, 0),
                values::number(random)
            )
        }
        7 => format!("{{$slice: [{}, {}]}}", array(random, below), random.between(-2, 3)),
        8 => format!(
            "{{$slice: [{}, {}, {}]}}",
            array(random, below),
            random.between(-2, 3),
            random.between(1, 3)
        ),
        9 => format!("{{$reverseArray: {}}}", array(random, below)),
        10 | 11 => {
            let operator = random.pick(&["$setUnion", "$setIntersection", "$setDifference"]);
            format!("{{{operator}: [{}, {}]}}", array(random, below), array(random, below))
        }
        12 => format!(
            "{{$range: [{}, {}, {}]}}",
            random.between(-2, 2),
            random.between(0, 6),
            random.pick(&["1", "2", "-1"])
        ),
        13 => {
            let order = random.pick(&["1", "-1", "{n: 1}", "{n: -1, s: 1}"]);
            format!("{{$sortArray: {{input: {}, sortBy: {order}}}}}", array(random, below))
        }
        14 => {
            let operator = random.pick(&["$firstN", "$lastN", "$minN", "$maxN"]);
            format!(
                "{{{operator}: {{input: {}, n: {}}}}}",
                array(random, below),
                random.between(1, 3)
            )
        }
        15 => format!(
            "{{$split: [{}, {}]}}",
            text(random, below),
            random.pick(&["\"a\"", "\" \"", "\"b\""])
        ),
        16 => format!("{{$objectToArray: {}}}", object(random, below)),
        17 => format!(
            "{{$zip: {{inputs: [{}, {}], useLongestLength: {}}}}}",
            array(random, below),
            array(random, below),
            random.pick(&["true", "false"])
        ),
        18 => format!("{{$regexFindAll: {{input: {}, regex: /(a)|b/}}}}", text(random, below)),
        19 => regexes::expression(random),
        _ => conditional(random, depth, array),
    }
}

/// Something of the variable `e`.
fn element(random: &mut Random, depth: usize) -> String {
    match random.below(5) {
        0 => "\"$$e.n\"".to_owned(),
        1 => format!(
            "{{$cond: [{{$isNumber: \"$$e\"}}, {{$add: [\"$$e\", 1]}}, {}]}}",
            any(random, depth)
        ),
        2 => format!("[\"$$e\", {}]", any(random, depth)),
        _ => "\"$$e\"".to_owned(),
    }
}

/// An expression that mostly gives a date.
pub fn date(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return match random.below(3) {
            0 => values::date(random),
            _ => "\"$d\"".to_owned(),
        };
    }
    let below = depth - 1;
    let zone = random.pick(&["", "", ", timezone: \"America/New_York\"", ", timezone: \"+05:30\""]);
    match random.below(6) {
        0 | 1 => {
            let operator = random.pick(&["$dateAdd", "$dateSubtract"]);
            let unit = random.pick(&["year", "quarter", "month", "week", "day", "hour"]);
            // Only whole seconds: MongoDB 6.0 miscounts those with fractions before 1970.
            let start =
                format!("{{$dateTrunc: {{date: {}, unit: \"second\"}}}}", date(random, below));
            format!(
                "{{{operator}: {{startDate: {start}, unit: \"{unit}\", amount: {}{zone}}}}}",
                random.between(-20, 20)
            )
        }
        2 | 3 => {
            let unit = unit(random);
            format!(
                "{{$dateTrunc: {{date: {}, unit: \"{unit}\", binSize: {}{zone}}}}}",
                date(random, below),
                random.between(1, 5)
            )
        }
        4 => format!(
            "{{$dateFromParts: {{year: {}, month: {}, day: {}{zone}}}}}",
            random.between(1960, 2030),
            random.between(-2, 15),
            random.between(-3, 40)
        ),
        _ => conditional(random, depth, date),
    }
}

/// An expression that mostly gives a document.
pub fn object(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return match random.below(3) {
            0 => literal(&values::document(random, 1)),
            _ => field(random, &["o", "x"]),
        };
    }
    let below = depth - 1;
    match random.below(6) {
        0 | 1 => format!("{{n: {}, s: {}}}", any(random, below), any(random, below)),
        2 => format!("{{$mergeObjects: [{}, {}]}}", object(random, below), object(random, below)),
        3 => format!(
            "{{$setField: {{field: \"z\", input: {}, value: {}}}}}",
            object(random, below),
            any(random, below)
        ),
        4 => format!("{{$arrayToObject: {{$objectToArray: {}}}}}", object(random, below)),
        _ => conditional(random, depth, object),
    }
}
