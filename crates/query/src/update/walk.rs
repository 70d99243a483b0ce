//! Rewrites a document along the tree of an update; everything outside its paths is copied as
//! bytes.

use super::modifier::{Modifier, ModifierContext, Modifiers};
use super::tree::{Tree, part_order};
use crate::show::show;
use smallvec::SmallVec;
use std::cell::Cell;
use value::raw::same_name;
use value::{Code, Error, RawDoc, RawVal, Result, Val, Writer};

/// The most nulls that are added to an array for a position beyond its end.
const BACKFILL_MAX: usize = 1_500_000;

/// Subtrees that meet at one place: several where `$`, `$[]` and `$[name]` choose the same element.
type Trees<'u> = SmallVec<[&'u Tree; 2]>;

/// Applies modifiers to a document. True: it counts as changed even if its bytes are the same.
pub(super) fn apply(
    modifiers: &Modifiers,
    doc: RawDoc<'_>,
    position: Option<usize>,
    inserting: bool,
) -> Result<(Vec<u8>, bool)> {
    let renamed = modifiers.find_renamed(doc)?;
    let collation = modifiers.collation.as_deref();
    let mut walk = Walk {
        modifiers,
        context: ModifierContext {
            doc,
            path: String::new(),
            inserting,
            in_array: false,
            renamed,
            collation,
            touched: Cell::new(false),
        },
        position,
    };
    let mut bytes = Vec::with_capacity(doc.bytes().len() + 256);
    let mut out = Writer::start(&mut bytes);
    let Tree::Fields(children) = &modifiers.tree else {
        return Err(Error::internal("the root of an update has fields"));
    };
    let children = walk.resolve(&[children])?;
    walk.fields(&children, doc, &mut out)?;
    out.finish();
    Ok((bytes, walk.context.touched.get()))
}

fn no_position() -> Error {
    Error::bad_value("The positional operator did not find the match needed from the query.")
}

struct Walk<'u, 'd> {
    modifiers: &'u Modifiers,
    context: ModifierContext<'d>,
    position: Option<usize>,
}

/// The children of one node.
type Branches<'u> = &'u Vec<(Box<str>, Tree)>;

/// Children by name with all subtrees that meet there.
type Children<'u> = SmallVec<[(std::borrow::Cow<'u, str>, Trees<'u>); 4]>;

