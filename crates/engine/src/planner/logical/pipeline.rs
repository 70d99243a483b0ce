//! A pipeline of typed stages, and the loop that applies the rules to it.

use super::stage::Stage;
use super::{Apply, Fired, RULES, Rule, RuleId};
use value::{DocBuf, RawDoc, writer};

/// A pipeline that is being optimised.
pub struct Pipeline<'p> {
    /// Its stages.
    pub stages: Vec<Stage<'p>>,
}

/// A pipeline after the rules for written stages.
#[derive(Default)]
pub struct Optimised {
    /// The stages, if a rule changed them.
    pub stages: Option<DocBuf>,
    /// The rules that changed them.
    pub fired: Fired,
}

/// Applies the rules for written stages until none changes anything. A pipeline with an invalid
/// stage is left unchanged: compiling it reports the error.
#[must_use]
pub fn optimise(pipeline: RawDoc<'_>) -> Optimised {
    let Some(mut pipeline) = Pipeline::read(pipeline) else { return Optimised::default() };
    let mut fired = Fired::default();
    let mut at = 1;
    while at < pipeline.stages.len() {
        match pipeline.apply_one(at) {
            Some(rule) => {
                fired.add(rule);
                at = (at - 1).max(1);
            }
            None => at += 1,
        }
    }
    let stages = (!fired.is_empty()).then(|| pipeline.write());
    Optimised { stages, fired }
}

