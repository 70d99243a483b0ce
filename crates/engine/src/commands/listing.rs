//! Results that are complete at once but returned as a cursor: lists of collections and indexes.

use super::{Context, find};
use crate::args::Args;
use crate::cursor::Source;
use crate::exec::{Doc, Stream};
use crate::operation::Operation;
use std::collections::VecDeque;
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// A stream of documents in memory.
struct Listing(VecDeque<DocBuf>);

impl Stream for Listing {
    fn next(&mut self, _: &Operation) -> Result<Option<Doc>> {
        Ok(self.0.pop_front().map(|doc| Doc::Made(doc.into_bytes())))
    }
}

/// Reads the size of the first batch from `cursor: {batchSize}`; without it, all documents.
///
/// # Errors
/// When `cursor` is malformed.
pub(super) fn batch_size(args: &Args<'_>, place: &'static str) -> Result<u64> {
    let Some(cursor) = args.optional_doc("cursor")? else { return Ok(u64::MAX) };
    let cursor = Args::new(place, cursor);
    cursor.check_fields(&["batchSize"], false)?;
    Ok(cursor.optional_u64("batchSize")?.unwrap_or(u64::MAX))
}

/// Replies with a cursor over the documents.
///
/// # Errors
/// When the cursor cannot be opened.
pub(super) fn reply(
    context: &mut Context<'_>,
    out: &mut Writer<'_>,
    namespace: String,
    documents: Vec<DocBuf>,
    batch_size: u64,
) -> Result<()> {
    let source = Source::Stream(Box::new(Listing(documents.into())));
    let cursor = find::new_cursor(context, source, namespace, None, false);
    let mut answered = Ok(());
    let reply = DocBuf::build(|out| {
        answered = find::first_batch(context, cursor, Some(batch_size), false, out);
    });
    answered?;
    // MongoDB writes the batch of a listing last.
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    out.doc("cursor", |out| {
        for (name, value) in cursor.iter().filter(|(name, _)| *name != "firstBatch") {
            out.raw(name, value);
        }
        if let Some(batch) = cursor.find("firstBatch") {
            out.raw("firstBatch", batch);
        }
    });
    Ok(())
}
