//! Trees whose nodes follow later: a node that is written has its own fields at once, and nobody's
//! parent is ever wrong. What stands below it, and the counts of those above, wait in the queue.
//!
//! An entry names a node: it looks at itself and at its children, and each child that has children is
//! queued in turn. So a change goes down the tree a level at a time, in commits of a bounded size. It goes
//! down whether a child changes or not: a child may have missed a change and its reversal, while one below
//! it, which was written in between, shows what was true then. Counts concern a node alone.

use super::nodes::Node;
use super::{DEPTH_MAX, Tree};
use crate::documents::{Documents, Find};
use crate::pattern::Pattern;
use crate::queue::{self, Entry};
use value::{Code, DocBuf, OwnedVal, RawDoc, Result, Val, keys};

impl Tree {
    /// Whether the children of a node have to look at once, though others follow later: what becomes of
    /// them when it goes is a change of their parents, and a node of another tree may be refused.
    pub(super) fn concerns_at_once(&self, node: &Node) -> bool {
        node.removed.is_some() || (node.enters && self.scope.is_some())
    }

    /// Queues a node whose children have to look again, if it has any.
    pub(super) fn queue_children(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        encoded: &[u8],
        id: Val<'_>,
    ) -> Result<()> {
        if self.has_children(pattern, documents, id)? {
            queue::put(pattern, documents, encoded, id)?;
        }
        Ok(())
    }

    fn has_children(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        id: Val<'_>,
    ) -> Result<bool> {
        let mut found = false;
        if !id.is_nullish() {
            let (collection, path) = (&*pattern.target, &self.parent);
            documents.find(&Find { collection, path, value: id, after: &[] }, &mut |_| {
                found = true;
                Ok(false)
            })?;
        }
        Ok(found)
    }

    /// Brings the node of an entry and its children up to date, at most `batch` of them. Returns how many
    /// were looked at, and the place behind which others are left.
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
        let id = entry.key.get();
        if entry.at.is_empty()
            && let Some(node) = self.find_node(pattern, documents, id)?
        {
            self.update(pattern, documents, &node)?;
        }
        if entry.alone || id.is_nullish() {
            return Ok((1, None));
        }
        let mut children = Vec::new();
        let (collection, path, after) = (&*pattern.target, &self.parent, &*entry.at);
        documents.find(&Find { collection, path, value: id, after }, &mut |doc| {
            children.push(DocBuf::from(doc));
            Ok(children.len() < batch)
        })?;
        for child in &children {
            self.update(pattern, documents, child)?;
            let id = self.id_of(child.as_doc());
            if self.has_children(pattern, documents, id)? {
                queue::put_since(pattern, documents, &keys::key(id), id, entry.since)?;
            }
        }
        let last = children.last().filter(|_| children.len() >= batch);
        let next = last.map(|last| keys::key(last.as_doc().get("_id").unwrap_or(Val::Null)));
        Ok((children.len() + 1, next))
    }

    /// Writes a node as it has to be, if it is not.
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

    /// The image of a node that follows. Nobody can be refused any more: where what stands above a node
    /// has become more than it may, its fields are missing, as if a parent were awaited.
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

    /// The image of a node that a check expects, given what it would be if it had to be right at once.
    ///
    /// # Errors
    /// The one that it is given, where nodes follow at once.
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

    /// Since when a node waits for an entry to come to it: its own, or that of one above it.
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
        let mut next = OwnedVal::new(self.id_of(node));
        let mut above = OwnedVal::new(self.parent_of(node));
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
                // It may have been there, with an entry that is still to be worked at.
                above = OwnedVal::new(Val::Null);
                continue;
            };
            above = OwnedVal::new(self.parent_of(parent.as_doc()));
        }
        Ok(since)
    }
}
