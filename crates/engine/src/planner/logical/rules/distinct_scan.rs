//! The distinct values of a field are read from an index in which all fields before it have a
//! single value: one entry is read per value, the others are skipped.

use crate::catalog::IndexKind;
use crate::planner::cover::entries_are_matches;
use crate::planner::logical::{Apply, Decision, Needs, Rule};
use crate::planner::{self, Access, Candidate, Plan, Question};

pub(super) static RULE: Rule = Rule {
    name: "distinct_scan",
    help: "Reads one entry of an index for each distinct value.",
    apply: Apply::Instead(apply),
};

fn apply(question: &Question<'_>, needs: &Needs<'_>) -> Option<Decision> {
    let Needs::Values(path) = needs else { return None };
    let filter = question.filter;
    let plain = question.hint.is_none() && filter.collation().is_none();
    if !plain || filter.text().is_some() || filter.near().is_some() {
        return None;
    }
    question.collection.readable_indexes().find_map(|index| {
        let candidate = planner::use_of(question, index)?;
        let column = column(&candidate, path)?;
        let access = Access::Index(candidate);
        let plan = Plan { implied: access.implied(), access, sorted: true, rejected: Vec::new() };
        // A sparse index lacks only documents without a value.
        let exact = filter.is_empty() || entries_are_matches(&plan, filter);
        exact.then(|| Decision { column: Some(column), ..Decision::new(plan) })
    })
}

/// The column of the field, if the index contains all its values. If columns before it have several
/// values, one entry is read for each combination.
fn column(candidate: &Candidate, path: &str) -> Option<usize> {
    let index = &candidate.index;
    let at = place(candidate, path)?;
    // A document with several values has an entry of each, also of those outside the bounds on them.
    // Bounds on a field that is no array hold for all entries of its documents.
    let bounds_values = (0..candidate.bounded).any(|bound| index.is_multikey_at(bound));
    let usable = at <= candidate.equalities || candidate.bounded > 0;
    (usable && !bounds_values).then_some(at)
}

/// The column of a field whose values are read once each: all columns before it have one value.
pub(super) fn reads_once(candidate: &Candidate, path: &str) -> Option<usize> {
    place(candidate, path).filter(|at| *at <= candidate.equalities)
}

/// The column of a field whose values can be read from the entries of a candidate.
fn place(candidate: &Candidate, path: &str) -> Option<usize> {
    let index = &candidate.index;
    let usable = matches!(index.kind, IndexKind::Ordered)
        && !index.is_clustered()
        && index.collation.is_none()
        && index.partial.is_none()
        && candidate.check.is_none()
        && candidate.key_filter.is_none()
        && candidate.probes.is_none();
    let at = index.fields.iter().position(|field| field.path.text() == path)?;
    let parts = index.fields.get(at)?.path.parts();
    // A number may be a position in an array.
    let usable = usable && parts.iter().all(|part| part.index.is_none());
    usable.then_some(at)
}
