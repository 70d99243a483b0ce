//! `$setWindowFields` with outputs into paths, also through arrays.

use crate::differential::random::Random;

fn number(random: &mut Random) -> &'static str {
    random.pick(&["0", "1", "2", "-1", "1.5", "NumberLong(3)", "NumberDecimal(\"2.5\")"])
}

fn inner(random: &mut Random) -> String {
    match random.below(7) {
        0 => "[]".to_owned(),
        1 => number(random).to_owned(),
        2 => format!("{{f: {}}}", number(random)),
        3 => format!("[{{f: {}}}, {}]", number(random), number(random)),
        4 => format!("[[{{f: {}}}], {{g: {{h: 1}}}}]", number(random)),
        5 => format!("{{f: [{{g: {}}}, {{}}]}}", number(random)),
        _ => format!("[{{f: {}}}, {{f: {{g: 2}}}}]", number(random)),
    }
}

pub(super) fn fields(random: &mut Random) -> String {
    format!(
        "p: {}, v: {}, w: {}, t: {}",
        random.below(2),
        number(random),
        random.between(0, 6),
        inner(random)
    )
}

const TARGETS: &[&str] = &["o", "t", "t.f", "t.f.g", "t.n", "t.n.m", "t.0", "t.0.f", "v.x", "p"];

fn function(random: &mut Random) -> String {
    let input = random.pick(&["$v", "$w", "$t", "$t.f", "$none"]);
    let numeric = random.pick(&["$v", "$w"]);
    let bound = |random: &mut Random, open: &'static str| match random.below(3) {
        0 => open.to_owned(),
        1 => "\"current\"".to_owned(),
        _ => random.between(0, 2).to_string(),
    };
    let low = match random.below(3) {
        0 => "\"unbounded\"".to_owned(),
        1 => "\"current\"".to_owned(),
        _ => random.between(-2, 0).to_string(),
    };
    let high = bound(random, "\"unbounded\"");
    let window = match random.below(4) {
        0 => String::new(),
        1 => format!(", window: {{range: [{low}, {high}]}}"),
        _ => format!(", window: {{documents: [{low}, {high}]}}"),
    };
    match random.below(14) {
        0 => format!("{{$sum: \"{input}\"{window}}}"),
        1 => format!("{{$max: \"{input}\"{window}}}"),
        2 => format!("{{$min: \"{input}\"{window}}}"),
        3 => format!("{{$push: \"{input}\"{window}}}"),
        4 => format!("{{$first: \"{input}\"{window}}}"),
        5 => format!("{{$last: \"{input}\"{window}}}"),
        6 => format!("{{$count: {{}}{window}}}"),
        7 => format!("{{$minN: {{n: 2, input: \"{input}\"}}{window}}}"),
        8 => format!("{{$shift: {{output: \"{input}\", by: {}}}}}", random.between(-2, 2)),
        9 => "{$documentNumber: {}}".to_owned(),
        10 => "{$rank: {}}".to_owned(),
        11 => format!("{{$derivative: {{input: \"{numeric}\"}}{window}}}"),
        // Without decimals, whose trailing zeros depend on how a sum was made.
        12 => format!("{{$integral: {{input: \"$w\"}}{window}}}"),
        _ => format!("{{$locf: \"{input}\"}}"),
    }
}

pub(super) fn command(random: &mut Random) -> String {
    // One output: the order in which MongoDB adds several to a document is that of a hash table.
    let output = format!("\"{}\": {}", random.pick(TARGETS), function(random));
    let partition = random.pick(&["", "partitionBy: \"$p\", ", "partitionBy: \"$none\", "]);
    // By the `_id`, because the order of documents with equal values is not defined.
    let sort = random.pick(&["{_id: 1}", "{_id: 1}", "{_id: -1}"]);
    format!(
        "{{aggregate: \"c\", pipeline: [{{$setWindowFields: {{{partition}sortBy: {sort}, output: \
         {{{output}}}}}}}, {{$sort: {{_id: 1}}}}], cursor: {{}}}}"
    )
}
