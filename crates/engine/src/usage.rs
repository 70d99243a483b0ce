//! Latencies of operations on a collection, for `top` and `$collStats`.
//!
//! Layer: base.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use value::Writer;

/// Operations on a collection.
#[derive(Default)]
pub struct Usage {
    kinds: [Latency; KINDS.len()],
    classes: [Class; CLASSES.len()],
    /// Documents that queries examined.
    documents: AtomicU64,
}

/// A count and a total time.
#[derive(Default)]
struct Latency {
    count: AtomicU64,
    micros: AtomicU64,
}

impl Latency {
    fn add(&self, micros: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (self.micros.load(Ordering::Relaxed), self.count.load(Ordering::Relaxed))
    }
}

/// Latencies of one class of operations, as a histogram.
struct Class {
    all: Latency,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Class {
    fn default() -> Class {
        Class { all: Latency::default(), buckets: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

/// The kinds of operations in the output of `top`.
const KINDS: [&str; 6] = ["queries", "getmore", "insert", "update", "remove", "commands"];

/// The classes of operations in the output of `$collStats`.
const CLASSES: [&str; 3] = ["reads", "writes", "commands"];

const BUCKETS: usize = 51;

/// The lower bound of a bucket: powers of two, with an additional bucket between them where most
/// latencies fall.
fn lower_bound(bucket: usize) -> u64 {
    match bucket {
        0 => 0,
        1..=10 => 1 << bucket,
        11..=30 => {
            let power = 1_u64 << (11 + (bucket - 11) / 2);
            if bucket % 2 == 1 { power } else { power + power / 2 }
        }
        _ => 1 << (bucket - 10).min(40),
    }
}

fn bucket(micros: u64) -> usize {
    (1..BUCKETS).take_while(|bucket| lower_bound(*bucket) <= micros).count()
}

/// The class of a command in the statistics. Set in the command's row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A query.
    Query,
    /// Further results of a query.
    GetMore,
    /// An insert.
    Insert,
    /// An update.
    Update,
    /// A delete.
    Remove,
    /// A command that reads documents.
    Read,
    /// A command that writes documents.
    Write,
    /// Any other command.
    Command,
}

impl Kind {
    /// The index among `KINDS`.
    fn kind(self) -> usize {
        match self {
            Kind::Query => 0,
            Kind::GetMore => 1,
            Kind::Insert => 2,
            Kind::Update => 3,
            Kind::Remove => 4,
            Kind::Read | Kind::Write | Kind::Command => 5,
        }
    }

    /// The index among `CLASSES`.
    fn class(self) -> usize {
        match self {
            Kind::Query | Kind::GetMore | Kind::Read => 0,
            Kind::Insert | Kind::Update | Kind::Remove | Kind::Write => 1,
            Kind::Command => 2,
        }
    }

    /// Whether the command only reads documents.
    pub(crate) fn reads(self) -> bool {
        self.class() == 0
    }

    /// The value of `op` in the profile and in `$currentOp`.
    pub(crate) fn op(self) -> &'static str {
        match self {
            Kind::Query => "query",
            Kind::GetMore => "getmore",
            Kind::Insert => "insert",
            Kind::Update => "update",
            Kind::Remove => "remove",
            Kind::Read | Kind::Write | Kind::Command => "command",
        }
    }
}

/// Latencies of all operations, for `serverStatus`.
#[derive(Default)]
pub struct Latencies {
    classes: [Class; CLASSES.len()],
    transactions: Class,
}

impl Latencies {
    /// Counts a command that has ended.
    pub(crate) fn note_all(&self, kind: Kind, in_transaction: bool, elapsed: Duration) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        if let Some(class) = self.classes.get(kind.class()) {
            class.add(micros);
        }
        if in_transaction {
            self.transactions.add(micros);
        }
    }

    /// Writes the latencies of each class.
    pub(crate) fn write(&self, out: &mut Writer<'_>, histograms: bool) {
        for (name, class) in CLASSES.iter().zip(&self.classes) {
            class.write(out, name, histograms);
        }
        self.transactions.write(out, "transactions", histograms);
    }
}

impl Class {
    fn add(&self, micros: u64) {
        self.all.add(micros);
        if let Some(bucket) = self.buckets.get(bucket(micros)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&self, out: &mut Writer<'_>, name: &str, histograms: bool) {
        out.doc(name, |out| {
            if histograms {
                out.array("histogram", |list| {
                    for (at, count) in self.buckets.iter().enumerate() {
                        let count = count.load(Ordering::Relaxed);
                        if count > 0 {
                            list.push_doc(|out| {
                                out.i64("micros", lower_bound(at) as i64);
                                out.i64("count", count as i64);
                            });
                        }
                    }
                });
            }
            let (micros, count) = self.all.get();
            out.i64("latency", micros as i64).i64("ops", count as i64);
        });
    }
}

impl Usage {
    /// Counts a command that has ended, and the documents that it examined.
    pub(crate) fn note(&self, kind: Kind, elapsed: Duration, documents: u64) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let (kind, class) = (kind.kind(), kind.class());
        if let Some(kind) = self.kinds.get(kind) {
            kind.add(micros);
        }
        if class == 0 && documents > 0 {
            self.documents.fetch_add(documents, Ordering::Relaxed);
        }
        if let Some(class) = self.classes.get(class) {
            class.add(micros);
        }
    }
}

impl Usage {
    /// The number of documents that queries on the collection examined, including those of joined
    /// collections.
    pub(crate) fn documents_read(&self) -> u64 {
        self.documents.load(Ordering::Relaxed)
    }

    /// Writes the entry of `top` for a collection; nothing if it was not used.
    pub(crate) fn write_top(&self, out: &mut Writer<'_>, namespace: &str) {
        let kinds = self.kinds.each_ref().map(Latency::get);
        let classes = self.classes.each_ref().map(|class| class.all.get());
        let [reads, writes, commands] = classes;
        let total = (reads.0 + writes.0 + commands.0, reads.1 + writes.1 + commands.1);
        if total.1 == 0 {
            return;
        }
        let write = |out: &mut Writer<'_>, name: &str, (micros, count): (u64, u64)| {
            out.doc(name, |out| {
                out.count("time", micros).count("count", count);
            });
        };
        out.doc(namespace, |out| {
            write(out, "total", total);
            write(out, "readLock", reads);
            write(out, "writeLock", writes);
            for (name, kind) in KINDS.iter().zip(kinds) {
                write(out, name, kind);
            }
        });
    }

    /// Writes the latencies of `$collStats`.
    pub(crate) fn write_latencies(&self, out: &mut Writer<'_>, histograms: bool) {
        for (name, class) in CLASSES.iter().zip(&self.classes) {
            class.write(out, name, histograms);
        }
        // Operations of transactions are counted with their commands.
        out.doc("transactions", |out| {
            if histograms {
                out.array("histogram", |_| {});
            }
            out.i64("latency", 0).i64("ops", 0);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_the_bucket_with_the_next_lower_bound() {
        for at in 1..BUCKETS {
            assert!(lower_bound(at) > lower_bound(at - 1), "bucket {at}");
            assert_eq!(bucket(lower_bound(at)), at);
            assert_eq!(bucket(lower_bound(at) - 1), at - 1);
        }
        assert_eq!([0, 1, 2, 3, 2048, 3072, 8192].map(bucket), [0, 0, 1, 1, 11, 12, 15]);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
