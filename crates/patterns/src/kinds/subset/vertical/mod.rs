//! The vertical form of `subset`: cold fields of a document are stored apart from it. Readers that
//! do not need them do not load them, and updates of other fields do not write them again. Clients
//! always see whole documents.
//!
//! `layout` maps documents to records, `cold` finds the cold fields of a document, `declaration`
//! reads the options.

mod cold;
pub(super) mod declaration;
mod layout;

use crate::documents::Documents;
use crate::kind::{Kind, Reads, Traits};
use crate::layout::Layout;
use crate::pattern::Pattern;
use layout::ColdFields;
use value::{DocBuf, RawDoc, Result};

/// The kind: it maintains nothing and decides how documents are stored.
#[derive(Debug)]
pub(super) struct Vertical(ColdFields);

impl Kind for Vertical {
    fn traits(&self) -> Traits {
        Traits {
            exact_reads: true,
            sync_only: Some("'mode' must be 'sync' for cold fields: nothing is maintained later"),
            ..Traits::default()
        }
    }

    fn reads(&self) -> Reads {
        Reads::default()
    }

    fn maintains(&self) -> Vec<String> {
        Vec::new()
    }

    fn layout(&self) -> Option<&dyn Layout> {
        Some(&self.0)
    }

    fn fill(
        &self,
        _: &Pattern,
        _: &mut dyn Documents,
        _: Option<RawDoc<'_>>,
        _: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        Ok(None)
    }

    fn derive(&self, _: &Pattern, _: &mut dyn Documents, target: RawDoc<'_>) -> Result<DocBuf> {
        Ok(target.into())
    }
}
