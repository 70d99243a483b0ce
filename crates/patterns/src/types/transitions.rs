//! Changes of the type of a document.

use super::{Found, Types};
use crate::edit::{self, Assignment};
use crate::pattern::Pattern;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val};

/// How documents may change their type.
#[derive(Debug)]
pub(crate) struct Transitions {
    /// Whether every change is allowed that is not listed.
    pub(crate) allows: bool,
    /// The listed changes, by positions of types: they are the exceptions.
    pub(crate) others: Vec<(usize, usize)>,
    /// What becomes of fields that only the old type has.
    pub(crate) foreign: Foreign,
}

/// What becomes of the fields that only the old type of a document has.
#[derive(Debug)]
pub(crate) enum Foreign {
    /// They are removed.
    Drop,
    /// They stay.
    Keep,
    /// They are moved into the object at this path.
    Move(Path),
}

impl Types {
    /// Checks a change of the type, and returns the document with the fields that it then has;
    /// `None` if that is `after`.
    ///
    /// # Errors
    /// PatternViolation if the change is not allowed.
    pub(super) fn changed_type(
        &self,
        pattern: &Pattern,
        before: RawDoc<'_>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        let (Found::Known(old), new) = (self.found(before), self.found(after)) else {
            return Ok(None);
        };
        if new == Found::Known(old) || new == Found::Nothing {
            return Ok(None);
        }
        if let Found::Unknown(_) = new
            && !self.allows_unknown
        {
            return Ok(None);
        }
        let listed =
            matches!(new, Found::Known(new) if self.transitions.others.contains(&(old, new)));
        // What is not valid may take any type.
        if listed == self.transitions.allows && self.conforms(before)? {
            return Err(self.denied(pattern, old, new));
        }
        self.moved(old, new, after)
    }

    fn denied(&self, pattern: &Pattern, old: usize, new: Found<'_>) -> Error {
        let name = |at: usize| self.at(at).map_or("", |of| &*of.name);
        let new = match new {
            Found::Known(at) => name(at).to_owned(),
            Found::Unknown(value) => value.as_str().unwrap_or("").to_owned(),
            Found::Nothing => String::new(),
        };
        let old = name(old);
        Error::new(
            Code::PATTERN_VIOLATION,
            format!(
                "pattern '{}': a document of the type '{old}' cannot become a '{new}': \
                 'transitions' does not allow it",
                pattern.name
            ),
        )
    }

    /// The document without the fields that only its old type has.
    fn moved(&self, old: usize, new: Found<'_>, after: RawDoc<'_>) -> Result<Option<DocBuf>> {
        let of = |at: usize| self.at(at).map_or(&[][..], |of| &of.fields);
        let stays: &[String] = match new {
            Found::Known(new) => of(new),
            _ => &[],
        };
        let foreign = |field: &&String| {
            !stays.contains(field)
                && self.owners.contains_key(*field)
                && after.find(field).is_some()
        };
        let gone: Vec<&String> = of(old).iter().filter(foreign).collect();
        if gone.is_empty() {
            return Ok(None);
        }
        let mut changes: Vec<Assignment> =
            gone.iter().map(|field| (Path::new(field), None)).collect();
        match &self.transitions.foreign {
            Foreign::Keep => return Ok(None),
            Foreign::Drop => {}
            Foreign::Move(into) => {
                for field in gone {
                    let value = OwnedVal::new(after.get(field).unwrap_or(Val::Null));
                    let path = format!("{}.{field}", into.text());
                    changes.push((Path::new(&path), Some(value)));
                }
            }
        }
        edit::assign(after, &changes).map(Some)
    }
}
