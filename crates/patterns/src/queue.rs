//! The queue of targets that are not updated in the commit of their source, by group or source.
//!
//! An entry says only whose targets must be derived again, not their values. So several changes
//! are one entry, and the order of processing does not matter. It is written in the source's
//! commit and removed in the commit that updates the last of its targets. So every change is
//! applied, whenever the process ends.

use crate::documents::Documents;
use crate::pattern::Pattern;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val, keys};

/// Key prefix of entries; the encoded key follows.
pub const QUEUE: u8 = 4;
/// Key of the time of the last scheduled round.
pub const ROUND: &[u8] = b"\0r";

/// An entry of a queue.
pub struct Entry {
    /// Its key.
    pub place: Vec<u8>,
    /// The key of the group, or the value of the references.
    pub key: OwnedVal,
    /// Targets up to this `_id` key are done.
    pub at: Vec<u8>,
    /// Whether only the target of this key waits, and none that depends on it.
    pub alone: bool,
    /// Since when it waits, in milliseconds.
    pub since: i64,
}

impl Entry {
    fn of(place: &[u8], doc: RawDoc<'_>) -> Entry {
        let at = match doc.get("at") {
            Some(Val::Binary(_, at)) => at.to_vec(),
            _ => Vec::new(),
        };
        let since = doc.get("t").and_then(Val::as_i64_exact).unwrap_or(0);
        let key = OwnedVal::new(doc.get("k").unwrap_or(Val::Null));
        let alone = doc.get("o").is_some_and(Val::truthy);
        Entry { place: place.to_vec(), key, at, alone, since }
    }

    fn to_doc(&self) -> DocBuf {
        DocBuf::build(|out| {
            out.raw("k", self.key.raw());
            out.append("at", Val::Binary(0, &self.at));
            if self.alone {
                out.bool("o", true);
            }
            out.i64("t", self.since);
        })
    }
}

/// Whether a key is that of an entry.
#[must_use]
pub fn is_entry(place: &[u8]) -> bool {
    place.first() == Some(&QUEUE)
}

fn place_of(encoded: &[u8]) -> Vec<u8> {
    [&[QUEUE], encoded].concat()
}

/// Queues all targets of a key.
///
/// # Errors
/// When the store fails.
pub fn put(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    encoded: &[u8],
    key: Val<'_>,
) -> Result<()> {
    let since = documents.now();
    put_since(pattern, documents, encoded, key, since)
}

/// Like `put`, for targets that already wait since a given time.
///
/// # Errors
/// When the store fails.
pub fn put_since(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    encoded: &[u8],
    key: Val<'_>,
    since: i64,
) -> Result<()> {
    let since = entry(pattern, documents, encoded)?.map_or(since, |known| known.since.min(since));
    let (place, key) = (place_of(encoded), OwnedVal::new(key));
    let entry = Entry { place, key, at: Vec::new(), alone: false, since };
    documents.set_state(pattern.id, &entry.place, Some(entry.to_doc()))
}

/// Removes the entry of an encoded key, whose targets are up to date.
///
/// # Errors
/// When the store fails.
pub fn remove(pattern: &Pattern, documents: &mut dyn Documents, encoded: &[u8]) -> Result<()> {
    match has(pattern, documents, encoded)? {
        true => documents.set_state(pattern.id, &place_of(encoded), None),
        false => Ok(()),
    }
}

/// Queues a node without its descendants, unless these are queued already.
///
/// # Errors
/// When the store fails.
pub fn put_alone(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    encoded: &[u8],
    key: Val<'_>,
) -> Result<()> {
    let known = entry(pattern, documents, encoded)?;
    let (since, alone) = match known {
        Some(known) => (known.since, known.alone),
        None => (documents.now(), true),
    };
    let (place, key) = (place_of(encoded), OwnedVal::new(key));
    let entry = Entry { place, key, at: Vec::new(), alone, since };
    documents.set_state(pattern.id, &entry.place, Some(entry.to_doc()))
}

/// The entries behind a place, at most `limit`.
///
/// # Errors
/// When the store fails.
pub fn entries(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    after: &[u8],
    limit: usize,
) -> Result<Vec<Entry>> {
    let mut found = Vec::new();
    documents.states(pattern.id, &[QUEUE], after, &mut |place, doc| {
        found.push(Entry::of(place, doc));
        Ok(found.len() < limit)
    })?;
    Ok(found)
}

