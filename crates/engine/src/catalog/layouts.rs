//! The layouts of a collection: the patterns that determine how its documents are stored. They are
//! part of the collection, so that a collection without layouts costs one check. `layout` calls
//! them.

use super::Collection;
use patterns::layout::Layout;
use patterns::{CollectionPatterns, Pattern};
use std::sync::Arc;
use value::{RawDoc, Result};

/// The layouts of one collection, as a stack.
pub struct Layouts {
    /// The prefix of the collection's records.
    pub id: u32,
    /// The patterns, lowest first: each stores its records through the one before it.
    layers: Vec<Arc<Pattern>>,
}

impl Layouts {
    /// Returns the layouts among the patterns of a collection, if there are any. This includes
    /// layouts that are being removed or failed to build, because documents may be stored in their
    /// form.
    pub(super) fn of(collection: &Collection, bound: &CollectionPatterns) -> Option<Arc<Layouts>> {
        let with_layout = |pattern: &&Arc<Pattern>| pattern.layout().is_some();
        let mut layers: Vec<_> = bound.targets.iter().filter(with_layout).cloned().collect();
        layers
            .sort_by_key(|pattern| (!pattern.layout().is_some_and(Layout::holds_many), pattern.id));
        (!layers.is_empty()).then(|| Arc::new(Layouts { id: collection.id, layers }))
    }

    /// Returns the layouts except those of these patterns; `None` if none are left. Documents that are
    /// read through it are those that the other layouts store.
    pub(super) fn without(&self, patterns: &[u32]) -> Option<Arc<Layouts>> {
        let stays = |pattern: &&Arc<Pattern>| !patterns.contains(&pattern.id);
        let layers: Vec<_> = self.layers.iter().filter(stays).cloned().collect();
        (!layers.is_empty()).then(|| Arc::new(Layouts { id: self.id, layers }))
    }

    /// Returns whether new documents of one statement are better stored together: there is one
    /// layout, it is in use, puts many documents into one record, and does not compare them.
    #[must_use]
    pub fn stores_together(&self) -> bool {
        match &*self.layers {
            [pattern] => pattern.layout().is_some_and(|layout| {
                pattern.phase.is_maintained() && layout.holds_many() && !layout.checks_writes()
            }),
            _ => false,
        }
    }

    /// Returns the number of layouts.
    #[must_use]
    pub fn count(&self) -> usize {
        self.layers.len()
    }

    /// Returns the pattern at a level, with its layout.
    #[must_use]
    pub fn at(&self, level: usize) -> Option<(&Arc<Pattern>, &dyn Layout)> {
        let pattern = self.layers.get(level)?;
        Some((pattern, pattern.layout()?))
    }

    /// Returns the layout that writes documents which were read in part, if the collection has no
    /// other one and it is in use.
    #[must_use]
    pub fn part_writer(&self) -> Option<&dyn Layout> {
        let [pattern] = self.layers.as_slice() else { return None };
        let layout = pattern.layout().filter(|layout| layout.writes_parts());
        layout.filter(|_| pattern.phase.is_maintained())
    }

    /// Returns the layouts in whose form documents are written.
    pub fn in_use(&self) -> impl Iterator<Item = &dyn Layout> {
        let current = self.layers.iter().filter(|pattern| pattern.phase.is_maintained());
        current.filter_map(|pattern| pattern.layout())
    }

    /// Returns the arrays of which readers may get heads, and whether they do if they do not say.
    pub fn headed(&self) -> impl Iterator<Item = (&str, bool)> {
        self.in_use().filter_map(Layout::headed)
    }

    /// Returns a document with the head of an array; `None` if it is the same.
    ///
    /// # Errors
    /// Errors of `is_spilled`.
    pub fn head(
        &self,
        path: &str,
        doc: RawDoc<'_>,
        is_spilled: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Option<Vec<u8>>> {
        let mut layouts = self.layers.iter().filter_map(|pattern| pattern.layout());
        let found = layouts.find(|layout| layout.headed().is_some_and(|(at, _)| at == path));
        found.map_or(Ok(None), |layout| layout.head(doc, is_spilled))
    }

    /// Returns the level of the pattern with this number.
    #[must_use]
    pub fn level_of(&self, pattern: u32) -> Option<usize> {
        self.layers.iter().position(|layer| layer.id == pattern)
    }

    /// Returns the patterns, lowest first.
    #[must_use]
    pub fn patterns(&self) -> &[Arc<Pattern>] {
        &self.layers
    }
}
