//! A batch: changes that become visible and durable together.
//! Later operations on the same key win over earlier ones.

use crate::long;
use crate::{Bytes, MAX_BATCH_BYTES, MAX_KEY_BYTES, Result, Space, StoreError};

/// One change of a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The key space.
    pub space: Space,
    /// The key, in the form in which the trees take it.
    pub key: Bytes,
    /// The new value; `None` for a delete.
    pub value: Option<Bytes>,
}

/// Changes that are applied atomically.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    operations: Vec<Operation>,
    bytes: usize,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// An empty batch with capacity for this many changes.
    pub(crate) fn with_capacity(changes: usize) -> Batch {
        Batch { operations: Vec::with_capacity(changes), bytes: 0 }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.push(space, Bytes::copy_from(key), Some(Bytes::copy_from(value)));
    }

    /// Sets `key` to `value`; bytes that are [`Bytes`] already are not copied again.
    pub fn put_owned(&mut self, space: Space, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.push(space, key.into(), Some(value.into()));
    }

    /// Removes `key`, whether or not it exists.
    pub fn delete(&mut self, space: Space, key: &[u8]) {
        self.push(space, Bytes::copy_from(key), None);
    }

    /// Removes `key`, whether or not it exists, without copying a key that is [`Bytes`] already.
    pub fn delete_owned(&mut self, space: Space, key: impl Into<Bytes>) {
        self.push(space, key.into(), None);
    }

    /// Appends every operation of `other` to this batch.
    pub fn append(&mut self, other: &mut Batch) {
        self.operations.append(&mut other.operations);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Replaces values by these handles where the key is set to an equal value, so that they share
    /// memory. A value that shares memory with a value of [`Space::Log`] is written to disk once.
    pub fn share(&mut self, space: Space, mut values: Vec<(Bytes, Bytes)>) {
        if !values.is_sorted_by(|a, b| a.0 <= b.0) {
            values.sort_by(|a, b| a.0.cmp(&b.0));
        }
        let mut values = values.into_iter().peekable();
        // Operations of a space are usually in key order. Those out of order keep their own
        // copies.
        for operation in self.operations.iter_mut().filter(|operation| operation.space == space) {
            while values.next_if(|(key, _)| *key < operation.key).is_some() {}
            while let Some((_, value)) = values.next_if(|(key, _)| *key == operation.key) {
                if operation.value.as_ref() == Some(&value) {
                    operation.value = Some(value);
                }
            }
        }
    }

    /// Whether a value shares the memory of a value of [`Space::Log`].
    pub(crate) fn shares(&self, value: &[u8]) -> bool {
        let part = value.as_ptr_range();
        self.operations.iter().filter(|operation| operation.space == Space::Log).any(|operation| {
            let whole = operation.value.as_deref().unwrap_or(&[]).as_ptr_range();
            whole.start <= part.start && part.end <= whole.end
        })
    }

    /// The changes, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes the changes but keeps the memory for the next use.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.bytes = 0;
    }

    fn push(&mut self, space: Space, mut key: Bytes, mut value: Option<Bytes>) {
        if long::is_long(&key) {
            value = value.map(|value| long::with_rest(&key, &value));
            key = long::stored_key(&key);
        }
        self.push_stored(space, key, value);
    }

    /// Adds a change of a stored key.
    pub(crate) fn push_stored(&mut self, space: Space, key: Bytes, value: Option<Bytes>) {
        self.bytes += key.len() + value.as_ref().map_or(0, |value| value.len());
        self.operations.push(Operation { space, key, value });
    }

    /// Refuses keys and batches above the limits, before anything is applied.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(operation) =
            self.operations.iter().find(|o| o.key.len() > MAX_KEY_BYTES || o.key.is_empty())
        {
            return Err(StoreError::TooLarge {
                what: format!(
                    "a key of {} bytes in {}; keys have 1 to {MAX_KEY_BYTES} bytes",
                    operation.key.len(),
                    operation.space.name()
                ),
            });
        }
        if self.bytes > MAX_BATCH_BYTES {
            return Err(StoreError::TooLarge {
                what: format!(
                    "a batch of {} bytes; at most {MAX_BATCH_BYTES} can be applied at once",
                    self.bytes
                ),
            });
        }
        Ok(())
    }
}