/// Whether the targets of an encoded key wait.
///
/// # Errors
/// When the store fails.
pub fn has(pattern: &Pattern, documents: &mut dyn Documents, encoded: &[u8]) -> Result<bool> {
    Ok(documents.state(pattern.id, &place_of(encoded))?.is_some())
}

/// The entry of an encoded key, if its targets wait.
///
/// # Errors
/// When the store fails.
pub fn entry(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    encoded: &[u8],
) -> Result<Option<Entry>> {
    let place = place_of(encoded);
    let doc = documents.state(pattern.id, &place)?;
    Ok(doc.map(|doc| Entry::of(&place, doc.as_doc())))
}

/// Whether any targets wait.
///
/// # Errors
/// When the store fails.
pub fn has_any(pattern: &Pattern, documents: &mut dyn Documents) -> Result<bool> {
    let mut found = false;
    documents.states(pattern.id, &[QUEUE], &[], &mut |_, _| {
        found = true;
        Ok(false)
    })?;
    Ok(found)
}

/// Updates about `batch` targets of an entry; removes the entry with the last of them. Returns how
/// many were read.
///
/// # Errors
/// When the store fails or a target cannot be written.
pub fn work(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    place: &[u8],
    batch: usize,
) -> Result<usize> {
    let Some(doc) = documents.state(pattern.id, place)? else { return Ok(0) };
    let mut entry = Entry::of(place, doc.as_doc());
    let (count, next) = pattern.kind.catch_up(pattern, documents, &entry, batch)?;
    let kept = next.map(|at| {
        entry.at = at;
        entry.to_doc()
    });
    documents.set_state(pattern.id, place, kept)?;
    Ok(count)
}

/// The number of waiting targets, and since when the first waits.
///
/// # Errors
/// When the store fails.
pub fn waiting(pattern: &Pattern, documents: &mut dyn Documents) -> Result<(u64, Option<i64>)> {
    let queued = entries(pattern, documents, &[], usize::MAX)?;
    let since = queued.iter().map(|entry| entry.since).min();
    let mut count = 0;
    for entry in &queued {
        count += pattern.kind.waiting_targets(pattern, documents, entry)?;
    }
    Ok((count, since))
}

/// Since when the oldest of the first 10,000 entries waits.
///
/// # Errors
/// When the store fails.
pub fn oldest(pattern: &Pattern, documents: &mut dyn Documents) -> Result<Option<i64>> {
    let queued = entries(pattern, documents, &[], 10_000)?;
    Ok(queued.iter().map(|entry| entry.since).min())
}

/// Whether a target is older than its sources, because an entry for it is queued.
///
/// # Errors
/// When the store fails.
pub fn is_stale(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    target: RawDoc<'_>,
) -> Result<bool> {
    Ok(waits_since(pattern, documents, target)?.is_some())
}

/// Since when a target waits for an entry, in milliseconds since 1970; `None` if it does not wait.
///
/// # Errors
/// When the store fails.
pub fn waits_since(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    target: RawDoc<'_>,
) -> Result<Option<i64>> {
    pattern.kind.waits_since(pattern, documents, target)
}

/// Since when a target waits for one of the entries of these encoded keys.
///
/// # Errors
/// When the store fails.
pub(crate) fn first_entry(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    target: RawDoc<'_>,
    keys: &[Vec<u8>],
) -> Result<Option<i64>> {
    let id = keys::key(target.get("_id").unwrap_or(Val::Null));
    let mut since: Option<i64> = None;
    for key in keys {
        let entry = entry(pattern, documents, key)?;
        if let Some(entry) = entry.filter(|entry| id > entry.at) {
            since = Some(since.map_or(entry.since, |since| since.min(entry.since)));
        }
    }
    Ok(since)
}

/// The time of the last scheduled round, in milliseconds.
///
/// # Errors
/// When the store fails.
pub fn last_round(pattern: &Pattern, documents: &mut dyn Documents) -> Result<Option<i64>> {
    let doc = documents.state(pattern.id, ROUND)?;
    Ok(doc.and_then(|doc| doc.as_doc().get("t").and_then(Val::as_i64_exact)))
}

/// Records the time whose state a scheduled round shows.
///
/// # Errors
/// When the store fails.
pub fn set_last_round(pattern: &Pattern, documents: &mut dyn Documents, time: i64) -> Result<()> {
    let doc = DocBuf::build(|out| {
        out.i64("t", time);
    });
    documents.set_state(pattern.id, ROUND, Some(doc))
}
