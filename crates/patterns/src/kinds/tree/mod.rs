//! `tree`: what follows from the parents of nodes. The parent is the truth; ancestors, path, depth
//! and nested sets are derived from the chain of parents whenever a node or one above it changes.
//! `counts` keeps how many nodes stand below each, `numbers` nested sets without gaps, `pointer` resolves
//! for readers what a tree does not store, `later` lets nodes follow in commits of their own.

mod counts;
pub(crate) mod declaration;
mod later;
mod numbers;
mod pointer;

pub use numbers::Numbers;
pub use pointer::Chains;

use crate::documents::{Documents, Find};
use crate::edit::{self, Assignment};
use crate::pattern::{Pattern, Phase};
use bumpalo::Bump;
use query::expr::{Env, Expr};
use std::collections::{BTreeMap, BTreeSet};
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val, keys};

/// A tree of documents.
#[derive(Debug)]
pub struct Tree {
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

/// A node whose children must look again.
#[derive(Clone, Debug)]
pub struct Node {
    id: OwnedVal,
    /// The parent that it had, when it was removed.
    removed: Option<OwnedVal>,
    /// Whether it has another name now: then nobody may still call it by the old one.
    renamed: bool,
    /// Whether it is new, or belongs to another tree than before.
    enters: bool,
    /// The trees that it belongs to, or did, where nodes have numbers.
    scopes: Vec<Vec<u8>>,
}

impl Node {
    /// Takes in what was known of the node before.
    pub(crate) fn follow(&mut self, known: Node) {
        self.enters |= known.enters;
        self.scopes.extend(known.scopes);
        self.scopes.sort();
        self.scopes.dedup();
    }
}

/// A node on the way from the root.
#[derive(Debug)]
struct Step {
    id: OwnedVal,
    segment: String,
    label: String,
}

/// The most ancestors that a node may have.
const DEPTH_MAX: usize = 1000;

/// The most levels that a tree has.
pub const LEVELS_MAX: usize = DEPTH_MAX + 1;

/// Behind the label of a node and of all nodes below it.
const LABEL_END: char = '~';

impl Tree {
    /// The paths that are maintained.
    #[must_use]
    pub fn maintains(&self) -> Vec<String> {
        self.kept().map(|path| path.text().to_owned()).collect()
    }

    /// All that is maintained.
    fn kept(&self) -> impl Iterator<Item = &Path> {
        let counts = [self.child_count.as_ref(), self.descendant_count.as_ref()];
        let numbers = self.numbered().into_iter().flatten();
        self.followed().into_iter().chain(counts.into_iter().flatten()).chain(numbers)
    }

    /// What follows from the nodes above.
    fn followed(&self) -> Vec<&Path> {
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
    pub fn counts(&self) -> bool {
        self.child_count.is_some() || self.descendant_count.is_some()
    }

    /// The indexes that it needs: children are found by their parent.
    #[must_use]
    pub fn indexes(&self, target: &str) -> Vec<(String, DocBuf)> {
        let key = DocBuf::build(|out| {
            out.i32(self.parent.text(), 1);
        });
        vec![(target.to_owned(), key)]
    }

    /// The node of a name.
    fn find_node(
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

    fn id_of<'d>(&self, node: RawDoc<'d>) -> Val<'d> {
        self.id.find(node).map_or(Val::Null, RawVal::get)
    }

