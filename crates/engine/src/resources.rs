//! Resources that all operations share: memory limits and temporary files.
//!
//! Layer: base.

use crate::memory::Memory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use store::Scratch;
use value::limits;

/// Memory limits of operations, and the folder for temporary files.
pub struct Resources {
    pub(crate) scratch: Scratch,
    pub(crate) memory: Arc<Memory>,
    /// Bytes that one blocking sort may hold in memory.
    pub sort_bytes_max: AtomicUsize,
    /// Bytes that the groups of one `$group` may hold in memory.
    pub group_bytes_max: AtomicUsize,
    /// Bytes that one index build may hold in memory for sorting.
    pub build_bytes_max: AtomicUsize,
    /// Helper threads that are running.
    pub(crate) helpers: AtomicUsize,
    /// Plans that read a whole collection.
    pub(crate) collection_scans: AtomicU64,
    /// Those of tailable cursors.
    pub(crate) tailable_scans: AtomicU64,
    /// Plans that sort what they have read.
    pub(crate) blocking_sorts: AtomicU64,
    /// Whether operations may spill to disk by default.
    pub disk_by_default: AtomicBool,
    /// Whether queries must not scan whole collections (`notablescan`).
    pub no_scans: AtomicBool,
}

impl Resources {
    /// Resources with temporary files in `scratch` and a memory budget of so many bytes.
    #[must_use]
    pub fn new(scratch: Scratch, bytes_max: usize) -> Resources {
        Resources {
            scratch,
            memory: Arc::new(Memory::new(bytes_max)),
            sort_bytes_max: AtomicUsize::new(limits::BLOCKING_STAGE_BYTES_MAX),
            group_bytes_max: AtomicUsize::new(limits::BLOCKING_STAGE_BYTES_MAX),
            build_bytes_max: AtomicUsize::new(limits::INDEX_BUILD_BYTES_MAX),
            helpers: AtomicUsize::new(0),
            collection_scans: AtomicU64::new(0),
            tailable_scans: AtomicU64::new(0),
            blocking_sorts: AtomicU64::new(0),
            disk_by_default: AtomicBool::new(true),
            no_scans: AtomicBool::new(false),
        }
    }

    /// The folder for temporary files.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The memory budget.
    #[must_use]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}
