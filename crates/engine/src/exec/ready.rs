//! A stream of documents that are already in memory.

use super::{Doc, Stream};
use crate::operation::Operation;
use value::{DocBuf, Result};

/// A stream of documents that are already in memory.
pub struct Ready(pub std::vec::IntoIter<DocBuf>);

impl Stream for Ready {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        Ok(self.0.next().map(|doc| Doc::Made(doc.into_bytes())))
    }
}
