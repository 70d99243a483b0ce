//! Kinds for tests only: layouts that do not store each document as one record, and a shape that
//! shows documents to some readers in an older version. Built only with the feature `test-kinds`.

mod apart;
mod chunks;
mod renamed;
mod renamed_layout;

pub use apart::values_read;

use super::KindRow;
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::documents::Documents;
use crate::kind::{Kind, Reads, Traits};
use crate::layout::Layout;
use crate::pattern::Pattern;
use crate::shape::Shape;
use apart::Apart;
use chunks::Chunks;
use renamed::Renamed;
use renamed_layout::StoredOlder;
use std::collections::BTreeMap;
use value::{DocBuf, RawDoc, Result, Val};

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
    KindRow {
        name: "testShape",
        help: "Shows a field under another name to readers of an older version.",
        parse: parse_shape,
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

fn parse_shape(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let version = options.positive("version")?.ok_or_else(|| options.missing("version"))?;
    let (field, older) = (options.required_text("field")?, options.required_text("as")?);
    let (clients, users) = (options.document("clients")?, options.document("users")?);
    let stored_older = options.boolean("storedOlder")?.unwrap_or(false);
    let declared = DocBuf::build(|out| {
        out.i64("version", version as i64).str("field", field).str("as", older);
        for (name, versions) in [("clients", clients), ("users", users)] {
            out.append(name, versions.map_or(Val::Missing, Val::Document));
        }
        if stored_older {
            out.bool("storedOlder", true);
        }
    });
    let versions = |doc: Option<RawDoc<'_>>| {
        let all = doc.unwrap_or(RawDoc::empty()).iter();
        let version = |value: Val<'_>| value.as_i64_exact();
        let named = all.filter_map(|(name, value)| Some((name.to_owned(), version(value.get())?)));
        named.collect::<BTreeMap<_, _>>()
    };
    let shape = Renamed {
        version: version as i64,
        field: field.to_owned(),
        older: older.to_owned(),
        clients: versions(clients),
        users: versions(users),
        stored_older,
    };
    let layout = stored_older.then(|| StoredOlder(shape.older()));
    let kind = Box::new(ShapeAndLayout { shape, layout });
    Ok(Parsed { kind, target: collection.to_owned(), declared })
}

/// A kind that maintains nothing and decides how documents are stored.
#[derive(Debug)]
struct LayoutOnly<L>(L);

/// A kind that maintains nothing and decides how readers see documents, and perhaps how they are
/// stored.
#[derive(Debug)]
struct ShapeAndLayout<S, L> {
    shape: S,
    layout: Option<L>,
}

impl<S: Shape, L: Layout> Kind for ShapeAndLayout<S, L> {
    fn traits(&self) -> Traits {
        Traits { sync_only: Some("'mode' must be 'sync' here"), ..Traits::default() }
    }

    fn reads(&self) -> Reads {
        Reads::default()
    }

    fn maintains(&self) -> Vec<String> {
        Vec::new()
    }

    fn shape(&self) -> Option<&dyn Shape> {
        Some(&self.shape)
    }

    fn layout(&self) -> Option<&dyn Layout> {
        self.layout.as_ref().map(|layout| layout as &dyn Layout)
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
