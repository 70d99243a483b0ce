//! Types of documents that have none: the first rule that a document matches names its type, if
//! the document is valid for it.

use super::{Found, Types};
use crate::edit;
use crate::error_context::value_text;
use crate::inspection::Inspection;
use query::filter::Filter;
use std::sync::Arc;
use value::{DocBuf, Error, OwnedVal, RawDoc, Result, Val};

/// How many `_id`s a message has.
const IDS_MAX: usize = 3;

/// A rule for documents without a type.
#[derive(Clone, Debug)]
pub(crate) struct Inference {
    /// The documents that it is about.
    pub(crate) filter: Arc<Filter>,
    /// The position of their type.
    pub(crate) then: usize,
}

impl Types {
    /// Returns a document with the type that the rules find for it; `None` if it has one, or they
    /// find none that it is valid for.
    ///
    /// # Errors
    /// When the operation is stopped.
    pub(super) fn inferred(&self, doc: RawDoc<'_>) -> Result<Option<DocBuf>> {
        if self.found(doc) != Found::Nothing {
            return Ok(None);
        }
        for rule in &self.inference {
            if !rule.filter.matches(doc)? {
                continue;
            }
            let Some(of) = self.at(rule.then) else { return Ok(None) };
            let name = OwnedVal::new(Val::String(&of.name));
            let typed = edit::assign(doc, &[(self.discriminator.clone(), Some(name))]);
            // Something else than an object may be where the discriminator should be.
            let Ok(typed) = typed else { return Ok(None) };
            return Ok(self.conforms(typed.as_doc())?.then_some(typed));
        }
        Ok(None)
    }
}

/// Looks whether each rule tells documents from others.
pub(super) struct Usefulness {
    /// What is known of each rule.
    rules: Vec<Known>,
}

/// The documents that a rule matches, and those that it does not match.
struct Known {
    filter: Arc<Filter>,
    matched: Vec<OwnedVal>,
    others: Vec<OwnedVal>,
}

impl Usefulness {
    /// A look at the rules of a declaration; `None` if it has none.
    pub(super) fn of(types: &Types) -> Option<Usefulness> {
        let known = |rule: &Inference| Known {
            filter: rule.filter.clone(),
            matched: Vec::new(),
            others: Vec::new(),
        };
        let rules: Vec<Known> = types.inference.iter().map(known).collect();
        (!rules.is_empty()).then_some(Usefulness { rules })
    }
}

impl Inspection for Usefulness {
    fn visit(&mut self, doc: RawDoc<'_>) -> Result<bool> {
        let mut open = false;
        for rule in &mut self.rules {
            if !rule.matched.is_empty() && !rule.others.is_empty() {
                continue;
            }
            let side = match rule.filter.matches(doc)? {
                true => &mut rule.matched,
                false => &mut rule.others,
            };
            if side.len() < IDS_MAX {
                side.push(OwnedVal::new(doc.get("_id").unwrap_or(Val::Null)));
            }
            open |= rule.matched.is_empty() || rule.others.is_empty();
        }
        Ok(open)
    }

    fn finish(&self) -> Result<()> {
        for (at, rule) in self.rules.iter().enumerate() {
            // One document cannot be told from others.
            let (what, ids) = match (rule.matched.as_slice(), rule.others.as_slice()) {
                ([], [_, ..]) => ("matches none of the documents", &rule.others),
                ([_, _, ..], []) => ("matches all documents, so it tells no type", &rule.matched),
                _ => continue,
            };
            let ids: Vec<String> = ids.iter().map(|id| value_text(id.get())).collect();
            return Err(Error::bad_value(format!(
                "'infer.{at}.if' {what}, such as those with _id {}",
                ids.join(", ")
            )));
        }
        Ok(())
    }
}
