//! In which bucket a document is, by its record key.
//!
//! Keys that arrive in order, such as those of ObjectIds, are kept in blocks of about a thousand,
//! as differences; so an entry takes a byte or less. A key that arrives later, below those of the
//! last block, has a record of its own.

use super::bytes::{self, Reader, damaged};
use super::record::{BLOCK, ENTRY, all_of};
use crate::layout::{Area, RecordCursor, Records, RecordsMut, Span, merged};
use std::collections::{BTreeMap, HashMap};
use value::Result;

/// A block with so many entries gets no more that are not above the others.
const ENTRIES_MAX: usize = 1024;
/// Entries that are not sorted in yet, at most.
const TAIL_MAX: usize = 32;
/// Keys are compared as numbers of so many bytes behind what all of them begin with.
const NUMBER_BYTES: usize = 16;

/// Record keys with the keys of their buckets, in the order of the record keys.
pub(super) type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn block_key(id: &[u8]) -> Vec<u8> {
    [&[BLOCK], id].concat()
}

fn entry_key(id: &[u8]) -> Vec<u8> {
    [&[ENTRY], id].concat()
}

/// The block whose range has a key, with its own key.
fn block_of(records: &dyn Records, id: &[u8]) -> Result<Option<(Vec<u8>, Block)>> {
    let key = block_key(id);
    let span = Span { from: vec![BLOCK], ..Span::down_from(&key) };
    let mut blocks = records.scan(Area::Own, &span)?;
    blocks.next()?.map(|(key, block)| Ok((key.to_vec(), Block::read(block)?))).transpose()
}

/// The key of the bucket of a document.
pub(super) fn find(records: &dyn Records, id: &[u8]) -> Result<Option<Vec<u8>>> {
    if let Some(bucket) = records.get(Area::Own, &entry_key(id))? {
        return Ok(Some(bucket));
    }
    let Some((_, block)) = block_of(records, id)? else { return Ok(None) };
    block.find(id)
}

/// Adds documents that have no entries.
pub(super) fn add(records: &mut dyn RecordsMut, entries: &Entries) -> Result<()> {
    let last = {
        let mut blocks = records.scan(Area::Own, &all_of(BLOCK, true))?;
        blocks.next()?.map(|(key, block)| Ok((key.to_vec(), Block::read(block)?))).transpose()?
    };
    let (mut key, mut block) = last.unwrap_or_default();
    // The keys in the last block, if it has to be written again as a whole.
    let mut sorted: Option<Entries> = None;
    let mut changed = false;
    for (id, bucket) in entries {
        if !key.is_empty() && id.as_slice() < key.get(1..).unwrap_or(&[]) {
            records.put(Area::Own, &entry_key(id), bucket.clone())?;
            continue;
        }
        if sorted.as_ref().map_or(block.count, Entries::len) >= ENTRIES_MAX {
            let full = match sorted.take() {
                Some(sorted) => sorted,
                None => block.sorted()?,
            };
            let above = full.last_key_value().is_none_or(|(last, _)| id > last);
            if !above {
                records.put(Area::Own, &entry_key(id), bucket.clone())?;
                sorted = Some(full);
                continue;
            }
            if changed || block.tail_count > 0 {
                records.put(Area::Own, &key, Block::of(&full).write())?;
            }
            (key, block) = (Vec::new(), Block::default());
        }
        if key.is_empty() {
            key = block_key(id);
        }
        changed = true;
        match &mut sorted {
            Some(sorted) => {
                sorted.insert(id.clone(), bucket.clone());
            }
            None if block.tail_count < TAIL_MAX && entries.len() <= TAIL_MAX => {
                block.append(id, bucket);
            }
            None => {
                let mut all = block.sorted()?;
                all.insert(id.clone(), bucket.clone());
                sorted = Some(all);
            }
        }
    }
    if changed {
        let block = match sorted {
            Some(sorted) => Block::of(&sorted),
            None => block,
        };
        records.put(Area::Own, &key, block.write())?;
    }
    Ok(())
}

