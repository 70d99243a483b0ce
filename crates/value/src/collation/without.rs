//! The collator of builds without the feature `collation`: it refuses every locale.

use super::parse::Spec;
use crate::{Code, Error, Result};
use std::cmp::Ordering;

/// Never made: there is nothing to compare with.
pub(super) enum Collator {}

impl Collator {
    pub(super) fn new(spec: &Spec) -> Result<Collator> {
        let (name, variant) = (spec.locale.name, spec.locale.variant.unwrap_or("standard"));
        Err(Error::new(
            Code::NOT_IMPLEMENTED,
            format!("this build has only the simple collation, not {name} ({variant})"),
        ))
    }

    pub(super) fn compare(&self, _: &str, _: &str) -> Ordering {
        match *self {}
    }

    pub(super) fn append_key(&self, _: &str, _: &mut Vec<u8>) {
        match *self {}
    }
}
