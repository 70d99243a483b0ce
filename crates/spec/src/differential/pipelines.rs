//! Random commands: `find` and `aggregate`.
//!
//! The order of results is not compared where it is undefined (`$group`).

use super::expressions;
use super::filters;
use super::random::Random;
use super::updates;
use super::values::{PATHS, UNSET};

/// A command that reads.
pub fn command(random: &mut Random) -> String {
    if random.chance(30) { find(random) } else { aggregate(random) }
}

fn find(random: &mut Random) -> String {
    let mut text = format!("{{find: \"c\", filter: {}", filters::filter_or_expression(random));
    if random.chance(40) {
        text += &format!(", projection: {}", updates::projection(random));
    }
    if random.chance(40) {
        text += &format!(", sort: {}", sort(random));
        if random.chance(40) {
            text += &format!(", skip: {}, limit: {}", random.below(3), 1 + random.below(5));
        }
    }
    text + "}"
}

/// A sort with a defined order.
fn sort(random: &mut Random) -> String {
    let direction = |random: &mut Random| random.pick(&["1", "-1"]).to_owned();
    let mut parts = vec![format!("\"{}\": {}", random.pick(PATHS), direction(random))];
    if random.chance(30) {
        let path = random.pick(&["n", "s", "x"]);
        if !parts[0].starts_with(&format!("\"{path}\"")) {
            parts.push(format!("\"{path}\": {}", direction(random)));
        }
    }
    parts.push(format!("_id: {}", direction(random)));
    format!("{{{}}}", parts.join(", "))
}

fn aggregate(random: &mut Random) -> String {
    let count = 1 + random.below(3);
    let mut stages = random.list(count, stage);
    // Unwound documents have the same `_id`, so a sort would not define their order.
    while stages.contains("$unwind") && (stages.contains("ort: {") || stages.contains("sortBy:")) {
        stages = random.list(count, stage);
    }
    // Last, because the order of groups is undefined.
    if random.chance(20) {
        stages = format!("{stages}, {}", group(random));
    }
    format!("{{aggregate: \"c\", pipeline: [{stages}], cursor: {{}}}}")
}

/// A document of computed fields.
pub fn computed(random: &mut Random) -> String {
    let count = 1 + random.below(2);
    let names = ["p", "q", "n", "o.n"];
    let first = random.below(names.len());
    let parts: Vec<String> = (0..count)
        .map(|at| {
            let name = names[(first + at) % names.len()];
            format!("\"{name}\": {}", expressions::any(random, 3))
        })
        .collect();
    format!("{{{}}}", parts.join(", "))
}

fn stage(random: &mut Random) -> String {
    match random.below(20) {
        0..=2 => format!("{{$match: {}}}", filters::filter_or_expression(random)),
        3..=6 => format!("{{$project: {}}}", computed(random)),
        7..=9 => format!("{{$addFields: {}}}", computed(random)),
        10 => format!("{{$unset: \"{}\"}}", random.pick(UNSET)),
        11 => format!("{{$sort: {}}}", sort(random)),
        12 => format!(
            "{{$sort: {}}}, {{$skip: {}}}, {{$limit: {}}}",
            sort(random),
            random.below(3),
            1 + random.below(6)
        ),
        13 => {
            let path = random.pick(&["$l", "$x", "$o.l"]);
            match random.below(2) {
                0 => format!(
                    "{{$unwind: {{path: \"{path}\", includeArrayIndex: \"i\", \
                     preserveNullAndEmptyArrays: true}}}}"
                ),
                _ => format!("{{$unwind: {{path: \"{path}\", includeArrayIndex: \"i\"}}}}"),
            }
        }
        14 => format!(
            "{{$replaceRoot: {{newRoot: {{$mergeObjects: [\"$$ROOT\", {}]}}}}}}",
            expressions::object(random, 2)
        ),
        15..=17 => window(random),
        18 => format!(
            "{{$lookup: {{from: \"c\", localField: \"{}\", foreignField: \"{}\", as: \"j\"}}}}, {{$addFields: {{j: {{$map: {{input: \"$j\", in: \"$$this._id\"}}}}}}}}",
            joined_path(random),
            joined_path(random)
        ),
        _ => "{$count: \"k\"}".to_owned(),
    }
}

