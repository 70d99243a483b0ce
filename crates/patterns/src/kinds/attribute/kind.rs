//! What the database asks of the kind `attribute`.

use super::{Attribute, From};
use crate::documents::Documents;
use crate::kind::{Kind, Reads, Traits};
use crate::layout::Layout;
use crate::pattern::Pattern;
use crate::shape::Shape;
use value::path::Path;
use value::{DocBuf, RawDoc, Result};

impl Attribute {
    /// The document that is stored for one that is written or was there before; `None` for the
    /// same.
    fn stored(
        &self,
        pattern: &Pattern,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        let folded = self.without_face(before, after)?;
        self.check_count(&pattern.name, folded.as_ref().map_or(after, DocBuf::as_doc))?;
        Ok(folded)
    }
}

impl Kind for Attribute {
    fn traits(&self) -> Traits {
        Traits {
            sync_only: Some("attributes are part of their document: 'mode' must be 'sync'"),
            ..Traits::default()
        }
    }

    fn reads(&self) -> Reads {
        let roots = self.from.roots().iter().map(|path| path.text().to_owned());
        Reads { source: Vec::new(), target: roots.collect() }
    }

    fn maintains(&self) -> Vec<String> {
        Vec::new()
    }

    fn collection_options(&self) -> &'static [&'static str] {
        &[]
    }

    fn arranges(&self) -> Vec<String> {
        let roots = self.from.roots().iter().map(|path| path.text().to_owned());
        roots.chain(self.face.clone()).collect()
    }

    fn own_indexes(&self, pattern: &str) -> Vec<DocBuf> {
        let Some(suffix) = &self.suffix else { return Vec::new() };
        let (root, named, flag): (String, Vec<String>, i32) = match &self.from {
            From::Object(path) => {
                let root = path.text();
                let below = |key: &String| format!("{root}.{key}");
                let include = self.keys.include.as_ref();
                let named = include.unwrap_or(&self.keys.exclude).iter().map(below);
                (format!("{root}.$**"), named.collect(), i32::from(include.is_some()))
            }
            From::Fields(paths) => {
                let named = paths.iter().map(|path| path.text().to_owned()).collect();
                ("$**".to_owned(), named, 1)
            }
        };
        vec![DocBuf::build(|out| {
            out.str("name", pattern);
            out.doc("key", |out| {
                out.i32(&root, 1);
                suffix.iter().for_each(|path| {
                    out.i32(path, 1);
                });
            });
            if !named.is_empty() {
                out.doc("wildcardProjection", |out| {
                    named.iter().for_each(|path| {
                        out.i32(path, flag);
                    });
                });
            }
        })]
    }

    fn shape(&self) -> Option<&dyn Shape> {
        (self.face.is_some() || self.stored.is_some()).then_some(self)
    }

    fn layout(&self) -> Option<&dyn Layout> {
        self.stored.as_ref().map(|stored| -> &dyn Layout { stored })
    }

    fn fill(
        &self,
        pattern: &Pattern,
        _: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        self.stored(pattern, before, after)
    }

    fn derive(
        &self,
        pattern: &Pattern,
        _: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<DocBuf> {
        Ok(self.stored(pattern, None, target)?.unwrap_or_else(|| target.into()))
    }

    fn cleared(&self, doc: RawDoc<'_>, _: &[Path]) -> Result<DocBuf> {
        Ok(doc.into())
    }
}
