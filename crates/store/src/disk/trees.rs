//! The LSM trees: their setup, opening, checks and sizes, and the meaning of their errors.

use std::io::Read;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::coding::Decode;
use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    HashRatioPolicy, PartitioningPolicy, PinningPolicy, RestartIntervalPolicy,
};
use lsm_tree::table::block::Header;
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, SequenceNumberCounter,
    Table, Tree, TreeId,
};
use parking_lot::Mutex;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use super::dropped::{DropFilterFactory, DroppedRanges, MergeControl};
use super::view::Newest;
use crate::{Damage, Result, Seqno, Space, StoreError};

/// The folder of the table files of a tree.
pub(super) const TABLES: &str = "tables";
/// The size of a merged table.
pub(super) const TABLE_BYTES: u64 = 64 << 20;
/// The most open table files of all trees together.
const OPEN_FILES: usize = 400;
/// The seqno of the first commit. A tree reads from its newest table list whose number is below
/// that of the commit that is read. MotifDB always needs the newest list, since `history.rs` keeps
/// older states. So table lists have separate numbers, which are reset continually and stay below
/// this.
pub(super) const FIRST_COMMIT: u64 = 64;
/// How many entries are read to measure a small range exactly.
const EXACT_ENTRIES: usize = 1_000;

/// What all trees share.
pub(super) struct TreeSetup {
    pub(super) cache: Arc<Cache>,
    pub(super) files: Arc<DescriptorTable>,
    pub(super) counter: SequenceNumberCounter,
    /// Assigns numbers to table lists; see [`FIRST_COMMIT`].
    pub(super) versions: [SequenceNumberCounter; 4],
    pub(super) dropped: Arc<DroppedRanges>,
    pub(super) control: MergeControl,
}

impl TreeSetup {
    pub(super) fn new(
        cache_bytes: u64,
        dropped: Arc<DroppedRanges>,
        control: MergeControl,
    ) -> TreeSetup {
        TreeSetup {
            cache: Arc::new(Cache::with_capacity_bytes(cache_bytes)),
            files: Arc::new(DescriptorTable::new(OPEN_FILES)),
            counter: SequenceNumberCounter::new(FIRST_COMMIT),
            versions: Space::ALL.map(|_| SequenceNumberCounter::default()),
            dropped,
            control,
        }
    }

    fn config(&self, folder: &Path, space: Space) -> Config {
        let block_size = match space {
            Space::Documents => 8 * 1024,
            Space::Catalog | Space::Indexes | Space::Log => 4 * 1024,
        };
        // Tables of documents and of the change log usually hold ascending keys: they move down
        // the levels unchanged and would keep their size. Young tables of index entries are
        // rewritten soon, and compressing them costs more than it saves.
        let young = match space {
            Space::Documents | Space::Log => CompressionType::Lz4,
            Space::Catalog | Space::Indexes => CompressionType::None,
        };
        let compression = [young, CompressionType::Lz4];
        let bloom = |policy| FilterPolicyEntry::Bloom(policy);
        let mut config =
            Config::new(folder, self.versions[space.index()].clone(), Default::default())
                .use_cache(self.cache.clone())
                .use_descriptor_table(Some(self.files.clone()))
                .data_block_size_policy(BlockSizePolicy::all(block_size))
                .data_block_restart_interval_policy(RestartIntervalPolicy::all(8))
                .data_block_hash_ratio_policy(HashRatioPolicy::all(0.0))
                .data_block_compression_policy(CompressionPolicy::new(compression))
                .filter_policy(FilterPolicy::new([
                    bloom(BloomConstructionPolicy::FalsePositiveRate(0.000_1)),
                    bloom(BloomConstructionPolicy::BitsPerKey(10.0)),
                ]))
                // The filter of a merged table with many small entries has megabytes: reading it
                // for one key would cost more than everything else. Its parts of 4 KiB are cached.
                .filter_block_partitioning_policy(PartitioningPolicy::new([false, true]))
                .index_block_pinning_policy(PinningPolicy::all(true))
                .filter_block_pinning_policy(PinningPolicy::new([true, true, false]));
        config.compaction_filter_factory = Some(Arc::new(DropFilterFactory::new(
            space,
            self.dropped.clone(),
            self.control.clone(),
            folder.join(TABLES),
        )));
        config
    }

    /// Opens the trees of all spaces in parallel, because creating each takes several flushes.
    pub(super) fn open(&self, path: &Path) -> Result<[Tree; 4]> {
        let results = std::thread::scope(|scope| {
            let threads = Space::ALL.map(|space| scope.spawn(move || self.open_one(path, space)));
            threads.map(|thread| thread.join().unwrap_or_else(|_| Err(opening_failed(path))))
        });
        let [catalog, documents, indexes, log] = results;
        Ok([catalog?, documents?, indexes?, log?])
    }