/// Changes the buckets of documents that have entries; `None` removes the entry.
pub(super) fn change(
    records: &mut dyn RecordsMut,
    entries: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
) -> Result<()> {
    let mut open: Option<(Vec<u8>, Entries)> = None;
    let mut following: Option<Vec<u8>> = None;
    for (id, bucket) in entries {
        let entry = entry_key(id);
        if records.get(Area::Own, &entry)?.is_some() {
            match bucket {
                Some(bucket) => records.put(Area::Own, &entry, bucket.clone())?,
                None => records.delete(Area::Own, &entry)?,
            }
            continue;
        }
        let key = block_key(id);
        if open.is_none() || following.as_ref().is_some_and(|following| key >= *following) {
            close(records, open.take())?;
            let Some((first, block)) = block_of(records, id)? else { return Err(damaged()) };
            let behind = Span { from: [&first[..], &[0]].concat(), ..all_of(BLOCK, false) };
            let next = records.scan(Area::Own, &behind)?.next()?.map(|(key, _)| key.to_vec());
            following = next;
            open = Some((first, block.sorted()?));
        }
        let Some((_, known)) = &mut open else { return Err(damaged()) };
        let had = match bucket {
            Some(bucket) => known.insert(id.clone(), bucket.clone()),
            None => known.remove(id),
        };
        if had.is_none() {
            return Err(damaged());
        }
    }
    close(records, open)
}

fn close(records: &mut dyn RecordsMut, open: Option<(Vec<u8>, Entries)>) -> Result<()> {
    match open {
        None => Ok(()),
        Some((key, entries)) if entries.is_empty() => records.delete(Area::Own, &key),
        Some((key, entries)) => records.put(Area::Own, &key, Block::of(&entries).write()),
    }
}

/// Many entries.
#[derive(Default)]
struct Block {
    /// All entries.
    count: usize,
    /// Sorted entries.
    columns: Vec<u8>,
    /// Entries that came since.
    tail: Vec<u8>,
    tail_count: usize,
}

impl Block {
    fn read(bytes: &[u8]) -> Result<Block> {
        let mut reader = Reader(bytes);
        let (count, tail_count) = (reader.length()?, reader.length()?);
        let columns = reader.sized()?.to_vec();
        Ok(Block { count, columns, tail: reader.0.to_vec(), tail_count })
    }

    fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.columns.len() + self.tail.len());
        bytes::number(&mut out, self.count as u64);
        bytes::number(&mut out, self.tail_count as u64);
        bytes::sized(&mut out, &self.columns);
        out.extend_from_slice(&self.tail);
        out
    }

    fn append(&mut self, id: &[u8], bucket: &[u8]) {
        bytes::sized(&mut self.tail, id);
        bytes::sized(&mut self.tail, bucket);
        self.count += 1;
        self.tail_count += 1;
    }

    /// The bucket of a document.
    fn find(&self, id: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut reader = Reader(&self.tail);
        for _ in 0..self.tail_count {
            let (known, bucket) = (reader.sized()?, reader.sized()?);
            if known == id {
                return Ok(Some(bucket.to_vec()));
            }
        }
        match self.columns.is_empty() {
            true => Ok(None),
            false => find_in_columns(&self.columns, id),
        }
    }

    fn sorted(&self) -> Result<Entries> {
        let mut entries = Entries::new();
        if !self.columns.is_empty() {
            read_columns(&self.columns, &mut entries)?;
        }
        let mut reader = Reader(&self.tail);
        for _ in 0..self.tail_count {
            let id = reader.sized()?.to_vec();
            entries.insert(id, reader.sized()?.to_vec());
        }
        if entries.len() != self.count {
            return Err(damaged());
        }
        Ok(entries)
    }

    fn of(entries: &Entries) -> Block {
        let mut columns = Vec::new();
        if !entries.is_empty() {
            write_columns(&mut columns, entries);
        }
        Block { count: entries.len(), columns, tail: Vec::new(), tail_count: 0 }
    }
}

