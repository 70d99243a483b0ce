//! The optimiser: every rewrite of a query is a rule of `RULES`.
//!
//! A pipeline is read into typed stages (`stage`). Rules look at neighbouring stages and replace
//! them by stages that give the same documents with less work. A rule lives in one file under
//! `rules`, has one row in `RULES` and one spec file in `tests/spec/optimiser`. `Fired` records
//! which rules changed something; explain shows their names as `rulesFired`.
//!
//! Nothing here compiles stages or reads documents.

mod fields;
mod fired;
mod pipeline;
mod rules;
mod stage;

pub use fired::Fired;
pub use pipeline::{Optimised, optimise};
pub use rules::RULES;

use pipeline::Pipeline;

/// A rule of the optimiser.
pub struct Rule {
    /// Its name: that of its file, and what explain shows.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
    /// When it runs, and the function that applies it.
    pub apply: Apply,
}

/// When a rule runs.
#[derive(Clone, Copy)]
pub enum Apply {
    /// On stages as they were written, before they are compiled. Called for each stage but the
    /// first, with its position; returns whether it changed the pipeline. The rules start again
    /// one stage before a change, so a rule must not undo what another one does.
    Written(fn(&mut Pipeline<'_>, usize) -> bool),
}
