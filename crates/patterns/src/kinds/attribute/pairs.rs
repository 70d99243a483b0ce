//! The attributes of a document as pairs of a key and a value.
//!
//! An array makes one pair for each element, an object the pairs of its fields, with the key
//! `outer.inner`; null makes a pair. Empty arrays and objects make none, and neither do arrays
//! inside arrays and fields whose own name is empty or contains a dot: no path names those. With
//! `nested: "opaque"` an object is one value.

use super::{Attribute, From};
use query::interrupt;
use std::collections::HashSet;
use value::{Code, Error, RawDoc, RawVal, Result};

/// Takes a key and a value.
type Take<'t, 'd> = &'t mut dyn FnMut(&str, RawVal<'d>) -> Result<()>;

impl Attribute {
    /// Visits the pairs of a document, in the order of its fields. Returns whether it has the
    /// field that the attributes are in, or one of those that are attributes.
    ///
    /// # Errors
    /// Errors of `take`, and when the operation is stopped.
    pub(super) fn each_pair<'d>(&self, doc: RawDoc<'d>, take: Take<'_, 'd>) -> Result<bool> {
        let mut key = String::new();
        match &self.from {
            From::Object(path) => {
                let Some(object) = path.find(doc).and_then(RawVal::as_doc) else {
                    return Ok(false);
                };
                self.object(object, &mut key, take)?;
                Ok(true)
            }
            From::Fields(paths) => {
                let mut any = false;
                for path in paths {
                    let Some(value) = path.find(doc) else { continue };
                    any = true;
                    key.clear();
                    key.push_str(path.text());
                    self.value(value, &mut key, take)?;
                }
                Ok(any)
            }
        }
    }

    fn object<'d>(&self, object: RawDoc<'d>, key: &mut String, take: Take<'_, 'd>) -> Result<()> {
        let before = key.len();
        for (name, value) in object {
            interrupt::charge(1)?;
            if name.is_empty() || name.contains('.') {
                continue;
            }
            if before > 0 {
                key.push('.');
            }
            key.push_str(name);
            self.value(value, key, take)?;
            key.truncate(before);
        }
        Ok(())
    }

    fn value<'d>(&self, value: RawVal<'d>, key: &mut String, take: Take<'_, 'd>) -> Result<()> {
        if let Some(object) = value.as_doc() {
            return self.inner(object, value, key, take);
        }
        let Some(array) = value.as_array() else {
            return if self.keys.count(key) { take(key, value) } else { Ok(()) };
        };
        for (_, element) in array {
            interrupt::charge(1)?;
            match element.as_doc() {
                Some(object) => self.inner(object, element, key, take)?,
                None if element.as_array().is_none() && self.keys.count(key) => take(key, element)?,
                None => {}
            }
        }
        Ok(())
    }

    /// An object inside of the object.
    fn inner<'d>(
        &self,
        object: RawDoc<'d>,
        value: RawVal<'d>,
        key: &mut String,
        take: Take<'_, 'd>,
    ) -> Result<()> {
        match self.opaque {
            false => self.object(object, key, take),
            true if !object.is_empty() && self.keys.count(key) => take(key, value),
            true => Ok(()),
        }
    }

    /// Refuses a document with more keys than declared.
    ///
    /// # Errors
    /// PatternViolation.
    pub(super) fn check_count(&self, pattern: &str, doc: RawDoc<'_>) -> Result<()> {
        // Most documents have fewer pairs than the limit; their keys need not be compared.
        let mut pairs = 0_usize;
        self.each_pair(doc, &mut |_, _| {
            pairs += 1;
            Ok(())
        })?;
        if pairs <= self.keys.max {
            return Ok(());
        }
        let mut keys: HashSet<String> = HashSet::new();
        self.each_pair(doc, &mut |key, _| {
            if !keys.contains(key) {
                keys.insert(key.to_owned());
            }
            match keys.len() > self.keys.max {
                true => Err(Error::new(
                    Code::PATTERN_VIOLATION,
                    format!(
                        "pattern '{pattern}': the document has more than {} attributes ('keys.max')",
                        self.keys.max
                    ),
                )),
                false => Ok(()),
            }
        })?;
        Ok(())
    }
}

/// The pairs of a document; `None` if it has no attributes' field.
///
/// # Errors
/// When the operation is stopped.
pub(super) fn pairs<'d>(
    attribute: &Attribute,
    doc: RawDoc<'d>,
) -> Result<Option<Vec<(String, RawVal<'d>)>>> {
    let mut found = Vec::new();
    let any = attribute.each_pair(doc, &mut |key, value| {
        found.push((key.to_owned(), value));
        Ok(())
    })?;
    Ok(any.then_some(found))
}