/// A number of so many bytes.
fn number_of(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn write_columns(out: &mut Vec<u8>, entries: &Entries) {
    bytes::number(out, entries.len() as u64);
    let (Some((first, _)), Some((last, _))) = (entries.first_key_value(), entries.last_key_value())
    else {
        return;
    };
    // Keys in order: what the first and the last begin with, all begin with.
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let same_length = entries.keys().all(|id| id.len() == first.len());
    if same_length && first.len() - shared <= NUMBER_BYTES {
        out.push(1);
        bytes::number(out, first.len() as u64);
        bytes::sized(out, first.get(..shared).unwrap_or(&[]));
        let mut before = 0_u128;
        let mut steps: Vec<(u128, u64)> = Vec::new();
        for id in entries.keys() {
            let number = number_of(id.get(shared..).unwrap_or(&[]));
            let step = number.wrapping_sub(before);
            before = number;
            match steps.last_mut() {
                Some((known, times)) if *known == step => *times += 1,
                _ => steps.push((step, 1)),
            }
        }
        // In two halves, since the upper one is nearly always zero.
        bytes::number(out, steps.len() as u64);
        bytes::list(out, &steps.iter().map(|step| (step.0 >> 64) as i64).collect::<Vec<_>>());
        bytes::list(out, &steps.iter().map(|step| step.0 as i64).collect::<Vec<_>>());
        bytes::list(out, &steps.iter().map(|step| step.1 as i64).collect::<Vec<_>>());
    } else {
        out.push(0);
        let mut before: &[u8] = &[];
        for id in entries.keys() {
            let same = id.iter().zip(before).take_while(|(a, b)| a == b).count();
            bytes::number(out, same as u64);
            bytes::sized(out, id.get(same..).unwrap_or(&[]));
            before = id;
        }
    }
    let mut numbers: HashMap<&[u8], usize> = HashMap::new();
    let mut buckets: Vec<&[u8]> = Vec::new();
    let mut which = Vec::with_capacity(entries.len());
    for bucket in entries.values() {
        let next = buckets.len();
        which.push(*numbers.entry(bucket).or_insert_with(|| {
            buckets.push(bucket);
            next
        }));
    }
    bytes::number(out, buckets.len() as u64);
    for bucket in &buckets {
        bytes::sized(out, bucket);
    }
    // Sensors report in turns: the bucket that followed this one last time is expected again. What
    // is written is how often that is so, and then the bucket that followed.
    let mut expected: Vec<Option<usize>> = vec![None; buckets.len()];
    let (mut current, mut right) = (None::<usize>, 0_i64);
    let (mut runs, mut others) = (Vec::new(), Vec::new());
    for bucket in which {
        let guess = current.map_or(Some(0), |at: usize| expected.get(at).copied().flatten());
        if guess == Some(bucket) {
            right += 1;
        } else {
            runs.push(right);
            others.push(bucket as i64);
            right = 0;
        }
        if let Some(slot) = current.and_then(|at| expected.get_mut(at)) {
            *slot = Some(bucket);
        }
        current = Some(bucket);
    }
    bytes::number(out, runs.len() as u64);
    bytes::list(out, &runs);
    bytes::list(out, &others);
}

fn read_columns(bytes: &[u8], entries: &mut Entries) -> Result<()> {
    let mut reader = Reader(bytes);
    let count = reader.length()?;
    let mut ids: Vec<Vec<u8>> = Vec::with_capacity(count.min(1 << 14));
    if reader.byte()? == 1 {
        let length = reader.length()?;
        let shared = reader.sized()?;
        let rest = length.checked_sub(shared.len()).filter(|rest| *rest <= NUMBER_BYTES);
        let rest = rest.ok_or_else(damaged)?;
        let steps = reader.length()?;
        let high = bytes::read_list(&mut reader, steps)?;
        let low = bytes::read_list(&mut reader, steps)?;
        let times = bytes::read_list(&mut reader, steps)?;
        let mut number = 0_u128;
        for ((high, low), times) in high.iter().zip(&low).zip(&times) {
            let step = u128::from(*high as u64) << 64 | u128::from(*low as u64);
            if *times < 0 || *times as u64 > (count - ids.len()) as u64 {
                return Err(damaged());
            }
            for _ in 0..*times {
                number = number.wrapping_add(step);
                let mut id = Vec::with_capacity(length);
                id.extend_from_slice(shared);
                id.extend_from_slice(number.to_be_bytes().get(16 - rest..).unwrap_or(&[]));
                ids.push(id);
            }
        }
    } else {
        for _ in 0..count {
            let same = reader.length()?;
            let before = ids.last().map_or(&[][..], Vec::as_slice);
            let mut id = before.get(..same).ok_or_else(damaged)?.to_vec();
            id.extend_from_slice(reader.sized()?);
            ids.push(id);
        }
    }
    let mut buckets = Vec::new();
    for _ in 0..reader.length()? {
        buckets.push(reader.sized()?);
    }
    let mut turns = Turns::read(&mut reader, buckets.len())?;
    for id in ids {
        let bucket = turns.next()?;
        entries.insert(id, buckets.get(bucket).ok_or_else(damaged)?.to_vec());
    }
    Ok(())
}

/// The buckets of entries, one after the other, as numbers.
struct Turns {
    /// How often the guess is right, and then the bucket that follows instead.
    misses: std::vec::IntoIter<(i64, i64)>,
    miss: Option<(i64, i64)>,
    expected: Vec<Option<usize>>,
    current: Option<usize>,
}

impl Turns {
    fn read(reader: &mut Reader<'_>, buckets: usize) -> Result<Turns> {
        let misses = reader.length()?;
        let runs = bytes::read_list(reader, misses)?;
        let others = bytes::read_list(reader, misses)?;
        let mut misses = runs.into_iter().zip(others).collect::<Vec<_>>().into_iter();
        let miss = misses.next();
        Ok(Turns { misses, miss, expected: vec![None; buckets], current: None })
    }

    fn next(&mut self) -> Result<usize> {
        let guess = match self.current {
            Some(at) => self.expected.get(at).copied().flatten(),
            None => Some(0),
        };
        let bucket = match &mut self.miss {
            Some((0, other)) => {
                let other = usize::try_from(*other).map_err(|_| damaged())?;
                self.miss = self.misses.next();
                other
            }
            rest => {
                if let Some((left, _)) = rest {
                    *left -= 1;
                }
                guess.ok_or_else(damaged)?
            }
        };
        if let Some(slot) = self.current.and_then(|at| self.expected.get_mut(at)) {
            *slot = Some(bucket);
        }
        self.current = Some(bucket);
        Ok(bucket)
    }
}

/// The bucket of one record key.
fn find_in_columns(bytes: &[u8], id: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut reader = Reader(bytes);
    let count = reader.length()?;
    let mut position = None;
    if reader.byte()? == 1 {
        let length = reader.length()?;
        let shared = reader.sized()?;
        let steps = reader.length()?;
        let high = bytes::read_list(&mut reader, steps)?;
        let low = bytes::read_list(&mut reader, steps)?;
        let times = bytes::read_list(&mut reader, steps)?;
        let rest =
            id.strip_prefix(shared).filter(|rest| id.len() == length && rest.len() <= NUMBER_BYTES);
        if let Some(wanted) = rest.map(number_of) {
            let (mut number, mut at) = (0_u128, 0_usize);
            for ((high, low), times) in high.iter().zip(&low).zip(&times) {
                let step = u128::from(*high as u64) << 64 | u128::from(*low as u64);
                let times = usize::try_from(*times).map_err(|_| damaged())?;
                let ahead = wanted.wrapping_sub(number);
                // The first key of a block may be the number zero: a step of zero, once.
                let behind = match step {
                    0 => (ahead == 0 && times > 0).then_some(1),
                    step if ahead % step == 0 => {
                        Some(ahead / step).filter(|behind| (1..=times as u128).contains(behind))
                    }
                    _ => None,
                };
                if let Some(behind) = behind {
                    position = Some(at + behind as usize - 1);
                    break;
                }
                number = number.wrapping_add(step.wrapping_mul(times as u128));
                at += times;
            }
        }
    } else {
        let mut current: Vec<u8> = Vec::new();
        for at in 0..count {
            current.truncate(reader.length()?);
            current.extend_from_slice(reader.sized()?);
            if current == id {
                position = Some(at);
            }
        }
    }
    let Some(position) = position else { return Ok(None) };
    let mut buckets = Vec::new();
    for _ in 0..reader.length()? {
        buckets.push(reader.sized()?);
    }
    let mut turns = Turns::read(&mut reader, buckets.len())?;
    for _ in 0..position {
        turns.next()?;
    }
    buckets.get(turns.next()?).map(|bucket| bucket.to_vec()).ok_or_else(damaged).map(Some)
}

/// Opens the entries of a range of record keys, in their order.
pub(super) fn scan(records: &dyn Records, span: &Span) -> Result<Box<dyn RecordCursor>> {
    let first = match block_of(records, &span.from)? {
        Some((key, _)) => key,
        None => block_key(&span.from),
    };
    let end = |first: u8| match &span.to {
        Some(to) => [&[first], to.as_slice()].concat(),
        None => vec![first + 1],
    };
    let backward = span.backward;
    let blocks = Span { from: first, to: Some(end(BLOCK)), backward };
    let single = Span { from: entry_key(&span.from), to: Some(end(ENTRY)), backward };
    let blocks = InBlocks {
        blocks: records.scan(Area::Own, &blocks)?,
        span: span.clone(),
        left: Vec::new(),
        lent: (Vec::new(), Vec::new()),
    };
    let single = Single(records.scan(Area::Own, &single)?);
    Ok(merged(Box::new(blocks), Box::new(single), backward))
}

/// The entries that have records of their own.
struct Single(Box<dyn RecordCursor>);

impl RecordCursor for Single {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.0.next()?.map(|(key, bucket)| (key.get(1..).unwrap_or(&[]), bucket)))
    }
}

