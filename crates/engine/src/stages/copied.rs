//! What stands in for a document that a `$lookup` would read: copies that a pattern keeps in the
//! document at hand. They have no order of their own, so they stand in only where nobody sees it.

use crate::exec::Doc;
use value::Val;
use value::path::Path;

/// Where the fields of the other document are copied to.
pub(super) struct Copied {
    /// The reference, which must be a single value.
    reference: Path,
    /// Names of fields, and where their copies stand.
    fields: Vec<(String, Path)>,
}

impl Copied {
    /// The option of `$lookup` that only a rewrite can give.
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

    /// The other document as far as it is needed; `None` when a copy is not there: then only the
    /// document itself can tell whether it is, and what its field holds.
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
