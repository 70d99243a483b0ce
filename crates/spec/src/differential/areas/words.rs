//! Random texts and searches, beside conditions on the other fields of compound text indexes.

use super::super::random::Random;

const WORDS: &[&str] = &[
    "fox",
    "foxes",
    "dog",
    "dogs",
    "running",
    "runs",
    "the",
    "quick",
    "Quick",
    "well-known",
    "caf\u{e9}",
    "cafe",
    "red",
];

fn text(random: &mut Random) -> String {
    let count = 1 + random.below(5);
    let words: Vec<&str> = (0..count).map(|_| random.pick(WORDS)).collect();
    words.join(" ")
}

/// The fields of a document.
pub(super) fn fields(random: &mut Random) -> String {
    let (words, more) = (text(random), text(random));
    let (a, b) = (random.below(3), random.below(3));
    let list = random.chance(20);
    let words = if list { format!("[\"{words}\", \"{more}\"]") } else { format!("\"{words}\"") };
    let other = if random.chance(15) { "null".to_owned() } else { b.to_string() };
    format!("w: {words}, v: \"{more}\", a: {a}, b: {other}")
}

/// A text index.
pub(super) fn setup(random: &mut Random) -> Vec<String> {
    let kinds = [
        "{w: \"text\"}",
        "{w: \"text\", v: \"text\"}",
        "{a: 1, w: \"text\"}",
        "{w: \"text\", a: 1}",
        "{a: 1, w: \"text\", b: -1}",
        "{w: \"text\", a: 1, b: 1}",
        "{\"$**\": \"text\"}",
    ];
    let options = ["", ", weights: {w: 3}", ", default_language: \"none\"", ", weights: \"$**\""];
    let (kind, options) = (random.pick(&kinds), random.pick(&options));
    vec![format!("{{createIndexes: \"c\", indexes: [{{key: {kind}, name: \"i\"{options}}}]}}")]
}

fn search(random: &mut Random) -> String {
    let count = 1 + random.below(3);
    let word = |random: &mut Random| {
        let word = random.pick(WORDS);
        match random.below(8) {
            0 => format!("-{word}"),
            1 => format!("\\\"{word} {}\\\"", random.pick(WORDS)),
            _ => (*word).to_owned(),
        }
    };
    let words: Vec<String> = (0..count).map(|_| word(random)).collect();
    let options = ["", "", "", ", $caseSensitive: true", ", $diacriticSensitive: true"];
    format!("$text: {{$search: \"{}\"{}}}", words.join(" "), random.pick(&options))
}

/// A find or aggregation that searches, in the order of `_id` or of the score and `_id`.
pub(super) fn command(random: &mut Random) -> String {
    let others =
        ["", "a: 1, ", "a: 1, b: {$gt: 0}, ", "a: 2, b: null, ", "b: 1, a: 0, ", "a: {$gt: 0}, "];
    let filter = format!("{}{}", random.pick(&others), search(random));
    let sorts = ["{_id: 1}", "{s: {$meta: \"textScore\"}, _id: 1}", "{a: -1, _id: 1}"];
    let sort = random.pick(&sorts);
    let projections =
        ["{a: 1}", "{s: {$meta: \"textScore\"}}", "{_id: 1, b: 1, s: {$meta: \"textScore\"}}"];
    let projection = random.pick(&projections);
    if random.chance(60) {
        return format!(
            "{{find: \"c\", filter: {{{filter}}}, sort: {sort}, projection: {projection}}}"
        );
    }
    let between = ["", "{$project: {a: 1, b: 1}}, ", "{$addFields: {z: 1}}, ", "{$limit: 100}, "];
    format!(
        "{{aggregate: \"c\", pipeline: [{{$match: {{{filter}}}}}, {}{{$sort: {sort}}}, {{$project: \
         {projection}}}], cursor: {{}}}}",
        random.pick(&between)
    )
}
