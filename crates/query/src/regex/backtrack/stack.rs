//! The stack of a search: what it goes back to when something fails, and what verbs change in that.

use super::super::program::{Instruction, Stop};
use super::super::set::Set;
use super::super::text::{char_at, char_before};
use super::{Found, Search};

/// What to undo when an alternative fails, newest first.
#[derive(Clone, Copy)]
pub(super) enum Undo {
    /// Continues at a position of the program and the text.
    Resume { pc: u32, at: usize },
    /// Restores the value of a slot.
    Restore { slot: u32, value: usize },
    /// Restores the place of a group.
    Group { group: u32, from: usize, to: usize },
    /// Shortens by one character a run that ends at `at` and began at or after `from`.
    Shorten { pc: u32, from: usize, at: usize },
    /// Lengthens a run by one character, up to a limit.
    Lengthen { pc: u32, at: usize, left: usize },
    /// Restores the open call, and forgets later ones.
    Call { open: u32, calls: usize },
    /// A verb.
    Verb { pc: u32, at: usize },
    /// A name for `(*SKIP:name)`.
    Mark { pc: u32, at: usize },
    /// Begins what verbs end at most: a look-around or a call. At a positive look-around this is
    /// true for `(*THEN)` only.
    Barrier { positive: bool },
    /// The end of a call.
    BarrierEnd,
}

/// Where to continue after a failure.
pub(super) enum Resumed {
    At(usize, usize),
    Ended(Found),
}

impl Search<'_, '_> {
    /// Continues with the newest remaining alternative.
    pub(super) fn resume(&mut self) -> Resumed {
        while let Some(undo) = self.pop() {
            match undo {
                Undo::Resume { pc, at } => return Resumed::At(pc as usize, at),
                Undo::Shorten { pc, from, at } => {
                    if let Some(at) = self.shorter(pc as usize, from, at) {
                        self.stack.push(Undo::Shorten { pc, from, at });
                        return Resumed::At(pc as usize + 1, at);
                    }
                }
                Undo::Lengthen { pc, at, left } => {
                    let Some(Instruction::Run { set, .. }) = self.program.code.get(pc as usize)
                    else {
                        continue;
                    };
                    let Some(character) = char_at(self.text, at).filter(|c| set.has(*c)) else {
                        continue;
                    };
                    let at = at + character.len_utf8();
                    if left > 1 {
                        self.stack.push(Undo::Lengthen { pc, at, left: left - 1 });
                    }
                    return Resumed::At(pc as usize + 1, at);
                }
                Undo::Verb { pc, at } => {
                    if let Some(found) = self.stopped(pc as usize, at) {
                        return Resumed::Ended(found);
                    }
                }
                _ => {}
            }
        }
        Resumed::Ended(Found::Nothing)
    }

    /// The next shorter end of a run behind which the program can go on.
    fn shorter(&mut self, pc: usize, from: usize, at: usize) -> Option<usize> {
        let character = char_before(self.text, at).filter(|_| at > from)?;
        let at = at - character.len_utf8();
        match self.program.code.get(pc + 1) {
            // The run is shortened to before that character at once.
            Some(Instruction::One(Set::Char(next))) if self.program.limit.is_none() => {
                if char_at(self.text, at) == Some(*next) {
                    return Some(at);
                }
                let found = self.text.get(from..at)?.rfind(*next);
                self.steps += (at - from - found.unwrap_or(0)) as u64 / 16;
                found.map(|found| from + found)
            }
            _ => Some(at),
        }
    }

    /// The search came back to a verb. Returns how the try ends, or `None` if alternatives before
    /// the verb are next.
    fn stopped(&mut self, pc: usize, at: usize) -> Option<Found> {
        let Some(Instruction::Verb(stop)) = self.program.code.get(pc) else { return None };
        let found = match stop {
            Stop::Commit => Found::End,
            Stop::Prune => Found::Nothing,
            Stop::Skip => Found::From(at),
            Stop::SkipTo(name) => match self.marked(name) {
                Some(place) => Found::From(place),
                // Without the name it has no effect but inside of a look-around or call.
                None if self.is_behind_barrier() => Found::Nothing,
                None => return None,
            },
            Stop::Then { height, last } => {
                // The alternative is the first entry of the group.
                let floor = self.slot(*height) + usize::from(!last);
                self.undo_to_barrier(floor, true);
                return None;
            }
            Stop::ThenPrune => {
                return if self.undo_to_barrier(0, true) { None } else { Some(Found::Nothing) };
            }
        };
        if self.undo_to_barrier(0, false) { None } else { Some(found) }
    }

