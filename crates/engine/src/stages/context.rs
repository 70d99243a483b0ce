//! The context in which stages are compiled: the constants of the request, and for stages that read
//! other collections the catalog and the snapshot of the whole pipeline.

use query::{DeferredVariable, Javascript, ParseContext};
use std::ops::Deref;
use std::sync::Arc;
use value::{Collation, DocBuf};

/// The catalog and snapshot that all stages of a pipeline read.
pub type Scope = crate::txn::View;

/// Where a pipeline is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    /// It is the command's own.
    Command,
    /// It defines a view.
    View,
    /// Inside a `$facet`.
    Facet,
    /// Inside a `$lookup`.
    Lookup,
    /// Inside a `$unionWith`.
    Union,
}

/// The context in which a stage is compiled.
#[derive(Clone, Copy)]
pub struct StageContext<'a> {
    /// The constants of the request.
    pub parse: ParseContext<'a>,
    /// The catalog and snapshot; `None` when a pipeline is only checked.
    pub scope: Option<&'a Arc<Scope>>,
    /// The database of the pipeline.
    pub db: &'a str,
    /// The collection that the pipeline reads, for stages that report on it.
    pub source: Option<&'a str>,
    /// Where the pipeline is used.
    pub within: Within,
    /// The nesting depth of the pipeline.
    pub depth: usize,
    /// Whether patterns rewrote it: stages may then have internal options.
    pub rewritten: bool,
}

impl<'a> StageContext<'a> {
    /// The context of a command's pipeline.
    #[must_use]
    pub fn new(parse: ParseContext<'a>, scope: &'a Arc<Scope>, db: &'a str) -> StageContext<'a> {
        let parse = ParseContext { javascript: parse.javascript.in_pipeline(), ..parse };
        StageContext {
            parse,
            scope: Some(scope),
            db,
            source: None,
            within: Within::Command,
            depth: 0,
            rewritten: false,
        }
    }

    /// The context of a pipeline that is only checked, for a view.
    #[must_use]
    pub fn of_view(parse: ParseContext<'a>, db: &'a str) -> StageContext<'a> {
        let parse = ParseContext { javascript: parse.javascript.in_pipeline(), ..parse };
        StageContext {
            parse,
            scope: None,
            db,
            source: None,
            within: Within::View,
            depth: 0,
            rewritten: false,
        }
    }

    /// Returns an owned copy, which outlives the request.
    #[must_use]
    pub fn keep(&self) -> OwnedContext {
        OwnedContext {
            now_ms: self.parse.now_ms,
            cluster_time: self.parse.cluster_time,
            variables: self.parse.variables.into(),
            deferred: self.parse.deferred.to_vec(),
            collation: self.parse.collation.cloned(),
            javascript: self.parse.javascript,
            scope: self.scope.cloned(),
            db: self.db.to_owned(),
            source: self.source.map(str::to_owned),
            within: self.within,
            depth: self.depth,
        }
    }
}

// The language's compilers take the constants alone.
impl<'a> Deref for StageContext<'a> {
    type Target = ParseContext<'a>;
    fn deref(&self) -> &ParseContext<'a> {
        &self.parse
    }
}

/// An owned context that a stage keeps, to compile parts of itself for each document.
pub struct OwnedContext {
    now_ms: i64,
    cluster_time: u64,
    /// The variables that are defined outside the stage.
    pub variables: DocBuf,
    /// The deferred ones among them.
    pub deferred: Vec<DeferredVariable>,
    /// The collation of comparisons.
    pub collation: Option<Arc<Collation>>,
    javascript: Javascript,
    /// The catalog and snapshot.
    pub scope: Option<Arc<Scope>>,
    db: String,
    source: Option<String>,
    within: Within,
    depth: usize,
}

impl OwnedContext {
    /// Borrows the context.
    #[must_use]
    pub fn get(&self) -> StageContext<'_> {
        self.with_deferred(&self.deferred)
    }

    /// Borrows the context with other deferred variables.
    #[must_use]
    pub fn with_deferred<'a>(&'a self, deferred: &'a [DeferredVariable]) -> StageContext<'a> {
        StageContext {
            parse: ParseContext {
                now_ms: self.now_ms,
                cluster_time: self.cluster_time,
                variables: self.variables.as_doc(),
                deferred,
                collation: self.collation.as_ref(),
                lenient: false,
                javascript: self.javascript,
                keeps_empty_timestamps: false,
            },
            scope: self.scope.as_ref(),
            db: &self.db,
            source: self.source.as_deref(),
            within: self.within,
            depth: self.depth,
            rewritten: false,
        }
    }
}
