//! What a stage may know when it is compiled: the constants of the request, and for stages that
//! read other collections the catalog and the snapshot of the whole pipeline.

use query::{DeferredVariable, ParseContext};
use std::ops::Deref;
use std::sync::Arc;
use value::{Collation, DocBuf};

/// What all stages of a pipeline read from: one catalog, one snapshot.
pub type Scope = crate::txn::View;

/// Where a pipeline stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    /// It is the command's own.
    Command,
    /// It defines a view.
    View,
    /// Inside of a `$facet`.
    Facet,
    /// Inside of a `$lookup`.
    Lookup,
    /// Inside of a `$unionWith`.
    Union,
}

/// The surroundings in which a stage is compiled.
#[derive(Clone, Copy)]
pub struct StageContext<'a> {
    /// The constants of the request.
    pub parse: ParseContext<'a>,
    /// What is read; `None` when a pipeline is only checked.
    pub scope: Option<&'a Arc<Scope>>,
    /// The database of the pipeline.
    pub db: &'a str,
    /// Where the pipeline stands.
    pub within: Within,
    /// How many pipelines it is nested in.
    pub depth: usize,
    /// Whether patterns rewrote it: then stages may say what clients cannot.
    pub rewritten: bool,
}

impl<'a> StageContext<'a> {
    /// The surroundings of a command's pipeline.
    #[must_use]
    pub fn new(parse: ParseContext<'a>, scope: &'a Arc<Scope>, db: &'a str) -> StageContext<'a> {
        StageContext {
            parse,
            scope: Some(scope),
            db,
            within: Within::Command,
            depth: 0,
            rewritten: false,
        }
    }

    /// The surroundings of a pipeline that is only checked, for a view.
    #[must_use]
    pub fn of_view(parse: ParseContext<'a>, db: &'a str) -> StageContext<'a> {
        StageContext { parse, scope: None, db, within: Within::View, depth: 0, rewritten: false }
    }

    /// A copy that outlives the request's borrowed parts.
    #[must_use]
    pub fn keep(&self) -> Kept {
        Kept {
            now_ms: self.parse.now_ms,
            cluster_time: self.parse.cluster_time,
            variables: self.parse.variables.into(),
            deferred: self.parse.deferred.to_vec(),
            collation: self.parse.collation.cloned(),
            scope: self.scope.cloned(),
            db: self.db.to_owned(),
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

/// A context that a stage keeps, to compile parts of itself for each document.
pub struct Kept {
    now_ms: i64,
    cluster_time: u64,
    /// The variables that are known outside of the stage.
    pub variables: DocBuf,
    /// Those of them whose values come later.
    pub deferred: Vec<DeferredVariable>,
    /// What decides over text in comparisons.
    pub collation: Option<Arc<Collation>>,
    /// What is read.
    pub scope: Option<Arc<Scope>>,
    db: String,
    within: Within,
    depth: usize,
}

impl Kept {
    /// The context as it was.
    #[must_use]
    pub fn get(&self) -> StageContext<'_> {
        self.with_deferred(&self.deferred)
    }

    /// The context with other variables whose values come later.
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
            },
            scope: self.scope.as_ref(),
            db: &self.db,
            within: self.within,
            depth: self.depth,
            rewritten: false,
        }
    }
}
