//! The row of a stage: how it is compiled, where it may be, and other facts about it. A row names
//! only the facts that differ from the defaults in `StageRow::BASE`.

use super::diagnostics::Server;
use super::privileges::Privilege;
use super::{Stage, StageContext};
use value::{Code, DocBuf, Error, Result, Val};

/// A stage that a pipeline may have.
pub struct StageRow {
    /// Its name, with the dollar.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
    /// Where in a pipeline it may be.
    pub(crate) position: Position,
    /// What a pipeline that begins with it reads.
    pub(crate) source: Source,
    /// Whether a `$facet` may contain it. Stages that write or must be first are never allowed.
    pub(crate) in_facet: bool,
    /// Whether it runs in multi-document transactions.
    pub(crate) in_transactions: bool,
    /// Whether it may follow a `$changeStream`.
    pub(crate) in_change_streams: bool,
    /// Whether it is part of version 1 of the stable API.
    pub(crate) stable_api: StableApi,
    /// Whether it returns different documents each time for the same input.
    pub(crate) is_random: bool,
    /// The privileges that it needs in addition to reading the collection of the pipeline.
    pub(crate) privilege: Privilege,
    /// How it runs.
    pub(crate) runs: Runs,
    /// Compiles it; not used for stages that run in another way.
    pub parse: fn(Val<'_>, &StageContext<'_>) -> Result<Box<dyn Stage>>,
}

/// Where in a pipeline a stage may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// Anywhere.
    Anywhere,
    /// First only: it makes its documents itself.
    First,
    /// Last only: it writes.
    Last,
}

/// What a pipeline that begins with a stage reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A collection.
    Collection,
    /// No collection: `{aggregate: 1}`.
    Nothing,
    /// A collection or none.
    Either,
}

/// Whether a stage is part of version 1 of the stable API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StableApi {
    /// It is.
    Included,
    /// It is, with this option only.
    Option(&'static str),
    /// It is not.
    Excluded,
}

/// Makes the documents of a diagnostic stage, from its argument and the command's collection.
pub(crate) type Diagnose = fn(&dyn Server, Val<'_>, Option<&str>) -> Result<Vec<DocBuf>>;

/// How a stage runs.
#[derive(Clone, Copy)]
pub(crate) enum Runs {
    /// It is compiled and opened over the previous stage.
    Compiled,
    /// It makes its documents when the command begins, from the state of the server. It gets its
    /// argument and the command's collection.
    AtOnce(Diagnose),
    /// As `AtOnce` when the command begins with it; inside of views and nested pipelines it is
    /// compiled.
    AtOnceOrCompiled(Diagnose),
    /// It is part of a change stream, which the command opens.
    InChangeStream,
}

impl StageRow {
    /// The defaults of a row.
    pub(super) const BASE: StageRow = StageRow {
        name: "",
        help: "",
        position: Position::Anywhere,
        source: Source::Collection,
        in_facet: true,
        in_transactions: true,
        in_change_streams: false,
        stable_api: StableApi::Included,
        is_random: false,
        privilege: Privilege::None,
        runs: Runs::Compiled,
        parse: |_, _| Err(Error::new(Code(40324), "the stage cannot be compiled")),
    };

    /// The defaults of diagnostic stages.
    pub(super) const DIAGNOSTIC: StageRow = StageRow {
        position: Position::First,
        stable_api: StableApi::Excluded,
        in_transactions: false,
        ..StageRow::BASE
    };

    /// Whether the stage can be compiled.
    pub(crate) fn is_compiled(&self) -> bool {
        matches!(self.runs, Runs::Compiled | Runs::AtOnceOrCompiled(_))
    }

    /// The function that makes the documents of a diagnostic stage.
    pub(crate) fn diagnose(&self) -> Option<Diagnose> {
        match self.runs {
            Runs::AtOnce(make) | Runs::AtOnceOrCompiled(make) => Some(make),
            Runs::Compiled | Runs::InChangeStream => None,
        }
    }
}
