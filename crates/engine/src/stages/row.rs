//! The row of a stage: how it is compiled, where it may be and what else is known about it. A row
//! ends with `..StageRow::BASE`, so that it names only what is not the default.

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
    /// What a pipeline reads that begins with it.
    pub(crate) source: Source,
    /// Whether a `$facet` may contain it. One that writes or must be first it never contains.
    pub(crate) in_facet: bool,
    /// Whether it runs in multi-document transactions.
    pub(crate) in_transactions: bool,
    /// Whether it may follow a `$changeStream`.
    pub(crate) in_change_streams: bool,
    /// Whether it is part of version 1 of the stable API.
    pub(crate) stable_api: StableApi,
    /// Whether it gives other documents each time that it runs over the same ones.
    pub(crate) is_random: bool,
    /// What a client needs for it beside the right to read the collection of the pipeline.
    pub(crate) privilege: Privilege,
    /// How it runs.
    pub(crate) runs: Runs,
    /// Compiles it, unless it runs in another way than most.
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

/// What a pipeline reads that begins with a stage.
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

/// Makes the documents of a stage that tells about the server, from its argument and the collection that
/// the command names.
pub(crate) type Diagnose = fn(&dyn Server, Val<'_>, Option<&str>) -> Result<Vec<DocBuf>>;

/// How a stage runs.
#[derive(Clone, Copy)]
pub(crate) enum Runs {
    /// It is compiled and put behind the stage before it.
    Compiled,
    /// It makes its documents when the command begins, from what the server tells. It is given its
    /// argument and the collection that the command names.
    AtOnce(Diagnose),
    /// It is part of a change stream, which the command opens.
    InChangeStream,
}

impl StageRow {
    /// What holds for a stage whose row does not say otherwise.
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

    /// What stages have in common that tell about the server.
    pub(super) const DIAGNOSTIC: StageRow = StageRow {
        position: Position::First,
        stable_api: StableApi::Excluded,
        in_transactions: false,
        ..StageRow::BASE
    };

    /// Whether the stage can be compiled.
    pub(crate) fn is_compiled(&self) -> bool {
        matches!(self.runs, Runs::Compiled)
    }

    /// What makes the documents of a stage that tells about the server.
    pub(crate) fn diagnose(&self) -> Option<Diagnose> {
        match self.runs {
            Runs::AtOnce(make) => Some(make),
            Runs::Compiled | Runs::InChangeStream => None,
        }
    }
}
