//! What a check of a pattern covers and finds.

use value::OwnedVal;

/// The part of a pattern that a check covers.
pub struct CheckedPart<'c> {
    /// Whether the check covers the whole pattern.
    pub is_whole: bool,
    /// Whether a key, as returned by `check_key`, belongs to the part.
    pub has: &'c dyn Fn(&[u8]) -> bool,
    /// The number of wrong values found in targets.
    pub drift: u64,
}

/// Missing documents of a target.
#[derive(Default)]
pub struct MissingDocuments {
    /// Their `_id`s.
    pub ids: Vec<OwnedVal>,
    /// How many more are not missing but wait in the queue.
    pub stale: u64,
}
