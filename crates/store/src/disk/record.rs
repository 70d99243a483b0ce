//! The log format: a segment header, then records.
//!
//! A record is a 48-byte header and a payload, padded to 8 bytes. The header repeats the salt of
//! its segment and its own offset, so that old bytes of a recycled segment are never taken for
//! records. It also says how far the segment was known to be on disk when the record was made, so
//! that damage before that offset can be distinguished from a tail that never reached the disk.

use byteview::ByteView;

use super::patch::{self, Base, Bases};
use crate::{Batch, Bytes, MAX_BATCH_BYTES, Operation, Seqno, Space};

/// Bytes before the first record of a segment.
pub(super) const SEGMENT_HEADER: usize = 64;
/// Bytes before the payload of a record.
pub(super) const RECORD_HEADER: usize = 48;
/// Records begin at multiples of this.
const ALIGN: usize = 8;
/// Smaller payloads are not compressed.
const PACKED_BYTES_MIN: usize = 32 << 10;
const MAGIC: [u8; 8] = *b"MOTIFLOG";
const VERSION: u32 = 1;

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A batch of changes.
    Batch = 1,
    /// A key range that is dropped.
    DeleteRange = 2,
    /// A batch of changes, compressed; see [`pack`].
    PackedBatch = 3,
}

/// The first bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) generation: u64,
    /// A random number that every record of the segment repeats.
    pub(super) salt: u64,
    /// The end of the records of the previous segment; 0 if there was none.
    pub(super) previous_end: u64,
}

/// The result of reading the header of a segment file.
pub(super) enum HeaderState {
    Valid(SegmentHeader),
    /// Never written.
    Blank,
    Invalid,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.previous_end.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(file: &[u8]) -> HeaderState {
        let Some(bytes) = file.get(..SEGMENT_HEADER) else { return HeaderState::Invalid };
        if bytes.iter().all(|byte| *byte == 0) {
            return HeaderState::Blank;
        }
        if bytes[..8] != MAGIC
            || u32_at(bytes, 8) != VERSION
            || u32_at(bytes, 60) != crc32c::crc32c(&bytes[..60])
        {
            return HeaderState::Invalid;
        }
        HeaderState::Valid(SegmentHeader {
            generation: u64_at(bytes, 16),
            salt: u64_at(bytes, 24),
            previous_end: u64_at(bytes, 32),
        })
    }
}

/// Bytes that a record with this payload takes in the log.
pub(super) fn record_bytes(payload: usize) -> u64 {
    (RECORD_HEADER + payload).next_multiple_of(ALIGN) as u64
}

/// Appends a record to `buffer`.
pub(super) fn encode_record(
    buffer: &mut Vec<u8>,
    payload: &Payload<'_>,
    salt: u64,
    offset: u64,
    synced: u64,
    seqno: Seqno,
) {
    let start = buffer.len();
    let mut header = [0; RECORD_HEADER];
    header[4..8].copy_from_slice(&payload.crc.to_le_bytes());
    header[8..12].copy_from_slice(&(payload.bytes.len() as u32).to_le_bytes());
    header[12..16].copy_from_slice(&(payload.kind as u32).to_le_bytes());
    header[16..24].copy_from_slice(&salt.to_le_bytes());
    header[24..32].copy_from_slice(&offset.to_le_bytes());
    header[32..40].copy_from_slice(&synced.to_le_bytes());
    header[40..48].copy_from_slice(&seqno.to_le_bytes());
    let crc = crc32c::crc32c(&header[4..]);
    header[..4].copy_from_slice(&crc.to_le_bytes());
    buffer.extend_from_slice(&header);
    buffer.extend_from_slice(payload.bytes);
    buffer.resize(start + record_bytes(payload.bytes.len()) as usize, 0);
}

/// A payload with its checksum, which is computed before the commit lock is taken.
pub(super) struct Payload<'a> {
    kind: Kind,
    bytes: &'a [u8],
    crc: u32,
}

