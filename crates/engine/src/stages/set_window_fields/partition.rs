//! The documents of one partition, in order: in memory, or in a temporary file if there are many.

use super::Sorting;
use super::column::{Column, Memory};
use crate::memory::Share;
use crate::operation::Operation;
use crate::store_failed;
use std::cell::RefCell;
use store::{Run, RunWriter};
use value::{Code, Error, RawDoc, Result, Val};

/// A completely read partition.
pub(super) struct Partition {
    documents: Documents,
    count: usize,
    /// The value of the single sort field in each document; empty if not needed.
    pub(super) keys: Column,
    /// Whether each document differs from the previous one in the order.
    pub(super) steps: Vec<bool>,
    /// The memory limit of its columns.
    pub(super) memory: Memory,
    /// The shared memory that the documents take.
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

    /// An iterator over the documents.
    pub(super) fn into_documents(self) -> Result<PartitionDocuments> {
        Ok(match self.documents {
            Documents::Memory(docs) => PartitionDocuments::Memory(docs.into_iter()),
            Documents::Disk(run) => {
                let mut run = run.into_inner();
                run.rewind().map_err(store_failed)?;
                PartitionDocuments::Disk(run)
            }
        })
    }
}

/// An iterator over documents in order.
pub(super) enum PartitionDocuments {
    Memory(std::vec::IntoIter<Vec<u8>>),
    Disk(Run),
}

impl PartitionDocuments {
    /// The next document.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        match self {
            PartitionDocuments::Memory(docs) => Ok(docs.next()),
            PartitionDocuments::Disk(run) => {
                Ok(run.next().map_err(store_failed)?.map(|(_, doc)| doc))
            }
        }
    }
}

/// A partition during reading.
pub(super) struct Collector<'s> {
    sorting: Option<&'s Sorting>,
    with_keys: bool,
    docs: Vec<Vec<u8>>,
    bytes: usize,
    writer: Option<RunWriter>,
    count: usize,
    keys: Column,
    steps: Vec<bool>,
    /// The sort keys of the current and the previous document.
    order: (Vec<u8>, Vec<u8>),
    bytes_max: usize,
    /// The shared memory that the documents take.
    share: Option<Share>,
}

/// Memory overhead of a document.
const DOCUMENT_BYTES: usize = size_of::<Vec<u8>>() + 16;

impl<'s> Collector<'s> {
    /// Begins an empty partition. `with_keys` keeps the values of the sort field.
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

    /// Adds the next document.
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
        // The other half of the memory is for the columns.
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

    /// Completes the partition.
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

/// The error for a partition that must spill when disk use is not allowed.
pub(super) fn no_disk() -> Error {
    Error::new(Code(5643011), "Exceeded max memory. Set 'allowDiskUse: true' to spill to disk")
}
