//! What all operations share: memory limits and room for temporary files.
//!
//! Layer: base.

use crate::memory::Memory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use store::Scratch;
use value::limits;

/// Limits of the memory that operations use, and temporary files for what exceeds them.
pub struct Resources {
    pub(crate) scratch: Scratch,
    pub(crate) memory: Arc<Memory>,
    /// Bytes that one blocking sort may hold in memory.
    pub sort_bytes_max: AtomicUsize,
    /// Bytes that the groups of one `$group` may hold in memory.
    pub group_bytes_max: AtomicUsize,
    /// Bytes that one index build may hold in memory to sort them.
    pub build_bytes_max: AtomicUsize,
    /// Threads that help operations now.
    pub(crate) helpers: AtomicUsize,
    /// Whether operations use the disk that do not say.
    pub disk_by_default: AtomicBool,
}

impl Resources {
    /// Room for temporary files in `scratch`, and so many bytes of memory for all together.
    #[must_use]
    pub fn new(scratch: Scratch, bytes_max: usize) -> Resources {
        Resources {
            scratch,
            memory: Arc::new(Memory::new(bytes_max)),
            sort_bytes_max: AtomicUsize::new(limits::BLOCKING_STAGE_BYTES_MAX),
            group_bytes_max: AtomicUsize::new(limits::BLOCKING_STAGE_BYTES_MAX),
            build_bytes_max: AtomicUsize::new(limits::INDEX_BUILD_BYTES_MAX),
            helpers: AtomicUsize::new(0),
            disk_by_default: AtomicBool::new(true),
        }
    }

    /// Where temporary files go.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The memory that operations share.
    #[must_use]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}
