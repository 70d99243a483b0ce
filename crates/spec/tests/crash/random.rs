//! Random choices that a seed repeats.

/// A sequence of choices.
pub(crate) struct Random(fastrand::Rng);

impl Random {
    /// Starts from a seed; equal seeds give equal sequences.
    pub(crate) fn new(seed: u64) -> Random {
        Random(fastrand::Rng::with_seed(seed))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number below `limit`, which is not zero.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }
}