impl<'a> Payload<'a> {
    pub(super) fn new(kind: Kind, bytes: &'a [u8]) -> Payload<'a> {
        Payload { kind, bytes, crc: crc32c::crc32c(bytes) }
    }

    pub(super) fn record_bytes(&self) -> u64 {
        record_bytes(self.bytes.len())
    }
}

/// A decoded record.
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    pub(super) seqno: Seqno,
    pub(super) synced: u64,
    pub(super) payload: &'a [u8],
    /// Where the next record begins.
    pub(super) end: u64,
}

/// Returns the record at `offset`; `None` if no valid record of this segment begins there.
pub(super) fn decode_record(file: &[u8], offset: u64, salt: u64) -> Option<Record<'_>> {
    let start = usize::try_from(offset).ok()?;
    let header = file.get(start..start.checked_add(RECORD_HEADER)?)?;
    if u64_at(header, 16) != salt
        || u64_at(header, 24) != offset
        || u32_at(header, 0) != crc32c::crc32c(&header[4..])
    {
        return None;
    }
    let length = u32_at(header, 8) as usize;
    let body = start + RECORD_HEADER;
    let payload = file.get(body..body.checked_add(length)?)?;
    if u32_at(header, 4) != crc32c::crc32c(payload) {
        return None;
    }
    let kind = match u32_at(header, 12) {
        1 => Kind::Batch,
        2 => Kind::DeleteRange,
        3 => Kind::PackedBatch,
        _ => return None,
    };
    Some(Record {
        kind,
        seqno: u64_at(header, 40),
        synced: u64_at(header, 32),
        payload,
        end: offset + record_bytes(length),
    })
}

/// Whether a valid record after `offset` says that the bytes at `offset` were on disk.
pub(super) fn was_synced(file: &[u8], offset: u64, salt: u64) -> bool {
    let mut at = offset + ALIGN as u64;
    while at + (RECORD_HEADER as u64) <= file.len() as u64 {
        match decode_record(file, at, salt) {
            Some(record) if record.synced > offset => return true,
            Some(record) => at = record.end,
            None => at += ALIGN as u64,
        }
    }
    false
}

/// Returns the offset of the next valid record behind `offset`.
pub(super) fn next_record(file: &[u8], offset: u64, salt: u64) -> Option<u64> {
    let mut at = offset + ALIGN as u64;
    while at + (RECORD_HEADER as u64) <= file.len() as u64 {
        if decode_record(file, at, salt).is_some() {
            return Some(at);
        }
        at += ALIGN as u64;
    }
    None
}

/// Returns the salt that the record at `offset` repeats, if its header is whole.
pub(super) fn record_salt(file: &[u8], offset: u64) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let header = file.get(start..start.checked_add(RECORD_HEADER)?)?;
    let is_whole =
        u64_at(header, 24) == offset && u32_at(header, 0) == crc32c::crc32c(&header[4..]);
    is_whole.then(|| u64_at(header, 16))
}

/// Whether the bytes at `offset` have the marks of a record of this segment, whole or not.
pub(super) fn was_begun(file: &[u8], offset: u64, salt: u64) -> bool {
    let header = file.get(offset as usize..).and_then(|rest| rest.get(..RECORD_HEADER));
    header.is_some_and(|header| u64_at(header, 16) == salt && u64_at(header, 24) == offset)
}

/// Returns where the record at `offset` ends, if its header is whole. The file may be shorter.
pub(super) fn record_span(file: &[u8], offset: u64, salt: u64) -> Option<u64> {
    (record_salt(file, offset)? == salt).then_some(())?;
    let length = file.get(offset as usize + 8..)?;
    Some(offset + record_bytes(u32_at(length, 0) as usize))
}

/// Flags: an operation sets a value; the value is a part of another one; it is a patch of the version
/// before it.
const HAS_VALUE: u8 = 0x80;
const IS_PART: u8 = 0x40;
const IS_PATCH: u8 = 0x20;
const SPACE: u8 = 0x1F;
/// Shorter values are not checked for being parts of others.
const PART_BYTES_MIN: usize = 64;

