//! Collations: comparing, sorting, grouping and joining text, with and without indexes.

use crate::differential::random::Random;

const WORDS: &[&str] = &["a", "A", "á", "b", "B", "a2", "a10", "A10", "ab", "aB", "", "z", "Z"];

const COLLATIONS: &[&str] = &[
    "{locale: \"en\", strength: 1}",
    "{locale: \"en\", strength: 2}",
    "{locale: \"en\", strength: 3}",
    "{locale: \"en\", strength: 2, caseLevel: true}",
    "{locale: \"en\", caseFirst: \"upper\"}",
    "{locale: \"en\", numericOrdering: true}",
    "{locale: \"en\", numericOrdering: true, strength: 1}",
    "{locale: \"fr\", backwards: true}",
    "{locale: \"simple\"}",
];

fn collation(random: &mut Random) -> &'static str {
    random.pick(COLLATIONS)
}

pub(super) fn setup(random: &mut Random) -> Vec<String> {
    let count = random.below(3);
    let keys = ["{s: 1}", "{\"o.s\": 1}", "{l: 1}", "{s: -1, n: 1}"];
    (0..count)
        .map(|at| {
            let key = random.pick(&keys);
            let collation = collation(random);
            format!(
                "{{createIndexes: \"c\", indexes: [{{key: {key}, name: \"i{at}\", collation: \
                 {collation}}}]}}"
            )
        })
        .collect()
}

fn word(random: &mut Random) -> String {
    format!("\"{}\"", random.pick(WORDS))
}

pub(super) fn fields(random: &mut Random) -> String {
    let count = random.below(4);
    let s = if random.chance(10) { "5".to_owned() } else { word(random) };
    format!(
        "s: {s}, n: {}, o: {{s: {}}}, l: [{}]",
        random.below(3),
        word(random),
        random.list(count, word)
    )
}

fn filter(random: &mut Random) -> String {
    let path = random.pick(&["s", "o.s", "l"]);
    match random.below(10) {
        0 | 1 => format!("\"{path}\": {}", word(random)),
        2 => format!("\"{path}\": {{$gt: {}}}", word(random)),
        3 => format!("\"{path}\": {{$lte: {}}}", word(random)),
        4 => format!("\"{path}\": {{$in: [{}, {}]}}", word(random), word(random)),
        5 => format!("\"{path}\": {{$nin: [{}, {}]}}", word(random), word(random)),
        6 => format!("\"{path}\": {{$ne: {}}}", word(random)),
        7 => format!("o: {{s: {}}}", word(random)),
        8 => format!("$expr: {{$eq: [\"$s\", {}]}}", word(random)),
        _ => format!("l: {{$elemMatch: {{$gte: {}, $lt: {}}}}}", word(random), word(random)),
    }
}

fn expression(random: &mut Random) -> String {
    let w = word(random);
    match random.below(10) {
        0 => format!("{{$cmp: [\"$s\", {w}]}}"),
        1 => format!("{{$setUnion: [\"$l\", [{w}]]}}"),
        2 => format!("{{$setUnion: [[{w}], \"$l\"]}}"),
        3 => format!("{{$setIntersection: [\"$l\", [{w}, \"b\"]]}}"),
        4 => format!("{{$setDifference: [\"$l\", [{w}]]}}"),
        5 => format!("{{$in: [{w}, \"$l\"]}}"),
        6 => format!("{{$indexOfArray: [\"$l\", {w}]}}"),
        7 => "{$max: \"$l\"}".to_owned(),
        8 => "{$sortArray: {input: \"$l\", sortBy: 1}}".to_owned(),
        _ => format!(
            "{{$switch: {{branches: [{{case: {{$gt: [\"$s\", {w}]}}, then: 1}}], default: 2}}}}"
        ),
    }
}

pub(super) fn command(random: &mut Random) -> String {
    let collation = collation(random);
    let filter = filter(random);
    match random.below(7) {
        0 | 1 => format!(
            "{{find: \"c\", filter: {{{filter}}}, sort: {{_id: 1}}, collation: {collation}}}"
        ),
        2 => format!(
            "{{find: \"c\", filter: {{{filter}}}, sort: {{{}, _id: 1}}, collation: {collation}}}",
            random.pick(&["s: 1", "s: -1", "\"o.s\": 1", "l: 1", "l: -1", "o: 1"])
        ),
        3 => format!(
            "{{aggregate: \"c\", pipeline: [{{$sort: {{_id: 1}}}}, {{$group: {{_id: \"{}\", n: {{$sum: 1}}, f: {{$max: \"$s\"}}}}}}], \
             cursor: {{}}, collation: {collation}}}",
            random.pick(&["$s", "$o", "$l", "$o.s"])
        ),
        4 => format!(
            "{{aggregate: \"c\", pipeline: [{{$match: {{{filter}}}}}, {{$sort: {{_id: 1}}}}, {{$project: {{x: {}}}}}], cursor: {{}}, \
             collation: {collation}}}",
            expression(random)
        ),
        5 => format!(
            "{{aggregate: \"c\", pipeline: [{{$sort: {{_id: 1}}}}, {{$lookup: {{from: \"c\", localField: \"{}\", foreignField: \
             \"{}\", pipeline: [{{$sort: {{_id: 1}}}}, {{$project: {{_id: 1}}}}], as: \"x\"}}}}, {{$project: {{x: 1}}}}], cursor: \
             {{}}, collation: {collation}}}",
            random.pick(&["s", "o.s", "l"]),
            random.pick(&["s", "o.s", "l"])
        ),
        _ => format!(
            "{{update: \"c\", updates: [{{q: {{_id: {}, l: {}}}, u: {{$set: {{\"l.$\": \"new\"}}}}, collation: {collation}}}]}}",
            random.below(6),
            word(random)
        ),
    }
}
