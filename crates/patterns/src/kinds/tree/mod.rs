//! The kind `tree`: values that depend on the parents of nodes. Only the parent is primary data;
//! ancestors, path, depth and nested sets are derived from the chain of parents whenever a node or
//! one of its ancestors changes.
//!
//! - `declaration`: reads the options.
//! - `fields`: the fields of one node, from the chain of nodes above it.
//! - `nodes`: the effect of a node's change on others; `later`: the same in separate commits.
//! - `counts`: the number of descendants of each node; `numbers`: nested sets without gaps.
//! - `pointer`: fields that are not stored but resolved by readers.
//! - `rewrite`, `search`: the queries that a tree answers. `kind` implements the trait `Kind`.

mod counts;
pub(crate) mod declaration;
mod fields;
mod kind;
mod later;
mod nodes;
mod numbers;
mod pointer;
mod rewrite;
mod search;

use crate::documents::{Documents, Find};
use crate::pattern::Pattern;
use query::expr::Expr;
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, RawVal, Result, Val, keys};

/// A tree of documents.
#[derive(Debug)]
pub struct Tree {
    /// The collection of the nodes.
    pub collection: String,
    /// The field that identifies nodes: `_id`, or a field with a unique index.
    pub id: Path,
    /// The path of the reference to the parent.
    pub parent: Path,
    /// The field that separates the trees of a forest: parent and child have the same value.
    pub scope: Option<Path>,
    /// The field that siblings are ordered by, before their ids.
    pub order: Option<Path>,
    /// The path of the ancestors, root first.
    pub ancestors: Option<Path>,
    /// The path field.
    pub path: Option<TreePath>,
    /// The path of the depth; roots have 0.
    pub depth: Option<Path>,
    /// The path of the number of children.
    pub child_count: Option<Path>,
    /// The path of the number of descendants.
    pub descendant_count: Option<Path>,
    /// The paths of the two ends of the nested set.
    pub nested_set: Option<(Path, Path)>,
    /// Whether the ends are numbers without gaps.
    pub dense: bool,
    /// Whether a node may be inserted before its parent.
    pub defer: bool,
    /// Whether nothing is stored: readers resolve the values along the chain of parents.
    pub pointer: bool,
    /// What happens to its children when a node is deleted.
    pub on_delete: NodeDelete,
    /// The paths that are read of the nodes.
    pub reads: Vec<String>,
}

/// A path such as `,root,child,`.
#[derive(Debug)]
pub struct TreePath {
    /// The path of the field.
    pub into: Path,
    /// The text between its segments, and at both ends.
    pub separator: String,
    /// The segment of a node.
    pub segment: Expr,
}

/// What happens to the children of a deleted node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeDelete {
    /// A node with children cannot be deleted.
    Restrict,
    /// They are deleted too.
    Cascade,
    /// They become children of its parent.
    Adopt,
    /// They become roots.
    Root,
}

/// The most ancestors that a node may have.
const DEPTH_MAX: usize = 1000;

/// The most levels that a tree has.
const LEVELS_MAX: usize = DEPTH_MAX + 1;

impl Tree {
    /// The maintained paths.
    #[must_use]
    pub(super) fn maintained_paths(&self) -> Vec<String> {
        self.maintained().map(|path| path.text().to_owned()).collect()
    }

    /// All maintained paths.
    pub(super) fn maintained(&self) -> impl Iterator<Item = &Path> {
        let counts = [self.child_count.as_ref(), self.descendant_count.as_ref()];
        let numbers = self.numbered().into_iter().flatten();
        self.inherited().into_iter().chain(counts.into_iter().flatten()).chain(numbers)
    }

