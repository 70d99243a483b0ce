//! Why a fold does not answer a query that it nearly answers, for explain.

use super::answers::fields;
use super::{Fold, Keys, Unwind};
use crate::answers::{
    GroupQuery, QueryKind, Question, conditions, equal_to, required_key, same_conditions,
};
use crate::error_context::value_text;
use value::{RawDoc, RawVal, Result, Val};

impl Fold {
    /// The reason; `None` if the query has nothing to do with the fold.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn why_not(
        &self,
        question: &Question<'_>,
        query: &QueryKind<'_>,
    ) -> Result<Option<String>> {
        if *self.source != *question.collection {
            return Ok(None);
        }
        let why = match query {
            QueryKind::Group(query) => self.why_no_group(question, query),
            QueryKind::Count(filter) if self.asks_for_key(*filter) => {
                self.why_no_count(question, *filter)
            }
            QueryKind::First { filter, sort, limit } if self.asks_for_key(*filter) => {
                self.why_not_first(question, *filter, *sort, *limit)
            }
            _ => None,
        };
        Ok(match why {
            Some(why) => Some(why),
            None if matches!(query, QueryKind::Group(_)) && question.is_behind()? => {
                Some("updates of it are pending".to_owned())
            }
            None => None,
        })
    }

    /// Whether a filter asks for one value of the key.
    fn asks_for_key(&self, filter: RawDoc<'_>) -> bool {
        let Keys::Parents { foreign, .. } = &self.keys else { return false };
        let mut asked = Vec::new();
        conditions(filter, &mut asked);
        asked.iter().any(|(name, value)| *name == foreign.text() && equal_to(*value).is_some())
    }

    /// Why it may not count everything that matches its filter.
    fn why_incomplete(&self) -> Option<String> {
        if self.window.is_some() {
            return Some("it has a window".to_owned());
        }
        self.skip_errors.then(|| "onError is 'skip', so it may leave documents out".to_owned())
    }

    fn other_filter(question: &Question<'_>) -> String {
        match question.pattern.declaration.as_doc().get("filter") {
            Some(filter) => format!("its filter is {}", value_text(filter)),
            None => "it has no filter, but the query has other conditions".to_owned(),
        }
    }

    fn why_no_group(&self, question: &Question<'_>, query: &GroupQuery<'_>) -> Option<String> {
        let declared = question.pattern.declaration.as_doc();
        let maintained = fields(question.pattern, self, query.group);
        let same_key = self.is_own() && query.group.find("_id") == declared.find("groupBy");
        let mut all = Vec::new();
        conditions(query.filter, &mut all);
        if let Some(unwind) = &query.unwind {
            conditions(unwind.filter, &mut all);
        }
        let asks = |(name, value): &(&str, RawVal<'_>)| match &self.keys {
            Keys::Parents { foreign, .. } => *name == foreign.text() && equal_to(*value).is_some(),
            Keys::Groups(_) => false,
        };
        let one = all.iter().any(asks);
        // Another `$group` over the same documents is no near miss.
        let near = if self.is_own() { same_key || maintained.is_some() } else { one };
        if !near || declared.get("fields").and_then(Val::as_doc).is_none() {
            return None;
        }
        if let Some(why) = self.why_incomplete() {
            return Some(why);
        }
        let unwound = self.unwind.as_ref().map(Unwind::path);
        match (unwound, &query.unwind) {
            (Some(path), None) => {
                return Some(format!(
                    "it folds the elements of '{path}': the query has no $unwind"
                ));
            }
            (None, Some(_)) => {
                return Some("it folds documents: the query has an $unwind".to_owned());
            }
            _ => {}
        }
        let Some(asked) = query.conditions(unwound) else {
            return Some("a condition before $unwind is about the array".to_owned());
        };
        if maintained.is_none() {
            let unknown = query.group.iter().filter(|(name, _)| *name != "_id");
            let unknown = unknown.map(|(name, spec)| format!("{name}: {}", value_text(spec.get())));
            let list = unknown.collect::<Vec<_>>().join(", ");
            return Some(format!("it does not maintain all of {list} in a form without an order"));
        }
        match &self.keys {
            Keys::Groups(_) => {
                if !same_key {
                    let key = declared.get("groupBy").unwrap_or(Val::Null);
                    return Some(format!("it groups by {}", value_text(key)));
                }
                let mut counted = Vec::new();
                let own = declared.get("filter").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
                conditions(own, &mut counted);
                (!same_conditions(asked, counted)).then(|| Fold::other_filter(question))
            }
            Keys::Parents { foreign, .. } => {
                match required_key(question.pattern, &asked, foreign.text()) {
                    None => Some(Fold::other_filter(question)),
                    Some(_) => Some("the _id of the $group is not a constant".to_owned()),
                }
            }
        }
    }

    fn why_no_count(&self, question: &Question<'_>, filter: RawDoc<'_>) -> Option<String> {
        let Keys::Parents { foreign, .. } = &self.keys else { return None };
        if let Some(why) = self.why_incomplete() {
            return Some(why);
        }
        if let Some(unwind) = &self.unwind {
            return Some(format!("it counts the elements of '{}', not documents", unwind.path()));
        }
        if !self.counts_children() {
            return Some("it does not know the number: it has no 'count'".to_owned());
        }
        let mut asked = Vec::new();
        conditions(filter, &mut asked);
        let key = required_key(question.pattern, &asked, foreign.text());
        key.is_none().then(|| Fold::other_filter(question))
    }

    fn why_not_first(
        &self,
        question: &Question<'_>,
        filter: RawDoc<'_>,
        sort: RawDoc<'_>,
        limit: u64,
    ) -> Option<String> {
        let declared = question.pattern.declaration.as_doc();
        // Only a list of children has an order.
        let (order, kept) = (declared.get("sort")?, declared.get("limit")?.as_i64_exact()?);
        let Keys::Parents { foreign, .. } = &self.keys else { return None };
        if let Some(why) = self.why_incomplete() {
            return Some(why);
        }
        let mut asked = Vec::new();
        conditions(filter, &mut asked);
        if required_key(question.pattern, &asked, foreign.text()).is_none() {
            return Some(Fold::other_filter(question));
        }
        if limit == 0 || i64::try_from(limit).is_ok_and(|limit| limit <= kept) {
            return (Val::Document(sort) != order)
                .then(|| format!("its order is {}", value_text(order)));
        }
        Some(format!("it keeps {kept} documents, the query wants {limit}"))
    }
}
