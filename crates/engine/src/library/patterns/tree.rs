//! The kind `tree`: fields derived from the parents of nodes.

use super::options::{Strategy, choice, common_options};
use bson::{Bson, Document, doc};

/// A pattern that derives fields of nodes from their parents.
///
/// ```
/// # use motifdb::{Database, Tree, bson::doc};
/// # let db = Database::in_memory()?;
/// let categories = db.collection("categories");
/// let tree = Tree::new("tree", "parent").ancestors("ancestors").depth("depth");
/// categories.create_patterns([tree]).run()?;
///
/// let nodes = [doc! {"_id": "tech"}, doc! {"_id": "databases", "parent": "tech"}];
/// categories.insert_many(nodes).run()?;
/// let node = categories.find_one(doc! {"depth": 1}).run()?.expect("there is one");
/// assert_eq!(node.get_str("_id").ok(), Some("databases"));
/// assert_eq!(node.get_array("ancestors").expect("a list").len(), 1);
/// # Ok::<(), motifdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a pattern is declared by `create_patterns`"]
pub struct Tree(pub(super) Document);

common_options!(Tree);

impl Tree {
    /// A tree of nodes that name their parent in the field `parent`.
    pub fn new(name: &str, parent: &str) -> Tree {
        Tree(doc! {"name": name, "kind": "tree", "parent": parent, "maintain": {}})
    }

    /// Sets the field that parents refer to; `_id` unless set. It needs a unique index.
    pub fn id(self, field: &str) -> Tree {
        self.with("id", field)
    }

    /// Sets a field that separates the trees of a forest.
    pub fn scope(self, field: &str) -> Tree {
        self.with("scope", field)
    }

    /// Maintains the list of ancestors, from the root.
    pub fn ancestors(self, into: &str) -> Tree {
        self.maintain("ancestors", into)
    }

    /// Maintains the path from the root as text, with the separator around each segment.
    pub fn path(self, into: &str, separator: &str, segment: impl Into<Bson>) -> Tree {
        self.maintain("path", doc! {"into": into, "sep": separator, "segment": segment.into()})
    }

    /// Maintains the number of ancestors.
    pub fn depth(self, into: &str) -> Tree {
        self.maintain("depth", into)
    }

    /// Maintains the number of children.
    pub fn child_count(self, into: &str) -> Tree {
        self.maintain("childCount", into)
    }

    /// Maintains the number of nodes below.
    pub fn descendant_count(self, into: &str) -> Tree {
        self.maintain("descendantCount", into)
    }

    /// Maintains two bounds, between which lie those of all nodes below; `dense` makes them whole
    /// numbers without gaps.
    pub fn nested_set(self, left: &str, right: &str, dense: bool) -> Tree {
        self.maintain("nestedSet", doc! {"lft": left, "rgt": right, "dense": dense})
    }

    fn maintain(mut self, what: &str, how: impl Into<Bson>) -> Tree {
        if let Ok(maintain) = self.0.get_document_mut("maintain") {
            maintain.insert(what, how);
        }
        self
    }

    /// Sets the field that orders siblings, for nested sets.
    pub fn order(self, field: &str) -> Tree {
        self.with("order", field)
    }

    /// Sets what happens to a node whose parent does not exist.
    pub fn on_missing_parent(self, what: OnMissingNode) -> Tree {
        self.with("onMissingParent", what)
    }

    /// Sets what happens to the children of a node that is deleted.
    pub fn on_delete(self, what: OnDelete) -> Tree {
        self.with("onDelete", what)
    }

    /// Sets whether the fields are stored.
    pub fn strategy(self, strategy: Strategy) -> Tree {
        self.with("strategy", strategy)
    }
}

choice! {
    /// What happens to a node whose parent does not exist.
    OnMissingNode {
        /// Its write fails.
        Reject = "reject",
        /// It has no fields until the parent exists.
        Defer = "defer",
    }
}

choice! {
    /// What happens to the children of a node that is deleted.
    OnDelete {
        /// The delete fails.
        Restrict = "restrict",
        /// They are deleted too.
        Cascade = "cascade",
        /// Their grandparent becomes their parent.
        Adopt = "adopt",
        /// They become roots.
        Root = "root",
    }
}
