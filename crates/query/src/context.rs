//! The context in which filters, expressions and updates are compiled.

use crate::deferred::DeferredVariable;
use std::sync::Arc;
use value::{Collation, RawDoc};

/// Where clients may use JavaScript.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Javascript {
    /// Nowhere: the server does not have it.
    #[default]
    Off,
    /// In expressions and accumulators, but not in filters.
    Expressions,
    /// In filters, too.
    Everywhere,
}

impl Javascript {
    /// The same for a pipeline, in which filters have none.
    #[must_use]
    pub fn in_pipeline(self) -> Javascript {
        if self == Javascript::Off { self } else { Javascript::Expressions }
    }
}

/// The constants of one request: its clock and the variables of its `let`.
#[derive(Clone, Copy, Debug)]
pub struct ParseContext<'p> {
    /// Milliseconds since 1970 at the start of the request: `$$NOW`, `$currentDate`.
    pub now_ms: i64,
    /// The logical clock: `$$CLUSTER_TIME`; zero where there is none.
    pub cluster_time: u64,
    /// The variables of the command's `let`, already evaluated to constants.
    pub variables: RawDoc<'p>,
    /// Variables whose values are set after compiling; of two with the same name the last one is
    /// used.
    pub deferred: &'p [DeferredVariable],
    /// The collation of text comparisons; `None` compares bytes.
    pub collation: Option<&'p Arc<Collation>>,
    /// Whether constants that cannot be computed are left for execution, which may not need them.
    /// True for pipelines of updates.
    pub lenient: bool,
    /// Where JavaScript may be used.
    pub javascript: Javascript,
    /// Whether empty timestamps at the top level of a replacement stay as they are.
    pub keeps_empty_timestamps: bool,
}

impl ParseContext<'static> {
    /// A context with a clock and no variables.
    #[must_use]
    pub fn new(now_ms: i64) -> ParseContext<'static> {
        ParseContext {
            now_ms,
            cluster_time: 0,
            variables: RawDoc::empty(),
            deferred: &[],
            collation: None,
            lenient: false,
            javascript: Javascript::Off,
            keeps_empty_timestamps: false,
        }
    }
}

impl<'p> ParseContext<'p> {
    /// The same context with the variables of a `let`.
    #[must_use]
    pub fn with_variables<'v>(self, variables: RawDoc<'v>) -> ParseContext<'v>
    where
        'p: 'v,
    {
        ParseContext { variables, ..self }
    }

    /// The same context under a collation.
    #[must_use]
    pub fn with_collation<'c>(self, collation: Option<&'c Arc<Collation>>) -> ParseContext<'c>
    where
        'p: 'c,
    {
        ParseContext { collation, ..self }
    }
}
