//! What documents would lose, when a declaration is tried on those that are there.

use super::forms::{Forms, Upgraded, Version};
use crate::error_context::{on_document, value_text};
use crate::inspection::Inspection;
use std::sync::Arc;
use value::{Error, RawDoc, Result, Val};

/// How many documents a declaration is tried on.
const TRIED_MAX: usize = 1000;

/// How many `_id`s a message names.
const NAMED_MAX: usize = 3;

/// The fields that `down` after `up` does not give back.
pub(super) struct Losses {
    forms: Arc<Forms>,
    tried: usize,
    fields: Vec<String>,
    ids: Vec<String>,
}

impl Losses {
    pub(super) fn new(forms: &Arc<Forms>) -> Losses {
        Losses { forms: forms.clone(), tried: 0, fields: Vec::new(), ids: Vec::new() }
    }
}

impl Inspection for Losses {
    fn visit(&mut self, doc: RawDoc<'_>) -> Result<bool> {
        self.tried += 1;
        // What fails on the way up is quarantined.
        if self.forms.version_of(doc) == Version::Before
            && matches!(self.forms.upgraded(doc)?, Upgraded::Document(_))
        {
            let lost = self.forms.lost(doc).map_err(|error| on_document(doc, error))?;
            if !lost.is_empty() && self.ids.len() < NAMED_MAX {
                self.ids.push(value_text(doc.get("_id").unwrap_or(Val::Null)));
            }
            for field in lost {
                if !self.fields.contains(&field) {
                    self.fields.push(field);
                }
            }
        }
        Ok(self.tried < TRIED_MAX)
    }

    fn finish(&self) -> Result<()> {
        if self.fields.is_empty() {
            return Ok(());
        }
        let fields: Vec<String> = self.fields.iter().map(|field| format!("'{field}'")).collect();
        Err(Error::bad_value(format!(
            "'down' after 'up' does not give back {} of the documents with _id {}: change 'down', or \
             name the fields in 'lossy'",
            fields.join(", "),
            self.ids.join(", ")
        )))
    }
}
