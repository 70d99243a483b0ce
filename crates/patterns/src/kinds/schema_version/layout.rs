//! How documents are stored: each in the version that it was written in, until it is converted.
//!
//! Records of the layout, by their first byte: `o`, the document before its conversion, if `down`
//! would not give it again; `q`, a quarantined document.

use super::SchemaVersion;
use super::forms::{Forms, Migrate, Upgraded, Version, with_field};
use super::merge::merged;
use super::stored;
use crate::layout::{Area, Demand, Layout, RecordCursor, Records, RecordsMut, Span};
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result};

/// The key of the document as it was before its conversion.
fn original_key(record: &[u8]) -> Vec<u8> {
    [stored::ORIGINALS, record].concat()
}

/// The key of the note about a quarantined document.
fn quarantine_key(record: &[u8]) -> Vec<u8> {
    [stored::QUARANTINED, record].concat()
}

/// The mark of a document that has the number of the latest version and is not converted back: it
/// was written while the pattern was being dropped. Documents have an `_id`.
fn written_since() -> DocBuf {
    DocBuf::build(|out| {
        out.bool("writtenSince", true);
    })
}

/// Removes a record of the layout, if it is there.
fn remove(records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
    match records.get(Area::Own, key)? {
        Some(_) => records.delete(Area::Own, key),
        None => Ok(()),
    }
}

impl Forms {
    /// What must be kept of a document that is converted, so that it can be converted back; `None`
    /// if `down` gives it again. The empty document stands for a missing version field.
    fn original(&self, stored: RawDoc<'_>, raised: RawDoc<'_>) -> Option<DocBuf> {
        self.down.as_ref()?;
        let Ok(lowered) = self.lowered(raised) else { return Some(stored.into()) };
        if lowered.bytes() == stored.bytes() {
            return None;
        }
        let bare = with_field(lowered.as_doc(), &self.field, None);
        Some(if bare.bytes() == stored.bytes() { DocBuf::new() } else { stored.into() })
    }

    /// A stored document in the version before; `None` if that is the same.
    fn restored(&self, stored: RawDoc<'_>, original: Option<RawDoc<'_>>) -> Result<Option<DocBuf>> {
        let since = original.is_some_and(|known| known.bytes() == written_since().bytes());
        if self.version_of(stored) != Version::Latest || since {
            return Ok(None);
        }
        let lowered = match self.lowered(stored) {
            Ok(lowered) => lowered,
            Err(error) if query::interrupt::ends_operation(&error) => return Err(error),
            // It stays in the latest version.
            Err(_) => return Ok(None),
        };
        let Some(original) = original else { return Ok(Some(lowered)) };
        if original.is_empty() {
            return Ok(Some(with_field(lowered.as_doc(), &self.field, None)));
        }
        let base = self.raised(original).and_then(|raised| self.lowered(raised.as_doc()));
        Ok(Some(match base {
            Ok(base) => merged(original, base.as_doc(), lowered.as_doc()),
            Err(error) if query::interrupt::ends_operation(&error) => return Err(error),
            Err(_) => lowered,
        }))
    }

    /// Keeps what is needed to convert a document back, when it is stored in the latest version for
    /// the first time.
    fn keep_original(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        stored: RawDoc<'_>,
        raised: RawDoc<'_>,
    ) -> Result<()> {
        match self.original(stored, raised) {
            None => Ok(()),
            Some(original) => records.put(Area::Own, &original_key(key), original.into_bytes()),
        }
    }

    /// A new canonical document in the version before, if it is stored like that. `before` and
    /// `raised` are the stored and the canonical document that it replaces.
    fn stored_before(
        &self,
        before: RawDoc<'_>,
        raised: RawDoc<'_>,
        new: RawDoc<'_>,
    ) -> Option<DocBuf> {
        let is_wanted = self.migrate == Migrate::Never && self.version_of(new) == Version::Latest;
        let lowered = self.lowered(new).ok().filter(|_| is_wanted)?;
        let base = self.lowered(raised).ok()?;
        let stored = merged(before, base.as_doc(), lowered.as_doc());
        let again = self.raised(stored.as_doc()).ok()?;
        (again.bytes() == new.bytes()).then_some(stored)
    }

    /// Stores a document in place of another one, with what belongs to that.
    fn put(&self, records: &mut dyn RecordsMut, key: &[u8], new: RawDoc<'_>) -> Result<()> {
        let before = records.get(Area::Documents, key)?;
        if let Some(before) = before.as_deref().map(RawDoc::new)
            && self.version_of(before) != Version::Latest
        {
            match self.upgraded(before)? {
                Upgraded::Document(raised) if self.version_of(before) == Version::Before => {
                    if let Some(stored) = self.stored_before(before, raised.as_doc(), new) {
                        return records.put(Area::Documents, key, stored.into_bytes());
                    }
                    self.keep_original(records, key, before, raised.as_doc())?;
                }
                _ if self.version_of(new) == Version::Latest => {
                    remove(records, &quarantine_key(key))?;
                }
                _ => {}
            }
        }
        records.put(Area::Documents, key, new.bytes().to_vec())
    }
}

impl Layout for SchemaVersion {
    fn paths(&self) -> Vec<String> {
        // Another layout would hide parts of documents from `up` and `down`.
        vec![String::new()]
    }