    fn open_one(&self, path: &Path, space: Space) -> Result<Tree> {
        let folder = path.join(space.name());
        let opened = catch_unwind(AssertUnwindSafe(|| self.config(&folder, space).open()));
        match opened {
            Ok(Ok(AnyTree::Standard(tree))) => Ok(tree),
            Ok(Err(lsm_tree::Error::Io(error)))
                if error.kind() != std::io::ErrorKind::UnexpectedEof
                    && error.kind() != std::io::ErrorKind::InvalidData =>
            {
                Err(StoreError::io("open", &folder, &error))
            }
            Ok(Err(error)) => Err(self.damaged_file(&folder, &format!("{error:?}"))),
            // The tree panics if a structure has a valid checksum but invalid content.
            Ok(Ok(_)) | Err(_) => Err(self.damaged_file(&folder, "its structure makes no sense")),
        }
    }

    /// Finds the file of a tree that keeps it from opening.
    fn damaged_file(&self, folder: &Path, what: &str) -> StoreError {
        let tables = std::fs::read_dir(folder.join(TABLES));
        for entry in tables.into_iter().flatten().flatten() {
            let path = entry.path();
            let opened = catch_unwind(AssertUnwindSafe(|| {
                Table::recover(
                    path.clone(),
                    lsm_tree::Checksum::from_raw(0),
                    0,
                    0,
                    Arc::new(Cache::with_capacity_bytes(0)),
                    None,
                    true,
                    true,
                )
                .map(drop)
            }));
            let what = match opened {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => format!("{error:?}"),
                Err(_) => "its structure makes no sense".to_string(),
            };
            return StoreError::Corrupt { file: path, offset: None, what };
        }
        let what = format!("a table file is missing or its list is not whole ({what})");
        StoreError::Corrupt { file: folder.to_path_buf(), offset: None, what }
    }
}

fn opening_failed(path: &Path) -> StoreError {
    StoreError::Corrupt {
        file: path.to_path_buf(),
        offset: None,
        what: "a tree could not be opened".to_string(),
    }
}

/// Checks the two files that list the tables of a tree; the tree itself does not.
pub(super) fn check_manifest(folder: &Path) -> Result<()> {
    let current = folder.join("current");
    let corrupt = |file: &Path, what: &str| StoreError::Corrupt {
        file: file.to_path_buf(),
        offset: None,
        what: what.to_string(),
    };
    let read = |file: &Path| {
        std::fs::read(file).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => corrupt(file, "the file is missing"),
            _ => StoreError::io("read", file, &error),
        })
    };
    let pointer = read(&current)?;
    let (Some(number), Some(checksum)) = (pointer.first_chunk::<8>(), pointer.get(8..24)) else {
        return Err(corrupt(&current, "the file is too short"));
    };
    let version = folder.join(format!("v{}", u64::from_le_bytes(*number)));
    if !version.exists() {
        return Err(corrupt(&current, "it names a list of tables that does not exist"));
    }
    if xxh3_128(&read(&version)?).to_le_bytes() != checksum {
        return Err(corrupt(&version, "its checksum is not the one in the file `current`"));
    }
    Ok(())
}

/// Converts an error of a tree; traces damage to its file.
pub(super) fn tree_error(tree: &Tree, error: &lsm_tree::Error) -> StoreError {
    let folder = &tree.tree_config().path;
    if let lsm_tree::Error::Io(error) = error
        && error.kind() != std::io::ErrorKind::UnexpectedEof
    {
        return StoreError::io("use", folder, error);
    }
    // Finding the file means reading the whole tree, which must not happen at every read.
    static KNOWN: Mutex<Vec<(TreeId, StoreError)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock();
    if let Some((_, error)) = known.iter().find(|(id, _)| *id == tree.id()) {
        return error.clone();
    }
    for table in tables(tree) {
        if let Ok(Some(damage)) = check_table(&table, &mut |_| {}) {
            let Damage { file, offset, what } = damage;
            let error = StoreError::Corrupt { file, offset, what };
            known.push((tree.id(), error.clone()));
            return error;
        }
    }
    StoreError::Corrupt { file: folder.clone(), offset: None, what: format!("{error:?}") }
}

/// Converts an error of reading a tree. What the disk cannot read is as good as damaged; finding the
/// file would mean more reads that the disk may answer slowly.
pub(super) fn read_error(tree: &Tree, error: &lsm_tree::Error) -> StoreError {
    match error {
        lsm_tree::Error::Io(io) if is_unreadable(io) => StoreError::Corrupt {
            file: tree.tree_config().path.clone(),
            offset: None,
            what: format!("a block of a table cannot be read ({io})"),
        },
        _ => tree_error(tree, error),
    }
}

