//! The first few children of a parent in some order: a subset knows which they are, so they are
//! read by their `_id`s, whatever indexes there are.

use super::{Rewrites, asked_key, written};
use crate::catalog::Collection;
use ::patterns::fold::Keys;
use ::patterns::pattern::Behaviour;
use value::{DocBuf, RawDoc, Result, Val};

impl Rewrites<'_> {
    /// The filter for the children that a subset keeps, when at most these are wanted.
    pub(super) fn first_children(
        &mut self,
        collection: &Collection,
        filter: RawDoc<'_>,
        sort: RawDoc<'_>,
        most: u64,
    ) -> Result<Option<DocBuf>> {
        for pattern in self.usable(collection) {
            let Behaviour::Grouped(grouped) = &pattern.behaviour else { continue };
            let Keys::Parents { foreign, .. } = &grouped.keys else { continue };
            let declared = pattern.declaration.as_doc();
            let order = declared.get("sort").and_then(Val::as_doc);
            let limit = declared.get("limit").and_then(Val::as_i64_exact);
            let Some(Val::String(id)) = declared.get("idAs") else { continue };
            let kept = limit.and_then(|limit| u64::try_from(limit).ok()).unwrap_or(0);
            let all = *grouped.source == *collection.name && !grouped.skips();
            let fits = all && most > 0 && most <= kept;
            if !fits || !order.is_some_and(|order| same_order(order, sort)) {
                continue;
            }
            let Some(key) = asked_key(pattern, filter, foreign.text()) else { continue };
            let (_, values) = self.group(pattern, grouped, key)?;
            let list = values.first().and_then(|list| list.get().as_array());
            let ids = written(|out| {
                let children = list.unwrap_or(RawDoc::empty()).iter();
                let children = children.filter_map(|(_, child)| child.as_doc()?.find(id));
                children.for_each(|id| out.push_raw(id));
            });
            self.note(pattern, "sort");
            return Ok(Some(DocBuf::build(|out| {
                out.doc("_id", |out| {
                    out.append("$in", Val::Array(ids.as_doc()));
                });
            })));
        }
        Ok(None)
    }
}

/// Whether two sorts are the same, whatever the types of their numbers.
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
