//! Results that are known at once but are returned as a cursor: lists of collections and indexes.

use super::{Context, find};
use crate::args::Args;
use crate::cursor::Source;
use crate::exec::{Doc, Stream};
use crate::operation::Operation;
use std::collections::VecDeque;
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// Documents that were made beforehand.
struct Listing(VecDeque<DocBuf>);

impl Stream for Listing {
    fn next(&mut self, _: &Operation) -> Result<Option<Doc>> {
        Ok(self.0.pop_front().map(|doc| Doc::Made(doc.into_bytes())))
    }
}

/// The size of the first batch that `cursor: {batchSize}` asks for; all documents without it.
///
/// # Errors
/// When `cursor` has another form.
pub(super) fn batch_size(args: &Args<'_>, place: &'static str) -> Result<u64> {
    let Some(cursor) = args.optional_doc("cursor")? else { return Ok(u64::MAX) };
    let cursor = Args::new(place, cursor);
    cursor.check_fields(&["batchSize"], false)?;
    Ok(cursor.optional_u64("batchSize")?.unwrap_or(u64::MAX))
}

/// Answers with a cursor over the documents.
///
/// # Errors
/// When no cursor can be opened.
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
    // MongoDB shows the batch of a listing last.
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
