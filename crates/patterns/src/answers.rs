//! Answering queries from maintained values: the interface between the planner and a kind.
//!
//! A question has the collection that the query reads and the query's snapshot. All answers are
//! for that snapshot.

use crate::layout::Records;
use crate::paths;
use crate::pattern::Pattern;
use crate::queue;
use std::sync::Arc;
use value::{DocBuf, RawDoc, RawVal, Result, Val};

/// The data that a kind may read in order to answer: one snapshot of the store.
pub trait AnswerSnapshot {
    /// Returns a pattern's record under a key.
    ///
    /// # Errors
    /// When the store fails.
    fn state(&self, pattern: u32, key: &[u8]) -> Result<Option<DocBuf>>;

    /// Whether a pattern has records whose keys begin with `prefix`.
    ///
    /// # Errors
    /// When the store fails.
    fn has_states(&self, pattern: u32, prefix: &[u8]) -> Result<bool>;

    /// Returns the document with this `_id`, as it is stored.
    ///
    /// # Errors
    /// When the store fails.
    fn get(&self, collection: &str, id: Val<'_>) -> Result<Option<DocBuf>>;

    /// The records of a collection as the layout of a pattern reads them; `None` if the pattern is
    /// no layout of the collection.
    fn records(&self, collection: &str, pattern: u32) -> Option<Arc<dyn Records>>;

    /// Whether a collection exists.
    fn has_collection(&self, collection: &str) -> bool;

    /// Whether a collection has an index on all documents that begins with this field and that
    /// queries may use.
    fn has_index(&self, collection: &str, first: &str) -> bool;
}

/// A question to a pattern.
pub struct Question<'q> {
    /// The pattern.
    pub pattern: &'q Pattern,
    /// The collection that the query reads.
    pub collection: &'q str,
    /// The query's snapshot.
    pub snapshot: &'q dyn AnswerSnapshot,
}

impl Question<'_> {
    /// Whether targets of the pattern wait in its queue, possibly since an earlier mode.
    ///
    /// # Errors
    /// When the store fails.
    pub fn is_behind(&self) -> Result<bool> {
        self.snapshot.has_states(self.pattern.id, &[queue::QUEUE])
    }
}

/// What a query asks of the patterns that read its collection.
pub enum QueryKind<'a> {
    /// A `$group`.
    Group(&'a GroupQuery<'a>),
    /// The number of documents that match a filter.
    Count(RawDoc<'a>),
    /// The first documents in an order.
    First {
        /// The filter.
        filter: RawDoc<'a>,
        /// The order.
        sort: RawDoc<'a>,
        /// How many.
        limit: u64,
    },
    /// Something else.
    Other,
}

/// The start of a pipeline that ends with `$group`.
pub struct GroupQuery<'g> {
    /// The filter of the documents.
    pub filter: RawDoc<'g>,
    /// The `$unwind` behind it.
    pub unwind: Option<UnwindQuery<'g>>,
    /// The argument of `$group`.
    pub group: RawDoc<'g>,
}

/// An `$unwind` before a `$group`.
pub struct UnwindQuery<'g> {
    /// The path of the array.
    pub path: &'g str,
    /// The filter of the unwound documents.
    pub filter: RawDoc<'g>,
}

impl<'g> GroupQuery<'g> {
    /// The conditions on the grouped documents, if they can be told: all of them if the array at
    /// `unwound` is unwound, or nothing is.
    pub(crate) fn conditions(&self, unwound: Option<&str>) -> Option<Vec<(&'g str, RawVal<'g>)>> {
        let mut all = Vec::new();
        conditions(self.filter, &mut all);
        let (path, behind) = match (unwound, &self.unwind) {
            (None, None) => return Some(all),
            (Some(path), Some(unwind)) if unwind.path == path => (path, unwind),
            _ => return None,
        };
        let mut later = Vec::new();
        conditions(behind.filter, &mut later);
        // Before the array is unwound, a condition must be about fields that stay as they are.
        for (name, value) in &all {
            let one = DocBuf::build(|out| {
                out.raw(name, *value);
            });
            let mut read = Vec::new();
            paths::of_filter(one.as_doc(), &mut read);
            if read.iter().any(|read| paths::meet(read, path)) {
                return None;
            }
        }
        all.extend(later);
        Some(all)
    }
}

