//! The targets that measurements are compared with.

/// A target, and whether it was reached.
pub(crate) struct Bar {
    /// The measured quantity with its value and its target.
    pub(crate) text: String,
    /// Whether the measurement reached the target.
    pub(crate) reached: bool,
}