/// A path of a join, which may contain an array position. All fields are kept after it: otherwise
/// MongoDB reads only the requested fields, and takes the position for a name.
fn joined_path(random: &mut Random) -> &'static str {
    if random.chance(20) {
        random.pick(&["l.0", "x.0", "l.1", "x.0.n"])
    } else {
        random.pick(PATHS)
    }
}

/// `name: {$accumulator: ..}` for groups and windows.
fn accumulator(random: &mut Random) -> String {
    let operator = random.pick(&[
        "$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$count", "$firstN", "$lastN",
        "$minN", "$maxN", "$top", "$bottom", "$topN", "$bottomN",
    ]);
    match operator {
        "$count" => "{$count: {}}".to_owned(),
        "$firstN" | "$lastN" | "$minN" | "$maxN" => {
            format!("{{{operator}: {{input: {}, n: {}}}}}", leaf(random), 1 + random.below(3))
        }
        "$sum" | "$avg" => format!("{{{operator}: {}}}", expressions::number(random, 1)),
        "$top" | "$bottom" => {
            format!("{{{operator}: {{sortBy: {}, output: {}}}}}", sort(random), leaf(random))
        }
        "$topN" | "$bottomN" => format!(
            "{{{operator}: {{sortBy: {}, output: {}, n: {}}}}}",
            sort(random),
            leaf(random),
            1 + random.below(3)
        ),
        _ => format!("{{{operator}: {}}}", leaf(random)),
    }
}

fn leaf(random: &mut Random) -> String {
    if random.chance(70) {
        format!("\"${}\"", random.pick(PATHS))
    } else {
        expressions::any(random, 1)
    }
}

fn group(random: &mut Random) -> String {
    let id = match random.below(4) {
        0 => "null".to_owned(),
        1 => format!("\"${}\"", random.pick(PATHS)),
        2 => format!("{{a: \"${}\", b: {}}}", random.pick(PATHS), expressions::boolean(random, 1)),
        _ => expressions::any(random, 2),
    };
    let count = 1 + random.below(3);
    let mut number = 0;
    let fields = random.list(count, |random| {
        number += 1;
        format!("f{number}: {}", accumulator(random))
    });
    // Groups are filled in the order of _id, so that firsts and lasts are defined.
    format!("{{$sort: {{_id: 1}}}}, {{$group: {{_id: {id}, {fields}}}}}")
}

fn window(random: &mut Random) -> String {
    let output = match random.below(8) {
        0 => "{$rank: {}}".to_owned(),
        1 => "{$denseRank: {}}".to_owned(),
        2 => "{$documentNumber: {}}".to_owned(),
        3 => format!(
            "{{$shift: {{output: \"${}\", by: {}, default: \"none\"}}}}",
            random.pick(PATHS),
            random.between(-2, 2)
        ),
        _ => {
            let bounds = random.pick(&[
                "[-1, 1]",
                "[\"unbounded\", \"current\"]",
                "[\"current\", \"unbounded\"]",
                "[-2, 0]",
                "[\"unbounded\", \"unbounded\"]",
            ]);
            let mut inside = accumulator(random);
            // The trailing zeros of a decimal sum depend on the values that have left the window.
            while inside.starts_with("{$sum") || inside.starts_with("{$avg") {
                inside = accumulator(random);
            }
            let inside = inside.strip_suffix('}').unwrap_or(&inside);
            format!("{inside}, window: {{documents: {bounds}}}}}")
        }
    };
    let partition = if random.chance(40) {
        format!("partitionBy: {}, ", expressions::boolean(random, 1))
    } else {
        String::new()
    };
    let ranked = output.contains("ank:") || output.contains("$documentNumber");
    // In MongoDB, a field that a window leaves missing keeps its position.
    let name = random.pick(&["w", "v", "u", "y", "z"]);
    let order = if ranked { "{_id: 1}".to_owned() } else { sort(random) };
    format!(
        "{{$setWindowFields: {{{partition}sortBy: {order}, output: {{{name}: {output}}}}}}}, {{$sort: {{_id: 1}}}}"
    )
}
