//! Updates.
#![allow(missing_docs)]
use crate::ParseContext;
use bumpalo::Bump;
use value::{DocBuf, Error, RawDoc, Result, Val};

/// A compiled update.
#[derive(Debug)]
pub struct Update {}

impl Update {
    pub fn parse(
        update: Val<'_>,
        ctx: &ParseContext<'_>,
        array_filters: &[RawDoc<'_>],
    ) -> Result<Update> {
        let _ = (update, ctx, array_filters);
        Err(Error::internal("updates are being built"))
    }
    pub fn is_replacement(&self) -> bool {
        false
    }
    pub fn is_pipeline(&self) -> bool {
        false
    }
    pub fn needs_position(&self) -> bool {
        false
    }
    pub fn apply(
        &self,
        doc: RawDoc<'_>,
        matched_position: Option<usize>,
        is_upsert_insert: bool,
        arena: &Bump,
    ) -> Result<Option<DocBuf>> {
        let _ = (doc, matched_position, is_upsert_insert, arena);
        Err(Error::internal("updates are being built"))
    }
    pub fn upsert_document(&self, filter: RawDoc<'_>) -> Result<DocBuf> {
        let _ = filter;
        Err(Error::internal("updates are being built"))
    }
}
