//! What a command tells about itself while it runs and when it has ended: how it finds its
//! documents (for `currentOp`, the profile and the log), and what the profile shows besides.
//!
//! Layer: base.

use smallvec::SmallVec;
use std::fmt::Write as _;
use std::sync::Arc;
use value::{DocBuf, Error};

/// A scan: the name of its stage, and the key pattern of its index.
type PlannedScan = (&'static str, Option<Arc<str>>);

/// How a command finds its documents: each scan with the key pattern of its index, if it has one.
#[derive(Clone, Default, Debug)]
pub struct PlanSummary {
    scans: SmallVec<[PlannedScan; 1]>,
}

impl PlanSummary {
    /// Forgets all scans.
    pub fn clear(&mut self) {
        self.scans.clear();
    }

    /// Adds a scan: the name of its stage, and the key pattern of its index.
    pub fn add(&mut self, stage: &'static str, pattern: Option<Arc<str>>) {
        self.scans.push((stage, pattern));
    }

    /// The text in MongoDB's form, `IXSCAN { a: 1 }`; `None` without scans.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let mut text = String::new();
        for (at, (stage, pattern)) in self.scans.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            let _ = write!(text, "{separator}{stage}");
            if let Some(pattern) = pattern {
                let _ = write!(text, " {pattern}");
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

/// The number of documents that a statement changed. What it cannot do has no number.
#[derive(Clone, Copy, Default, Debug)]
pub struct Writes {
    /// Documents that matched.
    pub matched: Option<u64>,
    /// Documents that an update changed.
    pub modified: Option<u64>,
    /// Documents that were inserted.
    pub inserted: Option<u64>,
    /// Documents that were deleted.
    pub deleted: Option<u64>,
    /// Documents that an update inserted.
    pub upserted: Option<u64>,
}

/// The hashes of a query's shape: without and with the indexes that its plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct ShapeHashes {
    /// `queryHash`.
    pub query: u64,
    /// `planCacheKey`; `None` if the plan is not cached.
    pub key: Option<u64>,
}

/// What the profile shows of a command besides its cost. Kept only while a database is profiled.
#[derive(Default)]
pub struct Report {
    /// What it wrote.
    pub writes: Writes,
    /// The cursor that it opened or read.
    pub cursor: Option<i64>,
    /// Whether that cursor has no more documents.
    pub is_exhausted: bool,
    /// Whether its plan sorts.
    pub sorts: bool,
    /// The shape of its query.
    pub shape: Option<ShapeHashes>,
    /// The command that opened the cursor which it continues.
    pub opened_by: Option<DocBuf>,
    /// The namespace that it is about, if the command itself does not name one.
    pub namespace: Option<String>,
    /// Whether it is left out of the profile.
    pub is_left_out: bool,
    /// Its statements, if each has an entry of its own.
    pub statements: Vec<StatementReport>,
}

/// One statement of a command that has ended.
pub struct StatementReport {
    /// The statement.
    pub command: DocBuf,
    /// How long it ran, in milliseconds.
    pub millis: i64,
    /// Index entries that it examined.
    pub keys: u64,
    /// Documents that it examined.
    pub documents: u64,
    /// How it found its documents.
    pub plan: Option<String>,
    /// What it wrote.
    pub writes: Writes,
    /// The shape of its query.
    pub shape: Option<ShapeHashes>,
    /// Whether its plan sorts.
    pub sorts: bool,
    /// Its error.
    pub error: Option<Error>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_every_scan() {
        let mut summary = PlanSummary::default();
        assert_eq!(summary.text(), None);
        summary.add("IXSCAN", Some("{ a: 1 }".into()));
        summary.add("IXSCAN", Some("{ b: -1 }".into()));
        assert_eq!(summary.text().as_deref(), Some("IXSCAN { a: 1 }, IXSCAN { b: -1 }"));
        summary.clear();
        summary.add("COLLSCAN", None);
        assert_eq!(summary.text().as_deref(), Some("COLLSCAN"));
    }
}
