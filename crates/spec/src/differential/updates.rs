//! Random updates: operators, replacements, pipelines.

use super::expressions;
use super::pipelines;
use super::random::Random;
use super::values::{self, FIELDS, UNSET};

/// What an update does.
pub fn update(random: &mut Random) -> String {
    match random.below(10) {
        0 => format!("{{{}}}", values::fields(random)),
        1 | 2 => {
            let count = 1 + random.below(2);
            let stages = random.list(count, |random| match random.below(3) {
                0 => format!("{{$set: {}}}", pipelines::computed(random)),
                1 => format!("{{$unset: \"{}\"}}", random.pick(UNSET)),
                _ => format!(
                    "{{$replaceWith: {{$mergeObjects: [\"$$ROOT\", {}]}}}}",
                    pipelines::computed(random)
                ),
            });
            format!("[{stages}]")
        }
        _ => {
            let count = 1 + random.below(2);
            let mut fields: Vec<&str> = FIELDS.to_vec();
            let mut parts: Vec<String> = Vec::new();
            for _ in 0..count {
                let field = fields.remove(random.below(fields.len()));
                let (operator, inside) = operator(random, field);
                if !parts.iter().any(|part| part.starts_with(&format!("{operator}:"))) {
                    parts.push(format!("{operator}: {{{inside}}}"));
                }
            }
            format!("{{{}}}", parts.join(", "))
        }
    }
}

fn operator(random: &mut Random, field: &str) -> (&'static str, String) {
    let path = match random.below(6) {
        0 => format!("\"{field}.n\""),
        1 => format!("\"{field}.0\""),
        2 => format!("\"{field}.l.n\""),
        _ => field.to_owned(),
    };
    match random.below(14) {
        0 | 1 => ("$set", format!("{path}: {}", values::any(random, 2))),
        2 => ("$unset", format!("{path}: \"\"")),
        3 => ("$inc", format!("{path}: {}", values::number(random))),
        4 => ("$mul", format!("{path}: {}", values::number(random))),
        5 => ("$min", format!("{path}: {}", values::any(random, 1))),
        6 => ("$max", format!("{path}: {}", values::any(random, 1))),
        7 => ("$rename", format!("{field}: \"{}\"", random.pick(&["y", "z", "o.q"]))),
        8 | 9 => {
            if random.chance(40) {
                return ("$push", format!("{path}: {}", values::any(random, 1)));
            }
            let count = random.below(4);
            let mut inside =
                format!("$each: [{}]", random.list(count, |random| values::any(random, 1)));
            if random.chance(40) {
                inside += &format!(", $slice: {}", random.between(-3, 3));
            }
            if random.chance(40) {
                inside +=
                    &format!(", $sort: {}", random.pick(&["1", "-1", "{n: 1}", "{n: -1, s: 1}"]));
            }
            if random.chance(30) {
                inside += &format!(", $position: {}", random.between(-2, 3));
            }
            ("$push", format!("{path}: {{{inside}}}"))
        }
        10 => {
            let value = if random.chance(50) {
                values::any(random, 1)
            } else {
                let count = random.below(4);
                format!("{{$each: [{}]}}", random.list(count, |random| values::any(random, 1)))
            };
            ("$addToSet", format!("{path}: {value}"))
        }
        11 => ("$pop", format!("{path}: {}", random.pick(&["1", "-1"]))),
        12 => {
            let condition = match random.below(3) {
                0 => values::any(random, 1),
                1 => format!("{{$gt: {}}}", values::number(random)),
                _ => format!("{{$in: [{}, {}]}}", values::number(random), values::text(random)),
            };
            ("$pull", format!("{path}: {condition}"))
        }
        _ => {
            let bits =
                format!("{{{}: {}}}", random.pick(&["and", "or", "xor"]), random.between(0, 9));
            ("$bit", format!("{path}: {bits}"))
        }
    }
}

/// A projection of `find`.
pub fn projection(random: &mut Random) -> String {
    let count = 1 + random.below(3);
    let mut paths: Vec<&str> = FIELDS.to_vec();
    let exclude = random.chance(40);
    let parts: Vec<String> = (0..count)
        .map(|_| {
            let field = paths.remove(random.below(paths.len()));
            let path = if random.chance(30) { format!("\"{field}.n\"") } else { field.to_owned() };
            if exclude {
                return format!("{path}: 0");
            }
            match random.below(6) {
                0 => format!("{field}: {{$slice: {}}}", random.between(-2, 2)),
                1 => format!("{field}: {{$elemMatch: {{n: {}}}}}", values::number(random)),
                2 => format!("{path}: {}", expressions::any(random, 2)),
                _ => format!("{path}: 1"),
            }
        })
        .collect();
    format!("{{{}}}", parts.join(", "))
}
