//! Compiled stages as rules see them, and decisions on them.

use super::{Apply, RULES, RuleId};

/// The properties of a compiled stage that rules use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape<'s> {
    /// Passes the documents that match a filter.
    Match,
    /// Orders the documents.
    Sort,
    /// Passes only the first documents.
    Limit,
    /// Makes a document of each element of the array at this path.
    Unwind(&'s str),
    /// Adds documents of another collection.
    Lookup {
        /// The field that gets them.
        field: &'s str,
        /// Whether it already produces one document per joined document.
        unwinds: bool,
    },
    /// Counts all documents into one.
    Count,
    /// Returns the documents of the collection in order of distance.
    Near,
    /// Computes the fields of every document.
    Project,
    /// Groups documents.
    Group,
    /// Any other stage.
    Other,
}

/// The stages of a compiled pipeline.
pub trait Shapes {
    /// The stage at a position; `None` after the last.
    fn shape(&self, at: usize) -> Option<Shape<'_>>;
}

/// The stages at the front of a pipeline that a find answers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Front {
    /// Whether the first stage is a `$match`, whose filter becomes that of the find.
    pub filters: bool,
    /// Whether the first stage is a `$geoNear`, which becomes a find.
    pub is_near: bool,
    /// Whether a `$sort` is part of it.
    pub sorts: bool,
    /// Whether a `$limit` is part of it.
    pub limits: bool,
}

impl Front {
    /// The number of stages.
    #[must_use]
    pub fn len(self) -> usize {
        [self.filters, self.is_near, self.sorts, self.limits].into_iter().map(usize::from).sum()
    }
}

/// Stages that run as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joined {
    /// A `$sort` and the `$limit` after it: only the first documents are kept.
    SortLimit,
    /// A `$group` with adjacent stages.
    Group {
        /// Whether an `$unwind` comes first.
        unwind: bool,
        /// Whether a `$project` comes before the `$group`, after the `$unwind`.
        project: bool,
        /// Whether a `$project` follows, in which sizes of sets may become counts.
        behind: bool,
    },
}

/// The rule by which a stage takes over the work of the next one.
#[must_use]
pub fn absorbs(stage: &Shape<'_>, next: &Shape<'_>) -> Option<RuleId> {
    let fires = |apply: Apply| matches!(apply, Apply::Absorb(apply) if apply(stage, next));
    RULES.iter().position(|rule| fires(rule.apply)).map(RuleId)
}

/// The stages that a find answers, and the rule that decided it, if there are any.
#[must_use]
pub fn front(stages: &dyn Shapes) -> (Front, Option<RuleId>) {
    let found = RULES.iter().enumerate().find_map(|(at, rule)| match rule.apply {
        Apply::Front(apply) => {
            Some((apply(stages), RuleId(at))).filter(|(front, _)| front.len() > 0)
        }
        _ => None,
    });
    found.map_or((Front::default(), None), |(front, rule)| (front, Some(rule)))
}

/// The rule by which a pipeline is answered as a count.
#[must_use]
pub fn is_count_only(stages: &dyn Shapes) -> Option<RuleId> {
    let fires = |apply: Apply| matches!(apply, Apply::Count(apply) if apply(stages));
    RULES.iter().position(|rule| fires(rule.apply)).map(RuleId)
}

/// The stages from a position on that run as one, and the rule that decided it.
#[must_use]
pub fn joined(stages: &dyn Shapes, at: usize) -> Option<(Joined, RuleId)> {
    RULES.iter().enumerate().find_map(|(rule, row)| match row.apply {
        Apply::Join(apply) => Some((apply(stages, at)?, RuleId(rule))),
        _ => None,
    })
}
