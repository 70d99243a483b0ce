//! The compiled form of a projection: a tree of field names with what happens to each.

use super::Reads;
use crate::expr::Expr;
use crate::filter::Test;
use value::{Code, Error, Result};

/// What a projection does to fields that it does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Drops them.
    Inclusion,
    /// Keeps them.
    Exclusion,
    /// Keeps them, and puts values into those that it names.
    AddFields,
}

/// What happens to one field.
#[derive(Debug)]
pub(super) enum Action {
    Include,
    Exclude,
    /// The fields inside it are named.
    Inside(Tree),
    /// The value of an expression.
    Compute(Expr),
    /// A part of the array.
    Slice(Slice),
    /// The first array element that passes the test.
    ElemMatch(Test),
}

/// `$slice` of `find`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slice {
    /// The first ones, or the last ones if negative.
    Count(i64),
    /// A start, counted from the end if negative, and a count.
    Range(i64, i64),
}

impl Slice {
    /// The range of kept elements in an array of this length.
    pub(super) fn bounds(self, length: usize) -> (usize, usize) {
        let clamp = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(length);
        match self {
            Slice::Count(count) if count >= 0 => (0, clamp(count.unsigned_abs())),
            Slice::Count(count) => (length - clamp(count.unsigned_abs()), length),
            Slice::Range(skip, limit) => {
                let from = clamp(skip.unsigned_abs());
                let from = if skip >= 0 { from } else { length - from };
                let limit = clamp(limit.max(0).unsigned_abs());
                (from, from.saturating_add(limit).min(length))
            }
        }
    }
}

/// A named field.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: Box<str>,
    pub(super) action: Action,
    /// On the path of the positional `$`: the first array here keeps one element.
    pub(super) positional: bool,
}

/// The fields of one document level, in the order in which they were named.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) fields: Vec<Field>,
    /// Whether a value is computed below, so that missing documents are created.
    pub(super) computes: bool,
}

impl Tree {
    /// The field of this name and its position.
    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Option<(usize, &Field)> {
        self.fields.iter().enumerate().find(|(_, field)| field.name.as_bytes() == name)
    }

    /// Inserts an action at a dotted path.
    pub(super) fn insert(&mut self, path: &str, action: Action, positional: bool) -> Result<()> {
        let computes = matches!(action, Action::Compute(_));
        let mut tree = self;
        let mut rest = path;
        loop {
            tree.computes |= computes;
            let (name, after) = match rest.split_once('.') {
                Some((name, after)) => (name, Some(after)),
                None => (rest, None),
            };
            let place = tree.fields.iter().position(|field| &*field.name == name);
            let Some(after) = after else {
                if place.is_some() {
                    return Err(Error::new(Code(31250), format!("Path collision at {path}")));
                }
                tree.fields.push(Field { name: name.into(), action, positional });
                return Ok(());
            };
            let place = place.unwrap_or_else(|| {
                let action = Action::Inside(Tree::default());
                tree.fields.push(Field { name: name.into(), action, positional: false });
                tree.fields.len() - 1
            });
            let collision = || {
                Error::new(
                    Code(31249),
                    format!("Path collision at {path} remaining portion {after}"),
                )
            };
            let field = tree.fields.get_mut(place).ok_or_else(collision)?;
            field.positional |= positional;
            let Action::Inside(inner) = &mut field.action else { return Err(collision()) };
            tree = inner;
            rest = after;
        }
    }

    /// The same tree over documents whose fields of these names hold a length; `None` if they are
    /// read in another way, or something is not known here.
    pub(super) fn over_lengths(&self, names: &[&str]) -> Option<Tree> {
        let mut fields = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let action = match &field.action {
                Action::Include => Action::Include,
                Action::Exclude => Action::Exclude,
                Action::Inside(tree) => Action::Inside(tree.over_lengths(names)?),
                Action::Compute(expr) => Action::Compute(expr.over_lengths(names)?),
                Action::Slice(_) | Action::ElemMatch(_) => return None,
            };
            fields.push(Field { name: field.name.clone(), action, positional: field.positional });
        }
        Some(Tree { fields, computes: self.computes })
    }

    /// Adds what is read of a document; false if that is not known, or all of it.
    pub(super) fn reads(&self, prefix: &str, out: &mut Reads) -> bool {
        self.fields.iter().all(|field| {
            let path = if prefix.is_empty() {
                field.name.to_string()
            } else {
                format!("{prefix}.{}", field.name)
            };
            match &field.action {
                Action::Inside(tree) => return tree.reads(&path, out),
                Action::Exclude => out.excluded.push(path),
                Action::Compute(expr) => {
                    let Some(read) = expr.read_paths() else { return false };
                    out.paths.extend(read);
                    // A computed field inside of others depends on what they are.
                    if !prefix.is_empty() {
                        out.paths.push(path);
                    }
                }
                Action::Include | Action::Slice(_) | Action::ElemMatch(_) => out.paths.push(path),
            }
            true
        })
    }

    /// Appends the paths of all fields that are included as they are; false if there are others.
    pub(super) fn included(&self, prefix: &str, out: &mut Vec<String>) -> bool {
        self.fields.iter().all(|field| {
            let path = if prefix.is_empty() {
                field.name.to_string()
            } else {
                format!("{prefix}.{}", field.name)
            };
            match &field.action {
                Action::Include if !field.positional => {
                    out.push(path);
                    true
                }
                Action::Inside(tree) => tree.included(&path, out),
                // Only the `_id` can be excluded from an inclusion.
                Action::Exclude => true,
                _ => false,
            }
        })
    }
}
