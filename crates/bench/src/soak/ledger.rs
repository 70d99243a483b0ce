//! The acknowledged writes of each writer: the versions of its documents, and the range of events
//! that it has inserted and not deleted. After a kill the data is compared with them.

use super::super::workload::{DATABASE, ORDERS};
use super::load::EVENTS;
use anyhow::{Context, Result, bail};
use client::Client;
use std::sync::{Mutex, MutexGuard, PoisonError};
use value::{DocBuf, RawDoc, Val};

/// Bits of an event's `_id` that hold its number; the writer is in the others.
const EVENT_BITS: u32 = 32;
/// Documents of one reply while everything is read.
const READ_BATCH: i32 = 10_000;

/// The acknowledged writes of one writer.
pub(super) struct Ledger {
    /// The last acknowledged version of each of its documents.
    versions: Vec<u32>,
    /// The numbers of its events: from this one ...
    pub(super) tail: u64,
    /// ... up to, not including, this one.
    pub(super) head: u64,
    /// A write that was sent and not answered yet.
    pending: Option<Pending>,
}

/// A write without an answer: after a kill, its effect may be there or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pending {
    /// A document gets this version.
    Update(u64, u32),
    /// The event `head` is inserted.
    Insert,
    /// The event `tail` is deleted.
    Delete,
}

/// The ledgers of all writers. Writer `w` of `n` owns the documents whose `_id` is `w` modulo `n`.
pub(super) struct Ledgers {
    ledgers: Vec<Mutex<Ledger>>,
    docs: u64,
}

/// The numbers of what a check has compared.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) documents: u64,
    pub(super) events: u64,
}

impl Ledgers {
    /// Creates the ledgers of documents with version 0, without events.
    pub(super) fn new(writers: usize, docs: u64) -> Ledgers {
        let own = |writer| (docs + writers as u64 - 1 - writer as u64) / writers as u64;
        let ledgers = (0..writers).map(|writer| {
            let versions = vec![0; own(writer) as usize];
            Mutex::new(Ledger { versions, tail: 0, head: 0, pending: None })
        });
        Ledgers { ledgers: ledgers.collect(), docs }
    }

    /// The number of documents.
    pub(super) fn docs(&self) -> u64 {
        self.docs
    }

    /// The number of writers.
    pub(super) fn writers(&self) -> usize {
        self.ledgers.len()
    }

    /// The ledger of a writer.
    pub(super) fn of(&self, writer: usize) -> Result<MutexGuard<'_, Ledger>> {
        let ledger = self.ledgers.get(writer).context("there is no such writer")?;
        Ok(ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads everything and compares it with the acknowledged writes. There must be no other writes.
    ///
    /// # Errors
    /// If an acknowledged write is missing, or there is data that was not written.
    pub(super) fn check(&self, client: &mut Client) -> Result<Checked> {
        let mut ledgers = Vec::new();
        for writer in 0..self.writers() {
            ledgers.push(self.of(writer)?);
        }
        let mut documents = 0;
        each(client, ORDERS, "version", |doc| {
            documents += 1;
            let id = number(doc, "_id")?;
            let writer = (id % ledgers.len().max(1) as u64) as usize;
            let number_of = id / ledgers.len().max(1) as u64;
            let version = number(doc, "version")? as u32;
            let ledger = ledgers.get_mut(writer).context("there is no such writer")?;
            ledger.check_version(number_of, version).with_context(|| format!("document {id}"))
        })?;
        if documents != self.docs {
            bail!("{documents} documents instead of {}", self.docs);
        }
        let mut found: Vec<Window> = vec![Window::default(); ledgers.len()];
        each(client, EVENTS, "_id", |doc| {
            let id = number(doc, "_id")?;
            let (writer, event) = ((id >> EVENT_BITS) as usize, id & ((1 << EVENT_BITS) - 1));
            let (Some(ledger), Some(window)) = (ledgers.get(writer), found.get_mut(writer)) else {
                bail!("an event {id} that was not inserted");
            };
            window.note(ledger, event)
        })?;
        let mut events = 0;
        for (writer, (ledger, window)) in ledgers.iter_mut().zip(&found).enumerate() {
            ledger.check_window(window).with_context(|| format!("events of writer {writer}"))?;
            ledger.pending = None;
            events += ledger.head - ledger.tail;
        }
        Ok(Checked { documents, events })
    }
}

impl Ledger {
    /// How many documents the writer owns.
    pub(super) fn count(&self) -> u64 {
        self.versions.len() as u64
    }

    /// The acknowledged version of one of its documents.
    pub(super) fn version(&self, number: u64) -> u32 {
        self.versions.get(number as usize).copied().unwrap_or(0)
    }

    /// Notes a write before it is sent.
    pub(super) fn begin(&mut self, pending: Pending) {
        self.pending = Some(pending);
    }

    /// Notes that it was acknowledged.
    pub(super) fn acknowledge(&mut self) {
        match self.pending.take() {
            Some(Pending::Update(number, version)) => self.set_version(number, version),
            Some(Pending::Insert) => self.head += 1,
            Some(Pending::Delete) => self.tail += 1,
            None => {}
        }
    }

