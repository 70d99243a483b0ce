//! Trees whose nodes are updated asynchronously: a written node gets its own fields at once, and
//! parents are always correct. The updates of its descendants, and of the counts of its ancestors,
//! are queued.
//!
//! An entry names a node: the node and its children are updated, and each child with children is
//! queued in turn. So a change moves down the tree one level at a time, in commits of limited
//! size. It moves down even if a child does not change: a child may have missed a change and its
//! reversal, while a descendant that was written in between has the intermediate values. Counts
//! affect a node alone.

use super::nodes::Node;
use super::{DEPTH_MAX, Tree};
use crate::documents::Documents;
use crate::pattern::Pattern;
use crate::queue::{self, Entry};
use value::{Code, DocBuf, OwnedVal, RawDoc, Result, Val, keys};

impl Tree {
    /// Whether the children of a node must be updated at once: if the node is deleted, their
    /// parent changes, and a node of another tree may be refused.
    pub(super) fn must_settle_children(&self, node: &Node) -> bool {
        node.removed.is_some() || (node.enters && self.scope.is_some())
    }

    /// Queues a node whose children must be updated, if it has any.
    pub(super) fn queue_children(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        encoded: &[u8],
        key: Val<'_>,
    ) -> Result<()> {
        if self.has_children(pattern, documents, key)? {
            queue::put(pattern, documents, encoded, key)?;
        }
        Ok(())
    }

    fn has_children(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
    ) -> Result<bool> {
        let mut found = false;
        self.each_child(pattern, documents, key, &[], &mut |_| {
            found = true;
            Ok(false)
        })?;
        Ok(found)
    }

    /// Updates the node of an entry and its children, at most `batch` of them. Returns how many
    /// were read, and the key after which others remain.
    ///
    /// # Errors
    /// When the store fails or a node cannot be written.
    pub(super) fn update_some(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        entry: &Entry,
        batch: usize,
    ) -> Result<(usize, Option<Vec<u8>>)> {
        let key = entry.key.get();
        if entry.at.is_empty()
            && let Some(node) = self.find_node(pattern, documents, key)?
        {
            self.update(pattern, documents, &node)?;
        }
        if entry.alone || key.is_nullish() {
            return Ok((1, None));
        }
        let mut children = Vec::new();
        self.each_child(pattern, documents, key, &entry.at, &mut |doc| {
            children.push(DocBuf::from(doc));
            Ok(children.len() < batch)
        })?;
        for child in &children {
            self.update(pattern, documents, child)?;
            let key = self.key_of(child.as_doc());
            let key = key.get();
            if self.has_children(pattern, documents, key)? {
                queue::put_since(pattern, documents, &keys::key(key), key, entry.since)?;
            }
        }
        let last = children.last().filter(|_| children.len() >= batch);
        let next = last.map(|last| keys::key(last.as_doc().get("_id").unwrap_or(Val::Null)));
        Ok((children.len() + 1, next))
    }

    /// Writes the derived image of a node, if it differs.
    fn update(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: &DocBuf,
    ) -> Result<()> {
        let image = self.derived(pattern, documents, node.as_doc())?;
        if image != *node {
            documents.replace(pattern.id, &pattern.target, node.as_doc(), &image)?;
        }
        Ok(())
    }

    /// The image of a node that is updated asynchronously. The write can no longer be refused: if
    /// its chain of ancestors exceeds a limit, its fields are missing, as if a parent did not
    /// exist.
    fn derived(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
    ) -> Result<DocBuf> {
        match self.with_fields(pattern, documents, node) {
            Err(error) if error.code() == Code::PATTERN_VIOLATION => self.without_fields(node),
            image => image,
        }
    }

    /// The image of a node that a check expects, given the one that a synchronous update would
    /// derive.
    ///
    /// # Errors
    /// As the given image, if updates are synchronous.
    pub(super) fn tolerated(
        &self,
        pattern: &Pattern,
        node: RawDoc<'_>,
        recomputed: Result<DocBuf>,
    ) -> Result<DocBuf> {
        match recomputed {
            Err(error) if error.code() == Code::PATTERN_VIOLATION && pattern.may_be_stale() => {
                self.without_fields(node)
            }
            image => image,
        }
    }

    /// Since when a node waits for an entry: its own, or that of an ancestor.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn node_waits_since(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
    ) -> Result<Option<i64>> {
        let own = keys::key(node.get("_id").unwrap_or(Val::Null));
        let mut since: Option<i64> = None;
        let mut next = self.key_of(node);
        let mut above = self.parent_key_of(node);
        for level in 0..=DEPTH_MAX {
            if let Some(entry) = queue::entry(pattern, documents, &keys::key(next.get()))? {
                let waits = match level {
                    0 => entry.at.is_empty(),
                    1 => !entry.alone && own > entry.at,
                    _ => !entry.alone,
                };
                let first = since.map_or(entry.since, |since| since.min(entry.since));
                since = if waits { Some(first) } else { since };
            }
            if above.get().is_nullish() {
                break;
            }
            next = above;
            let Some(parent) = self.find_node(pattern, documents, next.get())? else {
                // The parent may have existed, with an entry that is still queued.
                above = OwnedVal::new(Val::Null);
                continue;
            };
            above = self.parent_key_of(parent.as_doc());
        }
        Ok(since)
    }
}
