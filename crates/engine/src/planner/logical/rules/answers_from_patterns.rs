//! A `$group`, a count, a sort with a limit, a `$lookup` or a search in a tree is answered from the
//! values that a pattern maintains. Which queries a pattern answers is up to its kind.

use crate::planner::logical::answers::{Answer, PatternAnswers, PatternQuery};
use crate::planner::logical::{Apply, Rule};
use value::Result;

pub(super) static RULE: Rule = Rule {
    name: "answers_from_patterns",
    help: "Answers queries from the values that patterns maintain.",
    apply: Apply::Answer(apply),
};

fn apply(source: &mut dyn PatternAnswers, query: &PatternQuery<'_>) -> Result<Option<Answer>> {
    Ok(match *query {
        PatternQuery::Filter { collection, filter, sort, most } => {
            source.filter(collection, filter, sort, most)?.map(Answer::Filter)
        }
        PatternQuery::Count { collection, filter } => {
            source.count(collection, filter)?.map(Answer::Count)
        }
        PatternQuery::Pipeline { collection, pipeline } => {
            source.pipeline(collection, pipeline)?.map(Answer::Pipeline)
        }
    })
}