impl<'p> Pipeline<'p> {
    /// Reads a pipeline; `None` when there is nothing to optimise.
    fn read(pipeline: RawDoc<'p>) -> Option<Pipeline<'p>> {
        let mut stages = Vec::new();
        for (_, stage) in pipeline {
            stages.push(Stage::read(stage)?);
        }
        (stages.len() > 1).then_some(Pipeline { stages })
    }

    /// Applies the first rule that changes something at a position. Returns that rule.
    fn apply_one(&mut self, at: usize) -> Option<RuleId> {
        let mut fires =
            |rule: &Rule| matches!(rule.apply, Apply::Written(apply) if apply(self, at));
        RULES.iter().position(|rule| fires(rule)).map(RuleId)
    }

    /// The stage at a position and the one before it.
    pub fn pair(&self, at: usize) -> Option<(&Stage<'p>, &Stage<'p>)> {
        Some((self.stages.get(at.checked_sub(1)?)?, self.stages.get(at)?))
    }

    /// Exchanges the stage at a position and the one before it.
    pub fn swap_with_previous(&mut self, at: usize) -> bool {
        let swaps = at > 0 && at < self.stages.len();
        if swaps {
            self.stages.swap(at - 1, at);
        }
        swaps
    }

    /// Replaces the stage at a position.
    pub fn replace(&mut self, at: usize, stage: Stage<'p>) {
        if let Some(slot) = self.stages.get_mut(at) {
            *slot = stage;
        }
    }

    fn write(&self) -> DocBuf {
        let mut bytes = Vec::new();
        writer::write_array(&mut bytes, |out| {
            self.stages.iter().for_each(|stage| out.push_doc_bytes(stage.doc().bytes()));
        });
        DocBuf::from_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{Val, ejson};

    /// The names of the stages after optimisation, and of the rules that fired.
    fn optimised(text: &str) -> (String, String) {
        let doc = ejson::parse_doc(&format!("{{p: {text}}}")).expect("test text");
        let Some(Val::Array(pipeline)) = doc.as_doc().get("p") else { panic!("an array") };
        let Optimised { stages, fired } = optimise(pipeline);
        let stages = stages.unwrap_or_else(|| pipeline.into());
        let name = |stage: value::RawVal<'_>| Some(stage.as_doc()?.first()?.0.to_owned());
        let names: Vec<String> =
            stages.as_doc().iter().filter_map(|(_, stage)| name(stage)).collect();
        let fired: Vec<&str> = fired.names().collect();
        (names.join(" "), fired.join(" "))
    }

    fn order(text: &str) -> String {
        optimised(text).0
    }

    #[test]
    fn a_filter_moves_in_front_of_what_does_not_touch_it() {
        assert_eq!(order("[{$sort: {a: 1}}, {$match: {a: 1}}]"), "$match $sort");
        assert_eq!(order("[{$match: {a: 1}}, {$sort: {a: 1}}, {$match: {b: 1}}]"), "$match $sort");
        assert_eq!(order("[{$set: {x: 1}}, {$match: {'a.b': 1}}]"), "$match $set");
        assert_eq!(order("[{$set: {'a.c': 1}}, {$match: {'a.b': 1}}]"), "$set $match");
        assert_eq!(order("[{$unwind: '$t'}, {$match: {$or: [{a: 1}, {b: 2}]}}]"), "$match $unwind");
        assert_eq!(order("[{$unwind: '$t'}, {$match: {t: 1}}]"), "$unwind $match");
        assert_eq!(order("[{$unwind: '$t'}, {$match: {$expr: true}}]"), "$unwind $match");
        assert_eq!(order("[{$project: {a: 1}}, {$match: {a: 1}}]"), "$match $project");
        assert_eq!(order("[{$project: {a: 1}}, {$match: {_id: 1}}]"), "$match $project");
        assert_eq!(order("[{$project: {a: 1}}, {$match: {b: 1}}]"), "$project $match");
        assert_eq!(order("[{$project: {a: '$b'}}, {$match: {a: 1}}]"), "$project $match");
        assert_eq!(order("[{$project: {a: 0}}, {$match: {b: 1}}]"), "$match $project");
        assert_eq!(order("[{$project: {a: 0, _id: 0}}, {$match: {_id: 1}}]"), "$project $match");
        assert_eq!(order("[{$limit: 1}, {$match: {a: 1}}]"), "$limit $match");
        assert_eq!(order("[{$sort: {a: 1}}, {$match: {$text: {$search: 'x'}}}]"), "$sort $match");
    }

    #[test]
    fn a_filter_of_joined_documents_moves_into_the_join() {
        let lookup = "{$lookup: {from: 'b', localField: 'k', foreignField: 'k', as: 'x'}}";
        let behind = |unwind: &str, filter: &str| {
            order(&format!("[{lookup}, {{$unwind: {unwind}}}, {{$match: {filter}}}]"))
        };
        assert_eq!(behind("'$x'", "{'x.a': 1}"), "$lookup $unwind");
        assert_eq!(behind("{path: '$x'}", "{$or: [{'x.a': 1}, {'x.b': 2}]}"), "$lookup $unwind");
        assert_eq!(behind("'$x'", "{'x.a': 1, k: 1}"), "$match $lookup $unwind");
        assert_eq!(behind("'$x'", "{$or: [{'x.a': 1}, {k: 2}]}"), "$lookup $unwind $match");
        assert_eq!(behind("'$x'", "{x: 1}"), "$lookup $unwind $match");
        assert_eq!(behind("'$y'", "{'x.a': 1}"), "$lookup $match $unwind");
        let keeping = "{path: '$x', preserveNullAndEmptyArrays: true}";
        assert_eq!(behind(keeping, "{'x.a': 1}"), "$lookup $unwind $match");
    }

    #[test]
    fn the_rules_that_fired_are_known() {
        let (_, fired) = optimised("[{$sort: {b: 1}}, {$sort: {a: 1}}, {$match: {a: 1}}]");
        assert_eq!(fired, "drop_overridden_sort match_forward");
        let (_, fired) = optimised("[{$project: {a: 1}}, {$limit: 1}]");
        assert_eq!(fired, "limit_before_projection");
        let (_, fired) = optimised("[{$match: {a: 1}}, {$match: {b: 1}}]");
        assert_eq!(fired, "merge_matches");
        let (_, fired) = optimised("[{$match: {a: 1}}, {$limit: 1}]");
        assert_eq!(fired, "");
        let (left, fired) = optimised("[{$unset: ['a', 'b']}, {$set: {a: {$add: ['$c', 1]}}}]");
        assert_eq!((&*left, &*fired), ("$unset $set", "set_in_place"));
        for kept in [
            "{a: {x: 1}}",
            "{a: '$a'}",
            "{a: '$$ROOT'}",
            "{a: 1, b: '$a.x'}",
            "{a: {$getField: 'a'}}",
        ] {
            let (_, fired) = optimised(&format!("[{{$unset: 'a'}}, {{$set: {kept}}}]"));
            assert_eq!(fired, "", "{kept}");
        }
    }

    #[test]
    fn many_filters_do_not_nest() {
        let many = vec!["{$match: {a: 1}}"; 300].join(", ");
        let doc = ejson::parse_doc(&format!("{{p: [{many}]}}")).expect("test text");
        let Some(Val::Array(pipeline)) = doc.as_doc().get("p") else { panic!("an array") };
        let new = optimise(pipeline).stages.expect("they become one");
        let filter = new.as_doc().first().and_then(|(_, stage)| stage.as_doc()?.get("$match"));
        let parts = filter.and_then(Val::as_doc).and_then(|doc| doc.get("$and"));
        assert_eq!(parts.and_then(Val::as_array).map(RawDoc::count), Some(300));
    }
}
