//! Deltas of documents of which only the end of an array was read.

use value::{DocBuf, RawDoc, RawVal, Val, Writer};

/// The delta of the whole document: elements were appended to the array at a path of which the first
/// `hidden` elements were not read. `values` are plain values of fields at the top level that changed,
/// too. `None` if the delta is not of that form.
#[must_use]
pub fn of_whole(
    delta: &[u8],
    path: &str,
    hidden: usize,
    values: &[(&str, RawVal<'_>)],
) -> Option<Vec<u8>> {
    let delta = RawDoc::new(delta);
    let updated = delta.find("u").and_then(RawVal::as_doc).unwrap_or(RawDoc::empty());
    let mut found = false;
    let whole = DocBuf::build(|out| {
        if let Some(removed) = delta.find("d") {
            out.raw("d", removed);
        }
        if !values.is_empty() || !updated.is_empty() {
            out.doc("u", |out| {
                let is_given = |name: &str| values.iter().any(|(given, _)| *given == name);
                for (name, value) in updated.iter().filter(|(name, _)| !is_given(name)) {
                    out.raw(name, value);
                }
                values.iter().for_each(|(name, value)| {
                    out.raw(name, *value);
                });
            });
        }
        let rest = delta.iter().filter(|(name, _)| !matches!(*name, "d" | "u"));
        rest.for_each(|(name, value)| section(name, value, path, hidden, &mut found, out));
    });
    let first = path.split('.').next().unwrap_or(path);
    let inserted = delta.find("i").and_then(RawVal::as_doc).unwrap_or(RawDoc::empty());
    let is_whole = updated.find(first).is_some() || inserted.find(first).is_some();
    (found || !is_whole).then(|| whole.into_bytes())
}

/// Writes a section of a delta; that of the array with the positions of the whole array.
fn section(
    name: &str,
    value: RawVal<'_>,
    path: &str,
    hidden: usize,
    found: &mut bool,
    out: &mut Writer<'_>,
) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, r)| (first, Some(r)));
    let inner = value.as_doc().filter(|_| name.strip_prefix('s') == Some(first));
    let Some(inner) = inner else {
        out.raw(name, value);
        return;
    };
    out.doc(name, |out| match rest {
        Some(rest) => {
            inner.iter().for_each(|(name, value)| section(name, value, rest, hidden, found, out));
        }
        None => {
            *found |= inner.get("a") == Some(Val::Bool(true));
            for (name, value) in inner {
                let place = name.strip_prefix('u').and_then(|place| place.parse::<usize>().ok());
                match place {
                    Some(place) => out.raw(&format!("u{}", place + hidden), value),
                    None => out.raw(name, value),
                };
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    #[test]
    fn elements_get_their_places_in_the_whole_array() {
        let whole = |delta: &str, path: &str| {
            let delta = ejson::parse_doc(delta).expect("test text");
            let count = ejson::parse_doc("{n: 102}").expect("test text");
            let values = [("n", count.as_doc().find("n").expect("is there"))];
            let whole = of_whole(delta.bytes(), path, 100, &values)?;
            Some(ejson::parse_doc("{}").map(|_| DocBuf::from_bytes(whole)).expect("is whole"))
        };
        let doc = |text: &str| ejson::parse_doc(text).expect("test text");
        assert_eq!(
            whole("{u: {x: 1, n: 2}, sc: {a: true, u1: 'v', u2: 'w'}}", "c"),
            Some(doc("{u: {x: 1, n: 102}, sc: {a: true, u101: 'v', u102: 'w'}}"))
        );
        assert_eq!(
            whole(
                "{d: {y: false}, i: {z: 1}, sb: {sc: {a: true, u1: 5}, sd: {u: {u1: 1}}}}",
                "b.c"
            ),
            Some(doc(
                "{d: {y: false}, u: {n: 102}, i: {z: 1}, sb: {sc: {a: true, u101: 5}, sd: {u: {u1: 1}}}}"
            ))
        );
        assert_eq!(whole("{u: {c: [1]}}", "c"), None);
    }
}
