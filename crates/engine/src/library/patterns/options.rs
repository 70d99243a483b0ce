//! A declaration, and the options that several kinds have.

use bson::{Bson, Document, doc};
use std::time::Duration;

/// A declared pattern of any kind; made from [`Computed`](crate::Computed),
/// [`ExtendedReference`](crate::ExtendedReference), [`Subset`](crate::Subset),
/// [`Tree`](crate::Tree), or a document as `createPatterns` takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern(pub(super) Document);

impl Pattern {
    /// The declaration as a document.
    #[must_use]
    pub fn declaration(&self) -> &Document {
        &self.0
    }
}

impl From<Document> for Pattern {
    fn from(declaration: Document) -> Pattern {
        Pattern(declaration)
    }
}

/// Makes an enum of the values of an option, with their names in declarations.
macro_rules! choice {
    (#[doc = $about:literal] $name:ident { $($(#[$what:meta])* $value:ident = $text:literal,)* }) => {
        #[doc = $about]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$what])* $value,)*
        }

        impl From<$name> for bson::Bson {
            fn from(value: $name) -> bson::Bson {
                bson::Bson::String(match value { $($name::$value => $text,)* }.to_owned())
            }
        }
    };
}
pub(super) use choice;

/// Adds the options of every kind to a builder.
macro_rules! common_options {
    ($kind:ident) => {
        impl $kind {
            /// Sets when targets are updated; [`Mode::Sync`](crate::Mode::Sync) unless set.
            pub fn mode(self, mode: super::options::Mode) -> $kind {
                self.with("mode", mode)
            }

            /// Sets the lag beyond which the pattern is reported as overdue.
            pub fn max_staleness(self, limit: std::time::Duration) -> $kind {
                self.with("maxStalenessMS", super::options::milliseconds(limit))
            }

            /// Sets what readers get while values of existing documents are derived.
            pub fn during_build(self, what: super::options::DuringBuild) -> $kind {
                self.with("duringBuild", what)
            }

            /// Sets how many documents of a build are written in one commit, and how many per
            /// second.
            pub fn backfill(self, batch: u32, rate: super::options::BackfillRate) -> $kind {
                self.with("backfill", bson::doc! {"batch": i64::from(batch), "rate": rate})
            }

            /// Sets what happens to operators that name maintained fields.
            pub fn client_writes(self, what: super::options::ClientWrites) -> $kind {
                self.with("clientWrites", what)
            }

            /// Sets whether change streams show what the pattern writes.
            pub fn change_events(self, which: super::options::ChangeEvents) -> $kind {
                self.with("changeEvents", which)
            }

            /// Sets whether queries may be answered from the pattern; true unless set.
            pub fn rewrite(self, rewrite: bool) -> $kind {
                self.with("rewrite", rewrite)
            }

            /// Sets how often values are compared with a recomputation, such as `1/day` or
            /// `never`, and what happens to wrong ones.
            pub fn verify(self, scrub: &str, on_drift: super::options::OnDrift) -> $kind {
                self.with("verify", bson::doc! {"scrub": scrub, "onDrift": on_drift})
            }

            /// Sets an option by its name, for those that have no method here.
            pub fn option(self, name: &str, value: impl Into<bson::Bson>) -> $kind {
                self.with(name, value)
            }

            fn with(mut self, name: &str, value: impl Into<bson::Bson>) -> $kind {
                self.0.insert(name, value);
                self
            }
        }

        impl From<$kind> for super::options::Pattern {
            fn from(pattern: $kind) -> super::options::Pattern {
                super::options::Pattern(pattern.0)
            }
        }
    };
}
pub(super) use common_options;

/// When the targets of a pattern are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// In the commit of the source: never stale.
    Sync,
    /// In the background, soon after; the lag is a goal.
    Async {
        /// The lag to aim at.
        max_lag: Duration,
    },
    /// At this interval.
    Every(Every),
}

/// An interval, as declarations have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Every {
    /// So many seconds.
    Seconds(u32),
    /// So many minutes.
    Minutes(u32),
    /// So many hours.
    Hours(u32),
    /// So many days.
    Days(u32),
}

impl Every {
    pub(super) fn text(self) -> String {
        match self {
            Every::Seconds(count) => format!("{count}s"),
            Every::Minutes(count) => format!("{count}m"),
            Every::Hours(count) => format!("{count}h"),
            Every::Days(count) => format!("{count}d"),
        }
    }
}

impl From<Mode> for Bson {
    fn from(mode: Mode) -> Bson {
        match mode {
            Mode::Sync => "sync".into(),
            Mode::Async { max_lag } => doc! {"async": {"maxLagMS": milliseconds(max_lag)}}.into(),
            Mode::Every(interval) => doc! {"every": interval.text()}.into(),
        }
    }
}

/// How fast a build may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackfillRate {
    /// It yields to other work.
    Auto,
    /// At most so many documents per second.
    PerSecond(u32),
}

impl From<BackfillRate> for Bson {
    fn from(rate: BackfillRate) -> Bson {
        match rate {
            BackfillRate::Auto => "auto".into(),
            BackfillRate::PerSecond(count) => i64::from(count).into(),
        }
    }
}

choice! {
    /// What readers get while values of existing documents are derived.
    DuringBuild {
        /// Missing values are derived for the reader.
        Compute = "compute",
        /// Values are missing.
        Missing = "missing",
        /// Reads fail with PatternNotReady (96002).
        Error = "error",
    }
}

choice! {
    /// What happens to operators that name maintained fields.
    ClientWrites {
        /// They fail with PatternViolation (96001).
        Reject = "reject",
        /// They have no effect.
        Ignore = "ignore",
    }
}

choice! {
    /// Whether change streams show what a pattern writes.
    ChangeEvents {
        /// They do not.
        None = "none",
        /// They do, with `patternUpdate: true`.
        Flagged = "flagged",
    }
}

choice! {
    /// What a check does with wrong values.
    OnDrift {
        /// They are derived again.
        Repair = "repair",
        /// They are reported, and the pattern becomes degraded.
        Report = "report",
    }
}

choice! {
    /// What happens to documents on which an expression fails.
    OnError {
        /// Their writes fail.
        Reject = "reject",
        /// They contribute nothing.
        Skip = "skip",
    }
}

choice! {
    /// What happens to a child whose parent does not exist.
    OnMissingParent {
        /// It counts once the parent exists.
        Ignore = "ignore",
        /// Its write fails.
        Reject = "reject",
        /// The parent is inserted.
        Create = "create",
    }
}

choice! {
    /// Whether values are stored.
    Strategy {
        /// The database chooses.
        Auto = "auto",
        /// They are stored.
        Copy = "copy",
        /// They are resolved when documents are read.
        Pointer = "pointer",
    }
}

/// A duration in whole milliseconds.
pub(super) fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
