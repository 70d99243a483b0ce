//! The options of an outlier pattern, and when an array spills.

use value::path::Path;

/// The elements that stay in the document of a spilled array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    First,
    Last,
}

/// A number of elements and of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bound {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

impl Bound {
    /// Nothing.
    pub(super) const NONE: Bound = Bound { count: 0, bytes: 0 };
}

/// The options of a pattern.
#[derive(Debug)]
pub(super) struct Settings {
    /// Where the array is.
    pub(super) array: Path,
    /// How many elements stay in the document of a spilled array.
    pub(super) keep: usize,
    pub(super) which: Which,
    /// An array spills when it has more than this.
    pub(super) spill_at: Bound,
    /// A spilled array comes back when it has no more than this.
    pub(super) unspill_at: Bound,
    /// The most elements of a chunk, and the bytes after which it is full.
    pub(super) chunk: Bound,
    /// Whether readers that do not say get only what is kept.
    pub(super) reads_head: bool,
    /// The field that says whether the array is spilled.
    pub(super) flag: Option<Path>,
    /// The field with the number of elements.
    pub(super) count: Option<Path>,
}

impl Settings {
    /// Whether an array is stored spilled, which it was before or not.
    pub(super) fn spills(&self, was: bool, array: Bound) -> bool {
        let above = |bound: Bound| array.count > bound.count || array.bytes > bound.bytes;
        above(self.spill_at) || (was && above(self.unspill_at))
    }
}
