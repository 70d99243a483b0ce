//! Time windows: children count while their date is not older than a given age.
//!
//! The start of the window is stored with the pattern's records: children whose entries are at or
//! after it count, whatever the current time is. So maintained values can be recomputed at every
//! snapshot. A background task removes children that have become too old (`expired`) and moves the
//! start, in as many commits as needed.

use super::accumulators::Contribution;
use super::grouped::Fold;
use super::groups::Child;
use crate::documents::Documents;
use crate::pattern::Pattern;
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val, keys};

/// A time window.
#[derive(Debug)]
pub struct Window {
    /// The path of a child's date.
    pub path: Path,
    /// How old it may be, in milliseconds.
    pub span: i64,
}

/// Key prefix of window entries; the date of the child, the group and the child's `_id` follow.
const WINDOW: u8 = 7;
/// The key of the window's start.
const BEGINNING: &[u8] = b"\0w";

impl Window {
    /// The date and `_id` of a child; `None` for a child without a date, which never counts.
    pub(super) fn part(&self, child: RawDoc<'_>) -> Option<Contribution> {
        let Val::DateTime(date) = self.path.get(child) else { return None };
        Some(Contribution::Ranked(
            encoded(date),
            OwnedVal::new(child.get("_id").unwrap_or(Val::Null)),
        ))
    }

    /// The start of the window at this time.
    fn beginning_at(&self, now: i64) -> Vec<u8> {
        encoded(now.saturating_sub(self.span))
    }
}

fn encoded(date: i64) -> Vec<u8> {
    keys::key(Val::DateTime(date))
}

/// The position of a child's entry in a group: by date, oldest first.
pub(super) fn entry_key(part: &Contribution, group: &[u8]) -> Option<Vec<u8>> {
    let Contribution::Ranked(date, id) = part else { return None };
    Some([date.as_slice(), group, &keys::key(id.get())].concat())
}

/// Stores the entry of an added child, or removes that of a removed one.
pub(super) fn keep(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    part: &Contribution,
    (encoded, key): (&[u8], Val<'_>),
    adds: bool,
) -> Result<()> {
    let (Some(place), Contribution::Ranked(_, id)) = (entry_key(part, encoded), part) else {
        return Ok(());
    };
    let entry = adds.then(|| {
        DocBuf::build(|out| {
            out.append("k", key).raw("i", id.raw());
        })
    });
    documents.set_state(pattern.id, &[&[WINDOW], place.as_slice()].concat(), entry)
}

/// The start of a pattern's window.
///
/// # Errors
/// When the store fails.
pub(super) fn beginning(pattern: &Pattern, documents: &mut dyn Documents) -> Result<Vec<u8>> {
    let kept = documents.state(pattern.id, BEGINNING)?;
    Ok(match kept.as_ref().and_then(|doc| doc.as_doc().get("at")) {
        Some(Val::Binary(_, at)) => at.to_vec(),
        _ => Vec::new(),
    })
}

fn begin(pattern: &Pattern, documents: &mut dyn Documents, at: &[u8]) -> Result<()> {
    let doc = DocBuf::build(|out| {
        out.append("at", Val::Binary(0, at));
    });
    documents.set_state(pattern.id, BEGINNING, Some(doc))
}

impl Fold {
    /// Sets the start of the window to its current value, at the start of a build.
    ///
    /// # Errors
    /// When the store fails.
    pub fn open_window(&self, pattern: &Pattern, documents: &mut dyn Documents) -> Result<()> {
        let Some(window) = &self.window else { return Ok(()) };
        let now = window.beginning_at(documents.now());
        begin(pattern, documents, &now)
    }

    /// The start of the window, for `child`; reads nothing if there is no window.
    ///
    /// # Errors
    /// When the store fails.
    pub fn horizon(&self, pattern: &Pattern, documents: &mut dyn Documents) -> Result<Vec<u8>> {
        match self.window {
            Some(_) => beginning(pattern, documents),
            None => Ok(Vec::new()),
        }
    }

    /// Whether the window contains children that are too old by now.
    ///
    /// # Errors
    /// When the store fails.
    pub fn has_expired(&self, pattern: &Pattern, documents: &mut dyn Documents) -> Result<bool> {
        let Some(window) = &self.window else { return Ok(false) };
        let now = window.beginning_at(documents.now());
        let mut found = false;
        let after = [&[WINDOW], beginning(pattern, documents)?.as_slice()].concat();
        documents.states(pattern.id, &[WINDOW], &after, &mut |key, _| {
            found = key.get(1..).is_some_and(|place| place < now.as_slice());
            Ok(false)
        })?;
        Ok(found)
    }

    /// The time for which the values are correct: now, unless children have become too old since.
    ///
    /// # Errors
    /// When the store fails.
    pub fn window_as_of(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
    ) -> Result<Option<i64>> {
        let Some(window) = &self.window else { return Ok(None) };
        let after = [&[WINDOW], beginning(pattern, documents)?.as_slice()].concat();
        let mut oldest = None;
        documents.states(pattern.id, &[WINDOW], &after, &mut |_, entry| {
            oldest = entry.get("i").map(OwnedVal::new);
            Ok(false)
        })?;
        let now = documents.now();
        let Some(oldest) = oldest else { return Ok(Some(now)) };
        let child = documents.get(&self.source, oldest.get())?;
        let date = match child.as_ref().map(|child| window.path.get(child.as_doc())) {
            Some(Val::DateTime(date)) => date,
            _ => return Ok(Some(now)),
        };
        Ok(Some(now.min(date.saturating_add(window.span))))
    }

    /// Removes at most `batch` children from the window that are too old by now, and moves its
    /// start. Returns the resulting changes of their groups.
    ///
    /// # Errors
    /// When the store fails.
    pub fn expired(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        batch: usize,
    ) -> Result<Vec<Child>> {
        let Some(window) = &self.window else { return Ok(Vec::new()) };
        let now = window.beginning_at(documents.now());
        let after = [&[WINDOW], beginning(pattern, documents)?.as_slice()].concat();
        let mut entries: Vec<(Vec<u8>, OwnedVal, OwnedVal)> = Vec::new();
        documents.states(pattern.id, &[WINDOW], &after, &mut |key, entry| {
            if key.get(1..).is_none_or(|place| place >= now.as_slice()) {
                return Ok(false);
            }
            let value = |name| OwnedVal::new(entry.get(name).unwrap_or(Val::Null));
            entries.push((key.to_vec(), value("k"), value("i")));
            Ok(entries.len() < batch)
        })?;
        let Some((last, _, _)) = entries.last() else { return Ok(Vec::new()) };
        // After the last one removed; later ones may have the same date.
        let mut at = last.get(1..).unwrap_or(&[]).to_vec();
        at.push(0);
        begin(pattern, documents, &at)?;
        let mut gone = Vec::new();
        for (entry, key, id) in entries {
            if let Some(child) = documents.get(&self.source, id.get())?
                && let Some(mut lost) = self.child(child.as_doc(), &[])?
            {
                lost.keys = vec![(keys::key(key.get()), key)];
                gone.push(lost);
            }
            documents.set_state(pattern.id, &entry, None)?;
        }
        Ok(gone)
    }
}
