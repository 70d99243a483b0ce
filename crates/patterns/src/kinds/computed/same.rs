//! Fields that are computed from the same document whenever it is written.

use crate::documents::Documents;
use crate::edit;
use crate::kind::{Kind, Reads, Traits};
use crate::labels::{self, Label};
use crate::paths::meet;
use crate::pattern::Pattern;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, Result};

/// Computed fields of one document.
#[derive(Debug)]
pub struct Same {
    /// The path and expression of each field.
    pub fields: Vec<(Path, Expr)>,
    /// The order in which fields are computed, by their positions: those of a step read none of
    /// the same or a later step.
    pub steps: Vec<Vec<usize>>,
    /// The paths that the expressions read.
    pub reads: Vec<String>,
    /// Whether an expression that fails leaves its field out, instead of refusing the write.
    pub skip_errors: bool,
}

impl Same {
    /// The document with its computed fields.
    ///
    /// # Errors
    /// Errors of expressions, with the field.
    fn computed(&self, doc: RawDoc<'_>) -> Result<DocBuf> {
        let mut values: Vec<Option<OwnedVal>> = vec![None; self.fields.len()];
        let mut done: Vec<Change<'_>> = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            // Later steps read the values of earlier ones, not what a client sent.
            let before = match number {
                0 => None,
                _ => Some(edit::assign(doc, &done)?),
            };
            let arena = Bump::new();
            let env = Env::new(before.as_ref().map_or(doc, DocBuf::as_doc), &arena);
            for at in step {
                let Some((path, expression)) = self.fields.get(*at) else { continue };
                let value = match expression.eval(&env) {
                    Ok(value) if value.is_missing() => None,
                    Ok(value) => Some(OwnedVal::new(value)),
                    Err(_) if self.skip_errors => None,
                    Err(error) => return Err(error.context(format!("field '{}': ", path.text()))),
                };
                if number + 1 < self.steps.len() {
                    done.push((path, value.clone()));
                }
                if let Some(slot) = values.get_mut(*at) {
                    *slot = value;
                }
            }
        }
        // New fields are appended in the declared order.
        let changes = self.fields.iter().map(|(path, _)| path).zip(values);
        edit::assign(doc, &changes.collect::<Vec<Change<'_>>>())
    }
}

/// A field and its value; `None` removes it.
type Change<'s> = (&'s Path, Option<OwnedVal>);

/// The steps in which fields can be computed that read each other: for each field its path and the
/// paths that it reads.
///
/// # Errors
/// The fields of a cycle, each read by the next one.
pub(super) fn steps(fields: &[(&str, Vec<String>)]) -> Result<Vec<Vec<usize>>, Vec<String>> {
    let reads = |reader: usize, read: usize| match (fields.get(reader), fields.get(read)) {
        (Some((_, paths)), Some((path, _))) => paths.iter().any(|read| meet(read, path)),
        _ => false,
    };
    let mut left: Vec<usize> = (0..fields.len()).collect();
    let mut steps = Vec::new();
    while !left.is_empty() {
        let is_free = |at: &usize| !left.iter().any(|other| reads(*at, *other));
        let (step, rest): (Vec<usize>, Vec<usize>) = left.iter().partition(|at| is_free(at));
        if step.is_empty() {
            // Each field that is left reads another one: going back, one is met again.
            let mut walked: Vec<usize> = rest.first().copied().into_iter().collect();
            while let Some(at) = walked.last().copied() {
                let Some(read) = rest.iter().copied().find(|other| reads(at, *other)) else {
                    break;
                };
                if let Some(start) = walked.iter().position(|known| *known == read) {
                    walked.drain(..start);
                    break;
                }
                walked.push(read);
            }
            walked.reverse();
            let name = |at: &usize| fields.get(*at).map_or("", |(path, _)| path).to_owned();
            return Err(walked.iter().map(name).collect());
        }
        steps.push(step);
        left = rest;
    }
    Ok(steps)
}

impl Kind for Same {
    fn traits(&self) -> Traits {
        Traits {
            reads_own_fields: true,
            sync_only: Some(
                "'mode' must be 'sync' here: what is maintained belongs to the document that is \
                 written",
            ),
            ..Traits::default()
        }
    }

    fn reads(&self) -> Reads {
        Reads { source: self.reads.clone(), target: Vec::new() }
    }

    fn maintains(&self) -> Vec<String> {
        self.fields.iter().map(|(path, _)| path.text().to_owned()).collect()
    }

    fn labels(&self, pattern: &Pattern) -> Vec<Label> {
        labels::of_expressions(pattern)
    }

    fn fill(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        self.computed(after).map(Some)
    }

    fn derive(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<DocBuf> {
        self.computed(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_of(fields: &[(&'static str, &[&str])]) -> Result<Vec<Vec<usize>>, Vec<String>> {
        let owned = |(path, reads): &(&'static str, &[&str])| {
            (*path, reads.iter().map(|read| (*read).to_owned()).collect())
        };
        steps(&fields.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn fields_are_computed_after_those_that_they_read() {
        assert_eq!(steps_of(&[("a", &["x"]), ("b", &["y"])]), Ok(vec![vec![0, 1]]));
        let chain = steps_of(&[("total", &["sub", "tax"]), ("tax", &["sub"]), ("sub", &["items"])]);
        assert_eq!(chain, Ok(vec![vec![2], vec![1], vec![0]]));
        let inside = steps_of(&[("t", &["s.x"]), ("s.x", &["a"]), ("u", &["s"])]);
        assert_eq!(inside, Ok(vec![vec![1], vec![0, 2]]));
    }

    #[test]
    fn a_cycle_is_told_by_its_fields() {
        let cycle = steps_of(&[("d", &["a"]), ("a", &["c"]), ("b", &["a"]), ("c", &["b"])]);
        let names = cycle.expect_err("a cycle");
        assert_eq!(names.len(), 3, "{names:?}");
        for (at, name) in names.iter().enumerate() {
            let next = &names[(at + 1) % 3];
            let reads = [("b", "a"), ("c", "b"), ("a", "c")];
            assert!(reads.contains(&(next.as_str(), name.as_str())), "{names:?}");
        }
        assert_eq!(steps_of(&[("a", &["a"])]), Err(vec!["a".to_owned()]));
        assert_eq!(steps_of(&[("a", &[""])]), Err(vec!["a".to_owned()]));
    }
}
