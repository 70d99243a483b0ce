//! The effect of a node's change on others: on its children, and on the counts of its ancestors.

use super::{NodeDelete, Tree, counts};
use crate::delta::OwnDeltas;
use crate::documents::Documents;
use crate::edit;
use crate::pattern::Pattern;
use std::any::Any;
use std::collections::BTreeMap;
use value::{Code, Error, OwnedVal, RawDoc, Result, Val, keys};

/// A node whose children must be updated.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its key: the id, or scope and id.
    pub(super) key: OwnedVal,
    /// Its former parent, if it was removed.
    pub(super) removed: Option<OwnedVal>,
    /// Whether its id changed: then no node may refer to it by the old one.
    renamed: bool,
    /// Whether it is new, or moved to another tree.
    pub(super) enters: bool,
    /// The trees that it belongs or belonged to, if nodes have numbers.
    pub(super) scopes: Vec<Vec<u8>>,
}

impl Node {
    /// Merges what was recorded of the node before.
    fn add_earlier(&mut self, known: Node) {
        self.enters |= known.enters;
        self.scopes.extend(known.scopes);
        self.scopes.sort();
        self.scopes.dedup();
    }
}

/// Nodes whose children must be updated, by encoded key.
#[derive(Debug, Default)]
pub(super) struct Nodes(pub(super) BTreeMap<Vec<u8>, Node>);

impl Nodes {
    /// These nodes, or `None` if there are none.
    pub(super) fn of(nodes: Vec<(Vec<u8>, Node)>) -> Option<Box<Nodes>> {
        let mut all = Nodes::default();
        nodes.into_iter().for_each(|(encoded, node)| all.add(encoded, node));
        (!all.0.is_empty()).then(|| Box::new(all))
    }

    fn add(&mut self, encoded: Vec<u8>, mut node: Node) {
        if let Some(known) = self.0.remove(&encoded) {
            node.add_earlier(known);
        }
        self.0.insert(encoded, node);
    }
}

