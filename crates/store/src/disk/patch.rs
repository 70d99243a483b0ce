//! Patches: a large value in the log as its difference to the version before it.
//!
//! A small change of a large document would otherwise write the whole document to the log. The
//! base of a patch is the newest version in the active memtable. Its record and that of the patch
//! are needed by recovery until the same flush, so a log that has the patch and needs it has the
//! base, too, or the base is in a table that recovery itself has written.
//!
//! A patch is a sequence of steps: copy a part of the base, then append bytes. A step is the offset
//! and the length of the part, the length of the bytes (32 bits each), and the bytes.

use std::sync::Arc;

use lsm_tree::{Memtable, SeqNo, ValueType};

use crate::{Batch, Bytes, Operation, Seqno, Space};

/// Shorter values are written whole.
const VALUE_BYTES_MIN: usize = 64 * 1024;
/// A patch is worthwhile below this share of the value.
const SHARE_MAX: usize = 4;
/// The steps of a patch, at most.
const STEPS_MAX: usize = 64;
/// How far to look for equal bytes behind a difference: a length or a number that has changed.
const DIFFERENCE_MAX: usize = 32;
/// So many equal bytes end a difference.
const EQUAL_MIN: usize = 16;
/// Bytes that are compared at once.
const CHUNK: usize = 4096;
/// Bytes of the numbers of a step.
const STEP_HEADER: usize = 12;

/// The base of one operation's value.
pub(super) struct Base {
    /// The operation's number in its batch.
    operation: usize,
    pub(super) seqno: Seqno,
    pub(super) value: Bytes,
}

/// The bases of the large values of a batch.
#[derive(Default)]
pub(super) struct Bases {
    found: Vec<Base>,
    memtable: Option<Arc<Memtable>>,
}

/// Whether a batch has values that may be written as patches.
pub(super) fn may_have_patches(batch: &Batch) -> bool {
    batch.operations().iter().any(is_large)
}

fn is_large(operation: &Operation) -> bool {
    operation.space == Space::Documents
        && operation.value.as_ref().is_some_and(|value| value.len() >= VALUE_BYTES_MIN)
}

/// The newest version of a key.
fn newest(memtable: &Memtable, key: &[u8]) -> Option<(Seqno, Bytes)> {
    let item = memtable.get(key, SeqNo::MAX)?;
    (item.key.value_type == ValueType::Value)
        .then(|| (item.key.seqno, Bytes::from_tree(item.value)))
}

impl Bases {
    /// Finds the bases in the active memtable of the documents.
    pub(super) fn find(batch: &Batch, memtable: Arc<Memtable>) -> Bases {
        let operations = batch.operations().iter().enumerate();
        let base = |(number, operation): (usize, &Operation)| {
            let (seqno, value) = newest(&memtable, &operation.key)?;
            Some(Base { operation: number, seqno, value })
        };
        let found = operations.filter(|(_, operation)| is_large(operation)).filter_map(base);
        Bases { found: found.collect(), memtable: Some(memtable.clone()) }
    }

    /// Whether no value has a base.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The bases with the numbers of their operations.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Base)> {
        self.found.iter().map(|base| (base.operation, base))
    }

    /// The base of an operation.
    pub(super) fn of(&self, operation: usize) -> Option<&Base> {
        self.found.iter().find(|base| base.operation == operation)
    }

    /// Whether the bases are still the newest versions, in this memtable. Under the commit lock.
    pub(super) fn are_newest(&self, batch: &Batch, active: &Arc<Memtable>) -> bool {
        self.found.is_empty()
            || self.memtable.as_ref().is_some_and(|memtable| Arc::ptr_eq(memtable, active))
                && self.found.iter().all(|base| {
                    let key =
                        batch.operations().get(base.operation).map(|operation| &operation.key);
                    let now = key.and_then(|key| active.get(key, SeqNo::MAX));
                    now.is_some_and(|now| now.key.seqno == base.seqno)
                })
    }
}

