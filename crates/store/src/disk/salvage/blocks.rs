//! Blocks of a table file: finding them without the file's index, and reading their entries.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lsm_tree::coding::Decode;
use lsm_tree::file::MAGIC_BYTES;
use lsm_tree::table::block::{BlockType, Header};
use lsm_tree::table::{Block, DataBlock};
use lsm_tree::{CompressionType, SeqNo, Slice};

use super::read_lossy;
use xxhash_rust::xxh3::xxh3_128;

/// How many bytes are searched at once for the next block.
const SEARCH_BYTES: usize = 1 << 20;
/// The metadata of a table is this close to the end of its file: usually, and at most. It holds two
/// keys of at most 64 KiB.
const META_BYTES: [u64; 2] = [8 << 10, 256 << 10];

/// One version of a key.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Slice,
    pub(super) seqno: SeqNo,
    /// `None` for a delete.
    pub(super) value: Option<Slice>,
}

/// What is at an offset of a table file.
pub(super) enum Found {
    /// A data block, and where it ends.
    Data(Vec<Entry>, u64),
    /// A whole block of another kind: index, filter or metadata.
    Other,
    /// The header of a data block whose content is damaged, and where it ends.
    Damaged(u64),
    /// No block.
    Nothing,
}

/// The metadata of a table that reading it needs.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    /// Where the data blocks end.
    pub(super) data_end: u64,
    pub(super) min: Slice,
    pub(super) max: Slice,
    pub(super) seqno_max: SeqNo,
    pub(super) compression: CompressionType,
}

/// Reads the block at an offset. `compression` is `None` if it is not known.
pub(super) fn block_at(file: &File, at: u64, compression: Option<CompressionType>) -> Found {
    let Some(header) = header(&read_lossy(file, at, Header::serialized_len())) else {
        return Found::Nothing;
    };
    let length = Header::serialized_len() + header.data_length as usize;
    let end = at + length as u64;
    let bytes = read_lossy(file, at, length);
    if !is_whole(&header, &bytes) {
        return if header.block_type == BlockType::Data {
            Found::Damaged(end)
        } else {
            Found::Nothing
        };
    }
    if header.block_type != BlockType::Data {
        return Found::Other;
    }
    // A block that is not smaller was hardly compressed.
    let tried: &[CompressionType] = match compression {
        Some(CompressionType::None) => &[CompressionType::None],
        Some(CompressionType::Lz4) => &[CompressionType::Lz4],
        None if header.data_length == header.uncompressed_length => {
            &[CompressionType::None, CompressionType::Lz4]
        }
        None => &[CompressionType::Lz4],
    };
    match tried.iter().find_map(|compression| entries(&bytes, *compression)) {
        Some(entries) => Found::Data(entries, end),
        None => Found::Damaged(end),
    }
}

fn header(bytes: &[u8]) -> Option<Header> {
    Header::decode_from(&mut &*bytes).ok()
}

/// Whether a block with this header has the content that was written.
fn is_whole(header: &Header, bytes: &[u8]) -> bool {
    let data = bytes.get(Header::serialized_len()..);
    data.is_some_and(|data| {
        data.len() == header.data_length as usize && xxh3_128(data) == header.checksum.into_u128()
    })
}

/// Decodes the entries of a whole data block; `None` if they make no sense.
fn entries(bytes: &[u8], compression: CompressionType) -> Option<Vec<Entry>> {
    // The tree's decoder panics on content that it has not written.
    let decode = || {
        let block = DataBlock::new(Block::from_reader(&mut &*bytes, compression).ok()?);
        let data = block.as_slice();
        let mut entries: Vec<Entry> = Vec::with_capacity(block.len());
        for item in block.iter() {
            let rest = data.get(item.key.0..item.key.1)?;
            let key = match &item.prefix {
                Some(prefix) => Slice::from([data.get(prefix.0..prefix.1)?, rest].concat()),
                None => Slice::new(rest),
            };
            let value = match &item.value {
                Some(value) => Some(Slice::new(data.get(value.0..value.1)?)),
                None => None,
            };
            entries.push(Entry { key, seqno: item.seqno, value });
        }
        let in_order = entries.is_sorted_by(|a, b| a.key <= b.key);
        (in_order && !entries.is_empty() && entries.len() == block.len()).then_some(entries)
    };
    catch_unwind(AssertUnwindSafe(decode)).ok().flatten()
}

/// Returns the offset of the next whole block from `at` on, if there is one before `end`.
pub(super) fn search(
    file: &File,
    mut at: u64,
    end: u64,
    compression: Option<CompressionType>,
) -> Option<u64> {
    while at < end {
        let length = SEARCH_BYTES.min(usize::try_from(end - at).unwrap_or(SEARCH_BYTES));
        let bytes = read_lossy(file, at, length);
        for (offset, window) in bytes.windows(MAGIC_BYTES.len()).enumerate() {
            let found = at + offset as u64;
            if window == MAGIC_BYTES
                && matches!(block_at(file, found, compression), Found::Data(..) | Found::Other)
            {
                return Some(found);
            }
        }
        if bytes.len() < length || length < SEARCH_BYTES {
            return None;
        }
        at += (length - MAGIC_BYTES.len() + 1) as u64;
    }
    None
}

/// Finds the metadata of a table near the end of its file.
pub(super) fn meta(file: &File, length: u64) -> Option<Meta> {
    META_BYTES.iter().find_map(|near| {
        let start = length.saturating_sub(*near);
        let bytes = read_lossy(file, start, usize::try_from(length - start).ok()?);
        let offsets = bytes.windows(MAGIC_BYTES.len()).enumerate();
        let offsets = offsets.filter(|(_, window)| *window == MAGIC_BYTES).map(|(at, _)| at);
        offsets.rev().find_map(|at| decode_meta(bytes.get(at..)?))
    })
}

fn decode_meta(bytes: &[u8]) -> Option<Meta> {
    let header = header(bytes)?;
    let length = Header::serialized_len() + header.data_length as usize;
    let bytes = bytes.get(..length)?;
    if header.block_type != BlockType::Meta || !is_whole(&header, bytes) {
        return None;
    }
    let all = entries(bytes, CompressionType::None)?;
    let get = |name: &str| {
        let entry = all.iter().find(|entry| *entry.key == *name.as_bytes())?;
        entry.value.clone()
    };
    let number = |name| Some(u64::from_le_bytes(*get(name)?.first_chunk::<8>()?));
    Some(Meta {
        data_end: number("file_size")?,
        min: get("key#min")?,
        max: get("key#max")?,
        seqno_max: number("seqno#max")?,
        compression: CompressionType::decode_from(&mut &*get("compression#data")?).ok()?,
    })
}
