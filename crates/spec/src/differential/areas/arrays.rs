//! Arrays in arrays with indexes at every depth, and pairs of predicates over shared prefixes.

use crate::differential::random::Random;

/// Key patterns; one document never has two arrays that are not one inside the other.
const INDEXES: &[&str] = &[
    "{a: 1}",
    "{\"a.b\": 1}",
    "{\"a.b.x\": 1}",
    "{\"a.b.y\": -1}",
    "{\"a.b.x\": 1, \"a.b.y\": 1}",
    "{\"a.b.y\": 1, \"a.b.x\": 1}",
    "{\"a.b.x\": 1, \"a.z\": 1}",
    "{\"a.z\": 1, \"a.b.x\": -1}",
    "{\"a.z\": 1, \"a.b.x\": 1, \"a.b.y\": 1}",
    "{\"a.0.z\": 1}",
    "{\"a.b.0.y\": 1}",
    "{\"$**\": 1}",
];

const PATHS: &[&str] =
    &["a", "a.z", "a.b", "a.b.x", "a.b.y", "a.0.z", "a.0.b.x", "a.b.0", "a.b.1.y", "a.1.b.0.x"];

/// Paths inside an element of `a`.
const INNER: &[&str] = &["z", "b", "b.x", "b.y", "b.0.x", "b.1"];

pub(super) fn setup(random: &mut Random) -> Vec<String> {
    let count = random.below(3);
    let index = |random: &mut Random| {
        let key = random.pick(INDEXES);
        let name: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
        format!("{{createIndexes: \"c\", indexes: [{{key: {key}, name: \"i{name}\"}}]}}")
    };
    (0..count).map(|_| index(random)).collect()
}

fn number(random: &mut Random) -> &'static str {
    random.pick(&["0", "1", "2", "3", "null"])
}

fn leaf(random: &mut Random) -> String {
    match random.below(5) {
        0 => number(random).to_owned(),
        1 => format!("{{x: [{}, {}], y: {}}}", number(random), number(random), number(random)),
        2 => format!("{{y: {}}}", number(random)),
        3 => format!("{{x: {}}}", number(random)),
        _ => format!("{{x: {}, y: {}}}", number(random), number(random)),
    }
}

fn inner(random: &mut Random) -> String {
    match random.below(6) {
        0 => leaf(random),
        1 => number(random).to_owned(),
        _ => {
            let count = random.below(3);
            format!("[{}]", random.list(count, leaf))
        }
    }
}

fn element(random: &mut Random) -> String {
    match random.below(8) {
        0 => number(random).to_owned(),
        1 => format!("{{z: {}}}", number(random)),
        2 => format!("[{}]", number(random)),
        3 => format!("{{b: {}}}", inner(random)),
        _ => format!("{{z: {}, b: {}}}", number(random), inner(random)),
    }
}

pub(super) fn fields(random: &mut Random) -> String {
    let value = match random.below(6) {
        0 => element(random),
        _ => {
            let count = random.below(4);
            format!("[{}]", random.list(count, element))
        }
    };
    format!("a: {value}, n: {}", number(random))
}

fn test(random: &mut Random) -> String {
    match random.below(11) {
        0..=2 => number(random).to_owned(),
        3 => format!("{{$gt: {}}}", random.below(3)),
        4 => format!("{{$lt: {}}}", random.below(4)),
        5 => format!("{{$gte: {}, $lte: {}}}", random.below(2), 1 + random.below(3)),
        6 => format!("{{$in: [{}, {}]}}", number(random), number(random)),
        7 => format!("{{$ne: {}}}", number(random)),
        8 => format!("{{$exists: {}}}", random.pick(&["true", "false"])),
        9 => format!("{{$all: [{}, {}]}}", number(random), number(random)),
        _ => format!("{{$not: {{$gt: {}}}}}", random.below(3)),
    }
}

fn condition(random: &mut Random) -> String {
    match random.below(9) {
        0 | 1 => format!("a: {{$elemMatch: {{{}}}}}", pair(random, INNER)),
        2 => format!("\"a.b\": {{$elemMatch: {{{}}}}}", pair(random, &["x", "y"])),
        3 => format!("a: {{$elemMatch: {{b: {{$elemMatch: {{{}}}}}}}}}", pair(random, &["x", "y"])),
        4 => format!(
            "a: {{$all: [{{$elemMatch: {{{}}}}}, {{$elemMatch: {{{}}}}}]}}",
            pair(random, INNER),
            pair(random, INNER)
        ),
        _ => format!("\"{}\": {}", random.pick(PATHS), test(random)),
    }
}

/// Two conditions on different paths.
fn pair(random: &mut Random, paths: &[&str]) -> String {
    let first = random.pick(paths);
    let second = random.pick(paths);
    let one = format!("\"{first}\": {}", test(random));
    if first == second { one } else { format!("{one}, \"{second}\": {}", test(random)) }
}

pub(super) fn command(random: &mut Random) -> String {
    let filter = match random.below(8) {
        0 | 1 => format!("{{{}}}", condition(random)),
        2 => format!("{{$or: [{{{}}}, {{{}}}]}}", condition(random), condition(random)),
        3 => format!("{{$nor: [{{{}}}, {{{}}}]}}", condition(random), condition(random)),
        4 => format!(
            "{{$and: [{{{}}}, {{$or: [{{{}}}, {{{}}}]}}]}}",
            condition(random),
            condition(random),
            condition(random)
        ),
        _ => format!("{{$and: [{{{}}}, {{{}}}]}}", condition(random), condition(random)),
    };
    match random.below(6) {
        0 => format!(
            "{{find: \"c\", filter: {filter}, sort: {{\"{}\": {}, _id: 1}}}}",
            random.pick(&["a.z", "a.b.x", "a.b.y", "a", "n"]),
            random.pick(&["1", "-1"])
        ),
        1 => format!(
            "{{aggregate: \"c\", pipeline: [{{$match: {filter}}}, {{$sort: {{_id: 1}}}}, \
             {{$project: {{n: 1, x: \"$a.b.x\"}}}}], cursor: {{}}}}"
        ),
        _ => format!("{{find: \"c\", filter: {filter}, sort: {{_id: 1}}}}"),
    }
}
