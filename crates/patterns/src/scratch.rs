//! Records that a check recomputes from sources and compares with the stored ones.

use crate::documents::{Documents, Find};
use std::collections::BTreeMap;
use value::{DocBuf, Error, RawDoc, Result, Val};

/// Recomputed records, in memory. There are no documents.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The records, by their keys.
    pub states: BTreeMap<Vec<u8>, DocBuf>,
}

fn no_documents() -> Error {
    Error::internal("a recomputation writes no documents")
}

impl Documents for Scratch {
    fn get(&mut self, _: &str, _: Val<'_>) -> Result<Option<DocBuf>> {
        Ok(None)
    }

    fn find(&mut self, _: &Find<'_>, _: &mut dyn FnMut(RawDoc<'_>) -> Result<bool>) -> Result<()> {
        Ok(())
    }

    fn insert(&mut self, _: u32, _: &str, _: &DocBuf) -> Result<()> {
        Err(no_documents())
    }

    fn replace(&mut self, _: u32, _: &str, _: RawDoc<'_>, _: &DocBuf) -> Result<()> {
        Err(no_documents())
    }

    fn delete(&mut self, _: u32, _: &str, _: RawDoc<'_>) -> Result<()> {
        Err(no_documents())
    }

    fn state(&mut self, _: u32, key: &[u8]) -> Result<Option<DocBuf>> {
        Ok(self.states.get(key).cloned())
    }

    fn set_state(&mut self, _: u32, key: &[u8], state: Option<DocBuf>) -> Result<()> {
        match state {
            Some(state) => self.states.insert(key.to_vec(), state),
            None => self.states.remove(key),
        };
        Ok(())
    }

    fn states(
        &mut self,
        _: u32,
        prefix: &[u8],
        after: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        let start = if after.is_empty() { prefix } else { after };
        for (key, doc) in self.states.range(start.to_vec()..) {
            if !key.starts_with(prefix) {
                break;
            }
            if (after.is_empty() || key.as_slice() > after) && !visit(key, doc.as_doc())? {
                break;
            }
        }
        Ok(())
    }

    fn states_before(
        &mut self,
        _: u32,
        prefix: &[u8],
        before: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        for (key, doc) in self.states.range(prefix.to_vec()..before.to_vec()).rev() {
            if !visit(key, doc.as_doc())? {
                break;
            }
        }
        Ok(())
    }
}
