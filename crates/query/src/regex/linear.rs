//! Patterns in the syntax of the crate `regex-automata`, which runs them in linear time.

use super::set::Set;
use super::syntax::{Assertion, Lines, Mode, Node, Tree};
use super::width::may_be_empty;
use std::fmt::Write as _;

/// A pattern for the crate `regex-automata`, and the texts for which it means something else.
pub(super) struct Linear {
    pub(super) source: String,
    /// Texts that end with a newline: it has a `$`, `\Z` or `^` that treat that newline specially.
    pub(super) not_at_newline: bool,
    /// Texts with other characters than ASCII: it has a `\B`.
    pub(super) only_ascii: bool,
    /// All texts as to the places of groups: it repeats a group that can match nothing, of which
    /// PCRE reports the last time.
    pub(super) not_for_groups: bool,
}

/// Writes a pattern for the crate `regex-automata`. `None` if it has parts that need backtracking.
pub(super) fn write(tree: &Tree) -> Option<Linear> {
    if tree.lines != Lines::Lf || tree.limit.is_some() {
        return None;
    }
    let linear = Linear {
        source: String::new(),
        not_at_newline: false,
        only_ascii: false,
        not_for_groups: false,
    };
    let mut writer = Writer { linear, unicode: tree.unicode, groups: 0 };
    writer.node(&tree.node)?;
    (writer.groups + 1 == tree.groups).then_some(writer.linear)
}

struct Writer {
    linear: Linear,
    unicode: bool,
    /// The groups so far, which must be numbered in the order of their parentheses.
    groups: usize,
}

impl Writer {
    fn push(&mut self, text: &str) {
        self.linear.source.push_str(text);
    }

    fn node(&mut self, node: &Node) -> Option<()> {
        match node {
            Node::Empty => self.push("(?:)"),
            Node::Set(set) => self.set(set),
            Node::Assert(assertion) => self.assertion(*assertion)?,
            Node::Concat(parts) => {
                for part in parts {
                    self.atom(part)?;
                }
            }
            Node::Alt(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    if at > 0 {
                        self.push("|");
                    }
                    self.node(part)?;
                }
            }
            Node::Group(number, node) => {
                self.groups += 1;
                if self.groups != *number {
                    return None;
                }
                self.push("(");
                self.node(node)?;
                self.push(")");
            }
            Node::Repeat { mode: Mode::Possessive, .. } => return None,
            Node::Repeat { node, least, most, mode } => {
                self.linear.not_for_groups |= *most > 1 && may_be_empty(node);
                self.repeated(node)?;
                match (*least, *most) {
                    (0, usize::MAX) => self.push("*"),
                    (1, usize::MAX) => self.push("+"),
                    (0, 1) => self.push("?"),
                    (least, usize::MAX) => write!(self.linear.source, "{{{least},}}").ok()?,
                    (least, most) => write!(self.linear.source, "{{{least},{most}}}").ok()?,
                }
                if *mode == Mode::Lazy {
                    self.push("?");
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// A part inside of a sequence.
    fn atom(&mut self, node: &Node) -> Option<()> {
        if !matches!(node, Node::Alt(_) | Node::Concat(_)) {
            return self.node(node);
        }
        self.push("(?:");
        self.node(node)?;
        self.push(")");
        Some(())
    }

    /// A part with a quantifier.
    fn repeated(&mut self, node: &Node) -> Option<()> {
        if matches!(node, Node::Set(_) | Node::Group(..)) {
            return self.node(node);
        }
        self.push("(?:");
        self.node(node)?;
        self.push(")");
        Some(())
    }

    fn assertion(&mut self, assertion: Assertion) -> Option<()> {
        match assertion {
            Assertion::StartText => self.push(r"\A"),
            Assertion::StartLine => {
                self.linear.not_at_newline = true;
                self.push("(?m:^)");
            }
            Assertion::EndText => self.push(r"\z"),
            Assertion::EndTextOrNewline => {
                self.linear.not_at_newline = true;
                self.push(r"\z");
            }
            Assertion::EndLine => self.push("(?m:$)"),
            Assertion::WordBoundary if !self.unicode => self.push(r"(?-u:\b)"),
            Assertion::NotWordBoundary if !self.unicode => {
                self.linear.only_ascii = true;
                self.push(r"\B");
            }
            Assertion::WordBoundary | Assertion::NotWordBoundary | Assertion::SearchStart => {
                return None;
            }
        }
        Some(())
    }

    fn set(&mut self, set: &Set) {
        let code = |out: &mut String, character: char| {
            if character.is_ascii_alphanumeric() {
                out.push(character);
            } else {
                // Writing to a string does not fail.
                let _ = write!(out, r"\x{{{:X}}}", u32::from(character));
            }
        };
        let out = &mut self.linear.source;
        match set {
            Set::Char(character) => code(out, *character),
            Set::Any => out.push('.'),
            Set::All => out.push_str("(?s:.)"),
            Set::Table(table) if table.ranges().is_empty() => out.push_str("[a&&b]"),
            Set::Table(table) => {
                out.push('[');
                for (from, to) in table.ranges() {
                    code(out, *from);
                    if from != to {
                        out.push('-');
                        code(out, *to);
                    }
                }
                out.push(']');
            }
        }
    }
}
