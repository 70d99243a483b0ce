//! The documents of one partition, in order: in memory, or in a temporary file when they are many.

use super::Sorting;
use super::column::{Column, Memory};
use crate::memory::Share;
use crate::operation::Operation;
use crate::store_failed;
use std::cell::RefCell;
use store::{Run, RunWriter};
use value::{Code, Error, RawDoc, Result, Val};

/// A partition that was read.
pub(super) struct Partition {
    documents: Documents,
    count: usize,
    /// The value that a single sort field has in each document; empty where nothing asks for it.
    pub(super) keys: Column,
    /// Whether the order tells each document from the one before it.
    pub(super) steps: Vec<bool>,
    /// What its columns may take.
    pub(super) memory: Memory,
    /// What the documents hold of the memory that operations share.
    _share: Option<Share>,
}

enum Documents {
    Memory(Vec<Vec<u8>>),
    Disk(RefCell<Run>),
}

impl Partition {
    /// How many documents there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Visits all documents in order.
    pub(super) fn for_each(
        &self,
        op: &Operation,
        mut visit: impl FnMut(RawDoc<'_>) -> Result<()>,
    ) -> Result<()> {
        match &self.documents {
            Documents::Memory(docs) => docs.iter().try_for_each(|doc| {
                op.check()?;
                visit(RawDoc::new(doc))
            }),
            Documents::Disk(run) => {
                let mut run = run.borrow_mut();
                run.rewind().map_err(store_failed)?;
                while let Some((_, doc)) = run.next().map_err(store_failed)? {
                    op.check()?;
                    visit(RawDoc::new(&doc))?;
                }
                Ok(())
            }
        }
    }

    /// The documents, to take them one by one.
    pub(super) fn into_documents(self) -> Result<Taken> {
        Ok(match self.documents {
            Documents::Memory(docs) => Taken::Memory(docs.into_iter()),
            Documents::Disk(run) => {
                let mut run = run.into_inner();
                run.rewind().map_err(store_failed)?;
                Taken::Disk(run)
            }
        })
    }
}

/// Documents that are taken in order.
pub(super) enum Taken {
    Memory(std::vec::IntoIter<Vec<u8>>),
    Disk(Run),
}

impl Taken {
    /// The next document.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        match self {
            Taken::Memory(docs) => Ok(docs.next()),
            Taken::Disk(run) => Ok(run.next().map_err(store_failed)?.map(|(_, doc)| doc)),
        }
    }
}

/// A partition that is being read.
pub(super) struct Collector<'s> {
    sorting: Option<&'s Sorting>,
    with_keys: bool,
    docs: Vec<Vec<u8>>,
    bytes: usize,
    writer: Option<RunWriter>,
    count: usize,
    keys: Column,
    steps: Vec<bool>,
    /// The bytes that order the document at hand, and the one before.
    order: (Vec<u8>, Vec<u8>),
    bytes_max: usize,
    /// What the documents hold of the memory that operations share.
    share: Option<Share>,
}

/// What a document takes beside its bytes.
const DOCUMENT_BYTES: usize = size_of::<Vec<u8>>() + 16;

impl<'s> Collector<'s> {
    /// An empty partition. With `with_keys` the values of the sort field are kept.
    pub(super) fn new(
        sorting: Option<&'s Sorting>,
        with_keys: bool,
        op: &Operation,
    ) -> Collector<'s> {
        Collector {
            sorting,
            with_keys,
            docs: Vec::new(),
            bytes: 0,
            writer: None,
            count: 0,
            keys: Column::default(),
            steps: Vec::new(),
            order: (Vec::new(), Vec::new()),
            bytes_max: op.sort_bytes_max(),
            share: None,
        }
    }

    /// Takes the next document.
    pub(super) fn push(&mut self, doc: Vec<u8>, op: &Operation) -> Result<()> {
        if let Some(sorting) = self.sorting {
            let (now, before) = &mut self.order;
            std::mem::swap(now, before);
            now.clear();
            sorting.spec.key(RawDoc::new(&doc), now)?;
            self.steps.push(self.count == 0 || now != before);
            if self.with_keys {
                let value = match sorting.fields.as_slice() {
                    [(path, _)] => path.get(RawDoc::new(&doc)),
                    _ => Val::Null,
                };
                self.keys.push(if value.is_missing() { Val::Null } else { value })?;
            }
        }
        self.count += 1;
        if let Some(writer) = &mut self.writer {
            return writer.push(&[], &doc).map_err(store_failed);
        }
        self.bytes += doc.len() + DOCUMENT_BYTES;
        self.docs.push(doc);
        // The other half is for the columns.
        let fits = self.bytes <= self.bytes_max / 2
            && self.share.get_or_insert_with(|| op.share()).covers(self.bytes);
        if fits { Ok(()) } else { self.spill(op) }
    }

    fn spill(&mut self, op: &Operation) -> Result<()> {
        if !op.may_use_disk() {
            return Err(no_disk());
        }
        let mut writer = op.scratch().create().map_err(store_failed)?;
        for doc in std::mem::take(&mut self.docs) {
            writer.push(&[], &doc).map_err(store_failed)?;
        }
        self.bytes = 0;
        self.share = None;
        self.writer = Some(writer);
        Ok(())
    }

    /// The whole partition.
    pub(super) fn finish(self) -> Result<Partition> {
        let memory = Memory::new(self.bytes_max);
        memory.take(self.bytes + self.keys.memory_bytes() + self.steps.len())?;
        let documents = match self.writer {
            None => Documents::Memory(self.docs),
            Some(writer) => Documents::Disk(RefCell::new(writer.finish().map_err(store_failed)?)),
        };
        Ok(Partition {
            documents,
            count: self.count,
            keys: self.keys,
            steps: self.steps,
            memory,
            _share: self.share,
        })
    }
}

/// The refusal of what needs the disk and may not use it.
pub(super) fn no_disk() -> Error {
    Error::new(Code(5643011), "Exceeded max memory. Set 'allowDiskUse: true' to spill to disk")
}
