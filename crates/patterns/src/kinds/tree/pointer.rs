//! Trees whose values are not stored: values that depend on the chain of parents are resolved when
//! a node is read, so that moving a subtree writes one document. Writes are checked as if the
//! values were stored.

use super::Tree;
use super::fields::Ancestor;
use crate::documents::Documents;
use crate::edit::{self, Assignment};
use crate::pattern::Pattern;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val, keys};

/// The most ancestors that a reader caches.
const ANCESTORS_MAX: usize = 200_000;

/// More ancestors than any chain can have whose nodes were checked when they were written: a
/// longer walk is in a cycle.
const WALK_MAX: usize = 1_000_000;

/// The ancestors of a node, root first; `None` while one of them does not exist.
type Chain = Option<Arc<[Arc<Ancestor>]>>;

/// The chains that a reader has resolved: for the key of a node, its ancestors and itself.
#[derive(Debug, Default)]
pub(super) struct Chains {
    known: BTreeMap<Vec<u8>, Chain>,
    steps: usize,
}

impl Chains {
    fn keep(&mut self, encoded: Vec<u8>, chain: Chain) {
        self.steps += chain.as_ref().map_or(1, |chain| chain.len());
        if self.steps > ANCESTORS_MAX {
            self.known.clear();
            self.steps = 0;
        }
        self.known.insert(encoded, chain);
    }
}

impl Tree {
    /// The stored image of a written node: with the maintained fields, or without all of them.
    ///
    /// # Errors
    /// PatternViolation for a cycle or a parent that does not exist.
    pub(super) fn stored(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        node: RawDoc<'_>,
    ) -> Result<DocBuf> {
        if !self.pointer {
            let image = self.with_fields(pattern, documents, node)?;
            return self.with_numbers_of(before, image);
        }
        let place = |doc: RawDoc<'_>| {
            let scope = self.scope.as_ref().and_then(|scope| scope.find(doc));
            (
                keys::key(self.id_of(doc)),
                keys::key(self.parent_of(doc)),
                scope.map(|scope| keys::key(scope.get())),
            )
        };
        let stays = before.is_some_and(|before| place(before) == place(node));
        if !stays || !pattern.phase.is_built() {
            self.chain(pattern, documents, node)?;
        }
        // Values that could not be resolved are refused here, as if they were stored.
        self.assigned(node, Some(&[]), &self.segment(node)?, [Some(0), Some(0)])?;
        self.without_fields(node)
    }

    /// A node without its maintained fields.
    ///
    /// # Errors
    /// None: a missing field need not be removed.
    pub(super) fn without_fields(&self, node: RawDoc<'_>) -> Result<DocBuf> {
        let gone: Vec<Assignment> = self.maintained().map(|path| (path.clone(), None)).collect();
        edit::assign(node, &gone)
    }

    /// A node with all values that depend on its ancestors and on the counts of its descendants.
    /// They are missing while a parent does not exist, or if parents form a cycle.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn resolved(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
        known: &mut Chains,
    ) -> Result<DocBuf> {
        let (chain, segment) = match self.segment(node) {
            Ok(segment) => (self.above(pattern, documents, node, known)?, segment),
            // Only a node that was not checked has none.
            Err(_) => (None, String::new()),
        };
        let counted = match self.counted(pattern, documents, node)? {
            Some(counted) => [Some(counted.children), Some(counted.descendants)],
            None => [None, None],
        };
        let chain: Option<Vec<&Ancestor>> =
            chain.as_ref().map(|chain| chain.iter().map(|step| &**step).collect());
        match self.assigned(node, chain.as_deref(), &segment, counted) {
            Ok(image) => Ok(image),
            Err(_) => Ok(DocBuf::from(node)),
        }
    }

    /// Whether one of the ancestors of a node does not exist yet.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn lacks_ancestor(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
        known: &mut Chains,
    ) -> Result<bool> {
        Ok(self.above(pattern, documents, node, known)?.is_none())
    }

    /// The nodes from the root down to the parent of a node.
    fn above(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
        known: &mut Chains,
    ) -> Result<Chain> {
        let parent = self.parent_key_of(node);
        if parent.get().is_nullish() {
            return Ok(Some(Arc::new([])));
        }
        let encoded = keys::key(parent.get());
        let own = keys::key(self.key_of(node).get());
        if let Some(chain) = known.known.get(&encoded) {
            return Ok(chain.clone());
        }
        let mut seen = BTreeSet::from([own]);
        let mut below: Vec<Arc<Ancestor>> = Vec::new();
        let mut id = OwnedVal::new(self.parent_of(node));
        let mut next = parent;
        let mut chain: Chain = Some(Arc::new([]));
        while !next.get().is_nullish() {
            let here = keys::key(next.get());
            if let Some(chain_there) = known.known.get(&here) {
                chain = chain_there.clone();
                break;
            }
            let array = matches!(id.get(), Val::Array(_));
            if array || seen.len() > WALK_MAX || !seen.insert(here) {
                chain = None;
                break;
            }
            let found = self.find_node(pattern, documents, next.get())?;
            let step = found.as_ref().and_then(|doc| {
                let segment = self.segment(doc.as_doc()).ok()?;
                Some((doc.as_doc(), segment))
            });
            let Some((doc, segment)) = step else {
                chain = None;
                break;
            };
            below.push(Arc::new(Ancestor { id, segment, label: self.label(doc) }));
            id = OwnedVal::new(self.parent_of(doc));
            next = self.parent_key_of(doc);
        }
        let chain: Chain =
            chain.map(|above| above.iter().cloned().chain(below.into_iter().rev()).collect());
        known.keep(encoded, chain.clone());
        Ok(chain)
    }
}
