//! Patterns with look-around or back references as programs for `backtrack`.
//!
//! The tree comes from the parser of `fancy-regex`. What is rare and cannot be bounded by counting
//! steps here (calls of groups, conditions, verbs) gives no program; `fancy-regex` runs that itself.

use fancy_regex::{Assertion, Expr, LookAround};
use regex_syntax::hir::{Class, HirKind};

/// A set of characters: sorted ranges, ends included.
pub(super) type Ranges = Box<[(char, char)]>;

/// One instruction.
#[derive(Clone, Debug)]
pub(super) enum Instruction {
    /// One character.
    One(Set),
    /// As many of a set as the bounds allow: most first, or fewest first.
    Run {
        set: Set,
        least: usize,
        most: usize,
        greedy: bool,
    },
    /// Continues at the first position, on failure at the second.
    Split(usize, usize),
    Jump(usize),
    /// Saves the position in a slot.
    Save(usize),
    /// Continues at the position in a slot.
    Return(usize),
    Assert(Assertion),
    /// The text of a group; whether upper and lower case are the same.
    Reference(usize, bool),
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
    /// Discards them and the one before, and fails.
    CutAndFail(usize),
    /// Goes back a number of characters.
    Back(usize),
    /// The position where the search began.
    AtSearchStart,
    Match,
}

/// A set of characters.
#[derive(Clone, Debug)]
pub(super) enum Set {
    Char(char),
    /// Any but a newline.
    Any,
    /// Any at all.
    All,
    Ranges(Ranges),
}

impl Set {
    #[inline]
    pub(super) fn has(&self, character: char) -> bool {
        match self {
            Set::Char(one) => *one == character,
            Set::Any => character != '\n',
            Set::All => true,
            Set::Ranges(ranges) => {
                let after = ranges.partition_point(|(from, _)| *from <= character);
                after.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|r| character <= r.1)
            }
        }
    }
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) code: Vec<Instruction>,
    /// Groups, with the whole match.
    pub(super) groups: usize,
    pub(super) slots: usize,
    /// The character with which every match begins.
    pub(super) lead: Option<char>,
    /// Whether matches are at the start of the text only.
    pub(super) anchored: bool,
    /// Whether letters of all alphabets make words.
    pub(super) unicode: bool,
}

/// Longest program, in instructions: counted repetitions of long parts multiply.
const INSTRUCTIONS_MAX: usize = 100_000;

impl Program {
    /// Compiles a pattern; `None` if it has parts that this has no instructions for.
    pub(super) fn new(source: &str, unicode: bool) -> Option<Program> {
        let tree = Expr::parse_tree(source).ok()?;
        if tree.contains_subroutines {
            return None;
        }
        let groups = count_groups(&tree.expr) + 1;
        let mut compiler = Compiler { code: Vec::new(), next_group: 1, slots: 2 * groups };
        compiler.push(Instruction::Save(0))?;
        compiler.compile(&tree.expr)?;
        compiler.push(Instruction::Save(1))?;
        compiler.push(Instruction::Match)?;
        let Compiler { code, slots, .. } = compiler;
        let lead = match code.get(1) {
            Some(Instruction::One(Set::Char(lead))) => Some(*lead),
            _ => None,
        };
        let anchored = matches!(code.get(1), Some(Instruction::Assert(Assertion::StartText)));
        Some(Program { code, groups, slots, lead, anchored, unicode })
    }
}

fn count_groups(expr: &Expr) -> usize {
    let own = usize::from(matches!(expr, Expr::Group(_)));
    own + expr.children_iter().map(count_groups).sum::<usize>()
}

struct Compiler {
    code: Vec<Instruction>,
    next_group: usize,
    slots: usize,
}

impl Compiler {
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

    fn compile(&mut self, expr: &Expr) -> Option<()> {
        match expr {
            Expr::Empty => {}
            Expr::Concat(parts) => {
                for part in parts {
                    self.compile(part)?;
                }
            }
            Expr::Alt(parts) => {
                self.alternatives(parts, |compiler, part| compiler.compile(part))?
            }
            Expr::Group(inner) => {
                let group = self.next_group;
                self.next_group += 1;
                self.push(Instruction::Save(2 * group))?;
                self.compile(inner)?;
                self.push(Instruction::Save(2 * group + 1))?;
            }
            Expr::Literal { val, casei } => {
                for character in val.chars() {
                    let set = if *casei { folded(character)? } else { Set::Char(character) };
                    self.push(Instruction::One(set))?;
                }
            }
            Expr::Any { .. } | Expr::Delegate { .. } => {
                let set = set_of(expr)?;
                self.push(Instruction::One(set))?;
            }
            Expr::Assertion(assertion) => {
                self.push(Instruction::Assert(*assertion))?;
            }
            Expr::Repeat { child, lo, hi, greedy } => self.repeat(child, *lo, *hi, *greedy)?,
            Expr::LookAround(inner, kind) => self.look(inner, *kind)?,
            Expr::AtomicGroup(inner) => {
                let height = self.slot();
                self.push(Instruction::Begin(height))?;
                self.compile(inner)?;
                self.push(Instruction::Cut(height))?;
            }
            Expr::Backref { group, casei } => {
                self.push(Instruction::Reference(*group, *casei))?;
            }
            Expr::KeepOut => {
                self.push(Instruction::Save(0))?;
            }
            Expr::ContinueFromPreviousMatchEnd => {
                self.push(Instruction::AtSearchStart)?;
            }
            _ => return None,
        }
        Some(())
    }

