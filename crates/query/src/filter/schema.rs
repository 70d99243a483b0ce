//! `$jsonSchema`.
use value::*;

/// A compiled JSON schema.
#[derive(Debug)]
pub struct Schema {}
impl Schema {
    pub(super) fn parse(doc: RawDoc<'_>) -> Result<Schema> {
        let _ = doc;
        Err(Error::internal("x"))
    }
    pub(super) fn matches(&self, _: RawDoc<'_>) -> Result<bool> {
        Err(Error::internal("x"))
    }
    pub(super) fn source(&self) -> RawDoc<'_> {
        RawDoc::empty()
    }
}
