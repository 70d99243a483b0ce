//! Merging of what an old client changed into what the other form holds.

use super::forms::same;
use value::{DocBuf, RawDoc};

/// The document `kept` with the changes that lead from `base` to `new`, field by field at the top
/// level. Fields that `base` and `new` have alike stay as they are in `kept`.
pub(super) fn merged(kept: RawDoc<'_>, base: RawDoc<'_>, new: RawDoc<'_>) -> DocBuf {
    if base.bytes() == new.bytes() {
        return kept.into();
    }
    let stays = |name: &str| match (base.find(name), new.find(name)) {
        (None, None) => true,
        (Some(old), Some(new)) => same(old, new),
        _ => false,
    };
    DocBuf::build(|out| {
        for (name, value) in kept {
            if stays(name) {
                out.raw(name, value);
            } else if let Some(value) = new.find(name) {
                out.raw(name, value);
            }
        }
        for (name, value) in new {
            if kept.find(name).is_none() && !stays(name) {
                out.raw(name, value);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    #[test]
    fn only_what_changed_is_taken() {
        let doc = |text: &str| ejson::parse_doc(text).expect("test text");
        for (kept, base, new, expected) in [
            // Nothing changed: what the other form does not show is kept, with its order.
            (
                "{_id: 1, b: 1, a: 2, x: 3}",
                "{_id: 1, a: 2}",
                "{_id: 1, a: 2}",
                "{_id: 1, b: 1, a: 2, x: 3}",
            ),
            ("{_id: 1, a: 2, x: 3}", "{_id: 1, a: 2}", "{_id: 1, a: 5}", "{_id: 1, a: 5, x: 3}"),
            ("{_id: 1, a: 2, x: 3}", "{_id: 1, a: 2}", "{_id: 1}", "{_id: 1, x: 3}"),
            ("{_id: 1, a: 2}", "{_id: 1, a: 2}", "{_id: 1, a: 2, c: 1}", "{_id: 1, a: 2, c: 1}"),
            // A field that is only in the other form, and was not changed there, stays away.
            ("{_id: 1}", "{_id: 1, d: 0}", "{_id: 1, d: 0, c: 1}", "{_id: 1, c: 1}"),
        ] {
            let found = merged(doc(kept).as_doc(), doc(base).as_doc(), doc(new).as_doc());
            assert_eq!(found, doc(expected), "{kept} {base} {new}");
        }
    }
}
