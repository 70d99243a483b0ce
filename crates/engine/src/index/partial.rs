//! Whether two filters of partial indexes mean the same: they may differ in the order of their
//! conditions, and in how these are grouped.

use value::{RawDoc, Val, ejson};

/// Returns whether two filters have the same conditions.
#[must_use]
pub fn same_filter(a: RawDoc<'_>, b: RawDoc<'_>) -> bool {
    conditions(a) == conditions(b)
}

/// The conditions that must all hold, as text, sorted and each once.
fn conditions(filter: RawDoc<'_>) -> Vec<String> {
    let mut all = Vec::new();
    add(filter, &mut all);
    all.sort();
    all.dedup();
    all
}

fn add(filter: RawDoc<'_>, all: &mut Vec<String>) {
    for (name, value) in filter {
        let branches = value.get().as_array();
        match (name, value.get()) {
            ("$and", _) if branches.is_some() => {
                let branches = branches.into_iter().flatten();
                branches.filter_map(|(_, branch)| branch.as_doc()).for_each(|doc| add(doc, all));
            }
            ("$or", _) if branches.is_some() => {
                let branches = branches.into_iter().flatten();
                let mut parts: Vec<String> = branches
                    .filter_map(|(_, branch)| branch.as_doc())
                    .map(|branch| conditions(branch).join(" and "))
                    .collect();
                parts.sort();
                parts.dedup();
                all.push(format!("({})", parts.join(" or ")));
            }
            (_, Val::Document(operators)) if is_operator(operators) => {
                for (operator, operand) in operators {
                    all.push(condition(name, operator, operand.get()));
                }
            }
            (_, other) => all.push(condition(name, "$eq", other)),
        }
    }
}

fn is_operator(doc: RawDoc<'_>) -> bool {
    doc.first().is_some_and(|(name, _)| name.starts_with('$'))
}

fn condition(path: &str, operator: &str, operand: Val<'_>) -> String {
    format!("{path}\0{operator}\0{}", ejson::print_value(operand, ejson::Format::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson::parse_doc;

    #[test]
    fn order_and_grouping_do_not_matter() {
        let same = |a: &str, b: &str| {
            let (a, b) = (parse_doc(a).expect("test"), parse_doc(b).expect("test"));
            same_filter(a.as_doc(), b.as_doc())
        };
        assert!(same("{a: 1, b: {$gt: 2}}", "{b: {$gt: 2}, a: 1}"));
        assert!(same("{a: 1, b: {$gt: 2}}", "{$and: [{b: {$gt: 2}}, {a: {$eq: 1}}]}"));
        assert!(same("{a: {$gt: 1, $lt: 5}}", "{a: {$lt: 5, $gt: 1}}"));
        assert!(same("{$or: [{a: 1}, {b: 1}]}", "{$or: [{b: 1}, {a: 1}]}"));
        assert!(!same("{a: 1}", "{a: 2}"));
        assert!(!same("{a: 1}", "{a: 1, b: 1}"));
        assert!(!same("{$or: [{a: 1}, {b: 1}]}", "{a: 1, b: 1}"));
    }
}
