//! Entries that hold a number of children.

use value::{DocBuf, RawDoc, Val};

/// The entry; `None` without children.
pub(super) fn with_children(children: i64) -> Option<DocBuf> {
    let write = || {
        DocBuf::build(|out| {
            out.i64("c", children);
        })
    };
    (children > 0).then(write)
}

/// The number of children of an entry.
pub(super) fn children_of(doc: RawDoc<'_>) -> i64 {
    doc.get("c").and_then(Val::as_i64_exact).unwrap_or(0)
}
