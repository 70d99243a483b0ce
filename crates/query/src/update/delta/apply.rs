//! Applies a delta to a document. Deltas may come from a client (`applyOps`), so that nothing is
//! assumed about their form.

use value::{Code, Error, RawDoc, RawVal, Result, Val, Writer, writer};

const ARRAY: u8 = 0x04;
const DOCUMENT: u8 = 0x03;

/// The largest array that a delta may make longer by nulls.
const LENGTH_MAX: usize = 1_500_000;

/// Returns the document that results from a delta.
///
/// # Errors
/// 4770504 and others like MongoDB when the delta is malformed.
pub fn apply(old: RawDoc<'_>, delta: RawDoc<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(old.bytes().len() + delta.bytes().len());
    let mut result = Ok(());
    writer::write_doc(&mut bytes, |out| result = change_document(out, old, delta));
    result.map(|()| bytes)
}

fn malformed<T>(code: i32, what: &str) -> Result<T> {
    Err(Error::new(Code(code), format!("the update description is malformed: {what}")))
}

fn change_document(out: &mut Writer<'_>, old: RawDoc<'_>, delta: RawDoc<'_>) -> Result<()> {
    let (mut removed, mut updated, mut inserted) =
        (RawDoc::empty(), RawDoc::empty(), RawDoc::empty());
    let mut nested = Vec::new();
    for (name, value) in delta {
        let Some(fields) = value.as_doc() else {
            return malformed(4_770_503, &format!("the section '{name}' is no object"));
        };
        match name {
            "d" => removed = fields,
            "u" => updated = fields,
            "i" => inserted = fields,
            _ => match name.strip_prefix('s') {
                Some(field) => nested.push((field, fields)),
                None => return malformed(4_770_500, &format!("unknown section '{name}'")),
            },
        }
    }
    let mut written = Vec::new();
    for (name, value) in old {
        if removed.find(name).is_some() || inserted.find(name).is_some() {
            continue;
        }
        if let Some(new) = updated.find(name) {
            out.raw(name, new);
            written.push(name);
        } else if let Some((_, delta)) = nested.iter().find(|(field, _)| *field == name) {
            change_value(out, name, value, *delta)?;
        } else {
            out.raw(name, value);
        }
    }
    for (name, value) in updated {
        if !written.contains(&name) {
            out.raw(name, value);
        }
    }
    for (name, value) in inserted {
        out.raw(name, value);
    }
    Ok(())
}

/// Writes a changed value. A delta that does not fit the value leaves it, as in MongoDB: a later
/// entry of the log replaces it.
fn change_value(
    out: &mut Writer<'_>,
    name: &str,
    value: RawVal<'_>,
    delta: RawDoc<'_>,
) -> Result<()> {
    let is_array = delta.get("a").is_some_and(|flag| flag == Val::Bool(true));
    let mut result = Ok(());
    match value.get() {
        Val::Array(old) if is_array && value.kind == ARRAY => {
            out.array(name, |list| result = change_array(list, old, delta));
        }
        Val::Document(old) if !is_array && value.kind == DOCUMENT => {
            out.doc(name, |out| result = change_document(out, old, delta));
        }
        _ => {
            out.raw(name, value);
        }
    }
    result
}