impl OwnDeltas for Nodes {
    fn merge(&mut self, later: Box<dyn OwnDeltas>) {
        let later: Box<dyn Any> = later;
        if let Ok(later) = later.downcast::<Nodes>() {
            later.0.into_iter().for_each(|(encoded, node)| self.add(encoded, node));
        }
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

impl Tree {
    /// The nodes whose children must be updated, if any.
    ///
    /// # Errors
    /// Errors of the segment's expression.
    pub(super) fn changed_nodes(
        &self,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
    ) -> Result<Vec<(Vec<u8>, Node)>> {
        let scope = |doc: RawDoc<'_>| {
            let scope = self.scope.as_ref().and_then(|scope| scope.find(doc));
            scope.map(|scope| keys::key(scope.get()))
        };
        let enters = match (before, after) {
            (Some(before), Some(after)) => scope(before) != scope(after),
            _ => true,
        };
        let scopes = self.scopes(before, after);
        let node = |doc: RawDoc<'_>, removed, renamed| {
            let key = self.key_of(doc);
            let (enters, scopes) = (enters || renamed, scopes.clone());
            (keys::key(key.get()), Node { key, removed, renamed, enters, scopes })
        };
        let gone = |doc: RawDoc<'_>| Some(OwnedVal::new(self.parent_of(doc)));
        let (before, after) = match (before, after) {
            (None, None) => return Ok(Vec::new()),
            (Some(before), None) => return Ok(vec![node(before, gone(before), false)]),
            (None, Some(after)) => return Ok(vec![node(after, None, false)]),
            (Some(before), Some(after)) => (before, after),
        };
        if keys::key(self.key_of(before).get()) != keys::key(self.key_of(after).get()) {
            let (was, is) = (node(before, gone(before), true), node(after, None, false));
            return Ok(vec![was, (is.0, Node { enters: true, ..is.1 })]);
        }
        let moved = keys::key(self.parent_of(before)) != keys::key(self.parent_of(after));
        let mine = |doc: RawDoc<'_>| -> Vec<Option<OwnedVal>> {
            let paths = self.inherited().into_iter().chain(&self.scope);
            paths.map(|path| path.find(doc).map(|value| OwnedVal::new(value.get()))).collect()
        };
        let changed = moved
            || mine(before) != mine(after)
            || (self.dense && self.label(before) != self.label(after))
            || self.segment(before)? != self.segment(after)?;
        Ok(if changed { vec![node(after, None, false)] } else { Vec::new() })
    }

    /// The delta of a node that a build processes.
    #[must_use]
    pub(super) fn new_node(&self, node: RawDoc<'_>) -> (Vec<u8>, Node) {
        let scopes = self.scopes(None, Some(node));
        let key = self.key_of(node);
        let node = Node { key, removed: None, renamed: false, enters: true, scopes };
        (keys::key(node.key.get()), node)
    }

    /// Updates the children of nodes, and the counts of their ancestors.
    ///
    /// # Errors
    /// PatternViolation if a node cannot be deleted; when the store fails.
    pub(super) fn settle_nodes(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        nodes: &BTreeMap<Vec<u8>, Node>,
    ) -> Result<()> {
        let mut touched: BTreeMap<Vec<u8>, OwnedVal> = BTreeMap::new();
        if self.counts() {
            let mut positions = Vec::new();
            for (encoded, node) in nodes {
                let position = self.find_node(pattern, documents, node.key.get())?.map(|doc| {
                    let parent = self.parent_key_of(doc.as_doc());
                    (!parent.get().is_nullish()).then_some(parent)
                });
                positions.push((encoded.clone(), position));
            }
            counts::update(pattern, documents, &positions, &mut touched)?;
        }
        let deferred = pattern.is_deferred();
        for (encoded, node) in nodes {
            if !deferred || self.must_settle_children(node) {
                self.settle_children(pattern, documents, node)?;
            }
            if deferred {
                self.queue_children(pattern, documents, encoded, node.key.get())?;
            }
        }
        if self.pointer {
            return Ok(());
        }
        self.number_anew(pattern, documents, nodes)?;
        for (encoded, key) in &touched {
            if deferred {
                crate::queue::put_alone(pattern, documents, encoded, key.get())?;
                continue;
            }
            let Some(doc) = self.find_node(pattern, documents, key.get())? else { continue };
            let image = self.with_fields(pattern, documents, doc.as_doc())?;
            if image != doc {
                documents.replace(pattern.id, &pattern.target, doc.as_doc(), &image)?;
            }
        }
        Ok(())
    }

    pub(super) fn settle_children(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: &Node,
    ) -> Result<()> {
        // If nothing is stored, only children whose parent was deleted or moved to another tree
        // are affected.
        if self.pointer && node.removed.is_none() && self.scope.is_none() {
            return Ok(());
        }
        let children = self.children(pattern, documents, node.key.get())?;
        if children.is_empty() {
            return Ok(());
        }
        let removed = match &node.removed {
            Some(parent) if self.find_node(pattern, documents, node.key.get())?.is_none() => {
                Some(parent)
            }
            _ => None,
        };
        let violation = |what: &str| {
            Error::new(Code::PATTERN_VIOLATION, format!("pattern '{}': {what}", pattern.name))
        };
        if removed.is_some() && node.renamed {
            return Err(violation("the node has children that refer to it by the old value"));
        }
        for child in children {
            let adopted = match (removed, self.on_delete) {
                (None, _) => child.clone(),
                (Some(_), NodeDelete::Restrict) => {
                    return Err(violation("the node has children, and onDelete is 'restrict'"));
                }
                (Some(_), NodeDelete::Cascade) => {
                    documents.delete(pattern.id, &pattern.target, child.as_doc())?;
                    continue;
                }
                (Some(parent), NodeDelete::Adopt) => {
                    let value = (!parent.get().is_missing()).then(|| parent.clone());
                    edit::assign(child.as_doc(), &[(self.parent.clone(), value)])?
                }
                (Some(_), NodeDelete::Root) => {
                    let root = Some(OwnedVal::new(Val::Null));
                    edit::assign(child.as_doc(), &[(self.parent.clone(), root)])?
                }
            };
            let before = self.dense.then_some(child.as_doc());
            let image = self.stored(pattern, documents, before, adopted.as_doc())?;
            if adopted != child {
                documents.alter(pattern.id, &pattern.target, child.as_doc(), &image)?;
            } else if image != child {
                documents.replace(pattern.id, &pattern.target, child.as_doc(), &image)?;
            }
        }
        Ok(())
    }
}