impl<'u, 'd> Walk<'u, 'd> {
    /// Merges the children of several nodes; `$` is replaced by the matched position.
    fn resolve(&self, nodes: &[Branches<'u>]) -> Result<Children<'u>> {
        let mut children: Children<'u> = SmallVec::new();
        let plain = nodes.len() == 1;
        let mut sorted = true;
        for (name, tree) in nodes.iter().flat_map(|node| node.iter()) {
            let name: std::borrow::Cow<'u, str> = if &**name == "$" {
                sorted = false;
                self.position.ok_or_else(no_position)?.to_string().into()
            } else {
                (&**name).into()
            };
            if plain && sorted {
                children.push((name, SmallVec::from_slice(&[tree])));
                continue;
            }
            match children.iter_mut().find(|(known, _)| *known == name) {
                Some((_, trees)) => trees.push(tree),
                None => children.push((name, SmallVec::from_slice(&[tree]))),
            }
        }
        if !(plain && sorted) {
            children.sort_by(|(a, _), (b, _)| part_order(a, b));
        }
        Ok(children)
    }

    /// Writes the elements of a document with the children applied.
    fn fields(
        &mut self,
        children: &Children<'u>,
        doc: RawDoc<'d>,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        let mut done: SmallVec<[bool; 16]> = SmallVec::from_elem(false, children.len());
        let mut left = children.len();
        let mut elements = doc.iter();
        // Elements between changes are copied at once.
        let mut same = elements.rest();
        while left > 0 {
            let before = elements.rest().len();
            let Some((name, value)) = elements.next_bytes() else { break };
            let place = if children.len() <= 4 {
                children.iter().position(|(known, _)| same_name(known.as_bytes(), name))
            } else {
                let name = std::str::from_utf8(name).unwrap_or("");
                children.binary_search_by(|(known, _)| part_order(known, name)).ok()
            };
            let fresh = place.and_then(|at| done.get_mut(at)).filter(|done| !**done);
            let child = place.and_then(|at| children.get(at));
            if let (Some(done), Some((name, trees))) = (fresh, child) {
                *done = true;
                left -= 1;
                let length = same.len().saturating_sub(before);
                out.buffer().extend_from_slice(same.get(..length).unwrap_or(&[]));
                same = elements.rest();
                self.element(name, name, trees, Some(value), false, out)?;
            }
        }
        out.buffer().extend_from_slice(same);
        for ((name, trees), done) in children.iter().zip(done) {
            if !done {
                self.element(name, name, trees, None, false, out)?;
            }
        }
        Ok(())
    }

    /// Writes one element under `name` after the update; `part` is its name in paths.
    fn element(
        &mut self,
        name: &str,
        part: &str,
        trees: &[&'u Tree],
        old: Option<RawVal<'d>>,
        in_array: bool,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        let length = self.context.path.len();
        if length > 0 {
            self.context.path.push('.');
        }
        self.context.path.push_str(part);
        let result = match trees {
            [Tree::Leaf(leaf)] => {
                self.context.in_array = in_array;
                match self.modifiers.modifiers.get(*leaf) {
                    Some(modifier) => modifier.apply(name, old, &self.context, out),
                    None => Err(Error::internal("a leaf has a modifier")),
                }
            }
            trees => self.inner(name, trees, old, out),
        };
        self.context.path.truncate(length);
        result
    }

    fn conflict(&self) -> Error {
        Error::new(
            Code::CONFLICTING_UPDATE_OPERATORS,
            format!("Update created a conflict at '{}'", self.context.path),
        )
    }

    /// Continues below a position.
    fn inner(
        &mut self,
        name: &str,
        trees: &[&'u Tree],
        old: Option<RawVal<'d>>,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        let mut fields: SmallVec<[Branches<'u>; 2]> = SmallVec::new();
        let mut elements: SmallVec<[Branches<'u>; 2]> = SmallVec::new();
        for tree in trees {
            match tree {
                Tree::Leaf(_) => return Err(self.conflict()),
                Tree::Fields(children) => fields.push(children),
                Tree::Elements(children) => elements.push(children),
            }
        }
        if !elements.is_empty() {
            if !fields.is_empty() {
                return Err(self.conflict());
            }
            return self.chosen_elements(name, &elements, old, out);
        }
        let children = self.resolve(&fields)?;
        match old {
            None => self.create(name, &children, out),
            Some(old) => {
                if let Some(doc) = old.as_doc() {
                    let token = out.open(name, false);
                    self.fields(&children, doc, out)?;
                    out.close(token);
                    Ok(())
                } else if let Some(array) = old.as_array() {
                    self.elements_by_index(name, &children, array, old, out)
                } else {
                    for (part, trees) in &children {
                        self.not_viable(part, trees, old)?;
                    }
                    out.raw(name, old);
                    Ok(())
                }
            }
        }
    }

    /// Creates the documents of a path that does not exist, unless nothing is written into them.
    fn create(&mut self, name: &str, children: &Children<'u>, out: &mut Writer<'_>) -> Result<()> {
        let length = out.buffer().len();
        let token = out.open(name, false);
        let empty = out.buffer().len();
        self.fields(children, RawDoc::empty(), out)?;
        if out.buffer().len() == empty {
            out.buffer().truncate(length);
        } else {
            out.close(token);
        }
        Ok(())
    }

    /// Array elements by index.
    fn elements_by_index(
        &mut self,
        name: &str,
        children: &Children<'u>,
        array: RawDoc<'d>,
        old: RawVal<'d>,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        let mut wanted: SmallVec<[(usize, usize); 8]> = SmallVec::new();
        for (at, (part, trees)) in children.iter().enumerate() {
            match part.parse::<usize>() {
                Ok(index) if part.bytes().all(|b| b.is_ascii_digit()) => wanted.push((index, at)),
                _ => self.not_viable(part, trees, old)?,
            }
        }
        let token = out.open(name, true);
        let mut count = 0;
        for (element_name, element) in array {
            let hit = wanted.iter().find(|(index, _)| *index == count).map(|(_, at)| *at);
            match hit.and_then(|at| children.get(at)) {
                Some((part, trees)) => {
                    self.element(element_name, part, trees, Some(element), true, out)?;
                }
                None => {
                    out.raw(element_name, element);
                }
            }
            count += 1;
        }
        for (index, at) in wanted {
            if index < count {
                continue;
            }
            let Some((part, trees)) = children.get(at) else { continue };
            if !trees.iter().any(|tree| self.may_create(tree)) {
                trees.iter().try_for_each(|tree| self.check_position(tree))?;
                continue;
            }
            if index - count > BACKFILL_MAX {
                return Err(Error::new(
                    Code::CANNOT_BACKFILL_ARRAY,
                    format!("can't backfill more than {BACKFILL_MAX} elements"),
                ));
            }
            let before = out.buffer().len();
            for hole in count..index {
                out.append(&hole.to_string(), Val::Null);
            }
            let filled = out.buffer().len();
            self.element(&index.to_string(), part, trees, None, true, out)?;
            if out.buffer().len() == filled {
                out.buffer().truncate(before);
            } else {
                count = index + 1;
            }
        }
        out.close(token);
        Ok(())
    }

    /// Array elements that filters choose.
    fn chosen_elements(
        &mut self,
        name: &str,
        nodes: &[Branches<'u>],
        old: Option<RawVal<'d>>,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        let path = &self.context.path;
        let Some(old) = old else {
            return Err(Error::bad_value(format!(
                "The path '{path}' must exist in the document in order to apply array updates."
            )));
        };
        let Some(array) = old.as_array() else {
            return Err(Error::bad_value(format!(
                "Cannot apply array updates to non-array element {}: {}",
                path.rsplit('.').next().unwrap_or(path),
                show(old.get())
            )));
        };
        let token = out.open(name, true);
        for (index, element) in array {
            let mut trees: Trees<'u> = SmallVec::new();
            for (identifier, tree) in nodes.iter().flat_map(|node| node.iter()) {
                if self.modifiers.array_filters.matches(identifier, element)? {
                    trees.push(tree);
                }
            }
            if trees.is_empty() {
                out.raw(index, element);
            } else {
                self.element(index, index, &trees, Some(element), true, out)?;
            }
        }
        out.close(token);
        Ok(())
    }

    /// Refuses a positional `$` below a place that is not walked when there is no match for it.
    fn check_position(&self, tree: &Tree) -> Result<()> {
        match tree {
            Tree::Leaf(_) => Ok(()),
            Tree::Fields(children) | Tree::Elements(children) => {
                if self.position.is_none() && children.iter().any(|(name, _)| &**name == "$") {
                    return Err(no_position());
                }
                children.iter().try_for_each(|(_, tree)| self.check_position(tree))
            }
        }
    }

    /// Whether some modifier below could create what does not exist.
    fn may_create(&self, tree: &Tree) -> bool {
        match tree {
            Tree::Leaf(leaf) => {
                self.modifiers.modifiers.get(*leaf).is_some_and(|m| m.creates(&self.context))
            }
            Tree::Fields(children) => children.iter().any(|(_, tree)| self.may_create(tree)),
            Tree::Elements(_) => true,
        }
    }

    /// A path that leads into a value which has no such part: an error for most modifiers.
    fn not_viable(&self, part: &str, trees: &[&'u Tree], old: RawVal<'_>) -> Result<()> {
        for tree in trees {
            let mut tree = *tree;
            // The whole path as it would be, for the message.
            let mut path = format!("{}.{part}", self.context.path);
            loop {
                match tree {
                    Tree::Leaf(leaf) => {
                        if let Some(modifier) = self.modifiers.modifiers.get(*leaf) {
                            self.check_viable(modifier, part, &path, old)?;
                        }
                        break;
                    }
                    Tree::Elements(_) => {
                        return Err(Error::bad_value(format!(
                            "The path '{path}' must exist in the document in order to apply array \
                             updates."
                        )));
                    }
                    Tree::Fields(children) => {
                        if self.position.is_none() && children.iter().any(|(n, _)| &**n == "$") {
                            return Err(no_position());
                        }
                        for (_, other) in children.iter().skip(1) {
                            self.not_viable(part, &[other], old)?;
                        }
                        let Some((name, first)) = children.first() else { break };
                        path.push('.');
                        path.push_str(name);
                        tree = first;
                    }
                }
            }
        }
        Ok(())
    }

    fn check_viable(
        &self,
        modifier: &Modifier,
        part: &str,
        path: &str,
        old: RawVal<'_>,
    ) -> Result<()> {
        let name = self.context.path.rsplit('.').next().unwrap_or("");
        if modifier.creates(&self.context) {
            return Err(Error::new(
                Code::PATH_NOT_VIABLE,
                format!("Cannot create field '{part}' in element {{{name}: {}}}", show(old.get())),
            ));
        }
        if modifier.tolerates_any_path() {
            return Ok(());
        }
        Err(Error::new(
            Code::PATH_NOT_VIABLE,
            format!(
                "Cannot use the part ({part}) of ({path}) to traverse the element ({{{name}: {}}})",
                show(old.get())
            ),
        ))
    }
}
