//! Documents in chunks, for stages that write: each chunk is one commit.

use crate::exec::{Doc, Stream};
use crate::operation::Operation;
use value::Result;

/// Maximum bytes per commit.
const COMMIT_BYTES: usize = 4 * 1024 * 1024;

/// Maximum documents per commit.
const COMMIT_DOCUMENTS: usize = 1000;

/// Returns the next documents of a stream, for one commit; none at its end. If `accept` refuses a
/// document, it begins the next chunk.
pub(super) fn next_chunk(
    input: &mut dyn Stream,
    left: &mut Option<Doc>,
    op: &Operation,
    mut accept: impl FnMut(&Doc) -> bool,
) -> Result<Vec<Doc>> {
    let mut chunk = Vec::new();
    let mut bytes = 0;
    while chunk.len() < COMMIT_DOCUMENTS && bytes < COMMIT_BYTES {
        let next = match left.take() {
            Some(doc) => Some(doc),
            None => input.next(op)?,
        };
        let Some(doc) = next else { break };
        if !accept(&doc) && !chunk.is_empty() {
            *left = Some(doc);
            break;
        }
        bytes += doc.len();
        chunk.push(doc);
    }
    if !chunk.is_empty() {
        op.check_now()?;
    }
    Ok(chunk)
}