    fn alternatives(
        &mut self,
        parts: &[Expr],
        mut compile: impl FnMut(&mut Compiler, &Expr) -> Option<()>,
    ) -> Option<()> {
        let mut ends = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            if at + 1 == parts.len() {
                compile(self, part)?;
                break;
            }
            let split = self.push(Instruction::Match)?;
            compile(self, part)?;
            ends.push(self.push(Instruction::Match)?);
            let next = self.code.len();
            self.set(split, Instruction::Split(split + 1, next));
        }
        let end = self.code.len();
        for at in ends {
            self.set(at, Instruction::Jump(end));
        }
        Some(())
    }

    fn repeat(&mut self, child: &Expr, least: usize, most: usize, greedy: bool) -> Option<()> {
        if let Some(set) = set_of(child) {
            self.push(Instruction::Run { set, least, most, greedy })?;
            return Some(());
        }
        let (counter, mark) = (self.slot(), self.slot());
        self.push(Instruction::Reset(counter))?;
        let head = self.push(Instruction::Match)?;
        self.push(Instruction::Count(counter))?;
        self.push(Instruction::Save(mark))?;
        self.compile(child)?;
        let empty = self.push(Instruction::Match)?;
        self.push(Instruction::Jump(head))?;
        let end = self.code.len();
        self.set(head, Instruction::Loop { counter, least, most, greedy, end });
        self.set(empty, Instruction::LeaveIfEmpty { mark, counter, least, end });
        Some(())
    }

    fn look(&mut self, inner: &Expr, kind: LookAround) -> Option<()> {
        let behind = matches!(kind, LookAround::LookBehind | LookAround::LookBehindNeg);
        let height = self.slot();
        match kind {
            LookAround::LookAhead | LookAround::LookBehind => {
                let position = self.slot();
                self.push(Instruction::Save(position))?;
                self.push(Instruction::Begin(height))?;
                self.looked(inner, behind)?;
                self.push(Instruction::Cut(height))?;
                self.push(Instruction::Return(position))?;
            }
            LookAround::LookAheadNeg | LookAround::LookBehindNeg => {
                self.push(Instruction::Begin(height))?;
                let split = self.push(Instruction::Match)?;
                self.looked(inner, behind)?;
                self.push(Instruction::CutAndFail(height))?;
                let end = self.code.len();
                self.set(split, Instruction::Split(split + 1, end));
            }
        }
        Some(())
    }

    /// The body of a look-around. In a look-behind each alternative has its own length.
    fn looked(&mut self, inner: &Expr, behind: bool) -> Option<()> {
        if !behind {
            return self.compile(inner);
        }
        let back = |compiler: &mut Compiler, part: &Expr| {
            let length = length_of(part)?;
            compiler.push(Instruction::Back(length))?;
            compiler.compile(part)
        };
        match inner {
            Expr::Alt(parts) => self.alternatives(parts, back),
            inner => back(self, inner),
        }
    }
}

/// How many characters an expression matches, if that is always the same.
fn length_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Empty | Expr::Assertion(_) | Expr::LookAround(..) => Some(0),
        Expr::Any { .. } | Expr::Delegate { .. } => Some(1),
        Expr::Literal { val, .. } => Some(val.chars().count()),
        Expr::Concat(parts) => parts.iter().map(length_of).sum(),
        Expr::Alt(parts) => {
            let mut lengths = parts.iter().map(length_of);
            let first = lengths.next()??;
            lengths.all(|length| length == Some(first)).then_some(first)
        }
        Expr::Group(inner) => length_of(inner),
        Expr::AtomicGroup(inner) => length_of(inner),
        Expr::Repeat { child, lo, hi, .. } if lo == hi => length_of(child)?.checked_mul(*lo),
        _ => None,
    }
}

/// The characters that an expression of one character may be.
fn set_of(expr: &Expr) -> Option<Set> {
    match expr {
        Expr::Any { newline: true, .. } => Some(Set::All),
        Expr::Any { newline: false, crlf: false } => Some(Set::Any),
        Expr::Literal { val, casei } => {
            let mut characters = val.chars();
            let one = characters.next().filter(|_| characters.next().is_none())?;
            if *casei { folded(one) } else { Some(Set::Char(one)) }
        }
        Expr::Delegate { inner, casei } => class(inner, *casei),
        _ => None,
    }
}

fn folded(character: char) -> Option<Set> {
    class(&regex_syntax::escape(&character.to_string()), true)
}

/// The characters that a pattern of one character matches.
fn class(pattern: &str, case_insensitive: bool) -> Option<Set> {
    let mut parser = regex_syntax::ParserBuilder::new().case_insensitive(case_insensitive).build();
    match parser.parse(pattern).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => {
            Some(Set::Ranges(class.iter().map(|range| (range.start(), range.end())).collect()))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let range = |range: &regex_syntax::hir::ClassBytesRange| {
                range.end().is_ascii().then(|| (char::from(range.start()), char::from(range.end())))
            };
            Some(Set::Ranges(class.iter().map(range).collect::<Option<_>>()?))
        }
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            let mut characters = text.chars();
            let one = characters.next().filter(|_| characters.next().is_none())?;
            Some(Set::Char(one))
        }
        _ => None,
    }
}
