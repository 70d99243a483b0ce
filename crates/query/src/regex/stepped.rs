//! Searches of large patterns in large texts, which can be interrupted.
//!
//! The crate `regex-automata` takes time in proportion to the size of the pattern for each byte of the text if
//! its automaton does not fit into memory, and cannot be stopped. Where that could take long, the
//! automaton is driven from here, a few bytes at a time.

use super::{PROGRAM_BYTES_MAX, TOO_MANY_STEPS};
use crate::interrupt;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};
use value::{Error, Result};

/// States of the pattern times bytes of the text that take about a second.
const WORK_MAX: usize = 100_000_000;

/// The least memory for a state of a pattern, in bytes.
const STATE_BYTES: usize = 16;

/// Whether a search could take long, as far as the memory of the compiled pattern tells.
pub(super) fn may_be_slow(pattern_bytes: usize, text: usize) -> bool {
    (pattern_bytes / STATE_BYTES).saturating_mul(text) > WORK_MAX
}

/// A pattern for such searches.
#[derive(Debug)]
pub(super) struct Stepped {
    forward: DFA,
    /// From the end of a match to its start.
    reverse: DFA,
    states: usize,
}

impl Stepped {
    /// Compiles a pattern in the syntax of `regex-automata`; `None` if it is too large.
    pub(super) fn new(source: &str) -> Option<Stepped> {
        let config =
            DFA::config().cache_capacity(PROGRAM_BYTES_MAX).skip_cache_capacity_check(true);
        let nfa = thompson::Config::new().nfa_size_limit(Some(PROGRAM_BYTES_MAX));
        let forward =
            DFA::builder().configure(config.clone()).thompson(nfa.clone()).build(source).ok()?;
        let reverse = DFA::builder()
            .configure(config.match_kind(MatchKind::All))
            .thompson(nfa.reverse(true))
            .build(source)
            .ok()?;
        let states = forward.get_nfa().states().len().max(reverse.get_nfa().states().len());
        Some(Stepped { forward, reverse, states })
    }

    /// Whether a search of the crate could take long.
    pub(super) fn is_slow(&self, text: usize) -> bool {
        self.states.saturating_mul(text) > WORK_MAX
    }

    /// Where the first match at or after `start` ends; with `any`, some place at which it is known that
    /// there is one.
    pub(super) fn end(&self, text: &[u8], start: usize, any: bool) -> Result<Option<usize>> {
        let (dfa, mut cache) = (&self.forward, self.forward.create_cache());
        let input = Input::new(text).range(start..);
        let mut state = dfa.start_state_forward(&mut cache, &input).map_err(|_| failed())?;
        let mut found = None;
        let rest = text.get(start..).unwrap_or_default();
        for (block, bytes) in rest.chunks(self.block()).enumerate() {
            interrupt::check_now()?;
            for (at, byte) in bytes.iter().enumerate() {
                state = dfa.next_state(&mut cache, state, *byte).map_err(|_| failed())?;
                if state.is_tagged() {
                    if is_over(state)? {
                        return Ok(found);
                    }
                    // A match is known one byte later.
                    if state.is_match() {
                        found = Some(start + block * self.block() + at);
                        if any {
                            return Ok(found);
                        }
                    }
                }
            }
        }
        state = dfa.next_eoi_state(&mut cache, state).map_err(|_| failed())?;
        Ok(if state.is_match() { Some(text.len()) } else { found })
    }

    /// Where the match that ends at `end` starts, at or after `start`.
    pub(super) fn start(&self, text: &[u8], start: usize, end: usize) -> Result<Option<usize>> {
        let (dfa, mut cache) = (&self.reverse, self.reverse.create_cache());
        let input = Input::new(text).range(start..end).anchored(Anchored::Yes);
        let mut state = dfa.start_state_reverse(&mut cache, &input).map_err(|_| failed())?;
        let mut found = None;
        let part = text.get(start..end).unwrap_or_default();
        let mut at = end;
        for bytes in part.rchunks(self.block()) {
            interrupt::check_now()?;
            for byte in bytes.iter().rev() {
                state = dfa.next_state(&mut cache, state, *byte).map_err(|_| failed())?;
                if state.is_tagged() {
                    if is_over(state)? {
                        return Ok(found);
                    }
                    if state.is_match() {
                        found = Some(at);
                    }
                }
                at -= 1;
            }
        }
        state = match start.checked_sub(1).and_then(|before| text.get(before)) {
            Some(before) => dfa.next_state(&mut cache, state, *before).map_err(|_| failed())?,
            None => dfa.next_eoi_state(&mut cache, state).map_err(|_| failed())?,
        };
        Ok(if state.is_match() { Some(start) } else { found })
    }

    /// The number of bytes between two checks: few if each may take a pass over all states.
    fn block(&self) -> usize {
        (1_000_000 / self.states.max(1)).clamp(1, 4096)
    }
}

/// Whether no match can follow.
fn is_over(state: LazyStateID) -> Result<bool> {
    if state.is_quit() { Err(failed()) } else { Ok(state.is_dead()) }
}

/// Not reached: these automata forget states instead of giving up, and know all bytes.
fn failed() -> Error {
    Error::new(
        TOO_MANY_STEPS,
        "Error occurred while executing the regular expression. Result code: -8",
    )
}
