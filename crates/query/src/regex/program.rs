//! Patterns as programs for `backtrack`.

use super::first;
use super::set::Set;
use super::syntax::{Assertion, Lines, Mode, Node, Test, Tree, Verb};
use super::width::{Lengths, branches, may_be_empty};

/// One instruction.
#[derive(Clone, Debug)]
pub(super) enum Instruction {
    /// One character.
    One(Set),
    /// As many of a set as the bounds allow.
    Run {
        set: Set,
        least: usize,
        most: usize,
        mode: Mode,
    },
    /// Continues at the first position, on failure at the second.
    Split(usize, usize),
    Jump(usize),
    /// Saves the position in a slot.
    Save(usize),
    /// Ends a group, whose start is in the slot.
    Close {
        group: usize,
        open: usize,
    },
    /// Continues at the position in a slot.
    Return(usize),
    Assert(Assertion),
    /// The text of the first of these groups that has matched; whether upper and lower case are
    /// the same.
    Reference(Box<[usize]>, bool),
    /// Sets a counter to zero.
    Reset(usize),
    /// Increments a counter.
    Count(usize),
    /// The head of a loop, whose body follows.
    Loop {
        counter: usize,
        least: usize,
        most: usize,
        greedy: bool,
        end: usize,
    },
    /// Leaves the loop if its body ran often enough and matched nothing since the position in
    /// `mark`.
    LeaveIfEmpty {
        mark: usize,
        counter: usize,
        least: usize,
        end: usize,
    },
    /// Saves the number of alternatives in a slot, to discard later ones.
    Begin(usize),
    /// Discards the alternatives since `Begin`.
    Cut(usize),
    /// Undoes everything since `Begin`.
    Undo(usize),
    /// Begins a look-around. Verbs behind it do not end more than that; if it is positive, only
    /// `(*THEN)` does not.
    Barrier {
        positive: bool,
    },
    /// Goes back a number of characters.
    Back(usize),
    /// Continues at `no` unless the test holds.
    Unless {
        test: Condition,
        no: usize,
    },
    /// Runs a group as a subroutine.
    Call {
        group: usize,
        to: usize,
    },
    /// Returns if this group was called.
    EndCall(usize),
    /// Ends the call, look-around or pattern that it is in. `inside` are the groups between it
    /// and the look-around.
    Accept {
        in_look: bool,
        inside: Box<[usize]>,
        end: usize,
    },
    Mark(Box<str>),
    Fail,
    /// What happens when the search comes back to it.
    Verb(Stop),
    /// `\R`
    Newline {
        ascii: bool,
    },
    /// `\X`
    Cluster,
    Match,
}

/// The test of a conditional group that looks at no text.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    Group(Box<[usize]>),
    Recursion,
    RecursionOf(Box<[usize]>),
}

/// What happens when the search comes back to a verb.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    Commit,
    Prune,
    Skip,
    SkipTo(Box<str>),
    /// Continues with the next alternative. `height` is the slot that its group began with, `last`
    /// whether there is no further one.
    Then {
        height: usize,
        last: bool,
    },
    /// `(*THEN)` outside of alternatives.
    ThenPrune,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) code: Vec<Instruction>,
    /// Groups, with the whole match.
    pub(super) groups: usize,
    pub(super) slots: usize,
    /// The characters with which every match begins.
    pub(super) lead: Option<Set>,
    /// A character that every match has.
    pub(super) required: Option<char>,
    /// Whether matches are at the start of the text only.
    pub(super) anchored: bool,
    /// The characters of words.
    pub(super) word: Set,
    pub(super) lines: Lines,
    /// Whether a search may begin between CR and LF.
    pub(super) names_newline: bool,
    pub(super) limit: Option<u32>,
}

/// Longest program, in instructions.
const INSTRUCTIONS_MAX: usize = 200_000;

