//! Expressions that read slots instead of looking up paths.

use super::{Call, Expr, Node};
use crate::slots::Paths;

impl Expr {
    /// The same expression over slots: every path that it reads gets a place in `paths`. The whole
    /// document (`$$ROOT`) is still read as such.
    #[must_use]
    pub fn in_slots(&self, paths: &mut Paths) -> Expr {
        let mut same = self.clone();
        same.node.each_field(&mut |node| {
            if let Node::Field(path) = node
                && !path.is_empty()
            {
                *node = Node::Slot(paths.slot(path));
            }
        });
        same
    }

    /// Whether the expression may read the whole document, not only fields of it.
    #[must_use]
    pub fn reads_root(&self) -> bool {
        let mut same = self.clone();
        let mut found = false;
        same.node.each_field(&mut |node| {
            found |= matches!(node, Node::Field(path) if path.is_empty());
        });
        found || same.node.calls("$meta")
    }

    /// The paths that the expression reads of a document; `None` if it may read all of it.
    #[must_use]
    pub fn read_paths(&self) -> Option<Vec<String>> {
        if self.reads_root() {
            return None;
        }
        let mut paths = Paths::default();
        let _slotted = self.in_slots(&mut paths);
        Some(paths.iter().map(|path| path.join(".")).collect())
    }

    /// The slot, if the expression is nothing else.
    #[must_use]
    pub fn as_slot(&self) -> Option<usize> {
        if let Node::Slot(at) = &self.node { Some(*at) } else { None }
    }

    /// Adds the slots that the expression reads.
    pub fn slots(&self, out: &mut Vec<usize>) {
        self.clone().node.each(&mut |node| {
            if let Node::Slot(at) = node {
                out.push(*at);
            }
        });
    }

    /// Whether another expression surely gives the same for every document.
    #[must_use]
    pub fn is_same(&self, other: &Expr) -> bool {
        self.collation == other.collation && self.node.is_same(&other.node)
    }

    /// The fields, if the expression makes a document of them.
    pub fn as_document(&self) -> Option<Vec<(&str, Expr)>> {
        let Node::Document(fields) = &self.node else { return None };
        let part = |node: &Node| Expr { node: node.clone(), collation: self.collation.clone() };
        Some(fields.iter().map(|(name, node)| (&**name, part(node))).collect())
    }

    /// The same expression over the input of a stage that makes the fields it reads: `made` gives
    /// the expression of a top-level field, or `None` where it does not know. `None` if the
    /// expression reads something else.
    #[must_use]
    pub fn over<'m>(&self, made: &dyn Fn(&str) -> Option<&'m Expr>) -> Option<Expr> {
        let mut same = self.clone();
        let mut known = !self.reads_root();
        // The inserted expressions may bind variables in the same slots as this expression.
        same.node.each(&mut |node| known &= !matches!(node, Node::Variable { .. }));
        same.node.each_field(&mut |node| {
            let Node::Field(path) = node else { return };
            let Some((first, rest)) = path.split_first() else { return };
            let Some(source) = made(first) else {
                known = false;
                return;
            };
            *node = match (&source.node, rest) {
                (source, []) => source.clone(),
                (Node::Field(before), rest) if !before.is_empty() => {
                    Node::Field(before.iter().chain(rest).cloned().collect())
                }
                _ => {
                    known = false;
                    return;
                }
            };
        });
        known.then_some(same)
    }

    /// The same expression where the length of these top-level fields is read as the field itself:
    /// `{$size: "$x"}` becomes `"$x"`. `None` if one of them is read in any other way.
    #[must_use]
    pub fn over_lengths(&self, names: &[&str]) -> Option<Expr> {
        let is_named =
            |path: &[Box<str>]| path.first().is_some_and(|first| names.contains(&&**first));
        let mut same = self.clone();
        let mut known = !self.reads_root();
        same.node.each(&mut |node| {
            let Node::Call(call) = &*node else { return };
            if call.operator.name == "$size"
                && let [Node::Field(path)] = call.arguments.as_slice()
                && path.len() == 1
                && is_named(path)
            {
                // Marked as a slot, so that the second pass does not see it as a field.
                let at = names.iter().position(|name| path.iter().any(|part| **part == **name));
                *node = Node::Slot(at.unwrap_or(0));
            }
        });
        same.node.each_field(&mut |node| match node {
            Node::Field(path) if is_named(path) => known = false,
            _ => {}
        });
        same.node.each(&mut |node| {
            if let Node::Slot(at) = node {
                let name = names.get(*at).copied().unwrap_or("");
                *node = Node::Field(vec![name.into()]);
            }
        });
        known.then_some(same)
    }
}

impl Node {
    fn is_same(&self, other: &Node) -> bool {
        let all = |ours: &[Node], theirs: &[Node]| {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| a.is_same(b))
        };
        match (self, other) {
            (Node::Constant(a), Node::Constant(b)) => a.raw() == b.raw(),
            (Node::Field(a), Node::Field(b)) => a == b,
            (Node::Slot(a), Node::Slot(b)) => a == b,
            (Node::Variable { slot: a, path: c }, Node::Variable { slot: b, path: d }) => {
                a == b && c == d
            }
            (Node::Document(a), Node::Document(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((a, c), (b, d))| a == b && c.is_same(d))
            }
            (Node::Array(a), Node::Array(b)) => all(a, b),
            (Node::Call(a), Node::Call(b)) => {
                is_call(a, b.operator.name)
                    && a.slot == b.slot
                    && a.regex.is_none()
                    && b.regex.is_none()
                    && !is_call(a, "$rand")
                    && all(&a.arguments, &b.arguments)
            }
            _ => false,
        }
    }

    /// Visits every node, operands before operators.
    fn each(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        match self {
            Node::Constant(_)
            | Node::Field(_)
            | Node::Slot(_)
            | Node::DeferredVariable { .. }
            | Node::Variable { .. } => {}
            Node::Document(fields) => fields.iter_mut().for_each(|(_, node)| node.each(visit)),
            Node::Array(elements) => elements.iter_mut().for_each(|node| node.each(visit)),
            Node::Call(call) => call.arguments.iter_mut().for_each(|node| node.each(visit)),
        }
        visit(self);
    }

    /// Visits every field path.
    fn each_field(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        self.each(&mut |node| {
            if matches!(node, Node::Field(_)) {
                visit(node);
            }
        });
    }

    fn calls(&mut self, name: &str) -> bool {
        let mut found = false;
        self.each(&mut |node| {
            found |= matches!(&*node, Node::Call(call) if is_call(call, name));
        });
        found
    }
}

fn is_call(call: &Call, name: &str) -> bool {
    call.operator.name == name
}
