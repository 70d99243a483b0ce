//! What clients of the version before see and write.

use super::SchemaVersion;
use super::forms::{Forms, Upgraded, Version};
use super::merge::merged;
use crate::shape::{Pin, Reader, Shape, ShapeView};
use std::collections::BTreeMap;
use std::sync::Arc;
use value::{DocBuf, Error, RawDoc, Result};

impl Shape for SchemaVersion {
    fn level(&self) -> i64 {
        self.forms.version
    }

    fn has_form(&self, pin: Pin) -> bool {
        match pin {
            Pin::Version(version) => version == self.forms.version || version == self.forms.from,
            Pin::AsStored => true,
        }
    }

    fn older_clients(&self) -> Vec<&str> {
        let older = self.clients.iter().filter(|(_, version)| **version < self.forms.version);
        older.map(|(name, _)| name.as_str()).collect()
    }

    fn view(&self, reader: &Reader) -> Result<Option<Box<dyn ShapeView>>> {
        let of = |name: &Option<String>, versions: &BTreeMap<String, i64>| {
            name.as_ref().and_then(|name| versions.get(name)).copied()
        };
        let version = match reader.pinned {
            Some(Pin::AsStored) => return Ok(Some(Box::new(AsStored(self.forms.clone())))),
            Some(Pin::Version(version)) => Some(version),
            None => of(&reader.user, &self.users).or(of(&reader.app_name, &self.clients)),
        };
        if version.is_none_or(|version| version >= self.forms.version) {
            return Ok(None);
        }
        match self.forms.down {
            Some(_) => Ok(Some(Box::new(Older(self.forms.clone())))),
            None => Err(self.forms.no_down()),
        }
    }
}

/// The view of a reader that asks for stored documents.
struct AsStored(Arc<Forms>);

impl ShapeView for AsStored {
    fn show(&self, _: RawDoc<'_>) -> Result<Option<DocBuf>> {
        Ok(None)
    }

    fn accept(&self, _: Option<RawDoc<'_>>, _: RawDoc<'_>) -> Result<DocBuf> {
        Err(Error::internal("stored documents are only read"))
    }

    fn reads_stored(&self) -> bool {
        true
    }

    fn differs_at(&self) -> &[String] {
        &self.0.differs
    }
}

/// The view of a client of the version before.
struct Older(Arc<Forms>);

impl ShapeView for Older {
    fn show(&self, canonical: RawDoc<'_>) -> Result<Option<DocBuf>> {
        // A quarantined document is shown as it is stored.
        if self.0.version_of(canonical) != Version::Latest {
            return Ok(None);
        }
        self.0.lowered(canonical).map(Some)
    }

    fn accept(&self, before: Option<RawDoc<'_>>, image: RawDoc<'_>) -> Result<DocBuf> {
        let forms = &*self.0;
        let Some(before) = before else { return forms.raised(image) };
        if forms.version_of(before) != Version::Latest {
            // A quarantined document becomes one of the latest version as soon as it can.
            return Ok(match forms.upgraded(image)? {
                Upgraded::Document(doc) => doc,
                Upgraded::Not(_) => image.into(),
            });
        }
        let shown = forms.lowered(before)?;
        if shown.bytes() == image.bytes() {
            return Ok(before.into());
        }
        let (base, new) = (forms.raised(shown.as_doc())?, forms.raised(image)?);
        Ok(merged(before, base.as_doc(), new.as_doc()))
    }

    fn differs_at(&self) -> &[String] {
        &self.0.differs
    }
}
