//! Statistics of a run of a plan, for explain, the profiler and the metrics.

pub use crate::operation::Examined;

/// Statistics of a sort.
#[derive(Clone, Copy, Default, Debug)]
pub struct SortTotals {
    /// Bytes of all documents that the sort kept at some time.
    pub bytes: usize,
    /// How often memory was full and a run was written to disk.
    pub spills: u64,
    /// Bytes of the runs.
    pub spilled_bytes: u64,
}
