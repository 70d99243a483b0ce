//! Removes the values of a dropped pattern from documents.
//!
//! From the drop on its fields belong to clients again, while a scan over the documents removes
//! the old values. A write of a document before the scan reaches it removes them too, except
//! values that the write changed: these belong to the client. Such documents are marked, so that
//! the scan skips them.

use crate::documents::Documents;
use crate::paths::meet;
use crate::pattern::Pattern;
use std::sync::Arc;
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val, keys};

/// The key of the mark of a document that the scan must skip.
fn mark(record: &[u8]) -> Vec<u8> {
    [b"\0d", record].concat()
}

/// The paths to remove: those that no other pattern maintains now.
fn paths(pattern: &Pattern, targets: &[Arc<Pattern>]) -> Vec<Path> {
    let living: Vec<String> = targets
        .iter()
        .filter(|other| other.phase.is_current())
        .flat_map(|other| other.maintains())
        .collect();
    let free = |path: &String| !living.iter().any(|other| meet(path, other));
    pattern.maintains().into_iter().filter(free).map(|path| Path::new(&path)).collect()
}

/// Marks a document that a client has written, so that the scan skips it. Call it only after the
/// write succeeded, since a statement may continue after a refused document.
///
/// # Errors
/// When the store fails.
pub fn note_written(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    doc: RawDoc<'_>,
) -> Result<()> {
    let record = keys::key(doc.get("_id").unwrap_or(Val::Null));
    if is_done(pattern, documents, &record)? {
        return Ok(());
    }
    let one = DocBuf::build(|out| {
        out.bool("d", true);
    });
    documents.set_state(pattern.id, &mark(&record), Some(one))
}

/// Returns the image of a written document without the pattern's values.
///
/// # Errors
/// When the store fails.
pub fn stripped(
    pattern: &Pattern,
    targets: &[Arc<Pattern>],
    documents: &mut dyn Documents,
    before: Option<RawDoc<'_>>,
    after: RawDoc<'_>,
) -> Result<DocBuf> {
    let record = keys::key(after.get("_id").unwrap_or(Val::Null));
    let Some(before) = before.filter(|_| !pattern.owns_documents()) else {
        return Ok(DocBuf::from(after));
    };
    if is_done(pattern, documents, &record)? {
        return Ok(DocBuf::from(after));
    }
    let free = paths(pattern, targets);
    if free.is_empty() {
        return Ok(DocBuf::from(after));
    }
    pattern.kind.cleared_if_same(before, after, &free)
}

fn is_done(pattern: &Pattern, documents: &mut dyn Documents, record: &[u8]) -> Result<bool> {
    let progress = pattern.progress(documents)?;
    let walked = progress.is_some_and(|progress| progress.has_reached(record));
    Ok(walked || documents.state(pattern.id, &mark(record))?.is_some())
}

/// Removes the pattern's values from a document that the scan reads.
///
/// # Errors
/// When the store fails.
pub fn clear(
    pattern: &Pattern,
    targets: &[Arc<Pattern>],
    documents: &mut dyn Documents,
    doc: RawDoc<'_>,
) -> Result<()> {
    let record = keys::key(doc.get("_id").unwrap_or(Val::Null));
    if documents.state(pattern.id, &mark(&record))?.is_some() {
        return documents.set_state(pattern.id, &mark(&record), None);
    }
    if pattern.owns_documents() {
        return documents.delete(pattern.id, &pattern.target, doc);
    }
    let free = paths(pattern, targets);
    if free.is_empty() {
        return Ok(());
    }
    let image = pattern.kind.cleared(doc, &free)?;
    if image.bytes() != doc.bytes() {
        documents.replace(pattern.id, &pattern.target, doc, &image)?;
    }
    Ok(())
}
