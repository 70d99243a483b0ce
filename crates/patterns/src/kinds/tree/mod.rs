//! The kind `tree`: what follows from the parents of nodes. The parent is the truth; ancestors, path, depth
//! and nested sets are derived from the chain of parents whenever a node or one above it changes.
//!
//! - `declaration`: reads the options.
//! - `fields`: the fields of one node, from the chain of nodes above it.
//! - `nodes`: what a change of a node means for others; `later` in commits of their own.
//! - `counts`: how many nodes stand below each; `numbers`: nested sets without gaps.
//! - `pointer`: fields that are not stored but resolved by readers.
//! - `rewrite`, `search`: the queries that a tree answers. `kind` connects all of it with the contract.

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
use value::{DocBuf, RawDoc, RawVal, Result, Val};

/// A tree of documents.
#[derive(Debug)]
pub struct Tree {
    /// The collection of the nodes.
    pub collection: String,
    /// What nodes are named by: `_id`, or a field with a unique index.
    pub id: Path,
    /// Where the parent's name stands.
    pub parent: Path,
    /// The field that tells the trees of a forest apart: parent and child have it in common.
    pub scope: Option<Path>,
    /// The field that siblings are ordered by, before their names.
    pub order: Option<Path>,
    /// Where the ancestors go, root first.
    pub ancestors: Option<Path>,
    /// Where the path goes.
    pub path: Option<TreePath>,
    /// Where the depth goes; roots have 0.
    pub depth: Option<Path>,
    /// Where the number of children goes.
    pub child_count: Option<Path>,
    /// Where the number of all nodes below goes.
    pub descendant_count: Option<Path>,
    /// Where the two ends of the nested set go.
    pub nested_set: Option<(Path, Path)>,
    /// Whether these are numbers without gaps.
    pub dense: bool,
    /// Whether a node may come before its parent.
    pub defer: bool,
    /// Whether nothing of it is stored: readers resolve it along the chain of parents.
    pub pointer: bool,
    /// What the removal of a node means to its children.
    pub on_delete: NodeDelete,
    /// What is read of the nodes.
    pub reads: Vec<String>,
}

/// A path such as `,root,child,`.
#[derive(Debug)]
pub struct TreePath {
    /// Where it stands.
    pub into: Path,
    /// What stands between its segments, and at both ends.
    pub separator: String,
    /// The segment of a node.
    pub segment: Expr,
}

/// What happens to the children of a node that goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeDelete {
    /// A node with children cannot go.
    Restrict,
    /// They go too.
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
    /// The paths that are maintained.
    #[must_use]
    pub(super) fn maintained_paths(&self) -> Vec<String> {
        self.maintained().map(|path| path.text().to_owned()).collect()
    }

    /// All that is maintained.
    pub(super) fn maintained(&self) -> impl Iterator<Item = &Path> {
        let counts = [self.child_count.as_ref(), self.descendant_count.as_ref()];
        let numbers = self.numbered().into_iter().flatten();
        self.inherited().into_iter().chain(counts.into_iter().flatten()).chain(numbers)
    }

    /// What follows from the nodes above.
    pub(super) fn inherited(&self) -> Vec<&Path> {
        let path = self.path.as_ref().map(|path| &path.into);
        let labels = self.nested_set.as_ref().filter(|_| !self.dense);
        let (left, right) = labels.map_or((None, None), |(l, r)| (Some(l), Some(r)));
        [self.ancestors.as_ref(), path, self.depth.as_ref(), left, right]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Whether records are kept, which a build has to make before the fields can be right.
    #[must_use]
    pub(super) fn counts(&self) -> bool {
        self.child_count.is_some() || self.descendant_count.is_some()
    }

    /// The indexes that it needs: children are found by their parent.
    #[must_use]
    pub(super) fn needed_indexes(&self, target: &str) -> Vec<(String, DocBuf)> {
        let key = DocBuf::build(|out| {
            out.i32(self.parent.text(), 1);
        });
        vec![(target.to_owned(), key)]
    }

    /// The node of a name.
    pub(super) fn find_node(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        id: Val<'_>,
    ) -> Result<Option<DocBuf>> {
        if self.id.text() == "_id" {
            return documents.get(&pattern.target, id);
        }
        let mut found = None;
        let find = Find { collection: &pattern.target, path: &self.id, value: id, after: &[] };
        documents.find(&find, &mut |doc| {
            found = Some(DocBuf::from(doc));
            Ok(false)
        })?;
        Ok(found)
    }

    pub(super) fn id_of<'d>(&self, node: RawDoc<'d>) -> Val<'d> {
        self.id.find(node).map_or(Val::Null, RawVal::get)
    }

    pub(super) fn parent_of<'d>(&self, node: RawDoc<'d>) -> Val<'d> {
        self.parent.find(node).map_or(Val::Missing, RawVal::get)
    }

    pub(super) fn children(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        id: Val<'_>,
    ) -> Result<Vec<DocBuf>> {
        let mut children = Vec::new();
        if id.is_nullish() {
            return Ok(children);
        }
        let find = Find { collection: &pattern.target, path: &self.parent, value: id, after: &[] };
        documents.find(&find, &mut |doc| {
            children.push(DocBuf::from(doc));
            Ok(true)
        })?;
        Ok(children)
    }
}