    /// The newest position with a name.
    fn marked(&mut self, name: &str) -> Option<usize> {
        self.steps += self.stack.len() as u64 / 16;
        self.stack.iter().rev().find_map(|undo| match undo {
            Undo::Mark { pc, at } => match self.program.code.get(*pc as usize) {
                Some(Instruction::Mark(own)) if **own == *name => Some(*at),
                _ => None,
            },
            _ => None,
        })
    }

    /// Undoes up to the beginning of the look-around or call that is open, or to a height. Returns
    /// whether it was the former. `then` is whether a positive look-around counts.
    fn undo_to_barrier(&mut self, floor: usize, then: bool) -> bool {
        let mut ended = 0_usize;
        while self.stack.len() > floor {
            let Some(undo) = self.pop() else { break };
            if is_barrier(undo, &mut ended, then) {
                return true;
            }
        }
        false
    }

    /// Whether a negative look-around or a call is open.
    fn is_behind_barrier(&mut self) -> bool {
        self.steps += self.stack.len() as u64 / 16;
        let mut ended = 0;
        self.stack.iter().rev().any(|undo| is_barrier(*undo, &mut ended, false))
    }

    /// Takes the newest entry and restores what it holds.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Undo> {
        let undo = self.stack.pop()?;
        match undo {
            Undo::Restore { slot, value } => {
                if let Some(place) = self.slots.get_mut(slot as usize) {
                    *place = value;
                }
            }
            Undo::Group { group, from, to } => {
                self.place(group as usize, from, to);
            }
            Undo::Call { open, calls } => {
                self.open = open;
                self.calls.truncate(calls);
            }
            _ => {}
        }
        Some(undo)
    }

    /// Sets a slot; its old value is restored if the alternative fails.
    pub(super) fn set(&mut self, slot: usize, value: usize) {
        if let Some(place) = self.slots.get_mut(slot) {
            let before = std::mem::replace(place, value);
            self.stack.push(Undo::Restore { slot: slot as u32, value: before });
        }
    }

    /// Sets the place of a group; the old one is restored if the alternative fails.
    pub(super) fn set_group(&mut self, group: usize, from: usize, to: usize) {
        if let Some((from, to)) = self.place(group, from, to) {
            self.stack.push(Undo::Group { group: group as u32, from, to });
        }
    }

    /// Replaces the place of a group.
    fn place(&mut self, group: usize, from: usize, to: usize) -> Option<(usize, usize)> {
        let slots = self.slots.get_mut(2 * group..2 * group + 2)?;
        let [start, end] = slots else { return None };
        Some((std::mem::replace(start, from), std::mem::replace(end, to)))
    }

    /// Discards the alternatives above a height, but keeps the entries that restore values.
    pub(super) fn cut(&mut self, height: usize) {
        let mut kept = height;
        for at in height..self.stack.len() {
            if let Some(undo @ (Undo::Restore { .. } | Undo::Group { .. } | Undo::Call { .. })) =
                self.stack.get(at).copied()
            {
                if let Some(place) = self.stack.get_mut(kept) {
                    *place = undo;
                }
                kept += 1;
            }
        }
        self.steps += (self.stack.len() - kept) as u64;
        self.stack.truncate(kept);
    }
}

/// Whether an entry begins what is open. `ended` counts the calls that ended since.
fn is_barrier(undo: Undo, ended: &mut usize, then: bool) -> bool {
    match undo {
        Undo::BarrierEnd => *ended += 1,
        Undo::Barrier { positive: true } => return then && *ended == 0,
        Undo::Barrier { positive: false } => match ended.checked_sub(1) {
            Some(left) => *ended = left,
            None => return true,
        },
        _ => {}
    }
    false
}
