//! Queries for the first few children of a parent in some order: the subset has their `_id`s, so
//! they are read by `_id`, whatever indexes exist.

use crate::answers::{Question, asked_key, written};
use crate::fold::{Fold, Keys};
use value::{DocBuf, RawDoc, Result, Val};

/// The filter for the children in a subset, if the query needs no others.
pub(super) fn first_children(
    fold: &Fold,
    question: &Question<'_>,
    filter: RawDoc<'_>,
    sort: RawDoc<'_>,
    limit: u64,
) -> Result<Option<DocBuf>> {
    let Keys::Parents { foreign, .. } = &fold.keys else { return Ok(None) };
    let declared = question.pattern.declaration.as_doc();
    let order = declared.get("sort").and_then(Val::as_doc);
    let kept = declared.get("limit").and_then(Val::as_i64_exact);
    let Some(Val::String(id)) = declared.get("idAs") else { return Ok(None) };
    let kept = kept.and_then(|limit| u64::try_from(limit).ok()).unwrap_or(0);
    let all = *fold.source == *question.collection && !fold.skips();
    let fits = all && limit > 0 && limit <= kept;
    if !fits || !order.is_some_and(|order| same_order(order, sort)) {
        return Ok(None);
    }
    let Some(key) = asked_key(question.pattern, filter, foreign.text()) else { return Ok(None) };
    let (_, values) = fold.group(question, key)?;
    let list = values.first().and_then(|list| list.get().as_array());
    let ids = written(|out| {
        let children = list.unwrap_or(RawDoc::empty()).iter();
        let children = children.filter_map(|(_, child)| child.as_doc()?.find(id));
        children.for_each(|id| out.push_raw(id));
    });
    Ok(Some(DocBuf::build(|out| {
        out.doc("_id", |out| {
            out.append("$in", Val::Array(ids.as_doc()));
        });
    })))
}

/// Whether two sorts are equal, whatever the types of their numbers.
fn same_order(a: RawDoc<'_>, b: RawDoc<'_>) -> bool {
    let direction = |value: Val<'_>| value.as_f64().map(|number| number > 0.0);
    let plain = |doc: RawDoc<'_>| doc.iter().all(|(_, value)| direction(value.get()).is_some());
    plain(a)
        && plain(b)
        && a.count() == b.count()
        && a.iter()
            .zip(b.iter())
            .all(|((x, up), (y, down))| x == y && direction(up.get()) == direction(down.get()))
}
