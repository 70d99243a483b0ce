//! Runs programs of patterns with look-around or back references by backtracking.
//!
//! Such a search can take time that grows with the square of the text or worse. Its steps are
//! counted: it ends when its operation ends, and with an error when it takes too many.

use super::Groups;
use super::program::{Instruction, Program, Set};
use crate::interrupt;
use fancy_regex::Assertion;
use value::{Code, Error, Result};

/// The most backtracks of one search from one position of the text.
const BACKTRACKS_MAX: usize = 1_000_000;

/// Alternatives that are remembered at once, of 24 bytes each.
const STACK_MAX: usize = 2_000_000;

/// The most steps of one search: a constant, and a number for each byte of the text.
const STEPS_MAX: u64 = 50_000_000;
const STEPS_PER_BYTE_MAX: u64 = 200;

/// Steps between two checks for interruption.
const STEPS_BETWEEN_CHECKS: u64 = 1024;

/// A slot that holds nothing.
const NOTHING: usize = usize::MAX;

/// What to undo when an alternative fails, newest first.
#[derive(Clone, Copy)]
enum Undo {
    /// Continues at a position of the program and the text.
    Resume { pc: usize, at: usize },
    /// Restores the value of a slot.
    Restore { slot: usize, value: usize },
    /// Shortens by one character a run that ends at `at` and began at or after `from`.
    Shorten { pc: usize, from: usize, at: usize },
    /// Lengthens a run by one character, up to a limit.
    Lengthen { pc: usize, at: usize, left: usize },
}

/// The first match at or after byte `start`.
///
/// # Errors
/// 51156 when the search takes too many steps, or what ends the operation.
pub(super) fn search(program: &Program, text: &str, start: usize) -> Result<Option<Groups>> {
    let allowed = STEPS_MAX + STEPS_PER_BYTE_MAX * text.len() as u64;
    let mut search = Search {
        program,
        text,
        start,
        slots: Vec::new(),
        stack: Vec::new(),
        steps: 0,
        next_check: STEPS_BETWEEN_CHECKS,
        allowed,
    };
    let mut at = start;
    loop {
        if let Some(lead) = program.lead {
            match text.get(at..).and_then(|rest| rest.find(lead)) {
                Some(skipped) => {
                    interrupt::charge_bytes(skipped)?;
                    at += skipped;
                }
                None => return Ok(None),
            }
        }
        if search.matches_at(at)? {
            let slots = search.slots.iter().take(2 * program.groups).copied();
            let places: Vec<usize> = slots.collect();
            let (pairs, _) = places.as_chunks::<2>();
            let group = |[from, to]: &[usize; 2]| {
                (*from != NOTHING && *to != NOTHING).then_some((*from, *to))
            };
            return Ok(Some(pairs.iter().map(group).collect()));
        }
        if program.anchored {
            return Ok(None);
        }
        match char_at(text, at) {
            Some(character) => at += character.len_utf8(),
            None => return Ok(None),
        }
    }
}

#[inline]
fn char_at(text: &str, at: usize) -> Option<char> {
    match text.as_bytes().get(at) {
        Some(byte) if byte.is_ascii() => Some(char::from(*byte)),
        Some(_) => text.get(at..)?.chars().next(),
        None => None,
    }
}

#[inline]
fn char_before(text: &str, at: usize) -> Option<char> {
    match at.checked_sub(1).and_then(|before| text.as_bytes().get(before)) {
        Some(byte) if byte.is_ascii() => Some(char::from(*byte)),
        Some(_) => text.get(..at)?.chars().next_back(),
        None => None,
    }
}

struct Search<'p, 't> {
    program: &'p Program,
    text: &'t str,
    /// The start of the search.
    start: usize,
    slots: Vec<usize>,
    stack: Vec<Undo>,
    steps: u64,
    next_check: u64,
    allowed: u64,
}

impl Search<'_, '_> {
    /// Whether the program matches from a position on.
    fn matches_at(&mut self, start: usize) -> Result<bool> {
        self.slots.clear();
        self.slots.resize(self.program.slots, NOTHING);
        self.stack.clear();
        let (mut pc, mut at, mut backtracks) = (0, start, 0);
        loop {
            self.step()?;
            let Some(instruction) = self.program.code.get(pc) else {
                return Err(Error::internal("a pattern has no end"));
            };
            if matches!(instruction, Instruction::Match) {
                return Ok(true);
            }
            match self.execute(instruction, pc, at)? {
                Some((next, place)) => (pc, at) = (next, place),
                None => {
                    backtracks += 1;
                    if backtracks > BACKTRACKS_MAX {
                        return Err(too_long("max limit for backtracking count exceeded"));
                    }
                    match self.resume() {
                        Some((next, place)) => (pc, at) = (next, place),
                        None => return Ok(false),
                    }
                }
            }
        }
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps >= self.next_check {
            self.charge()?;
        }
        Ok(())
    }

