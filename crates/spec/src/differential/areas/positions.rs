//! The positional `$` of updates and projections, in every way in which a filter can touch arrays.

use crate::differential::random::Random;

fn number(random: &mut Random) -> String {
    random.between(0, 3).to_string()
}

fn item(random: &mut Random) -> String {
    match random.below(6) {
        0 => number(random),
        1 => format!("{{k: {}}}", number(random)),
        2 => format!("{{k: {}, l: [{}, {}]}}", number(random), number(random), number(random)),
        3 => format!("{{l: [{{m: {}}}, {{m: {}}}], k: 1}}", number(random), number(random)),
        _ => format!("{{k: {}, q: {}}}", number(random), number(random)),
    }
}

pub(super) fn fields(random: &mut Random) -> String {
    let count = random.below(4);
    let plain = random.list(count, number);
    let count = random.below(4);
    let items = random.list(count, item);
    let count = random.below(3);
    let other = random.list(count, number);
    let deep = if random.chance(30) { number(random) } else { String::new() };
    format!("a: [{plain}], b: [{items}], h: [{other}], d: {{a: [{deep}]}}, n: {}", number(random))
}

fn condition(random: &mut Random) -> String {
    match random.below(17) {
        0 | 1 => format!("a: {}", number(random)),
        2 => format!("a: {{$gt: {}}}", number(random)),
        3 => format!("a: {{$elemMatch: {{$gte: {}, $lt: 3}}}}", number(random)),
        4 | 5 => format!("\"b.k\": {}", number(random)),
        6 => format!("b: {{$elemMatch: {{k: {}, q: {}}}}}", number(random), number(random)),
        7 => format!("b: {{$elemMatch: {{k: {}}}}}", number(random)),
        8 => format!("\"b.l\": {}", number(random)),
        9 => format!("\"b.l.m\": {}", number(random)),
        10 => format!("\"a.{}\": {}", random.below(2), number(random)),
        11 => format!("\"h.0\": {{$exists: {}}}", random.pick(&["true", "false"])),
        12 => format!("h: {}", number(random)),
        13 => format!("\"b.{}.k\": {}", random.below(2), number(random)),
        14 => format!("a: {{$in: [{}, {}]}}", number(random), number(random)),
        15 => format!("\"d.a\": {}", number(random)),
        _ => format!("n: {}", number(random)),
    }
}

fn filter(random: &mut Random) -> String {
    match random.below(9) {
        0 | 1 => condition(random),
        2 => format!("$or: [{{{}}}, {{{}}}]", condition(random), condition(random)),
        3 => format!("$and: [{{{}}}, {{{}}}]", condition(random), condition(random)),
        4 => format!("{}, $nor: [{{{}}}]", condition(random), condition(random)),
        5 => format!(
            "$and: [{{{}}}, {{$or: [{{{}}}, {{{}}}]}}]",
            condition(random),
            condition(random),
            condition(random)
        ),
        6 => format!("a: {{$not: {{$gt: {}}}}}, {}", number(random), tail(random)),
        _ => format!("$and: [{{{}}}], {}", condition(random), tail(random)),
    }
}

/// A condition on a field that no other part of a filter names.
fn tail(random: &mut Random) -> String {
    format!("\"b.q\": {}", number(random))
}

fn change(random: &mut Random) -> (String, Option<String>) {
    let value = 10 + random.below(5);
    let (path, operator) = match random.below(12) {
        0..=2 => ("a.$", "$set"),
        3 | 4 => ("b.$.k", "$set"),
        5 => ("b.$.q", "$inc"),
        6 => ("b.$.l.0", "$set"),
        7 => ("b.$.l", "$push"),
        8 => ("b.$", "$set"),
        9 => ("h.$", "$set"),
        10 => ("d.a.$", "$set"),
        _ => ("a.$", "$unset"),
    };
    let mut inside = format!("{operator}: {{\"{path}\": {value}}}");
    if random.chance(25) {
        let (more, given) = match random.below(3) {
            0 => (
                format!("$max: {{\"b.$[e].z\": {value}}}"),
                format!("[{{\"e.k\": {}}}]", number(random)),
            ),
            1 => (
                "$min: {\"h.$[e]\": -1}".to_owned(),
                format!("[{{e: {{$gt: {}}}}}]", number(random)),
            ),
            _ => ("$mul: {\"h.$[]\": 2}".to_owned(), "[]".to_owned()),
        };
        inside = format!("{inside}, {more}");
        return (format!("{{{inside}}}"), Some(given));
    }
    (format!("{{{inside}}}"), None)
}

pub(super) fn command(random: &mut Random) -> String {
    let filter = filter(random);
    match random.below(6) {
        0 | 1 => {
            let path = random.pick(&["a.$", "b.$", "h.$", "b.l.$", "d.a.$"]);
            format!(
                "{{find: \"c\", filter: {{{filter}}}, projection: {{\"{path}\": 1}}, sort: {{_id: 1}}}}"
            )
        }
        2 => {
            let (change, filters) = change(random);
            let filters = filters.map_or(String::new(), |given| format!(", arrayFilters: {given}"));
            let fields = match random.below(3) {
                0 => ", fields: {\"a.$\": 1}",
                1 => ", fields: {\"b.$\": 1}",
                _ => "",
            };
            format!(
                "{{findAndModify: \"c\", query: {{{filter}}}, sort: {{_id: 1}}, update: \
                 {change}{filters}{fields}}}"
            )
        }
        _ => {
            let (change, filters) = change(random);
            let filters = filters.map_or(String::new(), |given| format!(", arrayFilters: {given}"));
            // One document, so that it does not matter how many are written before an error.
            let query = format!("{{_id: {}, {filter}}}", random.below(6));
            format!("{{update: \"c\", updates: [{{q: {query}, u: {change}{filters}}}]}}")
        }
    }
}
