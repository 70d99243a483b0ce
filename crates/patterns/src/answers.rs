//! Answering queries from what patterns maintain: what a kind is asked, and what it answers with.
//!
//! A question names the collection that the query reads, and a snapshot of the moment of the query. All
//! answers are for that moment.

use crate::pattern::Pattern;
use crate::queue;
use value::{DocBuf, RawDoc, RawVal, Result, Val};

/// What a kind may read in order to answer: one moment of the store.
pub trait AnswerSnapshot {
    /// What a pattern keeps under a key.
    ///
    /// # Errors
    /// When the store fails.
    fn state(&self, pattern: u32, key: &[u8]) -> Result<Option<DocBuf>>;

    /// Whether a pattern keeps anything under keys that begin with `prefix`.
    ///
    /// # Errors
    /// When the store fails.
    fn has_states(&self, pattern: u32, prefix: &[u8]) -> Result<bool>;

    /// The document of a collection with this `_id`, as it is stored.
    ///
    /// # Errors
    /// When the store fails.
    fn get(&self, collection: &str, id: Val<'_>) -> Result<Option<DocBuf>>;

    /// Whether a collection is there.
    fn has_collection(&self, collection: &str) -> bool;

    /// Whether a collection has an index over all documents that begins with this field and that queries
    /// may use.
    fn has_index(&self, collection: &str, first: &str) -> bool;
}

/// A question to a pattern.
pub struct Question<'q> {
    /// The pattern.
    pub pattern: &'q Pattern,
    /// The collection that the query reads.
    pub collection: &'q str,
    /// The moment of the query.
    pub snapshot: &'q dyn AnswerSnapshot,
}

impl Question<'_> {
    /// Whether targets of the pattern wait in its queue, be it from a time when it had another mode.
    ///
    /// # Errors
    /// When the store fails.
    pub fn is_behind(&self) -> Result<bool> {
        self.snapshot.has_states(self.pattern.id, &[queue::QUEUE])
    }
}

/// What stands in place of the beginning of a pipeline, up to its `$group`.
pub struct GroupAnswer {
    /// The collection that is read now; `None` when the stage brings its own documents.
    pub collection: Option<String>,
    /// The first stage.
    pub stage: DocBuf,
}

/// What stands in place of a stage.
pub struct StageAnswer {
    /// The stage.
    pub stage: DocBuf,
    /// What explain calls it.
    pub from: &'static str,
    /// Whether the documents behind it are still those of the target, so that stages further on can be
    /// answered too.
    pub keeps_documents: bool,
}

/// An array as a document of its own.
#[must_use]
pub fn written(write: impl FnOnce(&mut value::writer::ArrayWriter<'_>)) -> DocBuf {
    let mut bytes = Vec::new();
    value::writer::write_array(&mut bytes, write);
    DocBuf::from_bytes(bytes)
}

/// The conditions that a filter joins, each a name and what is asked of it.
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

/// Whether two lists of conditions are the same, in whatever order.
pub(crate) fn same_conditions(
    mut a: Vec<(&str, RawVal<'_>)>,
    mut b: Vec<(&str, RawVal<'_>)>,
) -> bool {
    let order = |c: &(&str, RawVal<'_>)| (c.0.to_owned(), c.1.kind, c.1.bytes.to_vec());
    a.sort_by_cached_key(order);
    b.sort_by_cached_key(order);
    a == b
}

/// The single value that a condition asks a field to hold.
fn equal_to(value: RawVal<'_>) -> Option<Val<'_>> {
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

/// The key that a filter asks for, when all that it asks beside is what the pattern's own filter asks.
pub(crate) fn asked_key<'f>(
    pattern: &Pattern,
    filter: RawDoc<'f>,
    foreign: &str,
) -> Option<Val<'f>> {
    let mut asked = Vec::new();
    conditions(filter, &mut asked);
    let declared = pattern.declaration.as_doc().get("filter").and_then(Val::as_doc);
    let mut counted = Vec::new();
    conditions(declared.unwrap_or(RawDoc::empty()), &mut counted);
    (0..asked.len()).find_map(|at| {
        let mut rest = asked.clone();
        let (name, value) = rest.remove(at);
        let key = equal_to(value).filter(|_| name == foreign)?;
        same_conditions(rest, counted.clone()).then_some(key)
    })
}
