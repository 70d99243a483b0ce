//! What a run of a plan did, as explain, the profiler and the metrics report it.

pub use crate::operation::Examined;

/// What a sort used.
#[derive(Clone, Copy, Default, Debug)]
pub struct SortTotals {
    /// Bytes of all documents that were kept at some time.
    pub bytes: usize,
    /// How often memory was full and a run was written.
    pub spills: u64,
    /// Bytes of the runs.
    pub spilled_bytes: u64,
}