/// The entries in blocks.
struct InBlocks {
    blocks: Box<dyn RecordCursor>,
    span: Span,
    /// The next one is the last.
    left: Vec<(Vec<u8>, Vec<u8>)>,
    lent: (Vec<u8>, Vec<u8>),
}

impl RecordCursor for InBlocks {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            if let Some(entry) = self.left.pop() {
                self.lent = entry;
                return Ok(Some((&self.lent.0, &self.lent.1)));
            }
            let Some((_, block)) = self.blocks.next()? else { return Ok(None) };
            let entries = Block::read(block)?.sorted()?;
            self.left = entries.into_iter().filter(|(id, _)| self.span.has(id)).collect();
            if !self.span.backward {
                self.left.reverse();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(entries: &Entries) {
        let mut block = Block::of(entries);
        let back = Block::read(&block.write()).expect("whole");
        assert_eq!(back.sorted().expect("whole"), *entries);
        for (id, bucket) in entries {
            assert_eq!(back.find(id).expect("whole").as_ref(), Some(bucket), "{id:?}");
        }
        assert_eq!(back.find(b"nowhere").expect("whole"), None);
        block.append(b"later", b"bucket");
        assert_eq!(block.find(b"later").expect("whole").as_deref(), Some(&b"bucket"[..]));
    }

    proptest! {
        #[test]
        fn entries_come_back(
            ids in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 0..20), 0..40),
            buckets in prop::collection::vec(0..5_u8, 40),
        ) {
            check(&ids.into_iter().zip(buckets.iter().map(|b| vec![*b; 3])).collect());
        }

        #[test]
        fn entries_of_one_length_come_back(
            ids in prop::collection::btree_set(any::<[u8; 3]>(), 0..60),
            buckets in prop::collection::vec(0..5_u8, 60),
        ) {
            let ids = ids.into_iter().map(|id| [&[7; 9][..], &id].concat());
            check(&ids.zip(buckets.iter().map(|b| vec![*b; 3])).collect());
        }

        #[test]
        fn damaged_blocks_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(block) = Block::read(&bytes) {
                let _ = block.sorted();
                let _ = block.find(b"some");
            }
        }
    }

    #[test]
    fn ids_of_sensors_in_turns_take_few_bytes() {
        let id = |n: u32| [&[7, 1, 2, 3, 4, 5, 6, 7, 8], n.to_be_bytes().as_slice()].concat();
        let bucket = |n: u32| vec![b'B'; 20].into_iter().chain([(n % 50) as u8]).collect();
        let entries: Entries = (0..1000).map(|n| (id(n), bucket(n))).collect();
        let bytes = Block::of(&entries).write().len();
        assert!(bytes < 50 * 22 + 200, "{bytes}");
    }
}
