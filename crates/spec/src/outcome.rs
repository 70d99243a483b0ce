//! The result of a step of a test.

use value::DocBuf;

/// The result of a step.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The reply of its command.
    pub reply: DocBuf,
    /// The documents of its cursor, all batches.
    pub docs: Option<Vec<DocBuf>>,
    /// The lines of its plan, when one is expected.
    pub plan: Option<Vec<String>>,
    /// Whether the step is one write, so that a write error is its error.
    pub writes_alone: bool,
}
