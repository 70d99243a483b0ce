//! Runs programs of patterns by backtracking.
//!
//! Such a search can take time that grows with the square of the text or worse. Its steps are
//! counted: it ends when its operation ends, and with an error when it takes too many.
//!
//! The state of a search is its position, its slots (places of groups, counters of loops) and the
//! group that it runs as a subroutine. `stack` holds what restores an earlier state, newest last:
//! alternatives to continue with, and old values.

mod stack;

use super::Groups;
use super::cluster;
use super::program::{Condition, Instruction, Program};
use super::set::Set;
use super::syntax::{Assertion, Lines, Mode};
use super::text::{back, char_at, char_before, is_after_line, line_end, newline, repeated};
use crate::interrupt;
use stack::{Resumed, Undo};
use value::{Code, Error, Result};

/// The most backtracks of one search from one position of the text.
const BACKTRACKS_MAX: u64 = 1_000_000;

/// Entries of the stack, of 24 bytes each.
const STACK_MAX: usize = 2_000_000;

/// Slots that the open and ended calls of groups keep together.
const CALL_SLOTS_MAX: usize = 2_000_000;

/// The most steps of one search: a constant, and a number for each byte of the text.
const STEPS_MAX: u64 = 50_000_000;
const STEPS_PER_BYTE_MAX: u64 = 200;

/// Steps between two checks for interruption.
const STEPS_BETWEEN_CHECKS: u64 = 1024;

/// Texts that are searched for the character that every match has, in bytes.
const REQUIRED_BYTES_MAX: usize = 1000;

/// A slot that holds nothing.
const NOTHING: usize = usize::MAX;

/// No call is open.
const NO_CALL: u32 = u32::MAX;

/// PCRE's numbers of the reasons for which a search fails.
const MATCH_LIMIT: i32 = -8;
const RECURSION_LOOP: i32 = -26;

/// A group that runs as a subroutine.
struct Call {
    outer: u32,
    group: usize,
    /// Where it was called.
    at: usize,
    /// Where to continue.
    pc: usize,
    /// The slots at the call, which are restored at its end.
    slots: Box<[usize]>,
}

/// What a try from one position finds.
enum Found {
    Match,
    /// Nothing here.
    Nothing,
    /// Nothing here and behind.
    End,
    /// Nothing before a position.
    From(usize),
}

/// The first match at or after byte `start`.
///
/// # Errors
/// 51156 when the search takes too many steps, or what ends the operation.
pub(super) fn search(program: &Program, text: &str, start: usize) -> Result<Option<Groups>> {
    let mut search = Search {
        program,
        text,
        start,
        slots: Vec::new(),
        stack: Vec::new(),
        calls: Vec::new(),
        open: NO_CALL,
        required: program.required,
        steps: 0,
        next_check: STEPS_BETWEEN_CHECKS,
        allowed: STEPS_MAX + STEPS_PER_BYTE_MAX * text.len() as u64,
    };
    let mut at = start;
    loop {
        if let Some(lead) = &program.lead {
            match search.skip(lead, at)? {
                Some(found) => at = found,
                None => return Ok(None),
            }
        }
        if !search.has_required(at) {
            return Ok(None);
        }
        match search.matches_at(at)? {
            Found::Match => return Ok(Some(search.groups())),
            Found::Nothing if program.anchored => return Ok(None),
            Found::Nothing => {}
            Found::From(place) if place > at => {
                at = place;
                continue;
            }
            Found::From(_) => {}
            Found::End => return Ok(None),
        }
        match char_at(text, at) {
            Some('\r') if search.skips_line_feed(at) => at += 2,
            Some(character) => at += character.len_utf8(),
            None => return Ok(None),
        }
    }
}