    /// The paths that depend on the ancestors.
    pub(super) fn inherited(&self) -> Vec<&Path> {
        let path = self.path.as_ref().map(|path| &path.into);
        let labels = self.nested_set.as_ref().filter(|_| !self.dense);
        let (left, right) = labels.map_or((None, None), |(l, r)| (Some(l), Some(r)));
        [self.ancestors.as_ref(), path, self.depth.as_ref(), left, right]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Whether it has records, which a build must create before the fields can be correct.
    #[must_use]
    pub(super) fn counts(&self) -> bool {
        self.child_count.is_some() || self.descendant_count.is_some()
    }

    /// The indexes that it needs: children are found by their parent, and nodes whose names are
    /// unique in their tree only by their name.
    #[must_use]
    pub(super) fn needed_indexes(&self, target: &str) -> Vec<(String, DocBuf)> {
        let by = |path: &Path| {
            let key = DocBuf::build(|out| {
                out.i32(path.text(), 1);
            });
            (target.to_owned(), key)
        };
        let named = Some(&self.id).filter(|_| self.is_scoped());
        std::iter::once(&self.parent).chain(named).map(by).collect()
    }

    /// Whether a name identifies a node only together with its scope.
    pub(super) fn is_scoped(&self) -> bool {
        self.scope.is_some() && self.id.text() != "_id"
    }

    /// What identifies a node: its name, or its scope and its name.
    fn key(&self, node: RawDoc<'_>, name: Val<'_>) -> OwnedVal {
        match self.scope.as_ref().filter(|_| self.is_scoped() && !name.is_nullish()) {
            None => OwnedVal::new(name),
            Some(scope) => {
                let scope = scope.find(node).map_or(Val::Null, RawVal::get);
                let key = DocBuf::build(|out| {
                    out.append("s", scope).append("n", name);
                });
                OwnedVal::new(Val::Document(key.as_doc()))
            }
        }
    }

    /// The key of a node.
    pub(super) fn key_of(&self, node: RawDoc<'_>) -> OwnedVal {
        self.key(node, self.id_of(node))
    }

    /// The key of a node's parent; null or missing if it has none.
    pub(super) fn parent_key_of(&self, node: RawDoc<'_>) -> OwnedVal {
        self.key(node, self.parent_of(node))
    }

    /// The name in a key, and the encoded scope, if names are unique in their scope only.
    fn parts<'k>(&self, key: Val<'k>) -> (Val<'k>, Option<Vec<u8>>) {
        match key.as_doc().filter(|_| self.is_scoped()) {
            None => (key, None),
            Some(doc) => {
                let scope = keys::key(doc.get("s").unwrap_or(Val::Null));
                (doc.get("n").unwrap_or(Val::Null), Some(scope))
            }
        }
    }

    fn is_in(&self, node: RawDoc<'_>, scope: Option<&Vec<u8>>) -> bool {
        scope.is_none_or(|scope| *scope == self.scope_of(node))
    }

    /// The node with this key.
    pub(super) fn find_node(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
    ) -> Result<Option<DocBuf>> {
        if self.id.text() == "_id" {
            return documents.get(&pattern.target, key);
        }
        let (name, scope) = self.parts(key);
        let mut found = None;
        let find = Find { collection: &pattern.target, path: &self.id, value: name, after: &[] };
        documents.find(&find, &mut |doc| {
            if self.is_in(doc, scope.as_ref()) {
                found = Some(DocBuf::from(doc));
            }
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    pub(super) fn id_of<'d>(&self, node: RawDoc<'d>) -> Val<'d> {
        self.id.find(node).map_or(Val::Null, RawVal::get)
    }

    pub(super) fn parent_of<'d>(&self, node: RawDoc<'d>) -> Val<'d> {
        self.parent.find(node).map_or(Val::Missing, RawVal::get)
    }

    /// Visits the children of the node with this key that are after an `_id`, until `visit`
    /// returns false.
    pub(super) fn each_child(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
        after: &[u8],
        visit: &mut dyn FnMut(RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        let (value, scope) = self.parts(key);
        if value.is_nullish() {
            return Ok(());
        }
        let (collection, path) = (&*pattern.target, &self.parent);
        documents.find(&Find { collection, path, value, after }, &mut |doc| {
            if self.is_in(doc, scope.as_ref()) { visit(doc) } else { Ok(true) }
        })
    }

    pub(super) fn children(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
    ) -> Result<Vec<DocBuf>> {
        let mut children = Vec::new();
        self.each_child(pattern, documents, key, &[], &mut |doc| {
            children.push(DocBuf::from(doc));
            Ok(true)
        })?;
        Ok(children)
    }
}