/// Replaces the start of a pipeline, up to its `$group`.
pub struct GroupAnswer {
    /// The collection to read instead; `None` if the stage supplies its own documents.
    pub collection: Option<String>,
    /// The first stage.
    pub stage: DocBuf,
}

/// Replaces one stage.
pub struct StageAnswer {
    /// The stage.
    pub stage: DocBuf,
    /// Its name in explain.
    pub from: &'static str,
    /// Whether its output is still the documents of the target, so that later stages can be
    /// answered too.
    pub keeps_documents: bool,
}

/// An array as a document.
#[must_use]
pub fn written(write: impl FnOnce(&mut value::writer::ArrayWriter<'_>)) -> DocBuf {
    let mut bytes = Vec::new();
    value::writer::write_array(&mut bytes, write);
    DocBuf::from_bytes(bytes)
}

/// Collects the conditions of a conjunctive filter: a field or operator name and its operand.
pub(crate) fn conditions<'f>(filter: RawDoc<'f>, out: &mut Vec<(&'f str, RawVal<'f>)>) {
    for (name, value) in filter {
        match value.as_array().filter(|_| name == "$and") {
            Some(parts) => {
                let parts = parts.iter().filter_map(|(_, part)| part.as_doc());
                parts.for_each(|part| conditions(part, out));
            }
            None if name == "$comment" => {}
            None => out.push((name, value)),
        }
    }
}

/// Whether two lists of conditions are equal, in any order.
pub(crate) fn same_conditions(
    mut a: Vec<(&str, RawVal<'_>)>,
    mut b: Vec<(&str, RawVal<'_>)>,
) -> bool {
    let order = |c: &(&str, RawVal<'_>)| (c.0.to_owned(), c.1.kind, c.1.bytes.to_vec());
    a.sort_by_cached_key(order);
    b.sort_by_cached_key(order);
    a == b
}

/// The single value that a condition requires a field to equal.
pub(crate) fn equal_to(value: RawVal<'_>) -> Option<Val<'_>> {
    let value = match value.get() {
        Val::Document(doc) => match doc.first() {
            Some(("$eq", wanted)) if doc.count() == 1 => wanted.get(),
            Some((name, _)) if name.starts_with('$') => return None,
            _ => Val::Document(doc),
        },
        other => other,
    };
    let single = !value.is_nullish() && !matches!(value, Val::Array(_) | Val::Regex(..));
    single.then_some(value)
}

/// The key that a filter requires, if its other conditions are those of the pattern's filter.
pub(crate) fn asked_key<'f>(
    pattern: &Pattern,
    filter: RawDoc<'f>,
    foreign: &str,
) -> Option<Val<'f>> {
    let mut asked = Vec::new();
    conditions(filter, &mut asked);
    required_key(pattern, &asked, foreign)
}

/// As `asked_key`, for a list of conditions.
pub(crate) fn required_key<'f>(
    pattern: &Pattern,
    asked: &[(&'f str, RawVal<'f>)],
    foreign: &str,
) -> Option<Val<'f>> {
    let declared = pattern.declaration.as_doc().get("filter").and_then(Val::as_doc);
    let mut counted = Vec::new();
    conditions(declared.unwrap_or(RawDoc::empty()), &mut counted);
    (0..asked.len()).find_map(|at| {
        let mut rest = asked.to_vec();
        let (name, value) = rest.remove(at);
        let key = equal_to(value).filter(|_| name == foreign)?;
        same_conditions(rest, counted.clone()).then_some(key)
    })
}