/// Appends the patch that makes `value` of `base`. Returns false, with the buffer as it was, if the
/// patch would not be much smaller than the value.
pub(super) fn encode(buffer: &mut Vec<u8>, base: &[u8], value: &[u8]) -> bool {
    let start = buffer.len();
    let bytes_max = value.len() / SHARE_MAX;
    let mut at = 0;
    // Where base and value are aligned: equal parts with short differences between them.
    for _ in 0..STEPS_MAX {
        let (base_rest, rest) = (base.get(at..).unwrap_or(&[]), value.get(at..).unwrap_or(&[]));
        let equal = equal_at_start(base_rest, rest);
        let Some(different) =
            difference(base_rest.get(equal..).unwrap_or(&[]), rest.get(equal..).unwrap_or(&[]))
        else {
            break;
        };
        let end = equal + different;
        push_step(buffer, at..at + equal, rest.get(equal..end).unwrap_or(&[]));
        at += end;
    }
    // The rest: an equal part, whatever was inserted or removed, and the end, which is aligned with
    // the other end.
    let (base_rest, rest) = (base.get(at..).unwrap_or(&[]), value.get(at..).unwrap_or(&[]));
    let equal = equal_at_start(base_rest, rest);
    let from = at + equal;
    let (mut base_end, mut end) = (base.len(), value.len());
    let mut tail = Vec::new();
    let mut literal = end..end;
    for _ in 0..STEPS_MAX {
        let base_left = base.get(from..base_end).unwrap_or(&[]);
        let left = value.get(from..end).unwrap_or(&[]);
        let same = equal_at_end(base_left, left);
        tail.push((base_end - same..base_end, literal.clone()));
        (base_end, end) = (base_end - same, end - same);
        let base_left = base.get(from..base_end).unwrap_or(&[]);
        let Some(different) = difference_at_end(base_left, value.get(from..end).unwrap_or(&[]))
        else {
            break;
        };
        literal = end - different..end;
        (base_end, end) = (base_end - different, end - different);
        if tail.len() == STEPS_MAX {
            tail.push((base_end..base_end, literal.clone()));
        }
    }
    if buffer.len() - start + (end - from) > bytes_max {
        buffer.truncate(start);
        return false;
    }
    push_step(buffer, at..from, value.get(from..end).unwrap_or(&[]));
    for (copied, literal) in tail.into_iter().rev() {
        if !copied.is_empty() || !literal.is_empty() {
            push_step(buffer, copied, value.get(literal).unwrap_or(&[]));
        }
    }
    true
}

/// Returns the value that a patch makes of a base; `None` if it does not fit.
pub(super) fn apply(base: &[u8], mut patch: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(length);
    while !patch.is_empty() {
        let (header, rest) = patch.split_first_chunk::<STEP_HEADER>()?;
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *header;
        let from = u32::from_le_bytes([a, b, c, d]) as usize;
        let copied = u32::from_le_bytes([e, f, g, h]) as usize;
        let appended = u32::from_le_bytes([i, j, k, l]) as usize;
        value.extend_from_slice(base.get(from..from.checked_add(copied)?)?);
        let (literal, rest) = rest.split_at_checked(appended)?;
        value.extend_from_slice(literal);
        patch = rest;
        if value.len() > length {
            return None;
        }
    }
    (value.len() == length).then_some(value)
}

