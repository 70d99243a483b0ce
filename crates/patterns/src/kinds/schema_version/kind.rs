//! What the database asks of the kind `schemaVersion`.

use super::SchemaVersion;
use super::forms::{Migrate, Upgraded, Version, number, with_field};
use super::losses::Losses;
use crate::documents::Documents;
use crate::inspection::Inspection;
use crate::kind::{Kind, Reads, Traits};
use crate::layout::{Layout, Records};
use crate::pattern::{Pattern, Phase};
use crate::shape::Shape;
use value::path::Path;
use value::{DocBuf, Error, RawDoc, Result, Writer};

impl SchemaVersion {
    /// The image that is stored for a canonical document; `None` for the same.
    fn image(&self, before: Option<RawDoc<'_>>, after: RawDoc<'_>) -> Result<Option<DocBuf>> {
        let forms = &*self.forms;
        let was = before.map(|before| forms.version_of(before));
        if let Some(before) = before
            && was != Some(Version::Latest)
            && forms.version_of(after) != Version::Latest
        {
            // It is quarantined: a write may free it.
            if let Upgraded::Document(doc) = forms.upgraded(after)? {
                return Ok(Some(doc));
            }
            let labelled = forms.labelled(after, forms.version);
            if forms.validator.is_some() && forms.is_valid(labelled.as_doc())? {
                return Ok(Some(labelled));
            }
            let version = before.get(&forms.field);
            return Ok(Some(with_field(after, &forms.field, version)));
        }
        if forms.version_of(after) == Version::Latest {
            forms.check_valid(after)?;
            return Ok(None);
        }
        // The version belongs to the database.
        let labelled = with_field(after, &forms.field, Some(number(forms.version)));
        forms.check_valid(labelled.as_doc())?;
        Ok(Some(labelled))
    }
}

impl Kind for SchemaVersion {
    fn traits(&self) -> Traits {
        Traits {
            sync_only: Some("versions are part of their document: 'mode' must be 'sync'"),
            always_fills: true,
            ..Traits::default()
        }
    }

    fn reads(&self) -> Reads {
        Reads::default()
    }

    fn maintains(&self) -> Vec<String> {
        vec![self.forms.field.clone()]
    }

    fn collection_options(&self) -> &'static [&'static str] {
        &[]
    }

    fn arranges(&self) -> Vec<String> {
        self.forms.differs.clone()
    }

    fn reforms(&self) -> Vec<String> {
        self.forms.differs.clone()
    }

    fn options_without_rebuild(&self) -> &'static [&'static str] {
        &["clients", "lossy", "migrate", "users"]
    }

    fn layout(&self) -> Option<&dyn Layout> {
        Some(self)
    }

    fn shape(&self) -> Option<&dyn Shape> {
        Some(self)
    }

    fn entered(&mut self, phase: Phase) {
        self.back = phase == Phase::Clearing;
    }

    fn inspection(&self) -> Option<Box<dyn Inspection>> {
        self.forms.down.is_some().then(|| Box::new(Losses::new(&self.forms)) as Box<dyn Inspection>)
    }

    fn converts_stored(&self) -> bool {
        self.forms.migrate == Migrate::Background
    }

    fn check_removal(&self, keep: bool) -> Result<()> {
        if keep && !self.converts_stored() {
            return Err(Error::bad_value(
                "documents are stored in both versions: set 'migrate' to 'background' first",
            ));
        }
        if keep || self.forms.down.is_some() {
            return Ok(());
        }
        Err(self.forms.no_down().followed_by("; drop it with 'keepValues: true'"))
    }

    fn describe_stored(
        &self,
        pattern: &Pattern,
        records: &dyn Records,
        documents: u64,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        super::stored::describe(&self.forms, pattern, records, documents, out)
    }

    fn fill(
        &self,
        _: &Pattern,
        _: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        self.image(before, after)
    }

    fn derive(&self, _: &Pattern, _: &mut dyn Documents, target: RawDoc<'_>) -> Result<DocBuf> {
        // A document that could have the latest version is shown in it.
        Ok(self.forms.canonical(target)?.unwrap_or_else(|| target.into()))
    }

    fn cleared(&self, doc: RawDoc<'_>, _: &[Path]) -> Result<DocBuf> {
        Ok(doc.into())
    }

    fn cleared_if_same(&self, _: RawDoc<'_>, after: RawDoc<'_>, _: &[Path]) -> Result<DocBuf> {
        Ok(after.into())
    }
}
