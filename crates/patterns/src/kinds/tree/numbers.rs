//! Nested sets without gaps: the ends of nodes are the numbers from 1 to twice the number of
//! nodes, in the order of a depth-first walk.
//!
//! A node that is added, removed or moved changes the numbers of all nodes after it. A walk over
//! the tree recomputes them, and the nodes whose numbers changed are written in the same commit.

use super::Tree;
use super::nodes::Node;
use crate::documents::{Documents, Find};
use crate::edit::{self, Assignment};
use crate::pattern::{Pattern, Phase};
use std::collections::{BTreeMap, BTreeSet};
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, RawVal, Result, Val, keys};

/// The ends of nodes, by encoded key.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<Vec<u8>, Ends>);

/// The ends of a node.
#[derive(Debug)]
struct Ends {
    key: OwnedVal,
    left: i64,
    right: i64,
    /// Whether the stored ends differ.
    differs: bool,
}

/// A step of a depth-first walk.
enum Visit {
    Enter(DocBuf),
    /// Leaving the node with this key, and its stored ends.
    Leave(Vec<u8>, [Option<OwnedVal>; 2]),
}

impl Tree {
    /// The paths of the ends, if they are numbers.
    pub(super) fn numbered(&self) -> Option<[&Path; 2]> {
        let (left, right) = self.nested_set.as_ref().filter(|_| self.dense)?;
        Some([left, right])
    }

    /// The key of the tree that a node belongs to.
    pub(super) fn scope_of(&self, node: RawDoc<'_>) -> Vec<u8> {
        let scope = self.scope.as_ref().and_then(|scope| scope.find(node));
        keys::key(scope.map_or(Val::Null, RawVal::get))
    }

    /// The trees that two images of a node belong to, if their nodes have numbers.
    pub(super) fn scopes(
        &self,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
    ) -> Vec<Vec<u8>> {
        let images = [before, after].into_iter().flatten().filter(|_| self.dense);
        images.map(|image| self.scope_of(image)).collect()
    }

    /// The image of a node with its former ends: only a walk may change them.
    pub(super) fn with_numbers_of(
        &self,
        before: Option<RawDoc<'_>>,
        image: DocBuf,
    ) -> Result<DocBuf> {
        let Some(ends) = self.numbered() else { return Ok(image) };
        let kept = |path: &Path| before.and_then(|before| path.find(before));
        let kept = ends.map(|path| (path, kept(path).map(|value| OwnedVal::new(value.get()))));
        edit::assign(image.as_doc(), &kept)
    }

    /// Computes the ends of all nodes of these trees, or of all trees.
    fn count(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        scopes: Option<&BTreeSet<Vec<u8>>>,
    ) -> Result<Numbers> {
        let Some(ends) = self.numbered() else { return Ok(Numbers::default()) };
        let mut trees: BTreeMap<Vec<u8>, Vec<DocBuf>> = BTreeMap::new();
        let (collection, path) = (&*pattern.target, &self.parent);
        documents.find(&Find { collection, path, value: Val::Null, after: &[] }, &mut |root| {
            let scope = self.scope_of(root);
            if scopes.is_none_or(|scopes| scopes.contains(&scope)) {
                trees.entry(scope).or_default().push(root.into());
            }
            Ok(true)
        })?;
        let mut numbers = BTreeMap::new();
        for (_, roots) in trees {
            let mut number = 0;
            let mut steps = self.in_order(roots);
            while let Some(step) = steps.pop() {
                number += 1;
                match step {
                    Visit::Enter(node) => {
                        let key = self.key_of(node.as_doc());
                        let encoded = keys::key(key.get());
                        let stored = ends.map(|end| {
                            end.find(node.as_doc()).map(|value| OwnedVal::new(value.get()))
                        });
                        let children = self.children(pattern, documents, key.get())?;
                        steps.push(Visit::Leave(encoded.clone(), stored));
                        steps.extend(self.in_order(children));
                        let place = Ends { key, left: number, right: 0, differs: false };
                        numbers.insert(encoded, place);
                    }
                    Visit::Leave(encoded, stored) => {
                        let Some(place) = numbers.get_mut(&encoded) else { continue };
                        place.right = number;
                        place.differs = stored != place.values();
                    }
                }
            }
        }
        Ok(Numbers(numbers))
    }