impl Program {
    /// Compiles a pattern; `None` if it is too large.
    pub(super) fn new(tree: &Tree) -> Option<Program> {
        let mut called = vec![false; tree.groups];
        tree.node.any(&mut |node| {
            if let Node::Call(group) = node
                && let Some(place) = called.get_mut(*group)
            {
                *place = true;
            }
            false
        });
        let mut compiler = Compiler {
            code: Vec::new(),
            slots: 2 * tree.groups,
            lengths: Lengths { root: &tree.node },
            called,
            starts: vec![None; tree.groups],
            looks: vec![LookScope::default()],
            alternations: Vec::new(),
        };
        compiler.compile(&tree.node)?;
        let end = compiler.push(Instruction::Match)?;
        compiler.end_look(end);
        let Compiler { mut code, slots, starts, .. } = compiler;
        for instruction in &mut code {
            if let Instruction::Call { group, to } = instruction {
                *to = if *group == 0 { 0 } else { starts.get(*group).copied().flatten()? };
            }
        }
        if tree.limit.is_none() {
            possessive(&mut code);
        }
        let word = super::set::shorthand('w', tree.unicode)?;
        Some(Program {
            code,
            groups: tree.groups,
            slots,
            lead: first::set(tree),
            required: first::required(tree),
            anchored: first::is_anchored(&tree.node),
            word: Set::of(&word),
            lines: tree.lines,
            names_newline: tree.names_newline,
            limit: tree.limit,
        })
    }
}

/// Lets runs keep what they took if a character follows that they do not take: none of their shorter
/// ends is before such a character.
fn possessive(code: &mut [Instruction]) {
    for at in 0..code.len() {
        let next = code.iter().skip(at + 1).find(|i| !matches!(i, Instruction::Close { .. }));
        let Some(Instruction::One(Set::Char(next))) = next else { continue };
        let next = *next;
        if let Some(Instruction::Run { set, mode, .. }) = code.get_mut(at)
            && *mode == Mode::Greedy
            && !set.has(next)
        {
            *mode = Mode::Possessive;
        }
    }
}

/// A look-around, or the whole pattern, that `(*ACCEPT)` ends.
#[derive(Default)]
struct LookScope {
    /// Open groups with the slots of their starts.
    opened: Vec<(usize, usize)>,
    /// The `Accept`s that end it.
    accepts: Vec<usize>,
}

struct Compiler<'t> {
    code: Vec<Instruction>,
    slots: usize,
    lengths: Lengths<'t>,
    /// Which groups are called.
    called: Vec<bool>,
    /// Where groups begin.
    starts: Vec<Option<usize>>,
    looks: Vec<LookScope>,
    /// The alternations around, in this look-around: the slot of each, and whether this is its
    /// last alternative.
    alternations: Vec<(usize, bool)>,
}

