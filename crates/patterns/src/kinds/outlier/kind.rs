//! What the database asks of the kind `outlier`.

use super::Outlier;
use super::elements;
use super::settings::Bound;
use crate::documents::Documents;
use crate::edit::{self, Assignment};
use crate::kind::{Kind, Reads, Traits};
use crate::layout::Layout;
use crate::pattern::Pattern;
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val};

impl Outlier {
    /// The document with its flag and its count; `None` if it has them. `was` says whether its array
    /// was spilled, `same` is the document before if its array is the same, `hidden` what `after` lacks
    /// of the array.
    fn filled(
        &self,
        was: bool,
        same: Option<RawDoc<'_>>,
        (after, hidden): (RawDoc<'_>, Bound),
    ) -> Result<Option<DocBuf>> {
        let settings = &self.layout.settings;
        let mut changes: Vec<Assignment> = Vec::new();
        // An array that did not change may not have been read.
        let kept = |path: &Path| {
            let value = same.and_then(|before| path.find(before))?;
            matches!(value.get(), Val::Bool(_) | Val::Int32(_)).then(|| OwnedVal::new(value.get()))
        };
        if let Some(flag) = &settings.flag {
            let spills = || {
                let found = elements::at(&settings.array, after);
                let spills = found.is_some_and(|(array, elements)| {
                    let seen = elements::measure(array, &elements);
                    let count = seen.count.saturating_add(hidden.count);
                    let bytes = seen.bytes.saturating_add(hidden.bytes);
                    settings.spills(was, Bound { count, bytes })
                });
                OwnedVal::new(Val::Bool(spills))
            };
            changes.push((flag.clone(), Some(kept(flag).unwrap_or_else(spills))));
        }
        if let Some(path) = &settings.count {
            let count = || {
                let seen = elements::count(&settings.array, after);
                let count = seen.saturating_add(hidden.count);
                OwnedVal::new(Val::Int32(i32::try_from(count).unwrap_or(i32::MAX)))
            };
            changes.push((path.clone(), Some(kept(path).unwrap_or_else(count))));
        }
        if changes.is_empty() {
            return Ok(None);
        }
        let image = edit::assign(after, &changes)?;
        Ok((image.bytes() != after.bytes()).then_some(image))
    }

    /// Whether the flag of a document is set.
    fn is_flagged(&self, doc: RawDoc<'_>) -> bool {
        let flag = self.layout.settings.flag.as_ref();
        flag.is_some_and(|flag| flag.get(doc) == Val::Bool(true))
    }
}

impl Kind for Outlier {
    fn traits(&self) -> Traits {
        Traits {
            exact_reads: true,
            sync_only: Some("'mode' must be 'sync': an outlier is how documents are stored"),
            ..Traits::default()
        }
    }

    fn reads(&self) -> Reads {
        Reads { source: Vec::new(), target: vec![self.layout.settings.array.text().to_owned()] }
    }

    fn maintains(&self) -> Vec<String> {
        let settings = &self.layout.settings;
        let fields = settings.flag.iter().chain(&settings.count);
        fields.map(|path| path.text().to_owned()).collect()
    }

    fn collection_options(&self) -> &'static [&'static str] {
        &[]
    }

    fn options_without_rebuild(&self) -> &'static [&'static str] {
        &["read"]
    }

    fn value_options(&self) -> &'static [&'static str] {
        &["flag", "count"]
    }

    fn layout(&self) -> Option<&dyn Layout> {
        Some(&self.layout)
    }

    fn fill(
        &self,
        _: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        let array = &self.layout.settings.array;
        let was = before.is_some_and(|before| self.is_flagged(before));
        let same = before.filter(|before| array.find(*before) == array.find(after));
        let hidden = documents.hidden(array.text());
        let hidden = hidden.map(|hidden| Bound { count: hidden.count, bytes: hidden.bytes });
        self.filled(was, same, (after, hidden.unwrap_or(Bound::NONE)))
    }

    fn derive(&self, _: &Pattern, _: &mut dyn Documents, target: RawDoc<'_>) -> Result<DocBuf> {
        let image = self.filled(self.is_flagged(target), None, (target, Bound::NONE))?;
        Ok(image.unwrap_or_else(|| target.into()))
    }
}
