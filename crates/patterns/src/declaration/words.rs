//! Names in messages: lists of them, and the one that was probably meant.

/// The name that is most like the given one, if one is like it.
pub(crate) fn nearest<'k>(given: &str, known: &[&'k str]) -> Option<&'k str> {
    let lower = given.to_lowercase();
    let far = |name: &str| distance(&lower, &name.to_lowercase());
    let most = (given.chars().count() / 3).max(1);
    let found = known.iter().map(|name| (far(name), *name)).min();
    found.filter(|(far, _)| *far <= most).map(|(_, name)| name)
}

/// `'a', 'b' and 'c'`.
pub(crate) fn listed(names: &[&str]) -> String {
    let quoted = |names: &[&str]| {
        names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
    };
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and '{last}'", quoted(first)),
        _ => quoted(names),
    }
}

/// The known names, after an unknown one: which one was probably meant, and all of them.
pub(crate) fn hint(given: &str, known: &[&str]) -> String {
    let meant = nearest(given, known).map(|name| format!(" (did you mean '{name}'?)"));
    format!("{}; there are {}", meant.unwrap_or_default(), listed(known))
}

/// The number of letters to insert, remove, replace or swap with the next one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX);
            let replaced = at(&last, j).saturating_add(usize::from(x != y));
            let mut best =
                replaced.min(at(&last, j + 1).saturating_add(1)).min(at(&row, j).saturating_add(1));
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(at(&before, j - 1).saturating_add(1));
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_meant_is_found() {
        let known = ["fields", "filter", "from", "groupBy", "into", "on", "onError"];
        for (given, expected) in [
            ("field", Some("fields")),
            ("form", Some("from")),
            ("groupby", Some("groupBy")),
            ("fitler", Some("filter")),
            ("onErrors", Some("onError")),
            ("of", Some("on")),
            ("colour", None),
        ] {
            assert_eq!(nearest(given, &known), expected, "{given}");
        }
        assert_eq!(listed(&["a"]), "'a'");
        assert_eq!(hint("b", &["a", "c"]), " (did you mean 'a'?); there are 'a' and 'c'");
        assert_eq!(hint("long", &["a", "c"]), "; there are 'a' and 'c'");
    }
}
