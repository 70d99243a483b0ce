//! Chooses the access of a query by what the query needs.

use super::{Apply, Fired, RULES, RuleId};
use crate::catalog::Collection;
use crate::planner::cover::FieldRead;
use crate::planner::min_max::MinMax;
use crate::planner::restrictions::Restrictions;
use crate::planner::{self, Plan, Question};
use query::project::Projection;
use value::Result;

/// What a query needs of the documents that it finds.
#[derive(Clone, Copy)]
pub enum Needs<'n> {
    /// Whole documents: to write them, or for stages that may read all fields.
    Documents,
    /// The fields of a projection; without one, whole documents.
    Projection(Option<&'n Projection>),
    /// The keys of the index that is used.
    Keys,
    /// Only their number.
    Count,
    /// The values of the field at this path, each at least once.
    Values(&'n str),
    /// The fields that a `$group` reads.
    Group(GroupNeeds<'n>),
}

/// What a `$group` reads of its input documents.
#[derive(Clone, Copy)]
pub struct GroupNeeds<'n> {
    /// The fields; `None` if it may read all of them.
    pub reads: Option<&'n [FieldRead]>,
    /// The path of its key, if the key is a field.
    pub key_path: Option<&'n str>,
    /// Whether a `$limit` comes before it.
    pub is_limited: bool,
    /// Set if no more than the first document of each group is needed: whether it is needed, or
    /// only the key of the group.
    pub firsts: Option<bool>,
}

/// The chosen way to run a query.
pub struct Decision {
    /// The plan.
    pub plan: Plan,
    /// The index column whose distinct values are read; for `Needs::Values` and `Needs::Group`.
    pub column: Option<usize>,
    /// Whether index entries are counted and no document is read; for `Needs::Count`.
    pub counts_entries: bool,
    /// Whether the entries come group by group; for `Needs::Group`.
    pub is_grouped: bool,
    /// The rules that were applied.
    pub fired: Fired,
}

impl Decision {
    /// A plan that no rule has changed.
    pub(super) fn new(plan: Plan) -> Decision {
        Decision {
            plan,
            column: None,
            counts_entries: false,
            is_grouped: false,
            fired: Fired::default(),
        }
    }
}

/// A decision that rules may change.
pub struct Draft<'d, 'q> {
    /// The query.
    pub question: &'d Question<'q>,
    /// What the query needs.
    pub needs: &'d Needs<'d>,
    /// The decision so far.
    pub decision: &'d mut Decision,
}

/// A count before it is planned.
pub struct CountQuery<'q> {
    /// The collection.
    pub collection: &'q Collection,
    /// Whether it has neither a filter nor a hint.
    pub is_of_all: bool,
    /// Whether it reads the newest state.
    pub reads_newest: bool,
}

/// The rule by which the counters of a collection are the result of a count.
#[must_use]
pub fn counts_from_counters(count: &CountQuery<'_>) -> Option<RuleId> {
    let fires = |apply: Apply| matches!(apply, Apply::Counters(apply) if apply(count));
    RULES.iter().position(|rule| fires(rule.apply)).map(RuleId)
}

/// Chooses the plan of a query. All queries get their plan here: find, count, distinct, update,
/// delete, lookups of change events, and the front of every pipeline.
///
/// # Errors
/// BadValue for a hint that names no index, and errors of `bounds`.
pub fn decide(question: &Question<'_>, needs: &Needs<'_>, bounds: MinMax<'_>) -> Result<Decision> {
    let decision = decide_on_access(question, needs, bounds)?;
    // Bounds of many values may be incomplete if the operation ended meanwhile.
    query::interrupt::confirm()?;
    Restrictions::current().check(question, &decision.plan)?;
    Ok(decision)
}

fn decide_on_access(
    question: &Question<'_>,
    needs: &Needs<'_>,
    bounds: MinMax<'_>,
) -> Result<Decision> {
    if !bounds.is_empty() {
        let mut decision = Decision::new(bounds.plan(question)?);
        refine(question, needs, &mut decision);
        return Ok(decision);
    }
    if let Needs::Documents = needs {
        return planner::plan(question).map(Decision::new);
    }
    for (at, rule) in RULES.iter().enumerate() {
        if let Apply::Instead(apply) = rule.apply
            && let Some(mut decision) = apply(question, needs)
        {
            decision.fired.add(RuleId(at));
            return Ok(decision);
        }
    }
    if let Needs::Group(_) = needs {
        let mut decision = Decision::new(planner::plan(question)?);
        refine(question, needs, &mut decision);
        return Ok(decision);
    }
    let mut decision = Decision::new(planner::plan_for_entries(question)?);
    refine(question, needs, &mut decision);
    if !decision.plan.is_covered() && !decision.counts_entries {
        decision.plan = planner::settle(question, decision.plan);
    }
    Ok(decision)
}

fn refine(question: &Question<'_>, needs: &Needs<'_>, decision: &mut Decision) {
    for (at, rule) in RULES.iter().enumerate() {
        let Apply::Plan(apply) = rule.apply else { continue };
        if apply(&mut Draft { question, needs, decision }) {
            decision.fired.add(RuleId(at));
        }
    }
}
