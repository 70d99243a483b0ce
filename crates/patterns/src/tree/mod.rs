//! `tree`: what follows from the parents of nodes. The parent is the truth; ancestors, path and
//! depth are derived from the chain of parents whenever a node or one above it changes.

use crate::documents::{Documents, Find};
use crate::edit::{self, Assignment};
use crate::pattern::Pattern;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val, keys};

/// A tree of documents.
#[derive(Debug)]
pub struct Tree {
    /// Where the parent's `_id` stands.
    pub parent: Path,
    /// Where the ancestors go, root first.
    pub ancestors: Option<Path>,
    /// Where the path goes.
    pub path: Option<TreePath>,
    /// Where the depth goes; roots have 0.
    pub depth: Option<Path>,
    /// Whether a node may come before its parent.
    pub defer: bool,
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

/// A node whose children must look again.
#[derive(Clone, Debug)]
pub struct Node {
    id: OwnedVal,
    /// The parent that it had, when it was removed.
    removed: Option<OwnedVal>,
}

/// The most ancestors that a node may have.
const DEPTH_MAX: usize = 1000;

impl Tree {
    /// The paths that are maintained.
    #[must_use]
    pub fn maintains(&self) -> Vec<String> {
        let path = self.path.as_ref().map(|path| &path.into);
        [self.ancestors.as_ref(), path, self.depth.as_ref()]
            .into_iter()
            .flatten()
            .map(|path| path.text().to_owned())
            .collect()
    }

    /// The indexes that it needs: children are found by their parent.
    #[must_use]
    pub fn indexes(&self, target: &str) -> Vec<(String, DocBuf)> {
        let key = DocBuf::build(|out| {
            out.i32(self.parent.text(), 1);
        });
        vec![(target.to_owned(), key)]
    }

    fn parent_of<'d>(&self, node: RawDoc<'d>) -> Val<'d> {
        self.parent.find(node).map_or(Val::Missing, RawVal::get)
    }

    fn segment(&self, node: RawDoc<'_>) -> Result<String> {
        let Some(path) = &self.path else { return Ok(String::new()) };
        let arena = Bump::new();
        let value = path.segment.eval(&Env::new(node, &arena))?;
        match value {
            Val::String(text) => Ok(text.to_owned()),
            other => Err(Error::new(
                Code::PATTERN_VIOLATION,
                format!("the segment of a path must be text, found {}", other.kind().name()),
            )),
        }
    }

    /// The ids and segments from the root down to the parent of a node; `None` while one of them
    /// is awaited.
    fn chain(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
    ) -> Result<Option<Vec<(OwnedVal, String)>>> {
        let violation = |what: String| {
            Error::new(Code::PATTERN_VIOLATION, format!("pattern '{}': {what}", pattern.name))
        };
        let own = keys::key(node.get("_id").unwrap_or(Val::Null));
        let mut chain: Vec<(OwnedVal, String)> = Vec::new();
        let mut next = OwnedVal::new(self.parent_of(node));
        while !next.get().is_nullish() {
            if matches!(next.get(), Val::Array(_)) {
                return Err(violation(format!("'{}' cannot be an array", self.parent.text())));
            }
            if keys::key(next.get()) == own {
                let ids = chain.iter().map(|(id, _)| format!("{id:?}")).collect::<Vec<_>>();
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
            let Some(parent) = documents.get(&pattern.target, next.get())? else {
                if self.defer {
                    return Ok(None);
                }
                return Err(violation(format!(
                    "'{}' names a node that is not there, and onMissingParent is 'reject'",
                    self.parent.text()
                )));
            };
            chain.push((next, self.segment(parent.as_doc())?));
            next = OwnedVal::new(self.parent_of(parent.as_doc()));
        }
        chain.reverse();
        Ok(Some(chain))
    }

    /// The image of a node that is written, with its maintained fields.
    ///
    /// # Errors
    /// PatternViolation for a cycle or a parent that is not there.
    pub fn shape(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
    ) -> Result<DocBuf> {
        let chain = self.chain(pattern, documents, node)?;
        let mut changes: Vec<Assignment> = Vec::new();
        if let Some(path) = &self.ancestors {
            let value = chain.as_ref().map(|chain| {
                let mut bytes = Vec::new();
                value::writer::write_array(&mut bytes, |out| {
                    chain.iter().for_each(|(id, _)| out.push_raw(id.raw()));
                });
                OwnedVal::new(Val::Array(RawDoc::new(&bytes)))
            });
            changes.push((path.clone(), value));
        }
        if let Some(path) = &self.path {
            let own = self.segment(node)?;
            let value = chain.as_ref().map(|chain| {
                let mut text = path.separator.clone();
                let segments = chain.iter().map(|(_, segment)| segment).chain([&own]);
                for segment in segments {
                    text.push_str(segment);
                    text.push_str(&path.separator);
                }
                OwnedVal::new(Val::String(&text))
            });
            changes.push((path.into.clone(), value));
        }
        if let Some(path) = &self.depth {
            let depth = chain.as_ref().map(|chain| OwnedVal::new(Val::Int32(chain.len() as i32)));
            changes.push((path.clone(), depth));
        }
        edit::assign(node, &changes)
    }

    /// The node whose children must look again, if they must.
    ///
    /// # Errors
    /// What the segment's expression gives.
    pub fn note(
        &self,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
    ) -> Result<Option<(Vec<u8>, Node)>> {
        let Some(doc) = after.or(before) else { return Ok(None) };
        let id = doc.get("_id").unwrap_or(Val::Null);
        let node = |removed| Some((keys::key(id), Node { id: OwnedVal::new(id), removed }));
        let Some(after) = after else {
            return Ok(node(Some(OwnedVal::new(self.parent_of(doc)))));
        };
        let Some(before) = before else { return Ok(node(None)) };
        let moved = keys::key(self.parent_of(before)) != keys::key(self.parent_of(after));
        let mine = |doc: RawDoc<'_>| -> Vec<Option<OwnedVal>> {
            self.maintains()
                .iter()
                .map(|path| Path::new(path).find(doc).map(|value| OwnedVal::new(value.get())))
                .collect()
        };
        let changed =
            moved || mine(before) != mine(after) || self.segment(before)? != self.segment(after)?;
        Ok(if changed { node(None) } else { None })
    }

    /// Brings the children of a node up to date.
    ///
    /// # Errors
    /// PatternViolation when the node cannot go; when the store fails.
    pub fn settle(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: &Node,
    ) -> Result<()> {
        let mut children = Vec::new();
        let find = Find {
            collection: &pattern.target,
            path: &self.parent,
            value: node.id.get(),
            after: &[],
        };
        documents.find(&find, &mut |doc| {
            children.push(DocBuf::from(doc));
            Ok(true)
        })?;
        let removed = match &node.removed {
            Some(parent) if documents.get(&pattern.target, node.id.get())?.is_none() => {
                Some(parent)
            }
            _ => None,
        };
        for child in children {
            let adopted = match (removed, self.on_delete) {
                (None, _) => child.clone(),
                (Some(_), NodeDelete::Restrict) => {
                    return Err(Error::new(
                        Code::PATTERN_VIOLATION,
                        format!(
                            "pattern '{}': the node has children, and onDelete is 'restrict'",
                            pattern.name
                        ),
                    ));
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
            let image = self.shape(pattern, documents, adopted.as_doc())?;
            if image != child {
                documents.replace(pattern.id, &pattern.target, child.as_doc(), &image)?;
            }
        }
        Ok(())
    }
}
