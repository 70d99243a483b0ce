//! The fields of one node. They depend on the chain of its ancestors and on the counts of its
//! descendants.

use super::{DEPTH_MAX, Tree, counts};
use crate::documents::Documents;
use crate::edit::{self, Assignment};
use crate::error_context::value_text;
use crate::pattern::{Pattern, Phase};
use bumpalo::Bump;
use query::expr::Env;
use std::collections::BTreeSet;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val, keys};

/// Terminates the label range of a node and all its descendants.
const LABEL_END: char = '~';

/// A node on the path from the root.
#[derive(Debug)]
pub(super) struct Ancestor {
    pub(super) id: OwnedVal,
    pub(super) segment: String,
    pub(super) label: String,
}

impl Tree {
    pub(super) fn segment(&self, node: RawDoc<'_>) -> Result<String> {
        let Some(path) = &self.path else { return Ok(String::new()) };
        let arena = Bump::new();
        let value = path.segment.eval(&Env::new(node, &arena))?;
        match value {
            // Otherwise the end of a segment would be ambiguous.
            Val::String(text) if text.contains(&path.separator) => Err(Error::new(
                Code::PATTERN_VIOLATION,
                format!("the segment of a path cannot contain the separator '{}'", path.separator),
            )),
            Val::String(text) => Ok(text.to_owned()),
            other => Err(Error::new(
                Code::PATTERN_VIOLATION,
                format!("the segment of a path must be text, found {}", other.kind().name()),
            )),
        }
    }