    fn set_version(&mut self, number: u64, version: u32) {
        if let Some(known) = self.versions.get_mut(number as usize) {
            *known = version;
        }
    }

    fn check_version(&mut self, number: u64, version: u32) -> Result<()> {
        let known = self.version(number);
        if version == known {
            return Ok(());
        }
        if self.pending != Some(Pending::Update(number, version)) {
            bail!("it has version {version}, but version {known} was acknowledged");
        }
        self.set_version(number, version);
        Ok(())
    }

    fn check_window(&mut self, found: &Window) -> Result<()> {
        match self.pending {
            Some(Pending::Insert) if found.has_head => self.head += 1,
            Some(Pending::Delete) if !found.has_tail => self.tail += 1,
            _ => {}
        }
        let (is, wanted) = (found.count, self.head - self.tail);
        if is != wanted {
            bail!("there are {is}, but {wanted} were acknowledged and not deleted");
        }
        Ok(())
    }
}

/// The events of one writer that were found.
#[derive(Clone, Default)]
struct Window {
    count: u64,
    has_tail: bool,
    has_head: bool,
}

impl Window {
    fn note(&mut self, ledger: &Ledger, event: u64) -> Result<()> {
        self.count += 1;
        self.has_tail |= event == ledger.tail;
        if event == ledger.head && ledger.pending == Some(Pending::Insert) {
            self.has_head = true;
        } else if !(ledger.tail..ledger.head).contains(&event) {
            bail!("the event {event} is outside of {}..{}", ledger.tail, ledger.head);
        }
        Ok(())
    }
}

/// The `_id` of an event of a writer.
pub(super) fn event_id(writer: usize, number: u64) -> u64 {
    ((writer as u64) << EVENT_BITS) | number
}

/// Calls `take` with `_id` and one field of every document of a collection.
fn each(
    client: &mut Client,
    collection: &str,
    field: &str,
    mut take: impl FnMut(RawDoc<'_>) -> Result<()>,
) -> Result<()> {
    let find = DocBuf::build(|out| {
        out.str("find", collection).i32("batchSize", READ_BATCH);
        out.doc("projection", |fields| {
            fields.i32(field, 1);
        });
    });
    let mut cursor = client.cursor(DATABASE, &find)?.batch_size(READ_BATCH);
    while let Some(doc) = cursor.try_next()? {
        take(doc.as_doc())?;
    }
    Ok(())
}

fn number(doc: RawDoc<'_>, field: &str) -> Result<u64> {
    let number = doc.get(field).and_then(Val::as_i64_exact);
    let number = number.and_then(|number| u64::try_from(number).ok());
    number.with_context(|| format!("`{field}` is not a number of ours: {doc:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unanswered_update_may_be_there_or_not_and_others_must_be() {
        let ledgers = Ledgers::new(2, 5);
        assert_eq!((ledgers.of(0).unwrap().count(), ledgers.of(1).unwrap().count()), (3, 2));
        let mut ledger = ledgers.of(0).unwrap();
        ledger.begin(Pending::Update(1, 7));
        assert!(ledger.check_version(1, 0).is_ok());
        assert!(ledger.check_version(1, 6).is_err());
        assert!(ledger.check_version(1, 7).is_ok());
        // A version that was read once stays.
        assert!(ledger.check_version(1, 0).is_err());
        ledger.begin(Pending::Update(2, 3));
        ledger.acknowledge();
        assert!(ledger.check_version(2, 3).is_ok());
        assert!(ledger.check_version(2, 2).is_err());
    }

    #[test]
    fn events_are_a_window_whose_ends_may_be_unanswered() {
        let check = |pending: Option<Pending>, events: &[u64]| {
            let mut ledger = Ledger { versions: Vec::new(), tail: 2, head: 5, pending };
            let mut window = Window::default();
            events.iter().try_for_each(|&event| window.note(&ledger, event)).ok()?;
            ledger.check_window(&window).ok().map(|()| (ledger.tail, ledger.head))
        };
        assert_eq!(check(None, &[2, 3, 4]), Some((2, 5)));
        assert_eq!(check(None, &[2, 3]), None, "an insert is lost");
        assert_eq!(check(None, &[1, 2, 3, 4]), None, "a delete is lost");
        assert_eq!(check(Some(Pending::Insert), &[2, 3, 4]), Some((2, 5)));
        assert_eq!(check(Some(Pending::Insert), &[2, 3, 4, 5]), Some((2, 6)));
        assert_eq!(check(Some(Pending::Insert), &[3, 4, 5]), None);
        assert_eq!(check(Some(Pending::Delete), &[2, 3, 4]), Some((2, 5)));
        assert_eq!(check(Some(Pending::Delete), &[3, 4]), Some((3, 5)));
        assert_eq!(check(Some(Pending::Delete), &[2, 4]), None);
    }
}