    fn resizes(&self) -> bool {
        true
    }

    fn get(&self, records: &dyn Records, key: &[u8], demand: &Demand) -> Result<Option<Vec<u8>>> {
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(None) };
        let reader = Form::of(self, demand, || records.share());
        let converted = reader.converted(key, RawDoc::new(&stored))?;
        Ok(Some(converted.map_or(stored, DocBuf::into_bytes)))
    }

    fn scan(
        &self,
        records: &dyn Records,
        span: &Span,
        demand: &Demand,
    ) -> Result<Box<dyn RecordCursor>> {
        let stored = records.scan(Area::Documents, span)?;
        match Form::of(self, demand, || records.share()) {
            Form::AsStored => Ok(stored),
            form => Ok(Box::new(Converted { form, stored, doc: DocBuf::new() })),
        }
    }

    fn check_write(
        &self,
        _: &dyn Records,
        _: &[u8],
        _: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        if self.back || self.forms.canonical(new)?.is_none() {
            return Ok(());
        }
        let Forms { field, from, .. } = &*self.forms;
        Err(Error::new(
            Code::PATTERN_VIOLATION,
            format!(
                "a document of version {from} ('{field}') cannot be written without its pattern, \
                 which would convert it"
            ),
        ))
    }

    fn put(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        old: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        match old {
            None => records.put(Area::Documents, key, new.bytes().to_vec()),
            Some(_) => self.forms.put(records, key, new),
        }
    }

    fn delete(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        remove(records, &original_key(key))?;
        remove(records, &quarantine_key(key))?;
        records.delete(Area::Documents, key)
    }

    fn convert(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(()) };
        let stored = RawDoc::new(&stored);
        let why = match self.forms.version_of(stored) {
            Version::Latest => return Ok(()),
            Version::Before => match self.forms.upgraded(stored)? {
                Upgraded::Document(raised) => {
                    self.forms.keep_original(records, key, stored, raised.as_doc())?;
                    return records.put(Area::Documents, key, raised.into_bytes());
                }
                Upgraded::Not(why) => why,
            },
            Version::Other => "its version is unknown".to_owned(),
        };
        let note = stored::note(&self.forms, stored, &why);
        records.put(Area::Own, &quarantine_key(key), note.into_bytes())
    }

    fn put_plain(&self, records: &mut dyn RecordsMut, key: &[u8], new: RawDoc<'_>) -> Result<()> {
        if !self.back {
            return self.forms.put(records, key, new);
        }
        let (original, quarantined) = (original_key(key), quarantine_key(key));
        remove(records, &quarantined)?;
        match self.forms.version_of(new) {
            Version::Latest => {
                let mark = written_since().into_bytes();
                records.put(Area::Own, &original, mark)?;
            }
            _ => remove(records, &original)?,
        }
        let stored = records.get(Area::Documents, key)?;
        if stored.as_deref() == Some(new.bytes()) {
            return Ok(());
        }
        records.put(Area::Documents, key, new.bytes().to_vec())
    }

    fn check_contract(&self, records: &dyn Records) -> Result<()> {
        if self.forms.migrate != Migrate::Background {
            return Err(Error::bad_value(
                "documents are stored in both versions: set 'migrate' to 'background' first",
            ));
        }
        stored::check_contract(&self.forms, records)
    }

    fn check(&self, records: &dyn Records, find: &mut dyn FnMut(String)) -> Result<()> {
        stored::check(records, find)
    }
}

/// How stored documents become canonical ones.
enum Form {
    /// Not at all: what is read is the same in both versions.
    AsStored,
    /// To the latest version.
    Latest(Arc<Forms>),
    /// Back to the version before.
    Before(Arc<Forms>, Arc<dyn Records>),
}

impl Form {
    fn of(kind: &SchemaVersion, demand: &Demand, records: impl Fn() -> Arc<dyn Records>) -> Form {
        let forms = &kind.forms;
        if !forms.differs.iter().any(|path| demand.reads(path)) {
            return Form::AsStored;
        }
        match kind.back {
            true => Form::Before(forms.clone(), records()),
            false => Form::Latest(forms.clone()),
        }
    }

    fn converted(&self, key: &[u8], stored: RawDoc<'_>) -> Result<Option<DocBuf>> {
        match self {
            Form::AsStored => Ok(None),
            Form::Latest(forms) => forms.canonical(stored),
            Form::Before(forms, _) if forms.version_of(stored) != Version::Latest => Ok(None),
            Form::Before(forms, records) => {
                let original = records.get(Area::Own, &original_key(key))?;
                forms.restored(stored, original.as_deref().map(RawDoc::new))
            }
        }
    }
}

/// Canonical documents of a range of records.
struct Converted {
    form: Form,
    stored: Box<dyn RecordCursor>,
    doc: DocBuf,
}

impl RecordCursor for Converted {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, stored)) = self.stored.next()? else { return Ok(None) };
        match self.form.converted(key, RawDoc::new(stored))? {
            None => Ok(Some((key, stored))),
            Some(doc) => {
                self.doc = doc;
                Ok(Some((key, self.doc.bytes())))
            }
        }
    }
}