    /// The position of a node among its siblings, as text: by the declared order, then by name. No
    /// label is a prefix of a sibling's.
    pub(super) fn label(&self, node: RawDoc<'_>) -> String {
        use std::fmt::Write as _;
        if self.nested_set.is_none() {
            return String::new();
        }
        let mut place = Vec::new();
        if let Some(order) = &self.order {
            keys::encode(&mut place, order.find(node).map_or(Val::Null, RawVal::get), false);
        }
        keys::encode(&mut place, self.id_of(node), false);
        place.iter().fold(String::with_capacity(place.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// The nodes from the root down to the parent of a node; `None` while one of them does not
    /// exist.
    pub(super) fn chain(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
    ) -> Result<Option<Vec<Ancestor>>> {
        let violation = |what: String| {
            Error::new(Code::PATTERN_VIOLATION, format!("pattern '{}': {what}", pattern.name))
        };
        let scope_of = |doc: RawDoc<'_>| {
            let scope = self.scope.as_ref()?;
            Some(keys::key(scope.find(doc).map_or(Val::Null, RawVal::get)))
        };
        if matches!(self.id_of(node), Val::Null | Val::Undefined | Val::Array(_)) {
            return Err(violation(format!("a node needs a name in '{}'", self.id.text())));
        }
        let own = keys::key(self.key_of(node).get());
        let scope = scope_of(node);
        let mut chain: Vec<Ancestor> = Vec::new();
        let mut id = OwnedVal::new(self.parent_of(node));
        let mut next = self.parent_key_of(node);
        while !next.get().is_nullish() {
            if matches!(id.get(), Val::Array(_)) {
                return Err(violation(format!("'{}' cannot be an array", self.parent.text())));
            }
            if keys::key(next.get()) == own {
                let ids = chain.iter().map(|step| value_text(step.id.get())).collect::<Vec<_>>();
                return Err(violation(format!(
                    "the node would be its own ancestor (cycle over {})",
                    if ids.is_empty() { "itself".to_owned() } else { ids.join(", ") }
                )));
            }
            if chain.len() >= DEPTH_MAX {
                return Err(violation(format!(
                    "a node has more than {DEPTH_MAX} ancestors, or its ancestors form a cycle"
                )));
            }
            let Some(parent) = self.find_node(pattern, documents, next.get())? else {
                if self.defer {
                    return Ok(None);
                }
                return Err(violation(format!(
                    "'{}' names a node that is not there, and onMissingParent is 'reject'",
                    self.parent.text()
                )));
            };
            let parent = parent.as_doc();
            if scope_of(parent) != scope {
                return Err(violation(format!(
                    "'{}' names a node of another tree: '{}' differs",
                    self.parent.text(),
                    self.scope.as_ref().map_or("", |scope| scope.text())
                )));
            }
            chain.push(Ancestor { id, segment: self.segment(parent)?, label: self.label(parent) });
            id = OwnedVal::new(self.parent_of(parent));
            next = self.parent_key_of(parent);
        }
        chain.reverse();
        Ok(Some(chain))
    }

    /// Returns the image of a written node, with its maintained fields.
    ///
    /// # Errors
    /// PatternViolation for a cycle or a parent that does not exist.
    pub(super) fn with_fields(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
    ) -> Result<DocBuf> {
        let counted = match self.counted(pattern, documents, node)? {
            Some(counted) => [Some(counted.children), Some(counted.descendants)],
            None => [None, None],
        };
        self.with_counts(pattern, documents, node, counted)
    }

    /// Returns the image of a node, derived from all documents; for checks.
    ///
    /// # Errors
    /// As `with_fields`.
    pub(super) fn recomputed(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
    ) -> Result<DocBuf> {
        let mut counted = [None, None];
        if self.counts() {
            let mut level = vec![self.key_of(node)];
            // Writes without the pattern may have caused cycles.
            let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
            let (mut children, mut descendants) = (None, 0_i64);
            while !level.is_empty() {
                let mut below = Vec::new();
                for key in &level {
                    for child in self.children(pattern, documents, key.get())? {
                        let key = self.key_of(child.as_doc());
                        if seen.insert(keys::key(key.get())) {
                            below.push(key);
                        }
                    }
                }
                descendants = descendants.saturating_add(below.len() as i64);
                children.get_or_insert(below.len() as i64);
                level = below;
            }
            counted = [children, Some(descendants)];
        }
        self.with_counts(pattern, documents, node, counted)
    }

    /// The counts of a node; `None` while they are incomplete.
    pub(super) fn counted(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
    ) -> Result<Option<counts::Counted>> {
        let building = pattern.phase == Phase::Building
            && !pattern.progress(documents)?.is_some_and(|progress| progress.targets);
        if !self.counts() || building {
            return Ok(None);
        }
        counts::of(pattern, documents, &keys::key(self.key_of(node).get())).map(Some)
    }

    pub(super) fn with_counts(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
        [children, descendants]: [Option<i64>; 2],
    ) -> Result<DocBuf> {
        let chain = self.chain(pattern, documents, node)?;
        let chain: Option<Vec<&Ancestor>> = chain.as_ref().map(|chain| chain.iter().collect());
        self.assigned(node, chain.as_deref(), &self.segment(node)?, [children, descendants])
    }

    /// The image of a node with this chain of ancestors; `None` means that one does not exist yet.
    pub(super) fn assigned(
        &self,
        node: RawDoc<'_>,
        chain: Option<&[&Ancestor]>,
        own: &str,
        [children, descendants]: [Option<i64>; 2],
    ) -> Result<DocBuf> {
        let mut changes: Vec<Assignment> = Vec::new();
        if let Some((left, right)) = self.nested_set.as_ref().filter(|_| !self.dense) {
            let label = chain.map(|chain| {
                let above: String = chain.iter().map(|step| &*step.label).collect();
                above + &self.label(node)
            });
            let value = |text: &String| OwnedVal::new(Val::String(text));
            changes.push((left.clone(), label.as_ref().map(value)));
            let end = label.map(|label| format!("{label}{LABEL_END}"));
            changes.push((right.clone(), end.as_ref().map(value)));
        }
        if let Some(path) = &self.ancestors {
            let value = chain.map(|chain| {
                let mut bytes = Vec::new();
                value::writer::write_array(&mut bytes, |out| {
                    chain.iter().for_each(|step| out.push_raw(step.id.raw()));
                });
                OwnedVal::new(Val::Array(RawDoc::new(&bytes)))
            });
            changes.push((path.clone(), value));
        }
        if let Some(path) = &self.path {
            let value = chain.map(|chain| {
                let mut text = path.separator.clone();
                let segments = chain.iter().map(|step| &*step.segment).chain([own]);
                for segment in segments {
                    text.push_str(segment);
                    text.push_str(&path.separator);
                }
                OwnedVal::new(Val::String(&text))
            });
            changes.push((path.into.clone(), value));
        }
        if let Some(path) = &self.depth {
            let depth = chain.map(|chain| OwnedVal::new(Val::Int32(chain.len() as i32)));
            changes.push((path.clone(), depth));
        }
        for (path, count) in [(&self.child_count, children), (&self.descendant_count, descendants)]
        {
            let Some(path) = path else { continue };
            let value = count.filter(|_| chain.is_some()).map(|count| {
                OwnedVal::new(i32::try_from(count).map_or(Val::Int64(count), Val::Int32))
            });
            changes.push((path.clone(), value));
        }
        edit::assign(node, &changes)
    }
}