/// Whether the error means that the disk cannot read or write a block.
pub(super) fn is_unreadable(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Returns the tables of a tree. Their files exist as long as the handles are held.
pub(super) fn tables(tree: &Tree) -> Vec<Table> {
    tree.current_version().iter_tables().cloned().collect()
}

/// Reads a whole table file and compares its checksum with the one that the tree recorded. What the
/// disk cannot read is damage, too.
pub(super) fn check_table(table: &Table, progress: &mut dyn FnMut(u64)) -> Result<Option<Damage>> {
    let path: &Path = &table.path;
    let failed = |error: &std::io::Error| StoreError::io("read", path, error);
    let mut file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let mut hasher = Xxh3Default::new();
    let mut buffer = vec![0; 1 << 18];
    let mut at = 0;
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if is_unreadable(&error) => {
                let what = format!("the disk cannot read it ({error})");
                return Ok(Some(Damage { file: path.to_path_buf(), offset: Some(at), what }));
            }
            Err(error) => return Err(failed(&error)),
        };
        at += read as u64;
        hasher.update(&buffer[..read]);
        progress(read as u64);
    }
    if hasher.digest128() == table.checksum().into_u128() {
        return Ok(None);
    }
    Ok(Some(locate(table)))
}

/// Finds the damaged block.
fn locate(table: &Table) -> Damage {
    let path: PathBuf = table.path.to_path_buf();
    let bytes = std::fs::read(&path).unwrap_or_default();
    let mut at = 0;
    for _ in 0..table.metadata.data_block_count {
        let Some(end) = bytes.get(at..).and_then(whole_block) else {
            return Damage {
                file: path,
                offset: Some(at as u64),
                what: "the checksum of a data block does not match".to_string(),
            };
        };
        at += end;
    }
    Damage {
        file: path,
        offset: None,
        what: "the checksum of the file does not match; its data blocks are whole, so its index, \
               filter or trailer is damaged"
            .to_string(),
    }
}

/// Returns the length of the block at the start of `bytes`, if its checksums match.
fn whole_block(bytes: &[u8]) -> Option<usize> {
    let header = Header::decode_from(&mut &*bytes).ok()?;
    let start = Header::serialized_len();
    let end = start + header.data_length as usize;
    let data = bytes.get(start..end)?;
    (xxh3_128(data) == header.checksum.into_u128()).then_some(end)
}

/// Returns the approximate bytes of the entries in `[from, to)`.
pub(super) fn approximate_bytes(newest: &Newest, seqno: Seqno, from: &[u8], to: &[u8]) -> u64 {
    let mut exact = 0;
    let mut entries = 0;
    let bounds = (Bound::Included(from), Bound::Excluded(to));
    for entry in newest.view().range(bounds.0, bounds.1, seqno) {
        let Ok(entry) = entry else { break };
        exact += (entry.key.user_key.len() + entry.value.len()) as u64;
        entries += 1;
        if entries == EXACT_ENTRIES {
            break;
        }
    }
    if entries < EXACT_ENTRIES {
        return exact;
    }
    let tables = newest.tables();
    let in_tables: f64 = tables
        .list
        .iter()
        .filter(|table| table.metadata.key_range.overlaps_with_bounds(&bounds))
        .map(|table| {
            let range = &table.metadata.key_range;
            table.metadata.file_size as f64 * share(range.min(), range.max(), from, to)
        })
        .sum();
    exact.max(in_tables as u64)
}

/// Returns the share of the keys between `min` and `max` that is in `[from, to)`, assuming an even
/// distribution.
fn share(min: &[u8], max: &[u8], from: &[u8], to: &[u8]) -> f64 {
    if from <= min && max < to {
        return 1.0;
    }
    let shared = min.iter().zip(max).take_while(|(a, b)| a == b).count();
    // Bounds outside the table count as its ends, so all four begin with the shared bytes.
    let position = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = key.get(shared..).unwrap_or_default();
        let length = rest.len().min(8);
        bytes[..length].copy_from_slice(&rest[..length]);
        u64::from_be_bytes(bytes) as f64
    };
    let width = position(max) - position(min);
    if width <= 0.0 {
        return 1.0;
    }
    ((position(to.min(max)) - position(from.max(min))) / width).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn share_of_a_table() {
        assert_eq!(share(b"a", b"z", b"a", b"zz"), 1.0);
        let half = share(&[1, 0], &[1, 100], &[1, 50], &[9]);
        assert!((0.4..0.6).contains(&half), "{half}");
        let none = share(&[1, 0], &[1, 100], &[1, 0], &[1, 0]);
        assert!(none < 0.01);
    }
}