    #[cold]
    fn charge(&mut self) -> Result<()> {
        self.next_check = self.steps + STEPS_BETWEEN_CHECKS;
        interrupt::charge(STEPS_BETWEEN_CHECKS as usize)?;
        if self.steps > self.allowed {
            return Err(too_long("max limit of steps exceeded"));
        }
        if self.stack.len() > STACK_MAX {
            return Err(too_long("max limit of alternatives exceeded"));
        }
        Ok(())
    }

    /// Runs an instruction. Returns where to continue, or `None` if it fails.
    fn execute(
        &mut self,
        instruction: &Instruction,
        pc: usize,
        at: usize,
    ) -> Result<Option<(usize, usize)>> {
        let text = self.text;
        Ok(match instruction {
            Instruction::One(set) => match char_at(text, at) {
                Some(character) if set.has(character) => Some((pc + 1, at + character.len_utf8())),
                _ => None,
            },
            Instruction::Run { set, least, most, greedy } => {
                self.run(set, (*least, *most), *greedy, pc, at)?
            }
            Instruction::Split(first, second) => {
                self.stack.push(Undo::Resume { pc: *second, at });
                Some((*first, at))
            }
            Instruction::Jump(to) => Some((*to, at)),
            Instruction::Save(slot) => {
                self.set(*slot, at);
                Some((pc + 1, at))
            }
            Instruction::Return(slot) => Some((pc + 1, self.slot(*slot))),
            Instruction::Assert(assertion) => self.holds(assertion, at).then_some((pc + 1, at)),
            Instruction::Reference(group, folded) => {
                let (from, to) = (self.slot(2 * group), self.slot(2 * group + 1));
                let part = text.get(from..to.max(from));
                let part = part.filter(|_| from != NOTHING && to != NOTHING);
                match part {
                    None => None,
                    Some(part) => {
                        self.steps += part.len() as u64 / 16;
                        repeated(text, at, part, *folded).map(|to| (pc + 1, to))
                    }
                }
            }
            Instruction::Reset(counter) => {
                self.set(*counter, 0);
                Some((pc + 1, at))
            }
            Instruction::Count(counter) => {
                self.set(*counter, self.slot(*counter).saturating_add(1));
                Some((pc + 1, at))
            }
            Instruction::Loop { counter, least, most, greedy, end } => {
                let count = self.slot(*counter);
                if count >= *most {
                    Some((*end, at))
                } else if count < *least {
                    Some((pc + 1, at))
                } else {
                    let (first, second) = if *greedy { (pc + 1, *end) } else { (*end, pc + 1) };
                    self.stack.push(Undo::Resume { pc: second, at });
                    Some((first, at))
                }
            }
            Instruction::LeaveIfEmpty { mark, counter, least, end } => {
                let leaves = self.slot(*mark) == at && self.slot(*counter) >= *least;
                Some((if leaves { *end } else { pc + 1 }, at))
            }
            Instruction::Begin(slot) => {
                // The height is taken before the slot is set, because its old value is needed
                // again.
                self.set(*slot, 0);
                let height = self.stack.len();
                if let Some(place) = self.slots.get_mut(*slot) {
                    *place = height;
                }
                Some((pc + 1, at))
            }
            Instruction::Cut(slot) => {
                self.cut(self.slot(*slot));
                Some((pc + 1, at))
            }
            Instruction::CutAndFail(slot) => {
                // Discards the alternatives of the body and the one after it; slots are restored.
                self.cut(self.slot(*slot));
                None
            }
            Instruction::Back(count) => {
                let mut place = at;
                for _ in 0..*count {
                    let Some(character) = char_before(text, place) else { return Ok(None) };
                    place -= character.len_utf8();
                }
                Some((pc + 1, place))
            }
            Instruction::AtSearchStart => (at == self.start).then_some((pc + 1, at)),
            Instruction::Match => Some((pc, at)),
        })
    }