/// Encodes the operations of a batch as a payload. Those of [`Space::Log`] come first: a value
/// inside one of theirs, in the same memory, is written as a reference to it. A value that has a
/// base is written as a patch, if that is much shorter.
pub(super) fn encode_batch(buffer: &mut Vec<u8>, batch: &Batch, bases: &Bases) {
    if bases.is_empty() {
        buffer.reserve(batch.bytes() + batch.len() * 9);
    }
    let mut wholes: Vec<&[u8]> = Vec::new();
    for operation in batch.operations().iter().filter(|operation| operation.space == Space::Log) {
        wholes.extend(operation.value.as_deref());
        encode_operation(buffer, operation, None, None);
    }
    // Parts are usually in order, so the value that had the last part is tried first.
    let mut last = 0;
    let others = batch.operations().iter().enumerate();
    for (number, operation) in others.filter(|(_, operation)| operation.space != Space::Log) {
        let value = operation.value.as_deref().filter(|value| value.len() >= PART_BYTES_MIN);
        let part = value.and_then(|value| {
            let within = |at: usize| Some((at, offset_in(wholes.get(at)?, value)?));
            within(last).or_else(|| (0..wholes.len()).find_map(within))
        });
        last = part.map_or(last, |(at, _)| at);
        encode_operation(buffer, operation, part, bases.of(number));
    }
}

/// Returns the offset of a value in `whole`, if it shares its memory.
fn offset_in(whole: &[u8], value: &[u8]) -> Option<usize> {
    let (whole, value) = (whole.as_ptr_range(), value.as_ptr_range());
    (whole.start <= value.start && value.end <= whole.end)
        .then(|| value.start.addr() - whole.start.addr())
}

fn encode_operation(
    buffer: &mut Vec<u8>,
    operation: &Operation,
    part: Option<(usize, usize)>,
    base: Option<&Base>,
) {
    let start = buffer.len();
    let value = if operation.value.is_some() { HAS_VALUE } else { 0 };
    buffer.push(operation.space as u8 | value | if part.is_some() { IS_PART } else { 0 });
    buffer.extend_from_slice(&(operation.key.len() as u16).to_le_bytes());
    buffer.extend_from_slice(&operation.key);
    let Some(value) = &operation.value else { return };
    buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
    match part {
        Some((whole, offset)) => {
            buffer.extend_from_slice(&(whole as u32).to_le_bytes());
            buffer.extend_from_slice(&(offset as u32).to_le_bytes());
        }
        None => {
            if !base.is_some_and(|base| encode_patch(buffer, value, base)) {
                buffer.extend_from_slice(value);
            } else if let Some(tag) = buffer.get_mut(start) {
                *tag |= IS_PATCH;
            }
        }
    }
}

/// Appends the seqno of the base, the length of the patch and the patch; nothing, and returns
/// false, if it is not worthwhile.
fn encode_patch(buffer: &mut Vec<u8>, value: &[u8], base: &Base) -> bool {
    let start = buffer.len();
    buffer.extend_from_slice(&base.seqno.to_le_bytes());
    let length_at = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    if !patch::encode(buffer, &base.value, value) {
        buffer.truncate(start);
        return false;
    }
    let length = (buffer.len() - length_at - 4) as u32;
    if let Some(room) = buffer.get_mut(length_at..length_at + 4) {
        room.copy_from_slice(&length.to_le_bytes());
    }
    true
}

/// Compresses the payload of a large batch: its length in four bytes, then LZ4. Returns false if it
/// is small or does not shrink by an eighth. Bulk loads write half as much to the log this way; a
/// small batch would be delayed, and its flush takes the same time anyway.
pub(super) fn pack(payload: &[u8], packed: &mut Vec<u8>) -> bool {
    if payload.len() < PACKED_BYTES_MIN {
        return false;
    }
    packed.clear();
    packed.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    packed.resize(4 + lz4_flex::block::get_maximum_output_size(payload.len()), 0);
    let Ok(length) = lz4_flex::block::compress_into(payload, &mut packed[4..]) else {
        return false;
    };
    packed.truncate(4 + length);
    packed.len() < payload.len() / 8 * 7
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = packed.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    // A batch has a limit, but its encoding is longer than its content.
    if length > MAX_BATCH_BYTES.saturating_mul(4) {
        return None;
    }
    let payload = lz4_flex::block::decompress(rest, length).ok()?;
    (payload.len() == length).then_some(payload)
}

