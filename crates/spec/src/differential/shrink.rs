//! Shrinks a failing case: removes documents, fields, elements and operands one after another as long
//! as the answers still differ in the same way.

use super::compare::Case;
use value::{DocBuf, OwnedVal, RawDoc, Val, Writer};

/// A value that can be taken apart.
#[derive(Debug, Clone)]
enum Tree {
    Document(Vec<(String, Tree)>),
    Array(Vec<Tree>),
    Leaf(OwnedVal),
}

impl Tree {
    fn new(value: Val<'_>) -> Tree {
        match value {
            Val::Document(doc) => Tree::Document(
                doc.iter().map(|(name, value)| (name.to_owned(), Tree::new(value.get()))).collect(),
            ),
            Val::Array(array) => {
                Tree::Array(array.iter().map(|(_, value)| Tree::new(value.get())).collect())
            }
            leaf => Tree::Leaf(OwnedVal::new(leaf)),
        }
    }

    fn write(&self, out: &mut Writer<'_>, name: &str) {
        match self {
            Tree::Document(fields) => {
                out.doc(name, |out| fields.iter().for_each(|(name, tree)| tree.write(out, name)));
            }
            Tree::Array(elements) => {
                let token = out.open(name, true);
                for (at, tree) in elements.iter().enumerate() {
                    tree.write(out, &at.to_string());
                }
                out.close(token);
            }
            Tree::Leaf(value) => {
                out.append(name, value.get());
            }
        }
    }

    /// All trees that are one step smaller.
    fn smaller(&self) -> Vec<Tree> {
        let mut all = Vec::new();
        match self {
            Tree::Leaf(_) => {}
            Tree::Document(fields) => {
                for (at, (name, inner)) in fields.iter().enumerate() {
                    // Without the `_id` the order would be undefined.
                    let is_order = name == "_id" && matches!(inner, Tree::Leaf(_));
                    if !(is_order && fields.len() > 1) {
                        let mut fewer = fields.clone();
                        fewer.remove(at);
                        all.push(Tree::Document(fewer));
                    }
                    // The operand in place of the operator.
                    if fields.len() == 1 {
                        match inner {
                            Tree::Array(elements) => all.extend(elements.iter().cloned()),
                            Tree::Document(inner) => {
                                all.extend(inner.iter().map(|(_, tree)| tree.clone()))
                            }
                            Tree::Leaf(_) => {}
                        }
                        all.push(inner.clone());
                    }
                    for tree in inner.smaller() {
                        let mut changed = fields.clone();
                        changed[at].1 = tree;
                        all.push(Tree::Document(changed));
                    }
                }
            }
            Tree::Array(elements) => {
                for at in 0..elements.len() {
                    let mut fewer = elements.clone();
                    fewer.remove(at);
                    all.push(Tree::Array(fewer));
                    for tree in elements[at].smaller() {
                        let mut changed = elements.clone();
                        changed[at] = tree;
                        all.push(Tree::Array(changed));
                    }
                }
            }
        }
        all
    }
}

fn build(tree: &Tree) -> DocBuf {
    DocBuf::build(|out| {
        if let Tree::Document(fields) = tree {
            fields.iter().for_each(|(name, tree)| tree.write(out, name));
        }
    })
}

/// The fields of a document without the first, which names the command or is `_id`.
fn keeps_first(smaller: &Tree, first: &str) -> bool {
    matches!(smaller, Tree::Document(fields) if fields.first().is_some_and(|(name, _)| name == first))
}

fn first_name(doc: RawDoc<'_>) -> String {
    doc.first().map_or(String::new(), |(name, _)| name.to_owned())
}

/// Tries smaller cases until none differs any more, or `tries` are used up.
pub fn shrink(case: Case, mut tries: usize, mut differs: impl FnMut(&Case) -> bool) -> Case {
    let mut best = case;
    loop {
        let mut candidates: Vec<Case> = Vec::new();
        for at in 0..best.documents.len() {
            let mut fewer = best.clone();
            fewer.documents.remove(at);
            candidates.push(fewer);
        }
        let name = first_name(best.command.as_doc());
        for tree in Tree::new(Val::Document(best.command.as_doc())).smaller() {
            if keeps_first(&tree, &name) {
                candidates.push(Case { documents: best.documents.clone(), command: build(&tree) });
            }
        }
        for at in 0..best.documents.len() {
            for tree in Tree::new(Val::Document(best.documents[at].as_doc())).smaller() {
                if keeps_first(&tree, "_id") {
                    let mut changed = best.clone();
                    changed.documents[at] = build(&tree);
                    candidates.push(changed);
                }
            }
        }
        let mut found = None;
        for candidate in candidates {
            if tries == 0 {
                return best;
            }
            tries -= 1;
            if differs(&candidate) {
                found = Some(candidate);
                break;
            }
        }
        match found {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}