    fn parent_of<'d>(&self, node: RawDoc<'d>) -> Val<'d> {
        self.parent.find(node).map_or(Val::Missing, RawVal::get)
    }

    fn segment(&self, node: RawDoc<'_>) -> Result<String> {
        let Some(path) = &self.path else { return Ok(String::new()) };
        let arena = Bump::new();
        let value = path.segment.eval(&Env::new(node, &arena))?;
        match value {
            // Otherwise nobody could tell where one segment ends.
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

    /// The place of a node among its siblings, as text: by the declared order, then by its name.
    /// No label is the beginning of a sibling's.
    fn label(&self, node: RawDoc<'_>) -> String {
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

    /// The nodes from the root down to the parent of a node; `None` while one of them is awaited.
    fn chain(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
    ) -> Result<Option<Vec<Step>>> {
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
        let own = keys::key(self.id_of(node));
        let scope = scope_of(node);
        let mut chain: Vec<Step> = Vec::new();
        let mut next = OwnedVal::new(self.parent_of(node));
        while !next.get().is_nullish() {
            if matches!(next.get(), Val::Array(_)) {
                return Err(violation(format!("'{}' cannot be an array", self.parent.text())));
            }
            if keys::key(next.get()) == own {
                let ids = chain.iter().map(|step| format!("{:?}", step.id)).collect::<Vec<_>>();
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
            chain.push(Step {
                id: next,
                segment: self.segment(parent)?,
                label: self.label(parent),
            });
            next = OwnedVal::new(self.parent_of(parent));
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
        let counted = match self.counted(pattern, documents, node)? {
            Some(counted) => [Some(counted.children), Some(counted.descendants)],
            None => [None, None],
        };
        self.shape_with(pattern, documents, node, counted)
    }

    /// The image of a node, derived from all documents: for checks.
    ///
    /// # Errors
    /// As `shape`.
    pub fn recomputed(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
    ) -> Result<DocBuf> {
        let mut counted = [None, None];
        if self.counts() {
            let mut level = vec![OwnedVal::new(self.id_of(node))];
            // Where writes went past the tree it may have cycles.
            let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
            let (mut children, mut descendants) = (None, 0_i64);
            while !level.is_empty() {
                let mut below = Vec::new();
                for id in &level {
                    for child in self.children(pattern, documents, id.get())? {
                        let id = self.id_of(child.as_doc());
                        if seen.insert(keys::key(id)) {
                            below.push(OwnedVal::new(id));
                        }
                    }
                }
                descendants = descendants.saturating_add(below.len() as i64);
                children.get_or_insert(below.len() as i64);
                level = below;
            }
            counted = [children, Some(descendants)];
        }
        self.shape_with(pattern, documents, node, counted)
    }

    /// The counts of a node; `None` while they are not all there.
    fn counted(
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
        counts::of(pattern, documents, &keys::key(self.id_of(node))).map(Some)
    }

    fn shape_with(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: RawDoc<'_>,
        [children, descendants]: [Option<i64>; 2],
    ) -> Result<DocBuf> {
        let chain = self.chain(pattern, documents, node)?;
        let chain: Option<Vec<&Step>> = chain.as_ref().map(|chain| chain.iter().collect());
        self.assigned(node, chain.as_deref(), &self.segment(node)?, [children, descendants])
    }

    /// The image of a node that has this chain of nodes above it; `None` while one is awaited.
    fn assigned(
        &self,
        node: RawDoc<'_>,
        chain: Option<&[&Step]>,
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

    /// The nodes whose children must look again, if they must.
    ///
    /// # Errors
    /// What the segment's expression gives.
    pub fn note(
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
            let id = self.id_of(doc);
            let (enters, scopes) = (enters || renamed, scopes.clone());
            (keys::key(id), Node { id: OwnedVal::new(id), removed, renamed, enters, scopes })
        };
        let gone = |doc: RawDoc<'_>| Some(OwnedVal::new(self.parent_of(doc)));
        let (before, after) = match (before, after) {
            (None, None) => return Ok(Vec::new()),
            (Some(before), None) => return Ok(vec![node(before, gone(before), false)]),
            (None, Some(after)) => return Ok(vec![node(after, None, false)]),
            (Some(before), Some(after)) => (before, after),
        };
        if keys::key(self.id_of(before)) != keys::key(self.id_of(after)) {
            let (was, is) = (node(before, gone(before), true), node(after, None, false));
            return Ok(vec![was, (is.0, Node { enters: true, ..is.1 })]);
        }
        let moved = keys::key(self.parent_of(before)) != keys::key(self.parent_of(after));
        let mine = |doc: RawDoc<'_>| -> Vec<Option<OwnedVal>> {
            let paths = self.followed().into_iter().chain(&self.scope);
            paths.map(|path| path.find(doc).map(|value| OwnedVal::new(value.get()))).collect()
        };
        let changed = moved
            || mine(before) != mine(after)
            || (self.dense && self.label(before) != self.label(after))
            || self.segment(before)? != self.segment(after)?;
        Ok(if changed { vec![node(after, None, false)] } else { Vec::new() })
    }

    /// The note of a node that the build came to.
    #[must_use]
    pub fn visit(&self, node: RawDoc<'_>) -> (Vec<u8>, Node) {
        let id = self.id_of(node);
        let id = OwnedVal::new(id);
        let scopes = self.scopes(None, Some(node));
        let node = Node { id, removed: None, renamed: false, enters: true, scopes };
        (keys::key(node.id.get()), node)
    }

    fn children(
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

    /// Brings the children of nodes up to date, and the counts of those above.
    ///
    /// # Errors
    /// PatternViolation when a node cannot go; when the store fails.
    pub fn settle(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        nodes: &BTreeMap<Vec<u8>, Node>,
    ) -> Result<()> {
        let mut touched: BTreeMap<Vec<u8>, OwnedVal> = BTreeMap::new();
        if self.counts() {
            let mut standings = Vec::new();
            for (encoded, node) in nodes {
                let standing = self.find_node(pattern, documents, node.id.get())?.map(|doc| {
                    let parent = self.parent_of(doc.as_doc());
                    (!parent.is_nullish()).then(|| OwnedVal::new(parent))
                });
                standings.push((encoded.clone(), standing));
            }
            counts::follow(pattern, documents, &standings, &mut touched)?;
        }
        let deferred = pattern.is_deferred();
        for (encoded, node) in nodes {
            if !deferred || self.concerns_at_once(node) {
                self.settle_children(pattern, documents, node)?;
            }
            if deferred {
                self.queue_children(pattern, documents, encoded, node.id.get())?;
            }
        }
        if self.pointer {
            return Ok(());
        }
        self.number_anew(pattern, documents, nodes)?;
        for (encoded, id) in &touched {
            if deferred {
                crate::queue::put_alone(pattern, documents, encoded, id.get())?;
                continue;
            }
            let Some(doc) = self.find_node(pattern, documents, id.get())? else { continue };
            let image = self.shape(pattern, documents, doc.as_doc())?;
            if image != doc {
                documents.replace(pattern.id, &pattern.target, doc.as_doc(), &image)?;
            }
        }
        Ok(())
    }

    fn settle_children(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        node: &Node,
    ) -> Result<()> {
        // Where nothing is stored only those whose parent went, or became one of another tree, care.
        if self.pointer && node.removed.is_none() && self.scope.is_none() {
            return Ok(());
        }
        let children = self.children(pattern, documents, node.id.get())?;
        if children.is_empty() {
            return Ok(());
        }
        let removed = match &node.removed {
            Some(parent) if self.find_node(pattern, documents, node.id.get())?.is_none() => {
                Some(parent)
            }
            _ => None,
        };
        let violation = |what: &str| {
            Error::new(Code::PATTERN_VIOLATION, format!("pattern '{}': {what}", pattern.name))
        };
        if removed.is_some() && node.renamed {
            return Err(violation("the node has children, which know it by its old name"));
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
            let image = self.write(pattern, documents, before, adopted.as_doc())?;
            if adopted != child {
                documents.alter(pattern.id, &pattern.target, child.as_doc(), &image)?;
            } else if image != child {
                documents.replace(pattern.id, &pattern.target, child.as_doc(), &image)?;
            }
        }
        Ok(())
    }
}