    /// The newest remaining alternative.
    fn resume(&mut self) -> Option<(usize, usize)> {
        while let Some(undo) = self.stack.pop() {
            match undo {
                Undo::Resume { pc, at } => return Some((pc, at)),
                Undo::Restore { slot, value } => {
                    if let Some(place) = self.slots.get_mut(slot) {
                        *place = value;
                    }
                }
                Undo::Shorten { pc, from, at } => {
                    let Some(character) = char_before(self.text, at).filter(|_| at > from) else {
                        continue;
                    };
                    let at = at - character.len_utf8();
                    self.stack.push(Undo::Shorten { pc, from, at });
                    return Some((pc + 1, at));
                }
                Undo::Lengthen { pc, at, left } => {
                    let Some(Instruction::Run { set, .. }) = self.program.code.get(pc) else {
                        continue;
                    };
                    let Some(character) = char_at(self.text, at).filter(|c| set.has(*c)) else {
                        continue;
                    };
                    let at = at + character.len_utf8();
                    if left > 1 {
                        self.stack.push(Undo::Lengthen { pc, at, left: left - 1 });
                    }
                    return Some((pc + 1, at));
                }
            }
        }
        None
    }

    fn run(
        &mut self,
        set: &Set,
        (least, most): (usize, usize),
        greedy: bool,
        pc: usize,
        at: usize,
    ) -> Result<Option<(usize, usize)>> {
        let (mut place, mut count, mut from) = (at, 0, at);
        let wanted = if greedy { most } else { least };
        while count < wanted {
            self.step()?;
            match char_at(self.text, place) {
                Some(character) if set.has(character) => place += character.len_utf8(),
                _ => break,
            }
            count += 1;
            if count == least {
                from = place;
            }
        }
        if count < least {
            return Ok(None);
        }
        if greedy && place > from {
            self.stack.push(Undo::Shorten { pc, from, at: place });
        } else if !greedy && most > least {
            self.stack.push(Undo::Lengthen { pc, at: place, left: most - least });
        }
        Ok(Some((pc + 1, place)))
    }

    fn slot(&self, slot: usize) -> usize {
        self.slots.get(slot).copied().unwrap_or(NOTHING)
    }

    /// Sets a slot; its old value is restored if the alternative fails.
    fn set(&mut self, slot: usize, value: usize) {
        if let Some(place) = self.slots.get_mut(slot) {
            let before = std::mem::replace(place, value);
            self.stack.push(Undo::Restore { slot, value: before });
        }
    }

    /// Discards the alternatives above a height, but keeps the entries that restore slots.
    fn cut(&mut self, height: usize) {
        let mut kept = height;
        for at in height..self.stack.len() {
            if let Some(undo @ Undo::Restore { .. }) = self.stack.get(at).copied() {
                if let Some(place) = self.stack.get_mut(kept) {
                    *place = undo;
                }
                kept += 1;
            }
        }
        self.steps += (self.stack.len() - kept) as u64;
        self.stack.truncate(kept);
    }

    fn holds(&self, assertion: &Assertion, at: usize) -> bool {
        let (before, after) = (char_before(self.text, at), char_at(self.text, at));
        let word = |c: Option<char>| c.is_some_and(|c| is_word(c, self.program.unicode));
        match assertion {
            Assertion::StartText => at == 0,
            Assertion::EndText => after.is_none(),
            Assertion::EndTextIgnoreTrailingNewlines { .. } => {
                self.text.get(at..).is_some_and(|rest| rest.bytes().all(|byte| byte == b'\n'))
            }
            Assertion::StartLine { .. } | Assertion::StartLineOniguruma { .. } => {
                before.is_none_or(|c| c == '\n')
            }
            Assertion::EndLine { .. } => after.is_none_or(|c| c == '\n'),
            Assertion::WordBoundary => word(before) != word(after),
            Assertion::NotWordBoundary => word(before) == word(after),
            Assertion::LeftWordBoundary => !word(before) && word(after),
            Assertion::RightWordBoundary => word(before) && !word(after),
            Assertion::LeftWordHalfBoundary => !word(before),
            Assertion::RightWordHalfBoundary => !word(after),
        }
    }
}

fn is_word(character: char, unicode: bool) -> bool {
    character == '_'
        || if unicode { character.is_alphanumeric() } else { character.is_ascii_alphanumeric() }
}

/// The end of a repetition of `part` at a position of the text.
fn repeated(text: &str, at: usize, part: &str, folded: bool) -> Option<usize> {
    if !folded {
        return text.get(at..)?.starts_with(part).then(|| at + part.len());
    }
    let mut place = at;
    for wanted in part.chars() {
        let found = char_at(text, place)?;
        if found != wanted && !found.to_lowercase().eq(wanted.to_lowercase()) {
            return None;
        }
        place += found.len_utf8();
    }
    Some(place)
}

fn too_long(reason: &str) -> Error {
    Error::new(
        Code(51156),
        format!("Error occurred while executing the regular expression: {reason}"),
    )
}