/// Decodes the operations of a batch, packed or not, one by one; `None` if the payload is invalid.
/// `base` returns the version of a key that a patch needs; operations whose base it does not return
/// are left out.
pub(super) fn decode_batch(
    kind: Kind,
    payload: &[u8],
    mut base: impl FnMut(Space, &[u8], Seqno) -> Option<Bytes>,
    mut each: impl FnMut(Operation),
) -> Option<()> {
    let unpacked;
    let payload = match kind {
        Kind::PackedBatch => {
            unpacked = unpack(payload)?;
            &unpacked
        }
        _ => payload,
    };
    let mut wholes: Vec<ByteView> = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let tag = take(&mut rest, 1)?[0];
        let space = Space::from_number(tag & SPACE)?;
        let length = u16::from_le_bytes(take(&mut rest, 2)?.try_into().ok()?);
        let key = Bytes::copy_from(take(&mut rest, usize::from(length))?);
        let value = match tag & (HAS_VALUE | IS_PART | IS_PATCH) {
            0 => None,
            HAS_VALUE => {
                let length = u32_at(take(&mut rest, 4)?, 0) as usize;
                let value = ByteView::new(take(&mut rest, length)?);
                if space == Space::Log {
                    wholes.push(value.clone());
                }
                Some(Bytes::part_of(&value, 0, length))
            }
            tags if tags == HAS_VALUE | IS_PART => {
                let numbers = take(&mut rest, 12)?;
                let [length, whole, offset] = [0, 4, 8].map(|at| u32_at(numbers, at) as usize);
                let whole = wholes.get(whole)?;
                let end = offset.checked_add(length).filter(|end| *end <= whole.len())?;
                Some(Bytes::part_of(whole, offset, end))
            }
            tags if tags == HAS_VALUE | IS_PATCH => {
                let numbers = take(&mut rest, 16)?;
                let length = u32_at(numbers, 0) as usize;
                let patch = take(&mut rest, u32_at(numbers, 12) as usize)?;
                let Some(base) = base(space, &key, u64_at(numbers, 4)) else { continue };
                Some(patch::apply(&base, patch, length)?.into())
            }
            _ => return None,
        };
        each(Operation { space, key, value });
    }
    Some(())
}

/// Encodes a key range as a payload, or as an element of a list of ranges.
pub(super) fn encode_range(buffer: &mut Vec<u8>, space: Space, from: &[u8], to: &[u8]) {
    buffer.push(space as u8);
    for key in [from, to] {
        buffer.extend_from_slice(&(key.len() as u32).to_le_bytes());
        buffer.extend_from_slice(key);
    }
}

