//! Copies that a pattern keeps in a document, which `$lookup` can use instead of reading the other
//! collection. The copies have no field order, so they are used only where the order does not
//! matter.

use crate::exec::Doc;
use value::Val;
use value::path::Path;

/// Where the copies of the other document's fields are.
pub(super) struct Copied {
    /// The reference, which must be a single value.
    reference: Path,
    /// Names of fields, and the paths of their copies.
    fields: Vec<(String, Path)>,
}

impl Copied {
    /// The option of `$lookup` that only a rewrite sets.
    pub(super) const NAME: &'static str = "$copied";

    /// Reads `{ref: <path>, fields: {<name>: <path>}}`.
    pub(super) fn parse(value: Val<'_>) -> Option<Copied> {
        let doc = value.as_doc()?;
        let reference = Path::new(doc.get("ref")?.as_str()?);
        let fields = doc.get("fields")?.as_doc()?.iter();
        let fields = fields
            .filter_map(|(name, path)| Some((name.to_owned(), Path::new(path.get().as_str()?))));
        Some(Copied { reference, fields: fields.collect() })
    }

    /// Builds the needed part of the other document. `None` when a copy is missing: then the other
    /// document must be read to know whether it exists and what its field holds.
    pub(super) fn of(&self, doc: value::RawDoc<'_>) -> Option<Doc> {
        let reference = self.reference.find(doc)?.get();
        if reference.is_nullish() || matches!(reference, Val::Array(_) | Val::Regex(..)) {
            return None;
        }
        let mut bytes = Vec::with_capacity(64);
        let mut out = value::Writer::start(&mut bytes);
        for (name, path) in &self.fields {
            out.raw(name, path.find(doc)?);
        }
        out.finish();
        Some(Doc::Made(bytes))
    }
}