fn push_step(buffer: &mut Vec<u8>, copied: std::ops::Range<usize>, literal: &[u8]) {
    buffer.extend_from_slice(&(copied.start as u32).to_le_bytes());
    buffer.extend_from_slice(&(copied.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&(literal.len() as u32).to_le_bytes());
    buffer.extend_from_slice(literal);
}

/// How many bytes are different before equal ones follow at the same offset; `None` if there are
/// too many, or an end comes first.
fn difference(base: &[u8], value: &[u8]) -> Option<usize> {
    (1..=DIFFERENCE_MAX).find(|skip| {
        let end = skip + EQUAL_MIN;
        value.get(*skip..end).is_some_and(|part| base.get(*skip..end) == Some(part))
    })
}

/// As `difference`, from the ends.
fn difference_at_end(base: &[u8], value: &[u8]) -> Option<usize> {
    fn part(bytes: &[u8], skip: usize) -> Option<&[u8]> {
        let end = bytes.len().checked_sub(skip)?;
        bytes.get(end.checked_sub(EQUAL_MIN)?..end)
    }
    (1..=DIFFERENCE_MAX)
        .find(|skip| part(value, *skip).is_some_and(|found| part(base, *skip) == Some(found)))
}

/// The number of equal bytes at the start.
fn equal_at_start(a: &[u8], b: &[u8]) -> usize {
    let chunks = a.chunks_exact(CHUNK).zip(b.chunks_exact(CHUNK));
    let whole = chunks.take_while(|(a, b)| a == b).count() * CHUNK;
    let rest = a.iter().skip(whole).zip(b.iter().skip(whole));
    whole + rest.take_while(|(a, b)| a == b).count()
}

/// The number of equal bytes at the end.
fn equal_at_end(a: &[u8], b: &[u8]) -> usize {
    let chunks = a.rchunks_exact(CHUNK).zip(b.rchunks_exact(CHUNK));
    let whole = chunks.take_while(|(a, b)| a == b).count() * CHUNK;
    let rest = a.iter().rev().skip(whole).zip(b.iter().rev().skip(whole));
    whole + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(count: usize, seed: u32) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    /// The size of the patch, which is checked to make the value.
    fn patched(base: &[u8], value: &[u8]) -> Option<usize> {
        let mut patch = vec![7];
        if !encode(&mut patch, base, value) {
            assert_eq!(patch, [7]);
            return None;
        }
        assert!(apply(base, &patch[1..], value.len()).as_deref() == Some(value));
        Some(patch.len() - 1)
    }

    #[test]
    fn small_changes_make_small_patches() {
        let base = bytes(100_000, 1);
        let changed = |edit: &dyn Fn(&mut Vec<u8>)| {
            let mut value = base.clone();
            edit(&mut value);
            patched(&base, &value).unwrap_or(usize::MAX)
        };
        assert!(changed(&|_| {}) < 50);
        assert!(changed(&|value| value[50_000] ^= 1) < 100);
        assert!(changed(&|value| value.extend_from_slice(b"more")) < 100);
        assert!(changed(&|value| drop(value.splice(70_000..70_000, *b"inserted"))) < 100);
        assert!(changed(&|value| drop(value.drain(20_000..30_000))) < 100);
        // As `$push`: two lengths change, then something is inserted.
        let push = |value: &mut Vec<u8>| {
            value[0] ^= 1;
            value[40_000] ^= 1;
            value.splice(90_000..90_000, *b"an element");
        };
        assert!(changed(&push) < 150);
        // As `$push` together with `$inc` of a field behind the array.
        let push_and_count = |value: &mut Vec<u8>| {
            push(value);
            value[99_000] ^= 1;
        };
        assert!(changed(&push_and_count) < 200);
        assert!(changed(&|value| value.truncate(10)) < 50);
        assert!(changed(&|value| (0..100).for_each(|at| value[at * 1000] ^= 1)) < 4000);
        assert_eq!(changed(&|value| value.iter_mut().for_each(|byte| *byte ^= 0x55)), usize::MAX);
        assert_eq!(patched(&[], &base), None);
        assert_eq!(patched(&base, &bytes(100_000, 2)), None);
    }

    #[test]
    fn damaged_patches_give_nothing_and_never_panic() {
        let base = bytes(1000, 3);
        let mut value = base.clone();
        value[500] ^= 1;
        let mut patch = Vec::new();
        assert!(encode(&mut patch, &base, &value));
        for end in 0..patch.len() {
            assert_eq!(apply(&base, &patch[..end], 1000), None);
        }
        for at in 0..patch.len() {
            let mut damaged = patch.clone();
            damaged[at] = 0xFF;
            let _ = apply(&base, &damaged, 1000);
        }
        assert_eq!(apply(&base[..900], &patch, 1000), None);
    }
}
