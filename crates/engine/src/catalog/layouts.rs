//! The layouts of a collection: the patterns that decide how its documents are stored. A collection knows
//! them, so that one that has none pays one look. What they do is called from `layout`.

use super::Collection;
use patterns::layout::Layout;
use patterns::{CollectionPatterns, Pattern};
use std::sync::Arc;

/// The layouts of one collection, as a stack.
pub struct Layouts {
    /// The prefix of the collection's records.
    pub id: u32,
    /// The patterns, lowest first: each stores its records through the one before it.
    layers: Vec<Arc<Pattern>>,
}

impl Layouts {
    /// The layouts among the patterns of a collection, if there are any. One that is being removed
    /// or could not be built is among them: documents may be stored in its form.
    pub(super) fn of(collection: &Collection, bound: &CollectionPatterns) -> Option<Arc<Layouts>> {
        let with_layout = |pattern: &&Arc<Pattern>| pattern.layout().is_some();
        let mut layers: Vec<_> = bound.targets.iter().filter(with_layout).cloned().collect();
        layers
            .sort_by_key(|pattern| (!pattern.layout().is_some_and(Layout::holds_many), pattern.id));
        (!layers.is_empty()).then(|| Arc::new(Layouts { id: collection.id, layers }))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.layers.len()
    }

    /// The pattern at a level, with its layout.
    #[must_use]
    pub fn at(&self, level: usize) -> Option<(&Arc<Pattern>, &dyn Layout)> {
        let pattern = self.layers.get(level)?;
        Some((pattern, pattern.layout()?))
    }

    /// The level of the pattern with this number.
    #[must_use]
    pub fn level_of(&self, pattern: u32) -> Option<usize> {
        self.layers.iter().position(|layer| layer.id == pattern)
    }

    /// The patterns, lowest first.
    #[must_use]
    pub fn patterns(&self) -> &[Arc<Pattern>] {
        &self.layers
    }
}