impl Compiler<'_> {
    fn push(&mut self, instruction: Instruction) -> Option<usize> {
        if self.code.len() >= INSTRUCTIONS_MAX {
            return None;
        }
        self.code.push(instruction);
        Some(self.code.len() - 1)
    }

    fn slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    fn set(&mut self, at: usize, instruction: Instruction) {
        if let Some(place) = self.code.get_mut(at) {
            *place = instruction;
        }
    }

    fn compile(&mut self, node: &Node) -> Option<()> {
        let simple = match node {
            Node::Empty => return Some(()),
            Node::Set(set) => Instruction::One(set.clone()),
            Node::Assert(assertion) => Instruction::Assert(*assertion),
            Node::Reference { groups, folded } => {
                Instruction::Reference(groups.clone().into(), *folded)
            }
            Node::Call(group) => Instruction::Call { group: *group, to: 0 },
            Node::Keep => Instruction::Save(0),
            Node::Newline { ascii } => Instruction::Newline { ascii: *ascii },
            Node::Cluster => Instruction::Cluster,
            Node::Verb(verb) => return self.verb(verb),
            Node::Concat(parts) => return parts.iter().try_for_each(|part| self.compile(part)),
            Node::Alt(parts) => return self.alternatives(parts, false),
            Node::Group(number, inner) => return self.group(*number, inner),
            Node::Atomic(inner) => return self.atomic(|compiler| compiler.compile(inner)),
            Node::Repeat { node, least, most, mode } => {
                return self.repeat(node, *least, *most, *mode);
            }
            Node::Look { node, behind, negative } => return self.look(node, *behind, *negative),
            Node::Condition { test, yes, no } => return self.condition(test, yes, no.as_deref()),
        };
        self.push(simple).map(|_| ())
    }

    fn atomic(&mut self, inner: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let height = self.slot();
        self.push(Instruction::Begin(height))?;
        inner(self)?;
        self.push(Instruction::Cut(height))?;
        Some(())
    }

    fn group(&mut self, group: usize, inner: &Node) -> Option<()> {
        let open = self.slot();
        let start = self.push(Instruction::Save(open))?;
        if let Some(place) = self.starts.get_mut(group) {
            place.get_or_insert(start);
        }
        self.opened()?.push((group, open));
        self.compile(inner)?;
        self.opened()?.pop();
        self.push(Instruction::Close { group, open })?;
        if self.called.get(group).copied().unwrap_or(false) {
            self.push(Instruction::EndCall(group))?;
        }
        Some(())
    }

    fn opened(&mut self) -> Option<&mut Vec<(usize, usize)>> {
        self.looks.last_mut().map(|look| &mut look.opened)
    }

    /// In a look-behind (`back`) each alternative has its own length.
    fn alternatives(&mut self, parts: &[Node], back: bool) -> Option<()> {
        let has_then = parts.len() > 1
            && parts.iter().any(|part| part.any(&mut |n| matches!(n, Node::Verb(Verb::Then))));
        let height = if has_then {
            let height = self.slot();
            self.push(Instruction::Begin(height))?;
            self.alternations.push((height, false));
            Some(height)
        } else {
            None
        };
        let mut ends = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let last = at + 1 == parts.len();
            let split = if last { None } else { Some(self.push(Instruction::Fail)?) };
            if let (true, Some(_), Some(scope)) = (last, height, self.alternations.last_mut()) {
                scope.1 = true;
            }
            if back {
                let length = self.lengths.of(part, &mut Vec::new())?;
                self.push(Instruction::Back(length))?;
            }
            self.compile(part)?;
            if let Some(split) = split {
                ends.push(self.push(Instruction::Fail)?);
                let next = self.code.len();
                self.set(split, Instruction::Split(split + 1, next));
            }
        }
        if height.is_some() {
            self.alternations.pop();
        }
        let end = self.code.len();
        for at in ends {
            self.set(at, Instruction::Jump(end));
        }
        Some(())
    }

    fn repeat(&mut self, node: &Node, least: usize, most: usize, mode: Mode) -> Option<()> {
        if let Node::Set(set) = node {
            self.push(Instruction::Run { set: set.clone(), least, most, mode })?;
            return Some(());
        }
        if mode == Mode::Possessive {
            return self.atomic(|compiler| compiler.repeat(node, least, most, Mode::Greedy));
        }
        if most == 0 {
            // The group may be called from elsewhere.
            let jump = self.push(Instruction::Fail)?;
            self.compile(node)?;
            let end = self.code.len();
            self.set(jump, Instruction::Jump(end));
            return Some(());
        }
        let greedy = mode == Mode::Greedy;
        let split = |body: usize, end: usize| {
            if greedy { Instruction::Split(body, end) } else { Instruction::Split(end, body) }
        };
        if (least, most) == (0, 1) {
            let head = self.push(Instruction::Fail)?;
            self.compile(node)?;
            let end = self.code.len();
            self.set(head, split(head + 1, end));
            return Some(());
        }
        if most == usize::MAX && least <= 1 && !may_be_empty(node) {
            let head = self.code.len();
            if least == 0 {
                self.push(Instruction::Fail)?;
                self.compile(node)?;
                self.push(Instruction::Jump(head))?;
                let end = self.code.len();
                self.set(head, split(head + 1, end));
            } else {
                self.compile(node)?;
                let end = self.code.len() + 1;
                self.push(split(head, end))?;
            }
            return Some(());
        }
        let (counter, mark) = (self.slot(), self.slot());
        self.push(Instruction::Reset(counter))?;
        let head = self.push(Instruction::Fail)?;
        self.push(Instruction::Count(counter))?;
        let unlimited = most == usize::MAX;
        if unlimited {
            self.push(Instruction::Save(mark))?;
        }
        self.compile(node)?;
        let empty = if unlimited { Some(self.push(Instruction::Fail)?) } else { None };
        self.push(Instruction::Jump(head))?;
        let end = self.code.len();
        self.set(head, Instruction::Loop { counter, least, most, greedy, end });
        if let Some(empty) = empty {
            self.set(empty, Instruction::LeaveIfEmpty { mark, counter, least, end });
        }
        Some(())
    }

    /// The body of a look-around.
    fn looked(&mut self, inner: &Node, behind: bool, positive: bool) -> Option<()> {
        self.push(Instruction::Barrier { positive })?;
        self.looks.push(LookScope::default());
        let outside = std::mem::take(&mut self.alternations);
        if behind {
            self.alternatives(branches(inner), true)?;
        } else {
            self.compile(inner)?;
        }
        self.alternations = outside;
        let end = self.code.len();
        self.end_look(end);
        self.looks.pop();
        Some(())
    }

    /// Lets each `Accept` of the innermost look-around continue at its end.
    fn end_look(&mut self, place: usize) {
        let accepts = self.looks.last().map(|look| look.accepts.clone()).unwrap_or_default();
        for at in accepts {
            if let Some(Instruction::Accept { end, .. }) = self.code.get_mut(at) {
                *end = place;
            }
        }
    }

    fn look(&mut self, inner: &Node, behind: bool, negative: bool) -> Option<()> {
        let height = self.slot();
        if negative {
            self.push(Instruction::Begin(height))?;
            let split = self.push(Instruction::Fail)?;
            self.looked(inner, behind, false)?;
            self.push(Instruction::Undo(height))?;
            self.push(Instruction::Fail)?;
            let end = self.code.len();
            self.set(split, Instruction::Split(split + 1, end));
        } else {
            let position = self.slot();
            self.push(Instruction::Save(position))?;
            self.push(Instruction::Begin(height))?;
            self.looked(inner, behind, true)?;
            self.push(Instruction::Cut(height))?;
            self.push(Instruction::Return(position))?;
        }
        Some(())
    }

    fn condition(&mut self, test: &Test, yes: &Node, no: Option<&Node>) -> Option<()> {
        let no = no.unwrap_or(&Node::Empty);
        let test = match test {
            Test::Group(groups) => Condition::Group(groups.clone().into()),
            Test::Recursion => Condition::Recursion,
            Test::RecursionOf(groups) => Condition::RecursionOf(groups.clone().into()),
            Test::Never => return self.repeat(yes, 0, 0, Mode::Greedy),
            Test::Look { node, behind, negative } => {
                let (height, position) = (self.slot(), self.slot());
                self.push(Instruction::Save(position))?;
                self.push(Instruction::Begin(height))?;
                let split = self.push(Instruction::Fail)?;
                self.looked(node, *behind, !negative)?;
                let discard = if *negative { Instruction::Undo } else { Instruction::Cut };
                self.push(discard(height))?;
                self.push(Instruction::Return(position))?;
                let (held, not) = if *negative { (no, yes) } else { (yes, no) };
                self.compile(held)?;
                let jump = self.push(Instruction::Fail)?;
                self.set(split, Instruction::Split(split + 1, jump + 1));
                self.compile(not)?;
                let end = self.code.len();
                self.set(jump, Instruction::Jump(end));
                return Some(());
            }
        };
        let unless = self.push(Instruction::Fail)?;
        self.compile(yes)?;
        let jump = self.push(Instruction::Fail)?;
        self.set(unless, Instruction::Unless { test, no: jump + 1 });
        self.compile(no)?;
        let end = self.code.len();
        self.set(jump, Instruction::Jump(end));
        Some(())
    }

    fn verb(&mut self, verb: &Verb) -> Option<()> {
        let instruction = match verb {
            Verb::Accept => return self.accept(),
            Verb::Fail => Instruction::Fail,
            Verb::Mark(name) => Instruction::Mark(name.clone()),
            Verb::Commit => Instruction::Verb(Stop::Commit),
            Verb::Prune => Instruction::Verb(Stop::Prune),
            Verb::Skip => Instruction::Verb(Stop::Skip),
            Verb::SkipTo(name) => Instruction::Verb(Stop::SkipTo(name.clone())),
            Verb::Then => Instruction::Verb(match self.alternations.last() {
                Some((height, last)) => Stop::Then { height: *height, last: *last },
                None => Stop::ThenPrune,
            }),
        };
        self.push(instruction).map(|_| ())
    }

    fn accept(&mut self) -> Option<()> {
        let opened = self.looks.last()?.opened.clone();
        for (group, open) in opened.iter().rev() {
            self.push(Instruction::Close { group: *group, open: *open })?;
        }
        let in_look = self.looks.len() > 1;
        let inside = opened.iter().map(|opened| opened.0).collect();
        let at = self.push(Instruction::Accept { in_look, inside, end: 0 })?;
        self.looks.last_mut()?.accepts.push(at);
        Some(())
    }
}
