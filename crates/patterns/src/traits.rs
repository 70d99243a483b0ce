//! The properties of a pattern that its kind states once, for callers that need them often.

/// Properties of a pattern that callers need before they call its kind. They depend on the
/// declaration and never change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traits {
    /// The pattern creates and deletes the documents of the target; clients may do neither.
    pub owns_documents: bool,
    /// Maintained values are not stored: readers resolve them (`strategy: "pointer"`).
    pub resolved_on_read: bool,
    /// Resolving needs records that the pattern keeps, not only documents.
    pub counts_for_readers: bool,
    /// One change of a source may affect any number of targets.
    pub fans_out: bool,
    /// Readers can resolve targets that wait in the queue.
    pub can_resolve: bool,
    /// Targets may wait in a queue.
    pub queues: bool,
    /// Sources count for a limited time only.
    pub expires: bool,
    /// A target may wait for a source that does not exist yet.
    pub awaits: bool,
    /// A target can only be derived together with all others.
    pub derives_together: bool,
    /// A build reads documents before it writes any: for its records, or to check all of them.
    pub first_walk: bool,
    /// Its records depend on the sources only: they can be built while an old version is in use,
    /// and a check recomputes them.
    pub records_of_sources: bool,
    /// It depends only on the paths that `reads` lists.
    pub exact_reads: bool,
    /// The database chooses its strategy.
    pub chooses_strategy: bool,
    /// Documents that clients write are filled in every state but `clearing`.
    pub always_fills: bool,
    /// Its fields may read each other: the kind computes them in that order and refuses cycles.
    pub reads_own_fields: bool,
    /// Targets show changes after this many milliseconds at the latest, not in each commit.
    pub flush_ms: Option<u64>,
    /// Why targets must be updated in the commit of their source, if they must.
    pub sync_only: Option<&'static str>,
}
