//! `$merge` in all its modes, into a collection `o` that has some of the documents.

use crate::differential::random::Random;

pub(super) fn setup(_: &mut Random) -> Vec<String> {
    vec![
        "{createIndexes: \"o\", indexes: [{key: {k: 1}, name: \"k\", unique: true}]}".to_owned(),
        "{createIndexes: \"o\", indexes: [{key: {k: 1, g: 1}, name: \"kg\", unique: true}]}"
            .to_owned(),
    ]
}

fn number(random: &mut Random) -> String {
    random.between(0, 5).to_string()
}

pub(super) fn fields(random: &mut Random) -> String {
    match random.below(8) {
        0 => format!("k: {}", number(random)),
        1 => format!("k: {}, g: [{}]", number(random), number(random)),
        2 => format!("g: {}, v: {{w: 1}}", number(random)),
        3 => format!("k: null, v: {}", number(random)),
        _ => format!(
            "k: {}, g: {}, v: {{w: {}, x: [1]}}",
            number(random),
            number(random),
            number(random)
        ),
    }
}

pub(super) fn command(random: &mut Random) -> String {
    let mut options = String::new();
    match random.below(5) {
        0 => options += ", on: \"k\"",
        1 => options += ", on: [\"k\", \"g\"]",
        _ => {}
    }
    match random.below(8) {
        0 => options += ", whenMatched: \"replace\"",
        1 => options += ", whenMatched: \"keepExisting\"",
        2 => options += ", whenMatched: \"fail\"",
        3 => options += ", whenMatched: \"merge\"",
        4 => options += ", whenMatched: [{$set: {old: \"$v\", from: \"$$new.v\"}}]",
        5 => {
            options += ", let: {q: \"$g\"}, whenMatched: [{$set: {k: \"$$q\"}}, {$unset: \"v\"}]";
        }
        6 => options += ", whenMatched: [{$replaceWith: {$mergeObjects: [\"$$ROOT\", \"$$new\"]}}]",
        _ => {}
    }
    match random.below(5) {
        0 => options += ", whenNotMatched: \"discard\"",
        1 => options += ", whenNotMatched: \"fail\"",
        _ => {}
    }
    let first = match random.below(6) {
        0 => "{$project: {v: 0}}, ".to_owned(),
        1 => format!("{{$match: {{_id: {{$lt: {}}}}}}}, ", number(random)),
        2 => "{$set: {_id: {$add: [\"$_id\", 3]}}}, ".to_owned(),
        3 => "{$unset: [\"g\", \"v.w\"]}, ".to_owned(),
        _ => String::new(),
    };
    format!(
        "{{aggregate: \"c\", pipeline: [{{$sort: {{_id: 1}}}}, {first}{{$merge: {{into: \
         \"o\"{options}}}}}], cursor: {{}}}}"
    )
}