fn change_array(
    list: &mut writer::ArrayWriter<'_>,
    old: RawDoc<'_>,
    delta: RawDoc<'_>,
) -> Result<()> {
    let mut length = None;
    let mut changes = Vec::new();
    for (name, value) in delta {
        match name {
            "a" => {}
            "l" => match value.get().as_i64_exact().and_then(|n| usize::try_from(n).ok()) {
                Some(n) if n <= LENGTH_MAX => length = Some(n),
                _ => return malformed(4_770_515, "the length of an array is no number"),
            },
            _ => {
                let at = name.get(1..).and_then(|at| at.parse::<usize>().ok());
                match (name.as_bytes().first(), at.filter(|at| *at < LENGTH_MAX)) {
                    (Some(kind @ (b'u' | b's')), Some(at)) => changes.push((at, *kind, value)),
                    _ => return malformed(4_770_512, &format!("unknown field '{name}'")),
                }
            }
        }
    }
    let elements: Vec<RawVal<'_>> = old.iter().map(|(_, value)| value).collect();
    let longest = changes.iter().map(|(at, ..)| at + 1).max().unwrap_or(0).max(elements.len());
    for at in 0..length.unwrap_or(longest) {
        let change = changes.iter().find(|(changed, ..)| *changed == at);
        let element = elements.get(at);
        match (change, element) {
            (Some((_, b'u', new)), _) => list.push_raw(*new),
            (Some((_, _, delta)), Some(element)) => {
                let Some(delta) = delta.as_doc() else {
                    return malformed(4_770_516, "a change of an element is no object");
                };
                let mut bytes = Vec::new();
                let mut result = Ok(());
                writer::write_doc(&mut bytes, |out| {
                    result = change_value(out, "e", *element, delta);
                });
                result?;
                if let Some(changed) = RawDoc::new(&bytes).find("e") {
                    list.push_raw(changed);
                }
            }
            (None, Some(element)) => list.push_raw(*element),
            _ => list.push(Val::Null),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::delta::{LoggedUpdate, between};
    use proptest::prelude::*;
    use value::ejson::parse_doc;

    fn applied(old: &str, delta: &str) -> String {
        let (old, delta) = (parse_doc(old).expect("test"), parse_doc(delta).expect("test"));
        let new = apply(old.as_doc(), delta.as_doc()).expect("applies");
        value::ejson::print(RawDoc::new(&new), value::ejson::Format::Shell)
    }

    #[test]
    fn sections_change_fields_in_their_places() {
        let old = "{_id: 1, a: 1, b: {c: 1, d: 2}, l: [1, {x: 1}, 3]}";
        let new = applied(
            old,
            "{d: {a: false}, u: {z: 5}, i: {y: 1}, sb: {u: {c: 9}}, \
             sl: {a: true, l: 4, u0: 7, s1: {u: {x: 2}}}}",
        );
        let wanted = "{_id: 1, b: {c: 9, d: 2}, l: [7, {x: 2}, 3, null], z: 5, y: 1}";
        let wanted = parse_doc(wanted).expect("test");
        assert_eq!(new, value::ejson::print(wanted.as_doc(), value::ejson::Format::Shell));
        for bad in ["{q: {}}", "{u: 1}", "{sl: {a: true, q: 1}}"] {
            let (old, bad) = (parse_doc(old).expect("test"), parse_doc(bad).expect("test"));
            assert!(apply(old.as_doc(), bad.as_doc()).is_err());
        }
    }

    fn document() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            (0..3i32).prop_map(|n| n.to_string()),
            proptest::collection::vec(0..3i32, 0..4).prop_map(|list| format!("{list:?}")),
        ];
        let fields = proptest::collection::btree_map("[a-d]", leaf.clone(), 0..4);
        let inner = fields.prop_map(|fields| {
            let fields: Vec<_> = fields.iter().map(|(k, v)| format!("{k}: {v}")).collect();
            format!("{{{}}}", fields.join(", "))
        });
        (leaf, inner, "[a-z]{40}").prop_map(|(leaf, inner, text)| {
            format!("{{_id: 1, text: '{text}', x: {leaf}, y: {inner}, z: [{inner}, 1]}}")
        })
    }

    proptest! {
        #[test]
        fn a_delta_between_documents_leads_from_one_to_the_other(
            old in document(),
            new in document(),
        ) {
            let (old, new) = (parse_doc(&old).expect("test"), parse_doc(&new).expect("test"));
            if let LoggedUpdate::Delta(delta) = between(old.as_doc(), new.as_doc()) {
                let made = apply(old.as_doc(), RawDoc::new(&delta)).expect("applies");
                let same = value::compare::equal(
                    Val::Document(RawDoc::new(&made)),
                    Val::Document(new.as_doc()),
                );
                prop_assert!(same);
            }
        }
    }
}
