//! The tree of a pattern.

use super::set::Set;

/// A part of a pattern.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Empty,
    /// One character.
    Set(Set),
    Assert(Assertion),
    Concat(Vec<Node>),
    /// The first that matches.
    Alt(Vec<Node>),
    /// A capturing group. Several have the same number after `(?|`.
    Group(usize, Box<Node>),
    Repeat {
        node: Box<Node>,
        least: usize,
        /// `usize::MAX` without a limit.
        most: usize,
        mode: Mode,
    },
    Atomic(Box<Node>),
    Look {
        node: Box<Node>,
        behind: bool,
        negative: bool,
    },
    /// The text of the first of these groups that has matched.
    Reference {
        groups: Vec<usize>,
        folded: bool,
    },
    /// Runs a group, or for zero the whole pattern, as a subroutine.
    Call(usize),
    Condition {
        test: Test,
        yes: Box<Node>,
        no: Option<Box<Node>>,
    },
    Verb(Verb),
    /// `\K`
    Keep,
    /// `\R`; `(*BSR_ANYCRLF)` restricts it to CR, LF and CRLF.
    Newline {
        ascii: bool,
    },
    /// `\X`
    Cluster,
}

/// How often a repetition tries first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    Greedy,
    Lazy,
    Possessive,
}

/// What a position of the text must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Assertion {
    /// `^`, `\A`
    StartText,
    /// `^` with the option `m`: not after a newline that ends the text.
    StartLine,
    /// `\z`
    EndText,
    /// `$`, `\Z`: at the end or before a newline that ends the text.
    EndTextOrNewline,
    /// `$` with the option `m`
    EndLine,
    WordBoundary,
    NotWordBoundary,
    /// `\G`
    SearchStart,
}

/// The test of a conditional group.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// One of these groups has matched.
    Group(Vec<usize>),
    /// Inside of a recursion.
    Recursion,
    /// Inside of a call of one of these groups.
    RecursionOf(Vec<usize>),
    /// `DEFINE`
    Never,
    Look {
        node: Box<Node>,
        behind: bool,
        negative: bool,
    },
}

/// A backtracking verb.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verb {
    Accept,
    Commit,
    Fail,
    Mark(Box<str>),
    Prune,
    Skip,
    SkipTo(Box<str>),
    Then,
}

/// What ends a line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Lines {
    Cr,
    #[default]
    Lf,
    CrLf,
    /// CR, LF or CRLF.
    AnyCrLf,
    /// Any of Unicode's.
    Any,
}

/// A parsed pattern.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) node: Node,
    /// The number of groups, with the whole match.
    pub(super) groups: usize,
    pub(super) lines: Lines,
    /// Whether letters of all alphabets make words (`(*UCP)`).
    pub(super) unicode: bool,
    /// Whether a match may begin only where its first character is (not after `(*NO_START_OPT)`).
    pub(super) start_optimised: bool,
    /// `(*LIMIT_MATCH=n)`
    pub(super) limit: Option<u32>,
    /// Whether the pattern names CR or LF.
    pub(super) names_newline: bool,
}

impl Node {
    /// The parts one level below.
    pub(super) fn children(&self) -> Vec<&Node> {
        match self {
            Node::Concat(parts) | Node::Alt(parts) => parts.iter().collect(),
            Node::Group(_, node)
            | Node::Atomic(node)
            | Node::Repeat { node, .. }
            | Node::Look { node, .. } => vec![node],
            Node::Condition { test, yes, no } => {
                let look = match test {
                    Test::Look { node, .. } => Some(&**node),
                    _ => None,
                };
                look.into_iter().chain([&**yes]).chain(no.as_deref()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether a part satisfies a condition.
    pub(super) fn any(&self, condition: &mut impl FnMut(&Node) -> bool) -> bool {
        condition(self) || self.children().into_iter().any(|node| node.any(condition))
    }
}