/// Decodes one key range from the start of `rest`.
pub(super) fn decode_range(rest: &mut &[u8]) -> Option<(Space, Bytes, Bytes)> {
    let space = Space::from_number(take(rest, 1)?[0])?;
    let mut key = || {
        let length = u32_at(take(rest, 4)?, 0) as usize;
        Some(Bytes::copy_from(take(rest, length)?))
    };
    Some((space, key()?, key()?))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// The number at `at`. Callers have checked the length.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The number at `at`. Callers have checked the length.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut batch = Batch::new();
        batch.put(Space::Documents, b"key", b"value");
        batch.delete(Space::Indexes, b"gone");
        let mut payload = Vec::new();
        encode_batch(&mut payload, &batch, &Bases::default());
        let mut file = SegmentHeader { generation: 7, salt: 99, previous_end: 0 }.encode().to_vec();
        encode_record(&mut file, &Payload::new(Kind::Batch, &payload), 99, 64, 64, 5);
        file
    }

    #[test]
    fn records_are_read_back_as_written() {
        let file = sample();
        let record = decode_record(&file, 64, 99).unwrap();
        assert_eq!((record.seqno, record.synced, record.kind), (5, 64, Kind::Batch));
        assert_eq!(record.end as usize, file.len());
        let mut seen = Vec::new();
        decode_batch(record.kind, record.payload, |_, _, _| None, |operation| seen.push(operation))
            .unwrap();
        assert_eq!(seen.len(), 2);
        assert_eq!(&*seen[0].key, b"key");
        assert_eq!(seen[1].value, None);
    }

    #[test]
    fn large_batches_are_packed() {
        let mut batch = Batch::new();
        for number in 0..2000_u32 {
            batch.put(Space::Documents, &number.to_be_bytes(), &number.to_le_bytes().repeat(25));
        }
        let (mut payload, mut packed) = (Vec::new(), Vec::new());
        encode_batch(&mut payload, &batch, &Bases::default());
        assert!(pack(&payload, &mut packed));
        assert!(packed.len() < payload.len() / 2);
        let mut seen = Vec::new();
        decode_batch(Kind::PackedBatch, &packed, |_, _, _| None, |operation| seen.push(operation))
            .unwrap();
        assert_eq!(seen, batch.operations());
        // Damage that the checksum would find is no reason to panic either.
        for at in 0..packed.len().min(200) {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x81;
            let _ = decode_batch(Kind::PackedBatch, &damaged, |_, _, _| None, drop);
        }
        let noise: Vec<u8> = (0..PACKED_BYTES_MIN as u64 / 8)
            .flat_map(|n| (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).to_le_bytes())
            .collect();
        assert!(!pack(&noise, &mut packed));
        assert!(!pack(&payload[..PACKED_BYTES_MIN - 1], &mut packed));
    }

    #[test]
    fn what_shares_memory_is_written_once_and_shared_again() {
        let text: Vec<u8> = (0..=255).cycle().take(2000).collect();
        let (whole, parts) = Bytes::copy_with_parts(&text, [100..400, 500..1900].into_iter());
        let parts: Vec<Bytes> = parts.collect();
        let mut batch = Batch::new();
        let key = |number: u8| Bytes::copy_from(&[number]);
        batch.put_owned(Space::Documents, key(1), Bytes::copy_from(&parts[0]));
        batch.put_owned(Space::Documents, key(2), Bytes::copy_from(&parts[1]));
        batch.put_owned(Space::Documents, key(3), Bytes::copy_from(&parts[1]));
        batch.put_owned(Space::Documents, key(4), Bytes::copy_from(&text));
        batch.delete_owned(Space::Documents, key(5));
        batch.put(Space::Log, b"old", &[9; 100]);
        batch.delete(Space::Log, b"old");
        batch.put_owned(Space::Log, key(7), whole);
        batch.put_owned(Space::Log, key(8), Bytes::copy_from(&text));
        let keys = [2, 1, 4, 5, 6].map(key);
        let values = [1, 0, 0, 0, 0].map(|at: usize| parts[at].clone());
        batch.share(Space::Documents, keys.into_iter().zip(values).collect());
        let mut payload = Vec::new();
        encode_batch(&mut payload, &batch, &Bases::default());
        // The log has two documents; the third and the fourth are not shared.
        assert!(payload.len() < 2 * 2000 + 1400 + 2000 + 300, "{}", payload.len());
        let mut seen = Vec::new();
        decode_batch(Kind::Batch, &payload, |_, _, _| None, |operation| seen.push(operation))
            .unwrap();
        seen.sort_by_key(|operation| operation.space);
        assert_eq!(seen, batch.operations());
        // Any other byte is refused or decoded, and never leads out of bounds.
        for at in 0..payload.len() {
            for flip in [0x01, 0x40, 0xFF] {
                let mut damaged = payload.clone();
                damaged[at] ^= flip;
                let _ = decode_batch(Kind::Batch, &damaged, |_, _, _| None, drop);
            }
        }
    }

    #[test]
    fn a_flipped_bit_or_another_segment_makes_a_record_invalid() {
        let file = sample();
        assert!(decode_record(&file, 64, 98).is_none());
        assert!(decode_record(&file, 72, 99).is_none());
        // The padding after the payload is not covered; everything else is.
        let padding = file.len() - 4;
        for at in 64..padding {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(decode_record(&damaged, 64, 99).is_none(), "byte {at}");
        }
        for at in 0..64 {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(!matches!(SegmentHeader::decode(&damaged), HeaderState::Valid(_)), "{at}");
        }
    }
}
