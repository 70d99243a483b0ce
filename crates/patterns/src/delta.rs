//! Deltas: the effects of source changes on targets, from the write that causes them until they
//! are applied before its commit.
//!
//! The two forms that most kinds need have their own variants, so that a write of one document
//! allocates nothing for them. Any other form is an `OwnDeltas`.

use crate::fold::{Child, Groups};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use value::OwnedVal;

/// Encoded keys with their values.
pub type KeyList = Vec<(Vec<u8>, OwnedVal)>;

/// The effect of one source change on targets.
#[derive(Debug)]
pub enum Delta {
    /// What a child of a fold added before the change, and what it adds now.
    Child(Option<Child>, Option<Child>),
    /// The elements of a child that went, and those that came, where each is folded for itself.
    Children(Vec<Child>, Vec<Child>),
    /// The targets of these keys must be derived again.
    Keys(KeyList),
    /// A form of the kind.
    Own(Box<dyn OwnDeltas>),
}

/// Deltas of one pattern in a form of its kind.
pub trait OwnDeltas: Any + Debug + Send + Sync {
    /// Adds deltas of the same kind that came later.
    fn merge(&mut self, later: Box<dyn OwnDeltas>);

    /// How many changes these are.
    fn count(&self) -> usize;
}

/// The effect of a statement's changes on the targets of one pattern.
#[derive(Debug)]
pub enum Deltas {
    /// Those of a fold, by group key.
    Groups(Groups),
    /// Keys whose targets must be derived again.
    Keys(BTreeMap<Vec<u8>, OwnedVal>),
    /// A form of the kind.
    Own(Box<dyn OwnDeltas>),
}

impl Deltas {
    /// The deltas of one change.
    #[must_use]
    pub fn of(delta: Delta) -> Deltas {
        match delta {
            Delta::Child(before, after) => {
                let mut groups = Groups::default();
                groups.note(before, after);
                Deltas::Groups(groups)
            }
            Delta::Children(gone, come) => {
                let mut groups = Groups::default();
                groups.note_all(gone, come);
                Deltas::Groups(groups)
            }
            Delta::Keys(keys) => Deltas::Keys(keys.into_iter().collect()),
            Delta::Own(own) => Deltas::Own(own),
        }
    }

    /// Adds a later change. It has the same form, since it belongs to the same pattern.
    pub fn add(&mut self, delta: Delta) {
        match (self, delta) {
            (Deltas::Groups(all), Delta::Child(before, after)) => all.note(before, after),
            (Deltas::Groups(all), Delta::Children(gone, come)) => all.note_all(gone, come),
            (Deltas::Keys(all), Delta::Keys(keys)) => all.extend(keys),
            (Deltas::Own(all), Delta::Own(own)) => all.merge(own),
            _ => {}
        }
    }

    /// Adds later changes.
    pub fn merge(&mut self, later: Deltas) {
        match (self, later) {
            (Deltas::Groups(all), Deltas::Groups(more)) => all.merge(more),
            (Deltas::Keys(all), Deltas::Keys(more)) => all.extend(more),
            (Deltas::Own(all), Deltas::Own(more)) => all.merge(more),
            _ => {}
        }
    }

    /// How many changes of sources these are.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Deltas::Groups(groups) => groups.iter().map(|(_, group)| group.changes()).sum(),
            Deltas::Keys(keys) => keys.len(),
            Deltas::Own(own) => own.count(),
        }
    }
}
