//! What a plan must read, by what is asked of it.

use super::{Apply, Fired, RULES, RuleId};
use crate::planner::cover::FieldRead;
use crate::planner::min_max::MinMax;
use crate::planner::{self, Plan, Question};
use query::project::Projection;
use value::Result;

/// What is made of the documents that a query finds.
#[derive(Clone, Copy)]
pub enum Needs<'n> {
    /// They are needed whole: to be written, or for stages that may read all of them.
    Documents,
    /// What a projection shows of them; without one, all of them.
    Projection(Option<&'n Projection>),
    /// Only how many they are.
    Count,
    /// The values of the field at this path, each at least once.
    Values(&'n str),
    /// What a `$group` behind them reads.
    Group(GroupNeeds<'n>),
}

/// What a `$group` reads of the documents in front of it.
#[derive(Clone, Copy)]
pub struct GroupNeeds<'n> {
    /// The fields; `None` if it may be all of them.
    pub reads: Option<&'n [FieldRead]>,
    /// The field that is the key, if it is one.
    pub key_path: Option<&'n str>,
    /// Whether a `$limit` stands between them.
    pub is_limited: bool,
}

/// How a query finds what it needs.
pub struct Decision {
    /// The plan.
    pub plan: Plan,
    /// The column of the index whose values are read, each once; for `Needs::Values`.
    pub column: Option<usize>,
    /// Whether entries of the index are counted, and no document is read; for `Needs::Count`.
    pub counts_entries: bool,
    /// Whether the entries come group by group; for `Needs::Group`.
    pub is_grouped: bool,
    /// The rules that decided it.
    pub fired: Fired,
}

impl Decision {
    /// A plan that no rule changed yet.
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
    /// What is asked of it.
    pub needs: &'d Needs<'d>,
    /// What was decided so far.
    pub decision: &'d mut Decision,
}

/// Chooses the plan of a query. This is the one way from a query to a plan: find, count, distinct,
/// update, delete and the front of every pipeline come here.
///
/// # Errors
/// BadValue for a hint that names no index, and what `bounds` refuse.
pub fn decide(question: &Question<'_>, needs: &Needs<'_>, bounds: MinMax<'_>) -> Result<Decision> {
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
