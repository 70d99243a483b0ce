//! Kinds for tests only: layouts that do not store each document as one record. Built only with
//! the feature `test-kinds`.

mod apart;
mod chunks;

pub use apart::values_read;

use super::KindRow;
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::documents::Documents;
use crate::kind::{Kind, Reads, Traits};
use crate::layout::Layout;
use crate::pattern::Pattern;
use apart::Apart;
use chunks::Chunks;
use value::{DocBuf, RawDoc, Result};

/// The kinds, by their names.
pub(super) static KINDS: &[KindRow] = &[
    KindRow {
        name: "testApart",
        help: "Stores the value of one field apart from its document.",
        parse: parse_apart,
    },
    KindRow {
        name: "testChunks",
        help: "Stores neighbouring documents in one record.",
        parse: parse_chunks,
    },
];

fn parse_apart(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let field = options.required_text("field")?;
    let kind = Box::new(LayoutOnly(Apart::new(field)));
    let shown = DocBuf::build(|out| {
        out.str("field", field);
    });
    Ok(Parsed { kind, target: collection.to_owned(), declared: shown })
}

fn parse_chunks(_: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let kind = Box::new(LayoutOnly(Chunks));
    Ok(Parsed { kind, target: collection.to_owned(), declared: DocBuf::new() })
}

/// A kind that maintains nothing and decides how documents are stored.
#[derive(Debug)]
struct LayoutOnly<L>(L);

impl<L: Layout> Kind for LayoutOnly<L> {
    fn traits(&self) -> Traits {
        Traits { sync_only: Some("'mode' must be 'sync' here"), ..Traits::default() }
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
