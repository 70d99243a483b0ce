//! What is stored in which version: counts, quarantined documents, and a check of the records.

use super::forms::{Forms, Migrate, Upgraded, Version};
use crate::error_context::value_text;
use crate::layout::{Area, RecordCursor, Records, Span};
use crate::pattern::{Pattern, Phase};
use std::collections::BTreeMap;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer};

/// The first byte of the keys of documents as they were before their conversion.
pub(super) const ORIGINALS: &[u8] = b"o";
/// The first byte of the keys of notes about quarantined documents.
pub(super) const QUARANTINED: &[u8] = b"q";

/// How many quarantined documents `listPatterns` names.
const NAMED_MAX: usize = 3;

/// The note about a quarantined document.
pub(super) fn note(forms: &Forms, stored: RawDoc<'_>, why: &str) -> DocBuf {
    DocBuf::build(|out| {
        out.append("_id", stored.get("_id").unwrap_or(Val::Null));
        out.append("version", Val::Int64(version_of(forms, stored))).str("why", why);
    })
}

/// The number of a document's version; that of the version before if it has none.
fn version_of(forms: &Forms, stored: RawDoc<'_>) -> i64 {
    match stored.get(&forms.field) {
        Some(number) if number.is_number() => number.as_i64_exact().unwrap_or(forms.from),
        _ => forms.from,
    }
}

/// All records of the layout whose keys begin with a byte.
fn own(records: &dyn Records, kind: &[u8]) -> Result<Box<dyn RecordCursor>> {
    let end = kind.iter().map(|byte| byte.saturating_add(1)).collect();
    let span = Span { from: kind.to_vec(), to: Some(end), backward: false };
    records.scan(Area::Own, &span)
}

/// Stored documents by version, and the quarantined ones.
#[derive(Default)]
struct Census {
    versions: BTreeMap<i64, u64>,
    quarantined: u64,
    named: Vec<(OwnedVal, String)>,
}

impl Census {
    fn quarantine(&mut self, id: Val<'_>, why: &str) {
        self.quarantined += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push((OwnedVal::new(id), why.to_owned()));
        }
    }

    /// Counts by the notes: every other document has the latest version.
    fn of_notes(forms: &Forms, records: &dyn Records, documents: u64) -> Result<Census> {
        let mut census = Census::default();
        let mut notes = own(records, QUARANTINED)?;
        while let Some((_, note)) = notes.next()? {
            let note = RawDoc::new(note);
            let version = note.get("version").and_then(Val::as_i64_exact).unwrap_or(forms.from);
            *census.versions.entry(version).or_default() += 1;
            let why = note.get("why").and_then(Val::as_str).unwrap_or_default();
            census.quarantine(note.get("_id").unwrap_or(Val::Null), why);
        }
        let latest = documents.saturating_sub(census.quarantined);
        census.versions.entry(forms.version).and_modify(|n| *n += latest).or_insert(latest);
        census.versions.entry(forms.from).or_default();
        Ok(census)
    }

    /// Counts by reading every stored document.
    fn of_documents(forms: &Forms, records: &dyn Records) -> Result<Census> {
        let mut census = Census::default();
        census.versions.insert(forms.from, 0);
        census.versions.insert(forms.version, 0);
        let mut stored = records.scan(Area::Documents, &Span::all())?;
        while let Some((_, doc)) = stored.next()? {
            let doc = RawDoc::new(doc);
            *census.versions.entry(version_of(forms, doc)).or_default() += 1;
            let id = doc.get("_id").unwrap_or(Val::Null);
            match forms.version_of(doc) {
                Version::Latest => {}
                Version::Other => census.quarantine(id, "its version is unknown"),
                Version::Before => {
                    if let Upgraded::Not(why) = forms.upgraded(doc)? {
                        census.quarantine(id, &why);
                    }
                }
            }
        }
        Ok(census)
    }
}

/// Writes how many documents are stored in which version, and which are quarantined.
///
/// # Errors
/// When the store fails.
pub(super) fn describe(
    forms: &Forms,
    pattern: &Pattern,
    records: &dyn Records,
    documents: u64,
    out: &mut Writer<'_>,
) -> Result<()> {
    let census = match pattern.phase {
        Phase::Ready if forms.migrate == Migrate::Background => {
            Census::of_notes(forms, records, documents)?
        }
        _ => Census::of_documents(forms, records)?,
    };
    out.doc("versions", |out| {
        for (version, count) in &census.versions {
            out.count(&version.to_string(), *count);
        }
    });
    out.count("quarantined", census.quarantined);
    if census.quarantined > 0 {
        out.array("quarantine", |list| {
            for (id, why) in &census.named {
                list.push_doc(|out| {
                    out.append("_id", id.get()).str("reason", why);
                });
            }
        });
    }
    Ok(())
}

/// Refuses to give up the version before while documents are quarantined.
///
/// # Errors
/// PatternViolation that names them.
pub(super) fn check_contract(forms: &Forms, records: &dyn Records) -> Result<()> {
    let census = Census::of_notes(forms, records, 0)?;
    if census.quarantined == 0 {
        return Ok(());
    }
    let ids: Vec<String> = census.named.iter().map(|(id, _)| value_text(id.get())).collect();
    Err(Error::new(
        Code::PATTERN_VIOLATION,
        format!(
            "{} documents are quarantined, such as those with _id {}: change them so that they can \
             be converted",
            census.quarantined,
            ids.join(", ")
        ),
    ))
}

/// Looks for records that belong to no document.
///
/// # Errors
/// When the store fails.
pub(super) fn check(records: &dyn Records, find: &mut dyn FnMut(String)) -> Result<()> {
    for (kind, what) in [(ORIGINALS, "an earlier form"), (QUARANTINED, "a note")] {
        let mut all = own(records, kind)?;
        while let Some((key, _)) = all.next()? {
            let record = key.get(kind.len()..).unwrap_or(&[]).to_vec();
            if records.get(Area::Documents, &record)?.is_none() {
                find(format!("{what} of a document that is gone"));
            }
        }
    }
    Ok(())
}