struct Search<'p, 't> {
    program: &'p Program,
    text: &'t str,
    /// The start of the search.
    start: usize,
    slots: Vec<usize>,
    stack: Vec<Undo>,
    calls: Vec<Call>,
    /// The open call.
    open: u32,
    /// The character that every match has, until it was looked for.
    required: Option<char>,
    steps: u64,
    next_check: u64,
    allowed: u64,
}

impl<'t> Search<'_, 't> {
    /// The next position of a character with which matches begin.
    fn skip(&mut self, lead: &Set, at: usize) -> Result<Option<usize>> {
        let rest = self.text.get(at..).unwrap_or("");
        let skipped = match lead {
            Set::Char(lead) => rest.find(*lead),
            lead => rest.find(|character| lead.has(character)),
        };
        interrupt::charge_bytes(skipped.unwrap_or(rest.len()))?;
        Ok(skipped.map(|skipped| at + skipped))
    }

    /// Whether the character that every match has is there. It is looked for once, in short texts.
    fn has_required(&mut self, at: usize) -> bool {
        match (self.required.take(), self.text.get(at..)) {
            (Some(required), Some(rest)) if rest.len() < REQUIRED_BYTES_MAX => {
                rest.contains(required)
            }
            _ => true,
        }
    }

    /// Whether the next try is behind the CRLF at this position.
    fn skips_line_feed(&self, at: usize) -> bool {
        !self.program.names_newline
            && matches!(self.program.lines, Lines::CrLf | Lines::AnyCrLf | Lines::Any)
            && self.text.as_bytes().get(at + 1) == Some(&b'\n')
    }

    fn groups(&self) -> Groups {
        let (pairs, _) = self.slots.as_chunks::<2>();
        let group =
            |[from, to]: &[usize; 2]| (*from != NOTHING && *to != NOTHING).then_some((*from, *to));
        pairs.iter().take(self.program.groups).map(group).collect()
    }

    /// Whether the program matches from a position on.
    fn matches_at(&mut self, start: usize) -> Result<Found> {
        self.slots.clear();
        self.slots.resize(self.program.slots, NOTHING);
        if let Some(place) = self.slots.first_mut() {
            *place = start;
        }
        self.stack.clear();
        self.calls.clear();
        self.open = NO_CALL;
        let allowed = self.program.limit.map_or(BACKTRACKS_MAX, |n| BACKTRACKS_MAX.min(n.into()));
        let (mut pc, mut at, mut backtracks) = (0, start, 0);
        if self.program.limit.is_some() {
            // PCRE counts the try and its end.
            backtracks = 2;
            if backtracks > allowed {
                return Err(failed(MATCH_LIMIT));
            }
        }
        loop {
            self.step()?;
            let Some(instruction) = self.program.code.get(pc) else {
                return Err(Error::internal("a pattern has no end"));
            };
            if matches!(instruction, Instruction::Match) && self.open == NO_CALL {
                if let Some(place) = self.slots.get_mut(1) {
                    *place = at;
                }
                return Ok(Found::Match);
            }
            match self.execute(instruction, pc, at)? {
                Some((next, place)) => (pc, at) = (next, place),
                None => {
                    backtracks += 1;
                    if backtracks > allowed {
                        return Err(failed(MATCH_LIMIT));
                    }
                    match self.resume() {
                        Resumed::At(next, place) => (pc, at) = (next, place),
                        Resumed::Ended(found) => return Ok(found),
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
        let since = self.steps + STEPS_BETWEEN_CHECKS - self.next_check;
        self.next_check = self.steps + STEPS_BETWEEN_CHECKS;
        interrupt::charge(since as usize)?;
        if self.steps > self.allowed || self.stack.len() > STACK_MAX {
            return Err(failed(MATCH_LIMIT));
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
            Instruction::Run { set, least, most, mode } => {
                self.run(set, (*least, *most), *mode, pc, at)?
            }
            Instruction::Split(first, second) => {
                self.stack.push(Undo::Resume { pc: *second as u32, at });
                Some((*first, at))
            }
            Instruction::Jump(to) => Some((*to, at)),
            Instruction::Save(slot) => {
                self.set(*slot, at);
                Some((pc + 1, at))
            }
            Instruction::Close { group, open } => {
                self.set_group(*group, self.slot(*open), at);
                Some((pc + 1, at))
            }
            Instruction::Return(slot) => Some((pc + 1, self.slot(*slot))),
            Instruction::Assert(assertion) => self.holds(*assertion, at).then_some((pc + 1, at)),
            Instruction::Reference(groups, folded) => match self.part(groups) {
                None => None,
                Some(part) => {
                    self.steps += part.len() as u64 / 16;
                    repeated(text, at, part, *folded).map(|to| (pc + 1, to))
                }
            },
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
                    self.stack.push(Undo::Resume { pc: second as u32, at });
                    Some((first, at))
                }
            }
            Instruction::LeaveIfEmpty { mark, counter, least, end } => {
                let leaves = self.slot(*mark) == at && self.slot(*counter) >= *least;
                Some((if leaves { *end } else { pc + 1 }, at))
            }
            Instruction::Begin(slot) => {
                // The height is taken after the old value was saved, which is needed again.
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
            Instruction::Undo(slot) => {
                let height = self.slot(*slot);
                while self.stack.len() > height {
                    self.pop();
                }
                Some((pc + 1, at))
            }
            Instruction::Barrier { positive } => {
                self.stack.push(Undo::Barrier { positive: *positive });
                Some((pc + 1, at))
            }
            Instruction::Back(count) => back(text, *count, at).map(|place| (pc + 1, place)),
            Instruction::Unless { test, no } => {
                Some((if self.is_true(test) { pc + 1 } else { *no }, at))
            }
            Instruction::Call { group, to } => {
                self.call(*group, pc + 1, at)?;
                Some((*to, at))
            }
            Instruction::EndCall(group) => match self.called() {
                Some(called) if called == *group => self.end_call().map(|pc| (pc, at)),
                _ => Some((pc + 1, at)),
            },
            Instruction::Accept { in_look, inside, end } => match self.called() {
                Some(group) if !in_look || inside.contains(&group) => {
                    self.end_call().map(|pc| (pc, at))
                }
                _ => Some((*end, at)),
            },
            Instruction::Mark(_) => {
                self.stack.push(Undo::Mark { pc: pc as u32, at });
                Some((pc + 1, at))
            }
            Instruction::Verb(_) => {
                self.stack.push(Undo::Verb { pc: pc as u32, at });
                Some((pc + 1, at))
            }
            Instruction::Fail => None,
            Instruction::Newline { ascii } => newline(text, at, *ascii).map(|to| (pc + 1, to)),
            Instruction::Cluster => {
                let end = cluster::end(text, at);
                self.steps += (end - at) as u64 / 16;
                (end > at).then_some((pc + 1, end))
            }
            // The end of the whole pattern as a subroutine.
            Instruction::Match => self.end_call().map(|pc| (pc, at)),
        })
    }

    fn run(
        &mut self,
        set: &Set,
        (least, most): (usize, usize),
        mode: Mode,
        pc: usize,
        at: usize,
    ) -> Result<Option<(usize, usize)>> {
        let (mut place, mut count, mut from) = (at, 0, at);
        let wanted = if mode == Mode::Lazy { least } else { most };
        while count < wanted {
            if count >= least
                && most == usize::MAX
                && let Some(rest) = self.text.get(place..)
            {
                let run = match set {
                    Set::All => Some(rest.len()),
                    Set::Any => Some(rest.find('\n').unwrap_or(rest.len())),
                    _ => None,
                };
                if let Some(run) = run {
                    self.steps += run as u64 / 16;
                    place += run;
                    break;
                }
            }
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
        match mode {
            Mode::Greedy if place > from => {
                self.stack.push(Undo::Shorten { pc: pc as u32, from, at: place });
            }
            Mode::Lazy if most > least => {
                self.stack.push(Undo::Lengthen { pc: pc as u32, at: place, left: most - least });
            }
            _ => {}
        }
        Ok(Some((pc + 1, place)))
    }

    fn slot(&self, slot: usize) -> usize {
        self.slots.get(slot).copied().unwrap_or(NOTHING)
    }

    /// The text of the first of these groups that has matched.
    fn part(&self, groups: &[usize]) -> Option<&'t str> {
        let range = |group: &usize| {
            let (from, to) = (self.slot(2 * group), self.slot(2 * group + 1));
            (from != NOTHING && to != NOTHING).then_some((from, to))
        };
        let (from, to) = groups.iter().find_map(range)?;
        self.text.get(from..to)
    }

    fn is_true(&self, test: &Condition) -> bool {
        match test {
            Condition::Group(groups) => {
                groups.iter().any(|group| self.slot(2 * group + 1) != NOTHING)
            }
            Condition::Recursion => self.called().is_some(),
            Condition::RecursionOf(groups) => {
                self.called().is_some_and(|called| groups.contains(&called))
            }
        }
    }

    /// The group that runs as a subroutine.
    fn called(&self) -> Option<usize> {
        self.calls.get(self.open as usize).map(|call| call.group)
    }

    fn call(&mut self, group: usize, pc: usize, at: usize) -> Result<()> {
        let mut outer = self.open;
        while let Some(call) = self.calls.get(outer as usize) {
            self.steps += 1;
            if call.group == group && call.at == at {
                return Err(failed(RECURSION_LOOP));
            }
            outer = call.outer;
        }
        self.steps += self.slots.len() as u64 / 8;
        if (self.calls.len() + 1) * (self.slots.len() + 8) > CALL_SLOTS_MAX {
            return Err(failed(MATCH_LIMIT));
        }
        self.stack.push(Undo::Barrier { positive: false });
        self.stack.push(Undo::Call { open: self.open, calls: self.calls.len() });
        let slots = self.slots.clone().into_boxed_slice();
        self.calls.push(Call { outer: self.open, group, at, pc, slots });
        self.open = (self.calls.len() - 1) as u32;
        Ok(())
    }

    /// Ends the open call. All slots but the start of the match get their values of before.
    fn end_call(&mut self) -> Option<usize> {
        let open = self.open as usize;
        for slot in 1..self.slots.len() {
            let before = self.calls.get(open)?.slots.get(slot).copied()?;
            if before != self.slot(slot) {
                self.set(slot, before);
            }
        }
        self.steps += self.slots.len() as u64 / 8;
        self.stack.push(Undo::BarrierEnd);
        self.stack.push(Undo::Call { open: self.open, calls: self.calls.len() });
        let call = self.calls.get(open)?;
        self.open = call.outer;
        Some(call.pc)
    }

    fn holds(&self, assertion: Assertion, at: usize) -> bool {
        let text = self.text;
        let word = |c: Option<char>| c.is_some_and(|c| self.program.word.has(c));
        let boundary = || word(char_before(text, at)) != word(char_at(text, at));
        match assertion {
            Assertion::StartText => at == 0,
            Assertion::EndText => at == text.len(),
            Assertion::EndTextOrNewline => {
                at == text.len() || line_end(self.program.lines, text, at) == Some(text.len())
            }
            Assertion::StartLine => {
                at == 0 || (at < text.len() && is_after_line(self.program.lines, text, at))
            }
            Assertion::EndLine => {
                at == text.len() || line_end(self.program.lines, text, at).is_some()
            }
            Assertion::WordBoundary => boundary(),
            Assertion::NotWordBoundary => !boundary(),
            Assertion::SearchStart => at == self.start,
        }
    }
}

fn failed(reason: i32) -> Error {
    Error::new(
        Code(51156),
        format!("Error occurred while executing the regular expression. Result code: {reason}"),
    )
}
