//! The optimiser: every decision on rewriting a query or running stages together is a rule of
//! `RULES`.
//!
//! A query passes the rules in this order:
//! 1. `pipeline`: a written pipeline is read into typed stages (`stage`), and rules replace
//!    adjacent stages by others that return the same documents with less work. `answers`
//!    replaces queries by values that patterns maintain.
//! 2. `compiled`: on compiled stages, rules decide which of them a find with a plan answers, and
//!    which run as one.
//! 3. `access`: rules decide what a plan must read to produce the result: documents, entries of
//!    an index, or one entry for each value. Every command gets its plan here.
//!
//! A rule lives in one file under `rules`, has one row in `RULES` and one spec file in
//! `tests/spec/optimiser`. `Fired` records which rules changed something; explain shows their names
//! as `rulesFired`, and those of pipelines inside stages as `innerRulesFired`. Nothing here compiles
//! stages or reads documents.

mod access;
mod answers;
mod compiled;
mod fields;
mod fired;
mod pipeline;
mod rules;
mod stage;

pub use access::{CountQuery, Decision, GroupNeeds, Needs, counts_from_counters, decide};
pub use answers::{Answer, PatternAnswers, PatternQuery, PipelineAnswer, answer};
pub use compiled::{Front, Joined, Shape, Shapes, absorbs, front, is_count_only, joined};
pub use fired::{Fired, InnerFired, RuleId};
pub use pipeline::{Optimised, optimise};
pub use rules::RULES;

use super::Question;
use access::Draft;
use pipeline::Pipeline;
use value::Result;

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
    /// On a query before it is compiled: what patterns answer in its place.
    Answer(fn(&mut dyn PatternAnswers, &PatternQuery<'_>) -> Result<Option<Answer>>),
    /// On a compiled stage and the next one: whether the first can do the work of both. The stage
    /// itself may decline.
    Absorb(fn(&Shape<'_>, &Shape<'_>) -> bool),
    /// On a compiled pipeline over a collection: how many stages at its front a find answers.
    Front(fn(&dyn Shapes) -> Front),
    /// On a compiled pipeline over a collection: whether it only counts.
    Count(fn(&dyn Shapes) -> bool),
    /// On a count before it is planned: whether the counters of the collection are its result.
    Counters(fn(&CountQuery<'_>) -> bool),
    /// On compiled stages from a position on: which of them run as one. A group may decline.
    Join(fn(&dyn Shapes, usize) -> Option<Joined>),
    /// Before a plan is chosen: another way to find the result.
    Instead(fn(&Question<'_>, &Needs<'_>) -> Option<Decision>),
    /// On a chosen plan; returns whether it changed it.
    Plan(fn(&mut Draft<'_, '_>) -> bool),
}
