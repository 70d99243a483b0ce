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
    /// The date and `_id` of a child; `None` for a child without a date, which never counts. An
    /// element of an array is named by `_id` and position.
    pub(super) fn part(&self, child: RawDoc<'_>, element: Option<u32>) -> Option<Contribution> {
        let Val::DateTime(date) = self.path.get(child) else { return None };
        let id = child.get("_id").unwrap_or(Val::Null);
        let named = match element {
            None => OwnedVal::new(id),
            Some(at) => {
                let named = DocBuf::build(|out| {
                    out.append("i", id).i64("n", i64::from(at));
                });
                OwnedVal::new(Val::Document(named.as_doc()))
            }
        };
        Some(Contribution::Ranked(encoded(date), named))
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
        let (id, element) = self.named(oldest.get());
        let Some(child) = documents.get(&self.source, id)? else { return Ok(Some(now)) };
        let mut date = None;
        self.each_element(child.as_doc(), element, &mut |doc| {
            if let Val::DateTime(at) = window.path.get(doc) {
                date = Some(at);
            }
            Ok(())
        })?;
        Ok(Some(date.map_or(now, |date| now.min(date.saturating_add(window.span)))))
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
            let (id, element) = self.named(id.get());
            if let Some(child) = documents.get(&self.source, id)? {
                let mut lost = None;
                self.each_element(child.as_doc(), element, &mut |doc| {
                    lost = self.child_at(doc, element, &[])?;
                    Ok(())
                })?;
                if let Some(mut lost) = lost {
                    lost.keys = vec![(keys::key(key.get()), key)];
                    gone.push(lost);
                }
            }
            documents.set_state(pattern.id, &entry, None)?;
        }
        Ok(gone)
    }

    /// The `_id` of a child, and the position of an element, from what an entry names.
    fn named<'n>(&self, name: Val<'n>) -> (Val<'n>, Option<u32>) {
        match name.as_doc().filter(|_| self.unwind.is_some()) {
            None => (name, None),
            Some(doc) => {
                let at = doc.get("n").and_then(Val::as_i64_exact);
                let at = at.and_then(|at| u32::try_from(at).ok());
                (doc.get("i").unwrap_or(Val::Null), at)
            }
        }
    }

    /// Visits a child, or the element at a position.
    fn each_element(
        &self,
        child: RawDoc<'_>,
        element: Option<u32>,
        visit: &mut dyn FnMut(RawDoc<'_>) -> Result<()>,
    ) -> Result<()> {
        match (&self.unwind, element) {
            (Some(unwind), Some(wanted)) => unwind.each(child, &mut |at, doc| {
                if at == wanted { visit(doc) } else { Ok(()) }
            }),
            _ => visit(child),
        }
    }
}