    /// Siblings in reverse order.
    fn in_order(&self, nodes: Vec<DocBuf>) -> Vec<Visit> {
        let mut nodes: Vec<(String, DocBuf)> =
            nodes.into_iter().map(|node| (self.label(node.as_doc()), node)).collect();
        nodes.sort_by(|(a, _), (b, _)| b.cmp(a));
        nodes.into_iter().map(|(_, node)| Visit::Enter(node)).collect()
    }

    /// The ends of all nodes, for checks.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn all_numbers(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
    ) -> Result<Option<Numbers>> {
        let numbered = self.numbered().is_some();
        numbered.then(|| self.count(pattern, documents, None)).transpose()
    }

    /// The image of a node with its correct ends; without ends while a parent does not exist.
    ///
    /// # Errors
    /// PatternViolation if a value is in the way of a path.
    pub(super) fn with_numbers(&self, numbers: &Numbers, image: &DocBuf) -> Result<DocBuf> {
        let Some(ends) = self.numbered() else { return Ok(image.clone()) };
        let place = numbers.0.get(&keys::key(self.key_of(image.as_doc()).get()));
        let values = place.map_or([None, None], Ends::values);
        let values: Vec<(&Path, Option<OwnedVal>)> = ends.into_iter().zip(values).collect();
        edit::assign(image.as_doc(), &values)
    }

    /// Numbers all nodes, after a build has processed each of them.
    ///
    /// # Errors
    /// When the store fails or a node cannot be written.
    pub(super) fn number_all(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
    ) -> Result<()> {
        let numbers = self.count(pattern, documents, None)?;
        self.write_numbers(pattern, documents, &numbers)
    }

    /// Renumbers the trees that these nodes belong or belonged to.
    pub(super) fn number_anew(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        nodes: &BTreeMap<Vec<u8>, Node>,
    ) -> Result<()> {
        if self.numbered().is_none() {
            return Ok(());
        }
        // A build does this when it has processed every node.
        let through = pattern.phase == Phase::Building
            && pattern.progress(documents)?.is_some_and(|progress| progress.is_through());
        if !pattern.phase.is_built() && !through {
            return Ok(());
        }
        let scopes = nodes.values().flat_map(|node| node.scopes.iter().cloned()).collect();
        let numbers = self.count(pattern, documents, Some(&scopes))?;
        self.write_numbers(pattern, documents, &numbers)?;
        // Nodes that the walk did not reach have no existing root, and neither have their
        // descendants.
        let mut lost: Vec<OwnedVal> = nodes
            .iter()
            .filter(|(encoded, _)| !numbers.0.contains_key(*encoded))
            .map(|(_, node)| node.key.clone())
            .collect();
        let mut seen = BTreeSet::new();
        while let Some(key) = lost.pop() {
            let Some(node) = self.find_node(pattern, documents, key.get())? else { continue };
            if !seen.insert(keys::key(key.get())) {
                continue;
            }
            self.write_ends(pattern, documents, &node, [None, None])?;
            let children = self.children(pattern, documents, key.get())?;
            lost.extend(children.iter().map(|child| self.key_of(child.as_doc())));
        }
        Ok(())
    }

    fn write_numbers(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        numbers: &Numbers,
    ) -> Result<()> {
        for place in numbers.0.values().filter(|place| place.differs) {
            if let Some(node) = self.find_node(pattern, documents, place.key.get())? {
                self.write_ends(pattern, documents, &node, place.values())?;
            }
        }
        Ok(())
    }

    fn write_ends(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: &DocBuf,
        values: [Option<OwnedVal>; 2],
    ) -> Result<()> {
        let Some(ends) = self.numbered() else { return Ok(()) };
        let changes: Vec<Assignment> = ends.into_iter().cloned().zip(values).collect();
        let image = edit::assign(node.as_doc(), &changes)?;
        if image != *node {
            documents.replace(pattern.id, &pattern.target, node.as_doc(), &image)?;
        }
        Ok(())
    }
}

impl Ends {
    /// The ends as field values.
    fn values(&self) -> [Option<OwnedVal>; 2] {
        let number = |n: i64| OwnedVal::new(i32::try_from(n).map_or(Val::Int64(n), Val::Int32));
        [Some(number(self.left)), Some(number(self.right))]
    }
}
